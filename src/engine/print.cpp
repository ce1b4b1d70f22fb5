// A tensor as text, laid out as NumPy's str() lays out an array: threshold 1000, three items at
// each edge, lines of 75 columns, four digits after the point. A tensor without axes prints as its
// value.
#include <algorithm>
#include <cmath>
#include <ostream>

#include "base/number.h"
#include "runtime/host_array.h"
#include "tensor/impl.h"

namespace mote {

namespace {

constexpr int64_t kThreshold = 1000, kEdge = 3;
constexpr size_t kLineWidth = 75;
constexpr int kPrecision = 4;

// ---- one float

double narrow(DType d, double v) { return scalar(d, v).f; }

// "d.ddde+xx" with the fewest digits that read back as v in its dtype.
std::string shortest(DType d, double v) {
  if (d == DType::f64) return shortest_scientific_text(v);
  if (d == DType::f32) return shortest_scientific_text(static_cast<float>(v));
  for (int digits = 0;; ++digits) {
    std::string s = scientific_text(v, digits);
    double back = 0;
    if (digits >= 17 || (read_number(s, back) && narrow(d, back) == v)) return s;
  }
}

struct Pieces {
  std::string whole, fraction, exponent;  // exponent with its sign; empty: positional
};

Pieces split(const std::string& s) {
  size_t e = std::min(s.find('e'), s.size()), point = std::min(s.find('.'), e);
  Pieces p{s.substr(0, point), "", s.substr(std::min(e + 1, s.size()))};
  if (point < e) p.fraction = s.substr(point + 1, e - point - 1);
  return p;
}

void drop_zeros(std::string* fraction) { fraction->erase(fraction->find_last_not_of('0') + 1); }

// At most `precision` digits after the point, fewer where they say as much; rounds the exact value.
Pieces scientific(DType d, double v, int precision) {
  Pieces p = split(shortest(d, v));
  if (static_cast<int>(p.fraction.size()) > precision) p = split(scientific_text(v, precision));
  drop_zeros(&p.fraction);
  return p;
}

Pieces positional(DType d, double v, int precision) {
  Pieces s = split(shortest(d, v));
  std::string_view power = s.exponent;
  if (power.starts_with('+')) power.remove_prefix(1);
  int exponent = 0;
  read_number(power, exponent);
  const int digits = static_cast<int>(s.fraction.size()) - exponent;
  Pieces p = split(fixed_text(v, std::clamp(digits, 0, precision)));
  drop_zeros(&p.fraction);
  return p;
}

// As Python prints a number: all its digits.
std::string alone(DType d, double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  double size = std::abs(v);
  if (v != 0 && (size < 1e-4 || size >= 1e16)) {
    Pieces p = scientific(d, v, 400);
    return p.whole + (p.fraction.empty() ? "" : ".") + p.fraction + "e" + p.exponent;
  }
  Pieces p = positional(d, v, 400);
  return p.whole + "." + (p.fraction.empty() ? "0" : p.fraction);
}

std::string word(const Scalar& s) {
  if (is_float(s.dtype)) return alone(s.dtype, s.f);
  if (s.dtype == DType::boolean) return s.i ? "True" : "False";
  return s.dtype == DType::u64 ? std::to_string(static_cast<uint64_t>(s.i)) : std::to_string(s.i);
}

// ---- columns

// How all elements of one tensor are written: decided by those that are shown.
class Format {
 public:
  Format(DType d, const std::vector<Scalar>& shown) : dtype_(d) {
    is_float(d) ? measure_floats(shown) : measure_words(shown);
  }

  std::string operator()(const Scalar& s) const {
    if (!is_float(dtype_)) return padded(word(s), width_);
    if (!std::isfinite(s.f)) return padded(word(s), left_ + 1 + right_);
    Pieces p = exponent_ ? scientific(dtype_, s.f, static_cast<int>(digits_))
                         : positional(dtype_, s.f, kPrecision);
    std::string out = padded(p.whole, left_) + "." + p.fraction;
    if (!exponent_) return out + std::string(right_ - p.fraction.size(), ' ');
    out += std::string(digits_ - p.fraction.size(), '0') + "e" + p.exponent[0];
    return out + std::string(exponent_ - p.exponent.size(), '0') + p.exponent.substr(1);
  }

 private:
  static std::string padded(std::string s, size_t width) {
    return s.size() < width ? std::string(width - s.size(), ' ') + s : s;
  }

  void measure_words(const std::vector<Scalar>& shown) {
    width_ = dtype_ == DType::boolean ? 5 : 0;
    for (const Scalar& s : shown) width_ = std::max(width_, word(s).size());
  }

