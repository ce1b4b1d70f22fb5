// Transforms of batches of pictures.
#include <mote/images.h>

#include <cmath>
#include <numbers>

#include "tensor/impl.h"

namespace mote::transforms {

namespace {

void expect_batch(const Tensor& x) {
  expect_defined(x, "the batch");
  expect(x.dim() == 4, "needs pictures of (count, channels, height, width), got ", x);
}

Options like(const Tensor& x) { return {DType::f32, x.device()}; }

// One number for each picture, uniform, as (count, 1, 1, 1).
Tensor each(const Tensor& x, double lo, double hi) {
  return uniform({x.size(0), 1, 1, 1}, lo, hi, like(x));
}
Tensor yes_for(const Tensor& x, double p) { return each(x, 0, 1) < p; }

std::pair<int64_t, int64_t> two(const Ints& size) {
  expect(size.list.size() == 1 || size.list.size() == 2, "needs one or two sizes, got ",
         size.list.size());
  return {size.list[0], size.list.back()};
}

Tensor positions(int64_t n, int64_t axis, const Tensor& x) {
  std::vector<int64_t> shape(4, 1);
  shape[static_cast<size_t>(axis)] = n;
  return arange(n, {DType::i64, x.device()}).reshape(shape);
}

// Whole numbers from 0 to `most`, each as likely.
Tensor whole(const Tensor& x, const Tensor& most) {
  return (each(x, 0, 1) * (most + 1)).floor().minimum(most);
}

// Whether a pixel lies in the picture's rectangle: (count, 1, height, width).
Tensor inside(const Tensor& x, const Tensor& top, const Tensor& left, const Tensor& height,
              const Tensor& width) {
  Tensor y = positions(x.size(2), 2, x).to(DType::f32),
         at = positions(x.size(3), 3, x).to(DType::f32);
  return y.ge(top) & y.lt(top + height) & at.ge(left) & at.lt(left + width);
}

}  // namespace

Tensor crop(const Tensor& x, int64_t top, int64_t left, int64_t height, int64_t width, Loc where) {
  OuterCall call("crop", where);
  expect_batch(x);
  return x.narrow(2, top, height).narrow(3, left, width);
}

Tensor center_crop(const Tensor& x, const Ints& size, Loc where) {
  OuterCall call("center_crop", where);
  expect_batch(x);
  const auto [h, w] = two(size);
  expect(h <= x.size(2) && w <= x.size(3), "cannot cut ", h, " x ", w, " out of ", x);
  return x.narrow(2, (x.size(2) - h) / 2, h).narrow(3, (x.size(3) - w) / 2, w);
}

Tensor random_crop(const Tensor& x, const Ints& size, int64_t padding, Loc where) {
  OuterCall call("random_crop", where);
  expect_batch(x);
  const auto [h, w] = two(size);
  Tensor from = padding ? x.pad({padding, padding, padding, padding}) : x;
  const int64_t down = from.size(2) - h, right = from.size(3) - w;
  expect(down >= 0 && right >= 0, "cannot cut ", h, " x ", w, " out of ", from);
  auto start = [&](int64_t most) {
    return whole(x, full({}, static_cast<double>(most), like(x))).to(DType::i64);
  };
  return from.index({positions(x.size(0), 0, x), positions(x.size(1), 1, x),
                     positions(h, 2, x) + start(down), positions(w, 3, x) + start(right)});
}

Tensor random_horizontal_flip(const Tensor& x, double p, Loc where) {
  OuterCall call("random_horizontal_flip", where);
  expect_batch(x);
  return mote::where(yes_for(x, p), x.flip(-1), x);
}
Tensor random_vertical_flip(const Tensor& x, double p, Loc where) {
  OuterCall call("random_vertical_flip", where);
  expect_batch(x);
  return mote::where(yes_for(x, p), x.flip(-2), x);
}

Tensor resize(const Tensor& x, const Ints& size, const char* mode, Loc where) {
  OuterCall call("resize", where);
  expect_batch(x);
  const auto [h, w] = two(size);
  const bool whole_numbers = !is_float(x.dtype());
  Tensor y = (whole_numbers ? x.to(DType::f32) : x)
                 .interpolate({
                     .size = {h, w},
                       .mode = mode
  });
  return whole_numbers ? y.round().clamp(0, 255).to(x.dtype()) : y;
}

Tensor normalize(const Tensor& x, const Floats& mean, const Floats& std, Loc where) {
  OuterCall call("normalize", where);
  expect_batch(x);
  auto row = [&](const Floats& f) {
    expect(f.list.size() == 1 || static_cast<int64_t>(f.list.size()) == x.size(1),
           "needs one number per channel, got ", f.list.size(), " for ", x);
    std::vector<Tensor> channels;  // constants: values of the host could not be captured
    for (const double v : f.list) channels.push_back(full({1, 1, 1, 1}, v, like(x)));
    return cat(channels, 1);
  };
  Tensor from = is_float(x.dtype()) ? x : x.to(DType::f32);
  return (from - row(mean).to(from.dtype())) / row(std).to(from.dtype());
}

namespace {

Tensor grey_of(const Tensor& x) {
  if (x.size(1) != 3) return x.mean(1, true);
  return x.narrow(1, 0, 1) * 0.299 + x.narrow(1, 1, 1) * 0.587 + x.narrow(1, 2, 1) * 0.114;
}

// Turns the colours in the plane of I and Q.
Tensor hue_turned(const Tensor& x, const Tensor& turns) {
  auto channel = [&](int64_t c) { return x.narrow(1, c, 1); };
  Tensor r = channel(0), g = channel(1), b = channel(2), y = grey_of(x);
  Tensor i = 0.596 * r - 0.274 * g - 0.322 * b, q = 0.211 * r - 0.523 * g + 0.312 * b;
  Tensor angle = turns * (2 * std::numbers::pi), c = angle.cos(), s = angle.sin();
  Tensor u = i * c - q * s, v = i * s + q * c;
  return cat({y + 0.956 * u + 0.621 * v, y - 0.272 * u - 0.647 * v, y - 1.106 * u + 1.703 * v}, 1);
}

}  // namespace

Tensor color_jitter(const Tensor& batch, const ColorJitter& j, Loc where) {
  OuterCall call("color_jitter", where);
  expect_batch(batch);
  expect(is_float(batch.dtype()), "needs floats from 0 to 1, got ", batch.dtype());
  Tensor x = batch;
  const bool colored = x.size(1) == 3;
  auto factor = [&](double by) { return each(x, std::max(0.0, 1 - by), 1 + by).to(x.dtype()); };
  auto blended = [&](const Tensor& from, double by) {
    Tensor f = factor(by);
    x = (from + (x - from) * f).clamp(0, 1);
  };
  if (j.brightness > 0) x = (x * factor(j.brightness)).clamp(0, 1);
  if (j.contrast > 0) blended(grey_of(x).mean({1, 2, 3}, true), j.contrast);
  if (j.saturation > 0 && colored) blended(grey_of(x), j.saturation);
  if (j.hue > 0 && colored) x = hue_turned(x, each(x, -j.hue, j.hue).to(x.dtype())).clamp(0, 1);
  return x;
}

Tensor random_erase(const Tensor& x, const RandomErasing& e, Loc where) {
  OuterCall call("random_erase", where);
  expect_batch(x);
  expect(e.least >= 0 && e.most >= e.least && e.narrowest > 0 && e.widest >= e.narrowest,
         "needs 0 <= least <= most and 0 < narrowest <= widest");
  const auto h = static_cast<double>(x.size(2)), w = static_cast<double>(x.size(3));
  Tensor area = each(x, e.least, e.most) * (h * w);
  Tensor ratio = each(x, std::log(e.narrowest), std::log(e.widest)).exp();
  Tensor height = (area * ratio).sqrt().round().clamp(1, h);
  Tensor width = (area / ratio).sqrt().round().clamp(1, w);
  Tensor erased = inside(x, whole(x, h - height), whole(x, w - width), height, width);
  return mote::where(erased & yes_for(x, e.p), full({}, e.value, {x.dtype(), x.device()}), x);
}

namespace {

// Gamma(a, 1), by Marsaglia and Tsang. Of so many tries one fits, but for one in 10^12.
Tensor gamma_of(double a, const Sizes& shape, const Options& o) {
  constexpr int64_t kTries = 12;
  const double boosted = a < 1 ? a + 1 : a, d = boosted - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  std::vector<Size> tries(shape.begin(), shape.end());
  tries.insert(tries.begin(), Size(kTries));
  Tensor normal = randn(Sizes(tries), o), v = (normal * c + 1).pow(3);
  Tensor u = rand(Sizes(tries), o).clamp_min(1e-30);
  Tensor fits =
      v.gt(0) & u.log().lt(normal.square() * 0.5 + d - v * d + v.clamp_min(1e-30).log() * d);
  Tensor first = fits.to(DType::i32).argmax(0, true);
  Tensor value = v.gather(0, first).squeeze(0) * d;
  return a < 1 ? value * rand(shape, o).clamp_min(1e-30).pow(1 / a) : value;
}

struct Partner {
  Tensor images, targets;
};
// Picture i goes with picture i - k of the batch, for one random k.
Partner partner_of(const Tensor& images, const Tensor& targets) {
  const int64_t count = images.size(0);
  Tensor k =
      (rand({}, like(images)) * static_cast<double>(std::max<int64_t>(1, count - 1))).floor();
  Tensor rows = (arange(count, {DType::i64, images.device()}) + k.to(DType::i64) + 1) % count;
  return {images.index_select(0, rows), targets.index_select(0, rows)};
}

void expect_targets(const Tensor& images, const Tensor& targets) {
  expect_batch(images);
  expect(targets.defined() && targets.dim() == 2 && is_float(targets.dtype()) &&
             targets.size(0) == images.size(0),
         "needs one row of probabilities per picture: one_hot() of the classes, as floats");
}

}  // namespace

Tensor beta(double a, double b, const Sizes& shape, const Options& o, Loc where) {
  OuterCall call("beta", where);
  expect(a > 0 && b > 0, "needs a and b > 0, got ", a, " and ", b);
  Tensor x = gamma_of(a, shape, o), y = gamma_of(b, shape, o);
  return x / (x + y);
}

Mixed mixup(const Tensor& images, const Tensor& targets, double alpha, Loc where) {
  OuterCall call("mixup", where);
  expect_targets(images, targets);
  expect(is_float(images.dtype()), "needs floats, got ", images.dtype());
  const Partner p = partner_of(images, targets);
  Tensor share = beta(alpha, alpha, {}, like(images));
  auto blend = [&](const Tensor& mine, const Tensor& theirs) {
    return theirs + (mine - theirs) * share.to(mine.dtype());
  };
  return {blend(images, p.images), blend(targets, p.targets)};
}

Mixed cutmix(const Tensor& images, const Tensor& targets, double alpha, Loc where) {
  OuterCall call("cutmix", where);
  expect_targets(images, targets);
  const Partner p = partner_of(images, targets);
  const auto h = static_cast<double>(images.size(2)), w = static_cast<double>(images.size(3));
  Tensor cut = (1 - beta(alpha, alpha, {1, 1, 1, 1}, like(images))).sqrt();
  Tensor one = images.narrow(0, 0, 1);
  Tensor y = (each(one, 0, h) - cut * (h / 2)).floor(),
         x = (each(one, 0, w) - cut * (w / 2)).floor();
  Tensor in = inside(one, y, x, (cut * h).floor(), (cut * w).floor());
  Tensor share = (1 - in.to(DType::f32).mean()).to(targets.dtype());
  return {mote::where(in, p.images, images), p.targets + (targets - p.targets) * share};
}

}  // namespace mote::transforms
