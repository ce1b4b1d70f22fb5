// Handwriting: a digit is some pen strokes through given points, bent, slanted and inked at random.
#include <mote/data.h>

#include <algorithm>
#include <cmath>

#include "base/integers.h"
#include "base/number.h"
#include "base/random.h"
#include "base/threads.h"
#include "tensor/impl.h"

namespace mote::data {
namespace {

struct Point {
  double x, y;
};
Point operator+(Point a, Point b) { return {a.x + b.x, a.y + b.y}; }
Point operator-(Point a, Point b) { return {a.x - b.x, a.y - b.y}; }
Point operator*(double k, Point a) { return {k * a.x, k * a.y}; }

using Stroke = std::vector<Point>;

// One way to write a digit: how common it is, and the points its strokes pass through in a box of
// 100 x 100, y downwards. "|" lifts the pen; a point given twice is a corner.
struct Style {
  int digit, weight;
  const char* strokes;
};

constexpr Style styles[] = {
#define STYLE(digit, weight, strokes) {digit, weight, strokes},
#include "data/digits.def"
#undef STYLE
};

std::vector<Stroke> parse(const char* text) {
  std::vector<Stroke> strokes(1);
  for (std::string_view rest = text; !rest.empty();) {
    double x = 0, y = 0;
    if (take_number(rest, x)) {
      rest.remove_prefix(1);  // the comma
      ensure(take_number(rest, y), "strokes of a digit: ", text);
      strokes.back().push_back({x / 100 - 0.5, y / 100 - 0.5});
    } else {
      if (rest[0] == '|') strokes.emplace_back();
      rest.remove_prefix(1);
    }
  }
  return strokes;
}

struct Shapes {
  std::vector<Stroke> strokes[std::size(styles)];
  int total[10] = {};
  Shapes() {
    for (size_t i = 0; i < std::size(styles); ++i) {
      strokes[i] = parse(styles[i].strokes);
      total[styles[i].digit] += styles[i].weight;
    }
  }
  const std::vector<Stroke>& choose(int digit, Random& random) const {
    int64_t at = random.below(total[digit]);
    size_t i = 0;
    for (;; ++i) {
      if (styles[i].digit != digit) continue;
      at -= styles[i].weight;
      if (at < 0) return strokes[i];
    }
  }
};

// The hand: every point goes astray by itself a little, then the whole is bent and set askew.
struct Hand {
  double tremor, narrow, slant, turn;
  double bend, wave, phase_x, phase_y;
  explicit Hand(Random& r)
      : tremor(r.between(0.008, 0.05)),
        narrow(r.between(0.55, 1.15)),
        slant(0.1 + 0.2 * r.bell()),
        turn(0.1 * r.bell()),
        bend(r.between(0, 0.075)),
        wave(r.between(2, 5)),
        phase_x(r.between(0, 6.28)),
        phase_y(r.between(0, 6.28)) {}

  Point operator()(Point p) const {
    Point q{p.x + bend * std::sin(wave * p.y + phase_x),
            p.y + bend * std::sin(wave * p.x + phase_y)};
    q.x = q.x * narrow - slant * q.y;
    double c = std::cos(turn), s = std::sin(turn);
    return {c * q.x - s * q.y, s * q.x + c * q.y};
  }
};

// A curve through all points (Catmull-Rom), as short straight pieces.
Stroke draw(const Stroke& through) {
  constexpr int kPieces = 7;
  Stroke out;
  for (size_t i = 0; i + 1 < through.size(); ++i) {
    Point a = through[i ? i - 1 : 0], b = through[i], c = through[i + 1],
          d = through[std::min(i + 2, through.size() - 1)];
    if (b.x == c.x && b.y == c.y) continue;
    for (int k = 0; k < kPieces; ++k) {
      double t = static_cast<double>(k) / kPieces, u = t * t, v = u * t;
      out.push_back(0.5 * (2 * b + t * (c - a) + u * (2 * a - 5 * b + 4 * c - d) +
                           v * (3 * b - a - 3 * c + d)));
    }
  }
  out.push_back(through.back());
  return out;
}

constexpr int kSide = 28;

// Ink of one picture, 0 ... 1 per pixel.
struct Paper {
  float ink[kSide * kSide] = {};

