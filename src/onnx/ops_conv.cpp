// Convolutions and what undoes them.
#include <algorithm>

#include "onnx/sample.h"
#include "onnx/windows.h"

namespace mote::onnx {

namespace {

Outputs conv(Call& c) {
  const Tensor exact = c.exact_product(
      0, 1,
      [&](const Tensor& x, const Tensor& w, int64_t zero) { return convolve(c, x, w, {}, zero); },
      [](const Tensor& w) {
        std::vector<int64_t> channels(static_cast<size_t>(w.dim() - 1), 1);
        channels[0] = w.size(0);
        return w.flatten(1).sum(1).reshape(channels);
      });
  if (!exact.defined()) return {convolve(c, c.x(0), c.x(1), c.maybe(2))};
  if (!c.has(2)) return {exact_value(exact, DType::f32)};
  std::vector<int64_t> channels(static_cast<size_t>(exact.dim()), 1);
  channels[1] = exact.size(1);
  return {exact_value(exact + c.wide(2).reshape(channels), DType::f32)};
}

// The sizes that the attributes ask for, as what is cut from the whole result at both ends.
struct Cut {
  std::vector<int64_t> before, after;  // negative: zeros are added
};

Cut cut_of(Call& c, const std::vector<int64_t>& in, const std::vector<int64_t>& whole,
           const std::vector<int64_t>& stride) {
  const size_t rank = whole.size();
  std::vector<int64_t> pads = c.is("pads"), added = c.is("output_padding");
  pads.resize(2 * rank), added.resize(rank);
  const std::vector<int64_t> sizes = c.is("output_shape");
  const std::string automatic = c.s("auto_pad", "NOTSET");
  const bool same = automatic.starts_with("SAME");
  Cut cut;
  for (size_t d = 0; d < rank; ++d) {
    int64_t before = pads[d], after = pads[rank + d];
    if (!sizes.empty() || same) {
      const int64_t size = sizes.empty() ? in[d] * stride[d] : sizes[sizes.size() - rank + d];
      const int64_t all = whole[d] + added[d] - size;
      const int64_t half = (all - (all < 0)) / 2;  // rounded down
      before = automatic == "SAME_UPPER" ? half : all - half;
      after = all - before;
    } else if (automatic == "VALID") {
      before = after = 0;
    }
    cut.before.push_back(before), cut.after.push_back(after - added[d]);
  }
  return cut;
}

Outputs conv_transpose(Call& c) {
  const Tensor x = c.x(0), weight = c.x(1);
  const std::vector<int64_t> shape = weight.shape();
  const size_t rank = shape.size() - 2;
  std::vector<int64_t> stride = c.is("strides"), dilation = c.is("dilations");
  if (stride.empty()) stride.assign(rank, 1);
  if (dilation.empty()) dilation.assign(rank, 1);
  const ConvTransposeOptions o{.stride = stride, .groups = c.i("group", 1), .dilation = dilation};
  Tensor out;
  switch (rank) {
    case 1: out = x.conv_transpose1d(weight, {}, o); break;
    case 2: out = x.conv_transpose2d(weight, {}, o); break;
    case 3: out = x.conv_transpose3d(weight, {}, o); break;
    default: fail_call("there are ", rank, " spatial axes");
  }
  const std::vector<int64_t> in = x.shape(), whole = out.shape();
  const Cut cut = cut_of(c, {in.begin() + 2, in.end()}, {whole.begin() + 2, whole.end()}, stride);
  std::vector<int64_t> more_before(rank), more_after(rank);
  for (size_t d = 0; d < rank; ++d) {
    const auto axis = static_cast<int64_t>(d) + 2;
    const int64_t front = std::max<int64_t>(cut.before[d], 0);
    const int64_t back = std::max<int64_t>(cut.after[d], 0);
    out = out.narrow(axis, front, out.size(axis) - front - back);
    more_before[d] = std::max<int64_t>(-cut.before[d], 0);
    more_after[d] = std::max<int64_t>(-cut.after[d], 0);
  }
  out = padded(out, more_before, more_after, 0);
  if (!c.has(2)) return {out};
  std::vector<int64_t> channels(rank + 2, 1);
  channels[1] = out.size(1);
  return {out + c.x(2).reshape(channels)};
}

// Columns of blocks back to the image that they were cut from: overlaps add.
Outputs col2im(Call& c) {
  const Tensor x = c.x(0);
  const std::vector<int64_t> image = c.ints(1), block = c.ints(2);
  const size_t rank = image.size();
  for (const int64_t b : block) expect(b > 0, "a block has the size ", b);
  expect(x.dim() == 3 && block.size() == rank, "the input must have 3 axes");
  std::vector<int64_t> whole = {x.size(0), x.size(1) / product(block)};
  whole.insert(whole.end(), image.begin(), image.end());
  const Windows w = windows_of(c, whole, block);
  // For each element of a block at each place: where it lands; outside is a place of its own.
  std::vector<int64_t> to;
  const int64_t blocks = product(block), places = product(w.out);
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t p = 0; p < places; ++p) {
      int64_t at = 0, stride = 1, bb = b, pp = p;
      bool inside = true;
      for (size_t d = rank; d-- > 0;) {
        const int64_t i = pp % w.out[d] * w.stride[d] + bb % block[d] * w.dilation[d] - w.before[d];
        inside &= i >= 0 && i < image[d];
        at += i * stride, stride *= image[d], pp /= w.out[d], bb /= block[d];
      }
      to.push_back(inside ? at : stride);
    }
  const int64_t rows = whole[0] * whole[1], pixels = product(image);
  const Tensor start = zeros({rows, pixels + 1}, c.options(x.dtype()));
  const Tensor sum = start.index_add(1, c.constant(to), x.reshape({rows, blocks * places}));
  return {sum.narrow(1, 0, pixels).reshape(whole)};
}

// Each element of the window is read at a place of its own, between pixels.
Outputs deform_conv(Call& c) {
  const Tensor x = c.x(0), weight = c.x(1), offset = c.x(2);
  const std::vector<int64_t> shape = weight.shape();
  const size_t rank = shape.size() - 2;
  const Windows w = windows_of(c, x.shape(), {shape.begin() + 2, shape.end()});
  const int64_t n = x.size(0), channels = x.size(1), groups = c.count_of("offset_group", 1);
  const int64_t taps = product(w.kernel), places = product(w.out);
  const auto axes = static_cast<int64_t>(rank);
  // (N * groups, taps, axes, places)
  const Tensor moved = offset.reshape({n * groups, taps, axes, places});
  std::vector<Tensor> at;
  for (size_t d = 0; d < rank; ++d) {
    std::vector<int64_t> along_kernel(2 * rank, 1), along_out = along_kernel;
    along_kernel[d] = w.kernel[d], along_out[rank + d] = w.out[d];
    const Tensor k = arange(w.kernel[d], c.options(DType::i64)).reshape(along_kernel);
    const Tensor o = arange(w.out[d], c.options(DType::i64)).reshape(along_out);
    std::vector<int64_t> all = w.kernel;
    all.insert(all.end(), w.out.begin(), w.out.end());
    const Tensor base = (k * w.dilation[d] + o * w.stride[d] - w.before[d]).expand(all);
    at.push_back(moved.select(2, static_cast<int64_t>(d)) +
                 base.reshape({1, taps, places}).cast(x.dtype()));
  }
  for (Tensor& t : at) t = t.reshape({n * groups, taps * places});
  std::vector<int64_t> split = {n * groups, channels / groups};
  for (size_t d = 0; d < rank; ++d) split.push_back(x.size(static_cast<int64_t>(d) + 2));
  Tensor read = sample_linear(x.reshape(split), at);
  read = read.reshape({n, groups, channels / groups, taps, places});
  if (c.has(4)) read = read * c.x(4).reshape({n, groups, 1, taps, places});
  // A product per group of the convolution.
  const int64_t parts = c.count_of("group", 1), out = shape[0];
  read = read.reshape({n, parts, channels / parts * taps, places});
  Tensor y = weight.reshape({1, parts, out / parts, channels / parts * taps}).matmul(read);
  std::vector<int64_t> result = {n, out};
  result.insert(result.end(), w.out.begin(), w.out.end());
  y = y.reshape({n, out, places});
  if (c.has(3)) y = y + c.x(3).reshape({1, out, 1});
  return {y.reshape(result)};
}

// A convolution of each channel over what was before, whose end is kept for the next call.
Outputs causal_conv(Call& c) {
  const Tensor x = c.x(0), weight = c.x(1);
  const int64_t before = weight.size(2) - 1;
  const Tensor past =
      c.has(3) ? c.x(3) : zeros({x.size(0), x.size(1), before}, c.options(x.dtype()));
  const Tensor all = cat({past, x}, 2);
  Tensor y = all.conv1d(weight, c.maybe(2), {.groups = x.size(1)});
  const std::string activation = c.s("activation", "none");
  expect(activation == "none" || activation == "silu" || activation == "swish", "the activation ",
         quoted(activation), " is not known");
  if (activation != "none") y = y.cast(DType::f32).silu().cast(x.dtype());
  return {y, all.narrow(2, all.size(2) - before, before)};
}

constexpr OpRow rows[] = {
    {"Conv",                1,  conv          },
    {"ConvTranspose",       1,  conv_transpose},
    {"Col2Im",              18, col2im        },
    {"DeformConv",          19, deform_conv   },
    {"CausalConvWithState", 1,  causal_conv   },
};

}  // namespace

OpTable conv_ops() { return rows; }

}  // namespace mote::onnx