  static bool wants_exponents(const std::vector<Scalar>& shown) {
    double most = 0, least = INFINITY;
    for (const Scalar& s : shown) {
      if (!std::isfinite(s.f) || s.f == 0) continue;
      most = std::max(most, std::abs(s.f));
      least = std::min(least, std::abs(s.f));
    }
    return most > 0 && (most >= 1e8 || least < 1e-4 || most / least > 1000);
  }

  void measure_floats(const std::vector<Scalar>& shown) {
    const bool exponents = wants_exponents(shown);
    for (const Scalar& s : shown) {
      if (!std::isfinite(s.f)) continue;
      Pieces p =
          exponents ? scientific(dtype_, s.f, kPrecision) : positional(dtype_, s.f, kPrecision);
      left_ = std::max(left_, p.whole.size());
      digits_ = std::max(digits_, p.fraction.size());
      exponent_ = std::max(exponent_, p.exponent.size());
    }
    right_ = digits_ + (exponents ? exponent_ + 1 : 0);
    for (const Scalar& s : shown) {
      if (std::isfinite(s.f)) continue;
      size_t width = word(s).size();
      if (width > right_ + 1) left_ = std::max(left_, width - right_ - 1);
    }
  }

  DType dtype_;
  size_t width_ = 0;                  // of words
  size_t left_ = 0, right_ = 0;       // of floats: columns on each side of the point
  size_t digits_ = 0, exponent_ = 0;  // in right_: fraction digits, exponent with its sign
};

// ---- layout

class Layout {
 public:
  explicit Layout(const HostArray& a)
      : array_(a), summarise_(a.count() > kThreshold), format_(a.dtype, shown()) {}

  std::string print() const { return nest(0, 0, 1, kLineWidth); }

 private:
  // The positions of an axis that are printed, -1 for the dots.
  std::vector<int64_t> positions(size_t axis) const {
    std::vector<int64_t> out;
    const int64_t n = array_.shape[axis];
    const bool cut = summarise_ && n > 2 * kEdge;
    for (int64_t i = 0; i < n; ++i) {
      if (cut && i == kEdge) out.push_back(-1), i = n - kEdge;
      out.push_back(i);
    }
    return out;
  }

  std::vector<Scalar> shown() const {
    std::vector<int64_t> at{0};
    for (size_t axis = 0; axis < array_.shape.size(); ++axis) {
      std::vector<int64_t> next;
      for (int64_t base : at)
        for (int64_t i : positions(axis))
          if (i >= 0) next.push_back(base * array_.shape[axis] + i);
      at = std::move(next);
    }
    std::vector<Scalar> out;
    for (int64_t i : at) out.push_back(array_.at(i));
    return out;
  }

  // The block below `axis` whose first element is number `base` of its blocks. Its lines after the
  // first begin at column `indent` and leave room for the brackets that close it.
  std::string nest(size_t axis, int64_t base, size_t indent, size_t width) const {
    if (axis + 1 == array_.shape.size()) return row(base, indent, width);
    std::string out = "[", gap(array_.shape.size() - axis - 1, '\n');
    gap += std::string(indent, ' ');
    for (int64_t i : positions(axis)) {
      if (out.size() > 1) out += gap;
      out += i < 0 ? "..." : nest(axis + 1, base * array_.shape[axis] + i, indent + 1, width - 1);
    }
    return out + "]";
  }

  std::string row(int64_t base, size_t indent, size_t width) const {
    std::string out, line(indent, ' ');
    for (int64_t i : positions(array_.shape.size() - 1)) {
      std::string word = i < 0 ? "..." : format_(array_.at(base * array_.shape.back() + i));
      if (line.size() > indent) line += ' ';
      if (line.size() + word.size() > width - 1 && line.size() > indent) {
        out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
        line.assign(indent, ' ');
      }
      line += word;
    }
    return "[" + (out + line).substr(indent) + "]";
  }

  const HostArray& array_;
  bool summarise_;
  Format format_;
};

}  // namespace

std::string Tensor::to_string(Loc where) const {
  OuterCall call("to_string", where);
  HostArray a(dtype(), value_shape(*this));
  if (a.count() == 0) return "[]";
  copy_out(a.bytes.data(), static_cast<int64_t>(a.bytes.size()));
  return a.shape.empty() ? word(a.at(0)) : Layout(a).print();
}

std::ostream& operator<<(std::ostream& out, const Tensor& t) {
  OuterCall call("operator<<", Loc());
  return out << (t.defined() ? t.to_string(Loc()) : "undefined");
}

}  // namespace mote
