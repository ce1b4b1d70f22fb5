// Fourier transforms, as products with matrices of sines, and windows.
#include <cmath>
#include <numbers>

#include "onnx/ops.h"

namespace mote::onnx {

namespace {

struct Complex {
  Tensor re, im;  // im may be undefined
};

// cos and sin of 2 pi k n / length for n < rows and k < columns.
struct Waves {
  Tensor cos, sin;
};

Waves waves(Call& c, int64_t length, int64_t rows, int64_t columns, DType dtype) {
  std::vector<double> cos, sin;
  for (int64_t n = 0; n < rows; ++n)
    for (int64_t k = 0; k < columns; ++k) {
      const double turn = static_cast<double>(n * k % length) / static_cast<double>(length);
      cos.push_back(std::cos(2 * std::numbers::pi * turn));
      sin.push_back(std::sin(2 * std::numbers::pi * turn));
    }
  return {c.constant(cos, {rows, columns}).cast(dtype),
          c.constant(sin, {rows, columns}).cast(dtype)};
}

// Along the last axis; forward or (sign -1) backward, without a factor.
Complex transform(Call& c, const Complex& x, int64_t length, int64_t columns, int sign) {
  const int64_t rows = x.re.size(-1);
  const Waves w = waves(c, length, rows, columns, x.re.dtype());
  Complex out{x.re.matmul(w.cos), x.re.matmul(w.sin) * -sign};
  if (!x.im.defined()) return out;
  return {out.re + x.im.matmul(w.sin) * sign, out.im + x.im.matmul(w.cos)};
}

Tensor fitted(const Tensor& x, int64_t length) {
  const int64_t size = x.size(-1);
  return size > length ? x.narrow(-1, 0, length) : x.pad({0, length - size});
}

// The spectrum of real numbers from its first half: the other half mirrors it.
Complex mirrored(Complex half, int64_t length) {
  const int64_t kept = length / 2 + 1, missing = length - kept;
  half.re = fitted(half.re, kept), half.im = fitted(half.im, kept);
  if (missing == 0) return half;
  auto back = [&](const Tensor& t) { return t.narrow(-1, 1, missing).flip({-1}); };
  return {cat({half.re, back(half.re)}, -1), cat({half.im, -back(half.im)}, -1)};
}

Outputs dft(Call& c) {
  const Tensor x = c.x(0);
  const int64_t given = c.has(2) ? c.integer(2) : c.i("axis", c.opset() < 20 ? 1 : -2);
  const int64_t axis = axis_of(given, x.dim());
  expect(axis < x.dim() - 1, "the last axis holds real and imaginary parts");
  const bool inverse = c.i("inverse", 0) != 0, onesided = c.i("onesided", 0) != 0;
  const bool back_to_real = inverse && onesided, is_complex = x.size(-1) == 2;
  const int64_t size = x.size(axis);
  const int64_t length = c.has(1) ? c.integer(1) : back_to_real ? 2 * (size - 1) : size;
  expect(length > 0, "the length is ", length);
  auto part = [&](int64_t i) { return x.select(-1, i).movedim({axis}, {-1}); };
  Complex in{part(0), is_complex ? part(1) : Tensor()};
  if (back_to_real) {
    if (!is_complex) in.im = in.re.zeros_like();
    in = mirrored(in, length);
  } else {
    in.re = fitted(in.re, length);
    if (is_complex) in.im = fitted(in.im, length);
  }
  const int64_t columns = onesided && !inverse ? length / 2 + 1 : length;
  Complex out = transform(c, in, length, columns, inverse ? -1 : 1);
  const double factor = inverse ? 1 / static_cast<double>(length) : 1;
  auto placed = [&](const Tensor& t) { return (inverse ? t * factor : t).movedim({-1}, {axis}); };
  if (back_to_real) return {placed(out.re).unsqueeze(-1)};
  return {stack({placed(out.re), placed(out.im)}, -1)};
}

Outputs stft(Call& c) {
  const Tensor x = c.x(0);
  const int64_t step = c.integer(1);
  const Tensor window = c.maybe(2);
  const int64_t length = c.has(3) ? c.integer(3) : window.defined() ? window.size(0) : x.size(1);
  expect(step > 0 && length > 0 && length <= x.size(1), "frames of ", length, " every ", step,
         " do not fit the signal");
  const bool is_complex = x.dim() == 3 && x.size(2) == 2;
  auto frames = [&](const Tensor& t) {
    const Tensor cut = t.unfold(1, length, step);  // (batch, frames, length)
    return window.defined() ? cut * window : cut;
  };
  const Tensor real = x.dim() == 3 ? x.select(2, 0) : x;
  const Complex in{frames(real), is_complex ? frames(x.select(2, 1)) : Tensor()};
  const int64_t columns = c.i("onesided", 1) && !is_complex ? length / 2 + 1 : length;
  const Complex out = transform(c, in, length, columns, 1);
  return {stack({out.re, out.im}, -1)};
}

// A sum of cosines over a period.
Outputs window(Call& c, double a0, double a1, double a2) {
  const int64_t size = c.integer(0);
  const Element& e = element_of(static_cast<int>(c.i("output_datatype", kFloat)));
  const int64_t period = c.i("periodic", 1) ? size : std::max<int64_t>(size - 1, 1);
  std::vector<double> out;
  for (int64_t i = 0; i < size; ++i) {
    const double at = 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(period);
    out.push_back(a0 - a1 * std::cos(at) + a2 * std::cos(2 * at));
  }
  return {c.constant(out, Sizes({size})).cast(e.held)};
}
Outputs hann(Call& c) { return window(c, 0.5, 0.5, 0); }
Outputs hamming(Call& c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }
Outputs blackman(Call& c) { return window(c, 0.42, 0.5, 0.08); }

double mel(double hertz) { return 2595 * std::log10(1 + hertz / 700); }

Outputs mel_weights(Call& c) {
  const int64_t bands = c.integer(0), length = c.integer(1), rate = c.integer(2);
  const double low = mel(c.real(3)), high = mel(c.real(4));
  const Element& e = element_of(static_cast<int>(c.i("output_datatype", kFloat)));
  const int64_t bins = length / 2 + 1;
  std::vector<int64_t> edge;
  for (int64_t i = 0; i < bands + 2; ++i) {
    const double m = low + static_cast<double>(i) * (high - low) / static_cast<double>(bands + 2);
    const double hertz = 700 * (std::pow(10, m / 2595) - 1);
    edge.push_back(static_cast<int64_t>(
        std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate))));
  }
  std::vector<double> out(static_cast<size_t>(bins * bands));
  for (int64_t b = 0; b < bands; ++b) {
    const int64_t left = edge[size_t(b)], centre = edge[size_t(b) + 1], right = edge[size_t(b) + 2];
    for (int64_t i = std::max<int64_t>(left, 0); i < std::min(right, bins); ++i) {
      double& w = out[static_cast<size_t>(i * bands + b)];
      if (i <= centre && centre > left) w = double(i - left) / double(centre - left);
      if (i >= centre && right > centre) w = double(right - i) / double(right - centre);
    }
    if (left == centre && centre >= 0 && centre < bins) out[size_t(centre * bands + b)] = 1;
  }
  return {c.constant(out, {bins, bands}).cast(e.held)};
}

constexpr OpRow rows[] = {
    {"DFT",             17, dft        },
    {"STFT",            17, stft       },
    {"HannWindow",      17, hann       },
    {"HammingWindow",   17, hamming    },
    {"BlackmanWindow",  17, blackman   },
    {"MelWeightMatrix", 17, mel_weights},
};

}  // namespace

OpTable signal_ops() { return rows; }

}  // namespace mote::onnx
