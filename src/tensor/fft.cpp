// Fourier transforms, along the last axis of (batch, parts, n), parts the real and the imaginary
// one. A size r * m is r transforms of size m behind m of size r, which are products with a small
// matrix, and factors ("twiddles") between them. A prime that is too large for a matrix becomes a
// convolution by powers of two (Bluestein).
#include <mote/fft.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "tensor/impl.h"
#include "tensor/operators.h"

namespace mote::fft {

namespace {

constexpr int64_t kRadix = 16, kLargestMatrix = 64;

// The size of the first transforms: the largest factor that makes a small matrix. 0: there is none.
int64_t first_factor(int64_t n) {
  if (n <= 2 * kRadix) return n;
  for (int64_t r = kRadix; r >= 2; --r)
    if (n % r == 0) return r;
  for (int64_t r = kRadix + 1; r <= kLargestMatrix && r * r <= n; ++r)
    if (n % r == 0) return r;
  if (n <= kLargestMatrix) return n;
  for (int64_t r = kLargestMatrix + 1; r * r <= n; ++r)
    if (n % r == 0) return n / r <= kLargestMatrix ? n / r : r;
  return 0;
}

struct Complex {
  Tensor re, im;
};
Complex times(const Complex& a, const Complex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
Complex parts_of(const Tensor& x, int64_t axis) { return {x.select(axis, 0), x.select(axis, 1)}; }

Tensor stored(const Tensor& t) { return make_value(prim::contiguous(node_of(t)), t); }

// e^(sign 2 pi i k / n) of whole numbers k in 0 ... n - 1, stored.
Complex roots(const Tensor& k, int64_t n, int sign, const Tensor& like) {
  Tensor angle = k.to(DType::f64) * (2 * std::numbers::pi * sign / static_cast<double>(n));
  return {stored(angle.cos().to(like.dtype())), stored(angle.sin().to(like.dtype()))};
}

// (2 r, parts * r): what a transform of size r does to its real and imaginary parts.
Tensor matrix(int64_t r, int64_t parts, int sign, const Tensor& like) {
  Tensor k = arange(Number(r), {DType::i64, like.device()});
  const Complex w = roots((k.unsqueeze(1) * k).fmod(r), r, sign, like);
  Tensor of_real = cat({w.re, w.im}, 0);
  return parts == 1 ? of_real : stored(cat({of_real, cat({-w.im, w.re}, 0)}, 1));
}

Tensor transform(const Tensor& x, int sign);

// k j = (k^2 + j^2 - (k - j)^2) / 2: a convolution with e^(-sign pi i j^2 / n).
Tensor by_convolution(const Tensor& x, int sign) {
  const int64_t n = x.size(-1);
  int64_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  const Options on{DType::i64, x.device()};
  Tensor j = arange(Number(n), on);
  const Complex chirp = roots((j * j).fmod(2 * n), 2 * n, sign, x);
  Tensor around = arange(Number(length), on);
  Tensor distance = mote::minimum(around, length - around), near = distance < n;
  Complex filter = roots((distance * distance).fmod(2 * n), 2 * n, -sign, x);
  filter = {where(near, filter.re, 0), where(near, filter.im, 0)};
  const bool is_real = x.size(1) == 1;
  Tensor re = x.select(1, 0), im = is_real ? re * 0 : x.select(1, 1);
  auto seen = [&](const Complex& z) {
    return transform(stack({z.re, z.im}, 1).pad({0, length - z.re.size(-1)}), 1);
  };
  const Complex a = parts_of(seen(times({re, im}, chirp)), 1);
  const Complex b = parts_of(seen({filter.re.unsqueeze(0), filter.im.unsqueeze(0)}), 1);
  const Complex product = times(a, b);
  Tensor back = transform(stack({product.re, product.im}, 1), -1);
  back = back.narrow(-1, 0, n) * (1 / static_cast<double>(length));
  const Complex out = times(parts_of(back, 1), chirp);
  return stack({out.re, out.im}, 1);
}

// (batch, 1 or 2, n) to (batch, 2, n): sums of x[j] e^(sign 2 pi i j k / n).
Tensor transform(const Tensor& x, int sign) {
  const int64_t batch = x.size(0), parts = x.size(1), n = x.size(2), r = first_factor(n);
  if (r == 0) return by_convolution(x, sign);
  if (r > kLargestMatrix) return by_convolution(x, sign);
  const int64_t m = n / r;
  Tensor w = matrix(r, parts, sign, x);
  if (m == 1) return x.reshape({batch, parts * r}).matmul(w.t()).reshape({batch, 2, r});
  Tensor y = w.matmul(x.reshape({batch, parts * r, m})).reshape({batch, 2, r, m});
  const Options on{DType::i64, x.device()};
  Tensor k = arange(Number(r), on).unsqueeze(1) * arange(Number(m), on);
  const Complex z = times(parts_of(stored(y), 1), roots(k, n, sign, x));
  Tensor rest = transform(stored(stack({z.re, z.im}, 2)).reshape({batch * r, 2, m}), sign);
  return rest.reshape({batch, r, 2, m}).permute({0, 2, 3, 1}).reshape({batch, 2, n});
}

double scale_of(const char* norm, int64_t n, bool inverse) {
  const std::string how = word(norm, "norm");
  expect(how == "backward" || how == "ortho" || how == "forward",
         "norm is backward, ortho or forward, got ", how);
  const auto size = static_cast<double>(n);
  if (how == "ortho") return 1 / std::sqrt(size);
  return inverse == (how == "backward") ? 1 / size : 1;
}

void expect_pairs(const Tensor& z) {
  expect_defined(z);
  expect(z.is_floating_point() && z.dim() >= 1 && z.size(-1) == 2,
         "needs floats whose last axis holds real and imaginary part, got ", z.dtype(),
         " of shape ", z, "; complex(x) makes them of real numbers");
}
void expect_real(const Tensor& x) {
  expect_defined(x);
  expect(x.dim() >= 1, "needs a tensor with axes");
}

// An axis of exactly n: cut, or filled with zeros.
Tensor resized(const Tensor& x, int64_t axis, int64_t n) {
  expect(n >= 1, "needs a size >= 1, got ", n);
  const int64_t size = x.size(axis);
  if (size >= n) return size == n ? x : x.narrow(axis, 0, n);
  std::vector<int64_t> amounts(static_cast<size_t>(2 * (x.dim() - axis)), 0);
  amounts.back() = n - size;
  return x.pad(amounts);
}

// Along one axis. Real input has no axis of pairs; the result has one.
struct Along {
  int64_t axis, n;
  bool is_real;
};
Tensor along(const Tensor& given, const Along& a, int sign, double scale) {
  const DType d = float_dtype(given.dtype());
  Tensor x = resized(given.to(accumulator(d)), a.axis, a.n);
  Tensor moved =
      a.is_real ? x.movedim(a.axis, -1).unsqueeze(-2) : x.movedim({-1, a.axis}, {-2, -1});
  std::vector<int64_t> shape = moved.shape();
  const int64_t parts = shape[shape.size() - 2];
  Tensor out = transform(moved.reshape({moved.numel() / (parts * a.n), parts, a.n}), sign);
  shape[shape.size() - 2] = 2;
  out = out.reshape(shape).movedim({-2, -1}, {-1, a.axis});
  return (scale == 1 ? out : out * scale).to(d);
}

Tensor one_axis(const Tensor& z, int64_t n, int64_t dim, const char* norm, bool inverse) {
  expect_pairs(z);
  const int64_t axis = to_axis(dim, z.dim() - 1), size = n < 0 ? z.size(axis) : n;
  return along(z, {axis, size, false}, inverse ? 1 : -1, scale_of(norm, size, inverse));
}

Tensor half_of_real(const Tensor& x, int64_t n, int64_t dim, const char* norm, bool inverse) {
  expect_real(x);
  const int64_t axis = to_axis(dim, x.dim()), size = n < 0 ? x.size(axis) : n;
  Tensor z = along(x, {axis, size, true}, inverse ? 1 : -1, scale_of(norm, size, inverse));
  return z.narrow(axis, 0, size / 2 + 1).clone();
}

// The other half of the frequencies is the conjugate one, read backwards.
Tensor real_of_half(const Tensor& z, int64_t n, int64_t dim, const char* norm, bool inverse) {
  expect_pairs(z);
  const int64_t axis = to_axis(dim, z.dim() - 1);
  const int64_t size = n < 0 ? 2 * (z.size(axis) - 1) : n, half = size / 2 + 1;
  expect(size >= 1, "needs a size >= 1, got ", size);
  Tensor first = resized(z, axis, half);
  // The imaginary parts of frequency 0 and n / 2 do not count.
  Tensor k = arange(Number(half), {DType::i64, z.device()});
  std::vector<int64_t> shape(static_cast<size_t>(z.dim()), 1);
  shape[static_cast<size_t>(axis)] = half;
  Tensor alone = (k.eq(0) | (k * 2).eq(size)).reshape(shape);
  Tensor is_imag = arange(2, {DType::i64, z.device()}).eq(1);
  first = where(alone & is_imag, 0, first);
  Tensor rest = conj(first.narrow(axis, 1, size - half)).flip(axis);
  Tensor all = size > half ? cat({first, rest}, axis) : first;
  Tensor out = along(all, {axis, size, false}, inverse ? 1 : -1, scale_of(norm, size, inverse));
  return real(out);
}

// The axes of a transform over several and their sizes; -1: as it is.
struct Over {
  std::vector<int64_t> axes, sizes;
};
Over over(const Ints& s, const Axes& dim, int64_t rank) {
  Over o;
  if (dim.empty()) {
    const int64_t count = s.empty() ? rank : static_cast<int64_t>(s.list.size());
    expect(count <= rank, "got ", count, " sizes for ", rank, " axes");
    for (int64_t i = rank - count; i < rank; ++i) o.axes.push_back(i);
  } else {
    o.axes = to_axes(dim, rank);
  }
  o.sizes = s.empty() ? std::vector<int64_t>(o.axes.size(), -1) : s.list;
  expect(o.sizes.size() == o.axes.size(), "got ", o.sizes.size(), " sizes for ", o.axes.size(),
         " axes");
  return o;
}

Tensor over_all(Tensor z, const Over& o, size_t count, const char* norm, bool inverse) {
  for (size_t i = 0; i < count; ++i) z = one_axis(z, o.sizes[i], o.axes[i], norm, inverse);
  return z;
}

Tensor frequencies(int64_t n, double d, const Options& o, bool only_positive) {
  expect(n > 0 && d != 0, "needs a size > 0 and a step other than 0, got ", n, " and ", d);
  Tensor k = arange(Number(only_positive ? n / 2 + 1 : n), {DType::f64, o.device});
  if (!only_positive)
    k = where(k < static_cast<double>((n + 1) / 2), k, k - static_cast<double>(n));
  return (k / (static_cast<double>(n) * d)).to(o.dtype == DType::none ? DType::f32 : o.dtype);
}

Tensor shifted(const Tensor& x, const Axes& dim, bool back) {
  expect_defined(x);
  std::vector<int64_t> axes = to_axes_or_all(dim, x.dim()), by;
  for (int64_t axis : axes) by.push_back(back ? (x.size(axis) + 1) / 2 : x.size(axis) / 2);
  return axes.empty() ? x.clone() : x.roll(by, axes);
}

// The window of n_fft elements, the given one in its middle.
Tensor frame_window(int64_t n_fft, const StftOptions& o, const Tensor& like) {
  const int64_t length = o.win_length > 0 ? o.win_length : n_fft;
  expect(n_fft > 0 && length <= n_fft, "needs 0 < win_length <= n_fft, got ", length, " and ",
         n_fft);
  expect(!o.window.defined() || (o.window.dim() == 1 && o.window.size(0) == length),
         "needs a window of ", length, " elements");
  Tensor window = o.window.defined() ? o.window.to(like.dtype())
                                     : ones({length}, {like.dtype(), like.device()});
  const int64_t before = (n_fft - length) / 2;
  return window.pad({before, n_fft - length - before});
}

}  // namespace

Tensor complex(const Tensor& re, const Tensor& im, Loc where) {
  Call call("complex", where);
  expect(re.defined() || im.defined(), "needs a real or an imaginary part");
  const Tensor& like = re.defined() ? re : im;
  const DType d = float_dtype(like.dtype());
  auto part = [&](const Tensor& t) { return t.defined() ? t.to(d) : like.zeros_like(d); };
  expect(dims_of(part(re)) == dims_of(part(im)), "real and imaginary part have different shapes");
  return stack({part(re), part(im)}, -1);
}
Tensor polar(const Tensor& size, const Tensor& turn, Loc where) {
  Call call("polar", where);
  return complex(size * turn.cos(), size * turn.sin());
}
Tensor real(const Tensor& z, Loc where) {
  Call call("real", where);
  expect_pairs(z);
  return z.select(-1, 0).clone();
}
Tensor imag(const Tensor& z, Loc where) {
  Call call("imag", where);
  expect_pairs(z);
  return z.select(-1, 1).clone();
}
Tensor abs(const Tensor& z, Loc where) {
  Call call("abs", where);
  expect_pairs(z);
  return z.select(-1, 0).hypot(z.select(-1, 1));
}
Tensor angle(const Tensor& z, Loc where) {
  Call call("angle", where);
  expect_pairs(z);
  return z.select(-1, 1).atan2(z.select(-1, 0));
}
Tensor conj(const Tensor& z, Loc where) {
  Call call("conj", where);
  expect_pairs(z);
  return stack({z.select(-1, 0), -z.select(-1, 1)}, -1);
}
Tensor mul(const Tensor& a, const Tensor& b, Loc where) {
  Call call("mul", where);
  expect_pairs(a);
  expect_pairs(b);
  const Complex z = times(parts_of(a, -1), parts_of(b, -1));
  return stack({z.re, z.im}, -1);
}

Tensor fft(const Tensor& z, int64_t n, int64_t dim, const char* norm, Loc where) {
  Call call("fft", where);
  return one_axis(z, n, dim, norm, false);
}
Tensor ifft(const Tensor& z, int64_t n, int64_t dim, const char* norm, Loc where) {
  Call call("ifft", where);
  return one_axis(z, n, dim, norm, true);
}
Tensor rfft(const Tensor& x, int64_t n, int64_t dim, const char* norm, Loc where) {
  Call call("rfft", where);
  return half_of_real(x, n, dim, norm, false);
}
Tensor irfft(const Tensor& z, int64_t n, int64_t dim, const char* norm, Loc where) {
  Call call("irfft", where);
  return real_of_half(z, n, dim, norm, true);
}
Tensor hfft(const Tensor& z, int64_t n, int64_t dim, const char* norm, Loc where) {
  Call call("hfft", where);
  return real_of_half(z, n, dim, norm, false);
}
Tensor ihfft(const Tensor& x, int64_t n, int64_t dim, const char* norm, Loc where) {
  Call call("ihfft", where);
  return half_of_real(x, n, dim, norm, true);
}

Tensor fftn(const Tensor& z, const Ints& s, const Axes& dim, const char* norm, Loc where) {
  Call call("fftn", where);
  expect_pairs(z);
  const Over o = over(s, dim, z.dim() - 1);
  return over_all(z, o, o.axes.size(), norm, false);
}
Tensor ifftn(const Tensor& z, const Ints& s, const Axes& dim, const char* norm, Loc where) {
  Call call("ifftn", where);
  expect_pairs(z);
  const Over o = over(s, dim, z.dim() - 1);
  return over_all(z, o, o.axes.size(), norm, true);
}
// The last axis is the real one.
Tensor rfftn(const Tensor& x, const Ints& s, const Axes& dim, const char* norm, Loc where) {
  Call call("rfftn", where);
  expect_real(x);
  const Over o = over(s, dim, x.dim());
  expect(!o.axes.empty(), "needs at least one axis");
  Tensor z = half_of_real(x, o.sizes.back(), o.axes.back(), norm, false);
  return over_all(z, o, o.axes.size() - 1, norm, false);
}
Tensor irfftn(const Tensor& z, const Ints& s, const Axes& dim, const char* norm, Loc where) {
  Call call("irfftn", where);
  expect_pairs(z);
  const Over o = over(s, dim, z.dim() - 1);
  expect(!o.axes.empty(), "needs at least one axis");
  Tensor rest = over_all(z, o, o.axes.size() - 1, norm, true);
  return real_of_half(rest, o.sizes.back(), o.axes.back(), norm, true);
}

Tensor fftfreq(int64_t n, double d, const Options& o, Loc where) {
  Call call("fftfreq", where);
  return frequencies(n, d, o, false);
}
Tensor rfftfreq(int64_t n, double d, const Options& o, Loc where) {
  Call call("rfftfreq", where);
  return frequencies(n, d, o, true);
}
Tensor fftshift(const Tensor& x, const Axes& dim, Loc where) {
  Call call("fftshift", where);
  return shifted(x, dim, false);
}
Tensor ifftshift(const Tensor& x, const Axes& dim, Loc where) {
  Call call("ifftshift", where);
  return shifted(x, dim, true);
}

Tensor stft(const Tensor& x, int64_t n_fft, const StftOptions& o, Loc where) {
  Call call("stft", where);
  expect_defined(x);
  expect((x.dim() == 1 || x.dim() == 2) && x.is_floating_point(),
         "needs floats (L) or (N, L), got ", x.dtype(), " of shape ", x);
  Tensor window = frame_window(n_fft, o, x), rows = x.dim() == 1 ? x.unsqueeze(0) : x;
  if (o.center) rows = rows.unsqueeze(1).pad({n_fft / 2, n_fft / 2}, o.pad_mode).squeeze(1);
  const int64_t hop = o.hop_length > 0 ? o.hop_length : n_fft / 4;
  Tensor frames = rows.unfold(-1, n_fft, std::max<int64_t>(hop, 1)) * window;
  const char* norm = o.normalized ? "ortho" : "backward";
  Tensor z = o.onesided ? rfft(frames, -1, -1, norm) : fft(complex(frames), -1, -1, norm);
  z = z.transpose(1, 2).clone();
  return x.dim() == 1 ? z.squeeze(0) : z;
}

// The sum of the frames in their windows, divided by that of the windows' squares.
Tensor istft(const Tensor& z, int64_t n_fft, const StftOptions& o, Loc where) {
  Call call("istft", where);
  expect_pairs(z);
  expect(z.dim() == 3 || z.dim() == 4, "needs (..., frequencies, frames, 2), got shape ", z);
  Tensor rows = (z.dim() == 3 ? z.unsqueeze(0) : z).transpose(1, 2);
  expect(rows.size(2) == (o.onesided ? n_fft / 2 + 1 : n_fft), "got ", rows.size(2),
         " frequencies of a transform of ", n_fft);
  const char* norm = o.normalized ? "ortho" : "backward";
  Tensor frames = o.onesided ? irfft(rows, n_fft, -1, norm) : real(ifft(rows, -1, -1, norm));
  const int64_t hop = std::max<int64_t>(o.hop_length > 0 ? o.hop_length : n_fft / 4, 1);
  const int64_t count = frames.size(1), all = n_fft + hop * (count - 1);
  Tensor window = frame_window(n_fft, o, frames);
  auto joined = [&](const Tensor& t) {  // (N, frames, n_fft) to (N, all)
    FoldOptions f;
    f.stride = {1, hop};
    return fold(t.transpose(1, 2), {1, all}, {1, n_fft}, f).reshape({t.size(0), all});
  };
  Tensor sum = joined(frames * window);
  Tensor weight = joined(broadcast_tensor(window * window, dims_of(frames)).narrow(0, 0, 1));
  const int64_t begin = o.center ? n_fft / 2 : 0;
  const int64_t length = o.length >= 0 ? o.length : all - 2 * begin;
  expect(begin + length <= all, "the frames hold ", all - begin, " elements, got length ", length);
  Tensor out = (sum / weight).narrow(1, begin, length);
  return z.dim() == 3 ? out.squeeze(0) : out.clone();
}

}  // namespace mote::fft