  // A straight piece with round ends; the pen's radius goes from ra to rb.
  void line(Point a, double ra, Point b, double rb) {
    double reach = std::max(ra, rb) + 0.5;
    auto from = [&](double p, double q) {
      return std::max(0, int(std::floor(std::min(p, q) - reach)));
    };
    auto to = [&](double p, double q) {
      return std::min(kSide - 1, int(std::ceil(std::max(p, q) + reach)));
    };
    Point ab = b - a;
    double scale = ab.x * ab.x + ab.y * ab.y;
    scale = scale > 0 ? 1 / scale : 0;
    for (int y = from(a.y, b.y); y <= to(a.y, b.y); ++y)
      for (int x = from(a.x, b.x); x <= to(a.x, b.x); ++x) {
        Point p = Point{double(x), double(y)} - a;
        double t = std::clamp((p.x * ab.x + p.y * ab.y) * scale, 0.0, 1.0);
        Point off = p - t * ab;
        double cover = ra + t * (rb - ra) + 0.5 - std::sqrt(off.x * off.x + off.y * off.y);
        float& pixel = ink[y * kSide + x];
        pixel = std::max(pixel, float(std::min(cover, 1.0)));
      }
  }
};

std::vector<Stroke> write(const std::vector<Stroke>& shape, Random& random) {
  Hand hand(random);
  std::vector<Stroke> out;
  for (const Stroke& stroke : shape) {
    Stroke points;
    Point drift{0.03 * random.bell(), 0.03 * random.bell()};  // where the pen comes down
    for (size_t i = 0; i < stroke.size(); ++i) {
      bool corner = i && stroke[i].x == stroke[i - 1].x && stroke[i].y == stroke[i - 1].y;
      Point stray{hand.tremor * random.bell(), hand.tremor * random.bell()};
      points.push_back(corner ? points.back() : hand(stroke[i] + drift + stray));
    }
    out.push_back(draw(points));
  }
  return out;
}

// Moves and sizes the strokes to the middle of the paper, about 20 pixels high.
void place(std::vector<Stroke>& strokes, Random& random) {
  Point lo{9, 9}, hi{-9, -9};
  for (const Stroke& s : strokes)
    for (Point p : s) {
      lo = {std::min(lo.x, p.x), std::min(lo.y, p.y)};
      hi = {std::max(hi.x, p.x), std::max(hi.y, p.y)};
    }
  double size = std::max(hi.x - lo.x, hi.y - lo.y);
  double scale = random.between(15.5, 20) / size;
  Point middle = 0.5 * (lo + hi), at{13.5 + 0.9 * random.bell(), 13.5 + 0.9 * random.bell()};
  for (Stroke& s : strokes)
    for (Point& p : s) p = at + scale * (p - middle);
}

void ink(const std::vector<Stroke>& strokes, Random& random, uint8_t* pixels) {
  Paper paper;
  double pen = std::clamp(1.25 + 0.35 * random.bell(), 0.6, 2.3);
  double pressure = random.between(0, 0.25), wave = random.between(0.05, 0.25),
         phase = random.between(0, 6.28);
  double step = 0;
  for (const Stroke& s : strokes) {
    double before = pen * (1 + pressure * std::sin(phase + wave * step));
    for (size_t i = 0; i + 1 < s.size(); ++i) {
      double after = pen * (1 + pressure * std::sin(phase + wave * ++step));
      paper.line(s[i], before, s[i + 1], after);
      before = after;
    }
  }
  double dark = random.between(0.8, 1.0), grain = random.between(0, 0.12),
         dust = random.between(0, 0.03);
  for (int i = 0; i < kSide * kSide; ++i) {
    double value =
        paper.ink[i] * (dark + grain * (random.uniform() - 0.5)) + dust * random.uniform();
    pixels[i] = static_cast<uint8_t>(std::clamp(value, 0.0, 1.0) * 255 + 0.5);
  }
}

}  // namespace

Images digits(int64_t count, uint64_t seed, Loc where) {
  OuterCall call("digits", where);
  expect(count >= 0 && count <= INT64_MAX / (kSide * kSide), "cannot draw ", count, " digits");
  static const auto& shapes = *new Shapes;
  Images out;
  out.height = out.width = kSide;
  out.classes = 10;
  out.pixels.resize(static_cast<size_t>(count * kSide * kSide));
  out.labels.resize(static_cast<size_t>(count));
  constexpr int64_t kChunk = 256;
  parallel_for(ceil_div(count, kChunk), [&](int64_t chunk) {
    for (int64_t i = chunk * kChunk; i < std::min(count, (chunk + 1) * kChunk); ++i) {
      Random random(seed, static_cast<uint64_t>(i));
      int digit = static_cast<int>(random.below(10));
      std::vector<Stroke> strokes = write(shapes.choose(digit, random), random);
      place(strokes, random);
      ink(strokes, random, out.pixels.data() + i * kSide * kSide);
      out.labels[static_cast<size_t>(i)] = static_cast<uint8_t>(digit);
    }
  });
  return out;
}

}  // namespace mote::data
