#include "cli/plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "cli/figures.h"

namespace mote {

namespace {

constexpr double kWidth = 800, kHeight = 480, kLeft = 70, kRight = 24, kTop = 48, kBottom = 56;

struct Point {
  double x, y;
};

// 1, 2 or 5 times a power of ten, so that about `count` of them fill the length.
double round_step(double length, double count) {
  double rough = length / count, power = std::pow(10, std::floor(std::log10(rough)));
  for (double digit : {1.0, 2.0, 5.0})
    if (digit * power >= rough * 0.999) return digit * power;
  return 10 * power;
}

struct Axis {
  double low, high, tick, from, to;  // values low ... high lie at from ... to
  Axis(double least, double most, double count, double at, double until) : from(at), to(until) {
    if (!(most > least)) most = least + 1;
    tick = round_step(most - least, count);
    low = std::floor(least / tick) * tick;
    high = std::ceil(most / tick * (1 - 1e-12)) * tick;
  }
  double place(double v) const { return from + (v - low) / (high - low) * (to - from); }
};

std::string fixed(double v) { return decimal(v, 1); }
std::string label(double v, double tick) {
  return decimal(v, std::max(0, static_cast<int>(std::ceil(-std::log10(tick) - 1e-9))));
}

std::string escaped(const std::string& s) {
  std::string out;
  for (char c : s) {
    if (c == '<' || c == '>' || c == '&')
      out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;";
    else
      out += c;
  }
  return out;
}

// The mean of what lies around a step, about a thirtieth of the whole; less at the ends, and the
// same on both sides, so that the line lies where the points lie.
std::vector<Point> smoothed(const std::vector<Point>& raw) {
  std::vector<double> sums = {0};
  for (const Point& p : raw) sums.push_back(sums.back() + p.y);
  std::vector<Point> out;
  for (size_t i = 0; i < raw.size(); ++i) {
    size_t around = std::min({raw.size() / 60, i, raw.size() - 1 - i});
    double sum = sums[i + around + 1] - sums[i - around];
    out.push_back({raw[i].x, sum / static_cast<double>(2 * around + 1)});
  }
  return out;
}

// Of many points in one column of the picture, the least and the greatest are enough.
std::vector<Point> thinned(const std::vector<Point>& points, const Axis& x) {
  std::vector<Point> out;
  for (size_t i = 0; i < points.size();) {
    size_t end = i, least = i, most = i;
    double column = std::floor(x.place(points[i].x));
    for (; end < points.size() && std::floor(x.place(points[end].x)) == column; ++end) {
      if (points[end].y < points[least].y) least = end;
      if (points[end].y > points[most].y) most = end;
    }
    out.push_back(points[std::min(least, most)]);
    if (least != most) out.push_back(points[std::max(least, most)]);
    i = end;
  }
  return out;
}

std::string line(const std::vector<Point>& points, const Axis& x, const Axis& y,
                 const char* style) {
  std::string out = text("<polyline ", style, " fill=\"none\" points=\"");
  for (const Point& p : points) out += text(fixed(x.place(p.x)), ",", fixed(y.place(p.y)), " ");
  out.pop_back();
  return out + "\"/>\n";
}

std::string axes(const Axis& x, const Axis& y) {
  std::string out = "<g stroke=\"#ddd\">\n", words = "<g fill=\"#444\">\n";
  for (double v = y.low; v <= y.high + y.tick / 2; v += y.tick) {
    std::string at = fixed(y.place(v));
    out += text("<path d=\"M", fixed(x.from), " ", at, "H", fixed(x.to), "\"/>\n");
    words += text("<text x=\"", fixed(x.from - 10), "\" y=\"", fixed(y.place(v) + 4),
                  "\" text-anchor=\"end\">", label(v, y.tick), "</text>\n");
  }
  for (double v = x.low; v <= x.high + x.tick / 2; v += x.tick) {
    std::string at = fixed(x.place(v));
    out += text("<path d=\"M", at, " ", fixed(y.from), "v6\"/>\n");
    words += text("<text x=\"", at, "\" y=\"", fixed(y.from + 22), "\" text-anchor=\"middle\">",
                  label(v, x.tick), "</text>\n");
  }
  words += text("<text x=\"", fixed((x.from + x.to) / 2), "\" y=\"", fixed(kHeight - 12),
                "\" text-anchor=\"middle\">step</text>\n");
  return text(out, "</g>\n", words, "</g>\n");
}

}  // namespace

std::string loss_plot(std::span<const float> losses, const std::string& title) {
  std::vector<Point> raw;
  for (size_t i = 0; i < losses.size(); ++i)
    if (std::isfinite(losses[i])) raw.push_back({static_cast<double>(i + 1), losses[i]});
  double most = 0, least = 0;
  for (const Point& p : raw) {
    most = std::max(most, p.y);
    least = std::min(least, p.y);
  }
  Axis x(0, static_cast<double>(std::max<size_t>(losses.size(), 1)), 8, kLeft, kWidth - kRight);
  Axis y(least, most, 6, kHeight - kBottom, kTop);
  std::string out =
      text("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ", kHeight,
           "\" font-family=\"sans-serif\" font-size=\"13\">\n<rect "
           "width=\"100%\" height=\"100%\" "
           "fill=\"#fff\"/>\n<text x=\"",
           fixed(kLeft), "\" y=\"28\" font-size=\"16\">", escaped(title), "</text>\n");
  out += axes(x, y);
  if (!raw.empty()) {
    out += line(thinned(raw, x), x, y, "stroke=\"#9ec5e8\" stroke-width=\"1\"");
    out += line(thinned(smoothed(raw), x), x, y,
                "stroke=\"#1f5fa8\" stroke-width=\"2\" stroke-linejoin=\"round\"");
  }
  return out + "</svg>\n";
}

}  // namespace mote
