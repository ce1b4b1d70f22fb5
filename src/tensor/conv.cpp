// Convolutions: windows of the input times the kernel, summed.
#include <algorithm>

#include "tensor/autocast.h"
#include "tensor/movement.h"
#include "tensor/spatial.h"

namespace mote {

std::vector<int64_t> per_axis(const Ints& list, int64_t spatial, const char* what, int64_t least) {
  std::vector<int64_t> out = list.list;
  if (out.size() == 1) out.assign(static_cast<size_t>(spatial), out[0]);
  expect(static_cast<int64_t>(out.size()) == spatial, what,
         " needs one number, or one for each of the ", spatial, " spatial axes, got ", list.list);
  for (int64_t n : out) expect(n >= least, what, " must be >= ", least, ", got ", list.list);
  return out;
}

Tensor batched(const Tensor& t, int64_t spatial) {
  expect(t.dim() == spatial + 1 || t.dim() == spatial + 2, "needs an input (N, C, ", spatial,
         " spatial axes) or without N, got shape ", t);
  return t.dim() == spatial + 1 ? t.unsqueeze(0) : t;
}

namespace {

void check_channels(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups,
                    int64_t spatial, bool transposed) {
  expect_defined(weight, "the weight");
  expect(weight.dim() == spatial + 2, "needs a weight with ", spatial + 2, " axes, got shape ",
         weight);
  expect(x.dtype() == weight.dtype(), "input of ", x.dtype(), " and weight of ", weight.dtype(),
         "; cast one");
  expect(groups >= 1, "needs groups >= 1, got ", groups);
  common_device({&x, &weight, &bias});
  int64_t channels = x.size(1),
          out = size_mul(weight.size(transposed ? 1 : 0), transposed ? groups : 1);
  int64_t wanted = transposed ? weight.size(0) : size_mul(weight.size(1), groups);
  expect(channels == wanted, "weight of shape ", weight, " with ", groups, " groups needs ", wanted,
         " input channels, got an input of shape ", x);
  expect((transposed ? channels : out) % groups == 0, transposed ? channels : out,
         " channels cannot be divided into ", groups, " groups");
  expect(!bias.defined() || (bias.dim() == 1 && bias.size(0) == out), "needs a bias of shape (",
         out, "), got ", bias.defined() ? bias.shape() : std::vector<int64_t>{});
}

// (N, g, 1, o..., C/g, k...) * (g, O/g, 1..., C/g, k...), the last ones summed. x is padded
// already; the result is in the accumulator's dtype.
Tensor correlate(const Tensor& x, const Tensor& weight, int64_t groups,
                 const std::vector<int64_t>& stride, const std::vector<int64_t>& dilation) {
  auto spatial = static_cast<int64_t>(stride.size());
  std::vector<int64_t> w = weight.shape(), kernel(w.begin() + 2, w.end());
  for (int64_t i = 0; i < spatial; ++i) {
    auto s = static_cast<size_t>(i);
    const int64_t reach = size_add(size_mul(dilation[s], kernel[s] - 1), 1);
    const Dim size = dims_of(x)[s + 2];
    expect(lies_within(0, reach, size), "a kernel reaching over ", reach,
           " does not fit a padded input of size ", said(size), " on spatial axis ", i);
  }
  Tensor seen = make_value(windows(node_of(x), kernel, stride, dilation), x);
  const std::vector<Dim> s = dims_of(seen);
  std::vector<Dim> left = {s[0], groups, w[1], 1};
  std::vector<int64_t> right = {groups, w[0] / groups, w[1]};
  left.insert(left.end(), s.begin() + 2, s.end());
  right.insert(right.end(), kernel.begin(), kernel.end());
  std::vector<int64_t> order = {0, 1, 3};
  for (int64_t i = 0; i < spatial; ++i) order.push_back(4 + i);
  order.push_back(2);
  for (int64_t i = 0; i < spatial; ++i) order.push_back(4 + spatial + i);
  Tensor a = reshaped(seen, left).permute(order), b = weight.reshape(right);
  for (int64_t i = 0; i < spatial; ++i) b = b.unsqueeze(2);
  DType wide = accumulator(x.dtype());
  std::vector<int64_t> over;
  for (int64_t i = 3 + spatial; i < a.dim(); ++i) over.push_back(i);
  return reduce_tensor(Op::Add, a.to(wide) * b.to(wide), over, false).flatten(1, 2);
}

// The bias added, rounded once, and an added N taken away.
Tensor finished(const Tensor& wide, const Tensor& bias, const Tensor& input, int64_t spatial) {
  Tensor y = wide;
  if (bias.defined()) {
    std::vector<int64_t> shape(static_cast<size_t>(spatial + 1), 1);
    shape[0] = bias.size(0);
    y = y + bias.reshape(shape).to(y.dtype());
  }
  y = y.to(input.dtype());
  return input.dim() == spatial + 1 ? y.squeeze(0) : y;
}

Tensor conv(const Tensor& input, const Tensor& weight, const Tensor& bias, const ConvOptions& o,
            int64_t spatial) {
  Tensor x = batched(input, spatial);
  check_channels(x, weight, bias, o.groups, spatial, false);
  std::vector<int64_t> stride = per_axis(o.stride, spatial, "stride", 1);
  std::vector<int64_t> dilation = per_axis(o.dilation, spatial, "dilation", 1);
  std::vector<int64_t> padding = per_axis(o.padding, spatial, "padding", 0), amounts;
  for (size_t i = static_cast<size_t>(spatial); i-- > 0;) {
    int64_t reach = size_mul(dilation[i], weight.size(static_cast<int64_t>(i) + 2) - 1);
    expect(!o.same || stride[i] == 1, "padding \"same\" needs stride 1, got ", stride);
    amounts.push_back(o.same ? reach / 2 : padding[i]);
    amounts.push_back(o.same ? reach - reach / 2 : padding[i]);
  }
  Tensor y = correlate(x.pad(amounts), weight, o.groups, stride, dilation);
  return finished(y, bias, input, spatial);
}

// stride - 1 zeros between neighbours on the axis.
Tensor spaced(const Tensor& t, int64_t axis, int64_t stride) {
  if (stride == 1 || t.size(axis) == 0) return t;
  std::vector<int64_t> amounts(static_cast<size_t>(2 * (t.dim() - axis)), 0);
  amounts[amounts.size() - 1] = stride - 1;
  Tensor wide = t.unsqueeze(axis + 1).pad(amounts).flatten(axis, axis + 1);
  return wide.narrow(axis, 0, size_mul(t.size(axis) - 1, stride) + 1);
}

Tensor conv_transpose(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions& o, int64_t spatial) {
  Tensor x = batched(input, spatial);
  check_channels(x, weight, bias, o.groups, spatial, true);
  std::vector<int64_t> stride = per_axis(o.stride, spatial, "stride", 1);
  std::vector<int64_t> dilation = per_axis(o.dilation, spatial, "dilation", 1);
  std::vector<int64_t> padding = per_axis(o.padding, spatial, "padding", 0);
  std::vector<int64_t> extra = per_axis(o.output_padding, spatial, "output_padding", 0), amounts,
                       flipped;
  for (size_t i = static_cast<size_t>(spatial); i-- > 0;) {
    auto axis = static_cast<int64_t>(i) + 2;
    expect(extra[i] < std::max(stride[i], dilation[i]), "output_padding ", extra,
           " must be smaller than stride ", stride, " or dilation ", dilation);
    int64_t around = size_add(size_mul(dilation[i], weight.size(axis) - 1), -padding[i]);
    x = spaced(x, axis, stride[i]);
    amounts.push_back(around);
    amounts.push_back(size_add(around, extra[i]));
    flipped.push_back(axis + 1);
  }
  std::vector<int64_t> w = weight.shape(), grouped = {o.groups, w[0] / o.groups};
  grouped.insert(grouped.end(), w.begin() + 1, w.end());
  Tensor turned = weight.reshape(grouped).flip(flipped).transpose(1, 2).flatten(0, 1);
  std::vector<int64_t> ones(static_cast<size_t>(spatial), 1);
  Tensor y = correlate(x.pad(amounts), turned, o.groups, ones, dilation);
  return finished(y, bias, input, spatial);
}

}  // namespace

Tensor Tensor::conv1d(const Tensor& weight, const Tensor& bias, const ConvOptions& o,
                      Loc where) const {
  Call call("conv1d", where);
  if (Recast as{call}) return as(*this).conv1d(as(weight), bias, o, where);
  return conv(*this, weight, bias, o, 1);
}
Tensor Tensor::conv2d(const Tensor& weight, const Tensor& bias, const ConvOptions& o,
                      Loc where) const {
  Call call("conv2d", where);
  if (Recast as{call}) return as(*this).conv2d(as(weight), bias, o, where);
  return conv(*this, weight, bias, o, 2);
}
Tensor Tensor::conv3d(const Tensor& weight, const Tensor& bias, const ConvOptions& o,
                      Loc where) const {
  Call call("conv3d", where);
  if (Recast as{call}) return as(*this).conv3d(as(weight), bias, o, where);
  return conv(*this, weight, bias, o, 3);
}
Tensor Tensor::conv_transpose1d(const Tensor& weight, const Tensor& bias,
                                const ConvTransposeOptions& o, Loc where) const {
  Call call("conv_transpose1d", where);
  if (Recast as{call}) return as(*this).conv_transpose1d(as(weight), bias, o, where);
  return conv_transpose(*this, weight, bias, o, 1);
}
Tensor Tensor::conv_transpose2d(const Tensor& weight, const Tensor& bias,
                                const ConvTransposeOptions& o, Loc where) const {
  Call call("conv_transpose2d", where);
  if (Recast as{call}) return as(*this).conv_transpose2d(as(weight), bias, o, where);
  return conv_transpose(*this, weight, bias, o, 2);
}
Tensor Tensor::conv_transpose3d(const Tensor& weight, const Tensor& bias,
                                const ConvTransposeOptions& o, Loc where) const {
  Call call("conv_transpose3d", where);
  if (Recast as{call}) return as(*this).conv_transpose3d(as(weight), bias, o, where);
  return conv_transpose(*this, weight, bias, o, 3);
}

}  // namespace mote
