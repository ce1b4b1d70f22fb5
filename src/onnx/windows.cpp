#include "onnx/windows.h"

#include <algorithm>

namespace mote::onnx {

namespace {

std::vector<int64_t> list_or(Call& c, const char* name, size_t count, int64_t otherwise) {
  std::vector<int64_t> list = c.is(name);
  if (list.empty()) list.assign(count, otherwise);
  expect(list.size() == count, name, " has ", list.size(), " numbers for ", count, " axes");
  return list;
}

// How many windows fit; rounded up, the last one must begin in front of the padding at the end.
int64_t count_of(int64_t size, int64_t before, int64_t after, int64_t extent, int64_t stride,
                 bool rounds_up) {
  const int64_t room = size + before + after - extent;
  expect(room >= 0 || rounds_up, "a window of ", extent, " does not fit into ", size);
  const int64_t out = (room + (rounds_up ? stride - 1 : 0)) / stride + 1;
  return rounds_up && (out - 1) * stride >= size + before ? out - 1 : out;
}

}  // namespace

Windows windows_of(Call& c, const std::vector<int64_t>& shape, std::vector<int64_t> kernel) {
  expect(shape.size() >= 3 && shape.size() == kernel.size() + 2, "the input has ", shape.size(),
         " axes, the window ", kernel.size());
  const size_t rank = kernel.size();
  Windows w{.kernel = std::move(kernel)};
  w.stride = list_or(c, "strides", rank, 1), w.dilation = list_or(c, "dilations", rank, 1);
  std::vector<int64_t> pads = list_or(c, "pads", 2 * rank, 0);
  w.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(rank));
  w.after.assign(pads.begin() + static_cast<int64_t>(rank), pads.end());
  const std::string automatic = c.s("auto_pad", "NOTSET");
  const bool same = automatic.starts_with("SAME"), rounds_up = c.i("ceil_mode", 0) != 0;
  for (size_t d = 0; d < rank; ++d) {
    expect(w.stride[d] > 0 && w.dilation[d] > 0 && w.kernel[d] > 0,
           "strides, dilations and windows must be above 0");
    const int64_t size = shape[d + 2], extent = w.dilation[d] * (w.kernel[d] - 1) + 1;
    if (automatic == "VALID") w.before[d] = w.after[d] = 0;
    if (same) {
      const int64_t out = (size + w.stride[d] - 1) / w.stride[d];
      const int64_t all = std::max<int64_t>((out - 1) * w.stride[d] + extent - size, 0);
      w.before[d] = automatic == "SAME_LOWER" ? (all + 1) / 2 : all / 2;
      w.after[d] = all - w.before[d];
    }
    w.out.push_back(count_of(size, w.before[d], w.after[d], extent, w.stride[d], rounds_up));
    const int64_t needed = (w.out[d] - 1) * w.stride[d] + extent;
    w.extra.push_back(std::max<int64_t>(needed - size - w.before[d] - w.after[d], 0));
  }
  return w;
}

Tensor padded(const Tensor& x, const std::vector<int64_t>& before,
              const std::vector<int64_t>& after, Number value) {
  std::vector<int64_t> amounts;
  for (size_t d = before.size(); d-- > 0;)
    amounts.push_back(before[d]), amounts.push_back(after[d]);
  const bool none = std::all_of(amounts.begin(), amounts.end(), [](int64_t n) { return n == 0; });
  return none ? x : x.pad(amounts, "constant", value);
}

Tensor unfolded(const Tensor& x, const Windows& w) {
  Tensor out = x;
  for (size_t d = 0; d < w.rank(); ++d) {
    const auto axis = static_cast<int64_t>(d) + 2;
    out = out.unfold(axis, w.dilation[d] * (w.kernel[d] - 1) + 1, w.stride[d]);
    if (out.size(axis) != w.out[d]) out = out.narrow(axis, 0, w.out[d]);
    if (w.dilation[d] > 1) out = out.index({Ellipsis, Slice(None, None, w.dilation[d])});
  }
  return out;
}

Tensor convolve(Call& c, const Tensor& x, const Tensor& weight, const Tensor& bias,
                int64_t outside) {
  const std::vector<int64_t> shape = weight.shape();
  expect(shape.size() >= 3, "the weight has ", shape.size(), " axes, fewer than 3");
  const Windows w = windows_of(c, x.shape(), {shape.begin() + 2, shape.end()});
  ConvOptions o{
      .stride = w.stride, .padding = 0, .dilation = w.dilation, .groups = c.i("group", 1)};
  Tensor in = x;
  if (w.before == w.after && outside == 0)
    o.padding = w.before;
  else
    in = padded(x, w.before, w.after, outside);
  switch (w.rank()) {
    case 1: return in.conv1d(weight, bias, o);
    case 2: return in.conv2d(weight, bias, o);
    case 3: return in.conv3d(weight, bias, o);
    default: fail_call("there are ", w.rank(), " spatial axes, more than 3");
  }
}

}  // namespace mote::onnx
