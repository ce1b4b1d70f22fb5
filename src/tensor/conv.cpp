// Convolutions: windows of the input times the kernel, summed.
#include <algorithm>
#include <numeric>

#include "tensor/autocast.h"
#include "tensor/given.h"
#include "tensor/movement.h"
#include "tensor/recorded.h"
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

using Numbers = std::vector<int64_t>;

// How far windows, and places in a window, are apart on each spatial axis.
struct Steps {
  Numbers stride, dilation;
  int64_t groups = 1;
  int64_t spatial() const { return static_cast<int64_t>(stride.size()); }
  // As the numbers of a Given, and back.
  Numbers list() const {
    Numbers all = {groups};
    all.insert(all.end(), stride.begin(), stride.end());
    all.insert(all.end(), dilation.begin(), dilation.end());
    return all;
  }
  static Steps from(std::span<const int64_t> all) {
    const auto half = all.begin() + 1 + static_cast<long>(all.size() / 2);
    return {
        {all.begin() + 1, half     },
        {half,            all.end()},
        all[0]
    };
  }
};

// x as (N, g, 1, o..., C/g, k...): what each output sees of it.
Tensor seen_by_outputs(const Tensor& x, std::span<const int64_t> kernel, const Steps& steps) {
  const int64_t spatial = steps.spatial();
  Tensor seen = make_value(windows(node_of(x), kernel, steps.stride, steps.dilation), x);
  const std::vector<Dim> s = dims_of(seen);
  std::vector<Dim> split = {s[0], steps.groups, x.size(1) / steps.groups, 1};
  split.insert(split.end(), s.begin() + 2, s.end());
  Numbers order = {0, 1, 3};
  for (int64_t i = 0; i < spatial; ++i) order.push_back(4 + i);
  order.push_back(2);
  for (int64_t i = 0; i < spatial; ++i) order.push_back(4 + spatial + i);
  return reshaped(seen, split).permute(order);
}

Numbers kernel_of(const Tensor& weight) {
  const Numbers shape = weight.shape();
  return {shape.begin() + 2, shape.end()};
}

Numbers axes_between(int64_t begin, int64_t end) {
  Numbers axes(static_cast<size_t>(end - begin));
  std::iota(axes.begin(), axes.end(), begin);
  return axes;
}

// (N, g, 1, o..., C/g, k...) * (g, O/g, 1..., C/g, k...), the last ones summed. x is padded
// already; the result is in the accumulator's dtype.
Tensor correlate(const Tensor& x, const Tensor& weight, const Steps& steps) {
  const int64_t spatial = steps.spatial();
  const Numbers w = weight.shape(), kernel = kernel_of(weight);
  for (int64_t i = 0; i < spatial; ++i) {
    auto s = static_cast<size_t>(i);
    const int64_t reach = size_add(size_mul(steps.dilation[s], kernel[s] - 1), 1);
    const Dim size = dims_of(x)[s + 2];
    expect(lies_within(0, reach, size), "a kernel reaching over ", reach,
           " does not fit a padded input of size ", said(size), " on spatial axis ", i);
  }
  Tensor a = seen_by_outputs(x, kernel, steps);
  Numbers right = {steps.groups, w[0] / steps.groups};
  right.insert(right.end(), static_cast<size_t>(spatial), 1);
  right.insert(right.end(), w.begin() + 1, w.end());
  DType wide = accumulator(x.dtype());
  Tensor products = a.to(wide) * weight.reshape(right).to(wide);
  Tensor y = reduce_tensor(Op::Add, products, axes_between(3 + spatial, a.dim()), false);
  return given(Given::Correlate, y.flatten(1, 2), {x, weight}, steps.list());
}

// The bias added, rounded once.
Tensor finished(const Tensor& wide, const Tensor& bias, const Tensor& x) {
  Tensor y = wide;
  if (bias.defined()) {
    std::vector<int64_t> shape(static_cast<size_t>(x.dim() - 1), 1);
    shape[0] = bias.size(0);
    y = y + bias.reshape(shape).to(y.dtype());
  }
  return y.to(x.dtype());
}

// Of pairs from the last axis on: what is in front and behind, by axis.
Numbers fronts(const Numbers& pairs) {
  Numbers out;
  for (size_t i = pairs.size(); i > 0; i -= 2) out.push_back(pairs[i - 2]);
  return out;
}
Numbers backs(const Numbers& pairs) {
  Numbers out;
  for (size_t i = pairs.size(); i > 0; i -= 2) out.push_back(pairs[i - 1]);
  return out;
}
Numbers joined(std::initializer_list<Numbers> lists) {
  Numbers out;
  for (const Numbers& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
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
  Tensor y = finished(correlate(x.pad(amounts), weight, {stride, dilation, o.groups}), bias, x);
  y = recorded("conv", y, {&x, &weight, &bias}, [&] {
    return joined({{o.groups}, stride, dilation, fronts(amounts), backs(amounts)});
  });
  return input.dim() == spatial + 1 ? y.squeeze(0) : y;
}

// stride - 1 zeros between neighbours on the axis.
Tensor spaced(const Tensor& t, int64_t axis, int64_t stride) {
  if (stride == 1 || t.size(axis) == 0) return t;
  std::vector<int64_t> amounts(static_cast<size_t>(2 * (t.dim() - axis)), 0);
  amounts[amounts.size() - 1] = stride - 1;
  Tensor wide = t.unsqueeze(axis + 1).pad(amounts).flatten(axis, axis + 1);
  return wide.narrow(axis, 0, size_mul(t.size(axis) - 1, stride) + 1);
}

// A strided output's places lie in phases: those of phase p meet the places p, p + stride, ... of
// the kernel. Neighbouring phases of an axis that meet equally many:
struct Phases {
  int64_t begin, count, taps;
};
std::vector<Phases> phases_of(int64_t kernel, int64_t stride) {
  const int64_t most = (kernel - 1) / stride + 1, full = kernel - (most - 1) * stride;
  std::vector<Phases> out = {
      {0, full, most}
  };
  if (full < stride && most > 1) out.push_back({full, stride - full, most - 1});
  return out;
}

// The correlation whose derivative by its input this is, backwards: every output adds the kernel to
// the places it has seen. Each phase is a plain correlation with a part of the kernel.
class Spread {
 public:
  // x (N, O, o...) and a weight (O, C/g, k...) make (N, C, ...), all that windows cover.
  Spread(const Tensor& x, const Tensor& weight, const Steps& steps)
      : x_(x), weight_(weight), steps_(steps), kernel_(kernel_of(weight)) {
    for (size_t i = 0; i < kernel_.size(); ++i) {
      if (steps.dilation[i] == 1 || steps.stride[i] == 1) continue;
      x_ = spaced(x_, static_cast<int64_t>(i) + 2, steps.stride[i]);
      steps_.stride[i] = 1;
    }
  }

  Tensor run() {
    Tensor y = outputs({});
    const auto rank = static_cast<size_t>(steps_.spatial());
    std::vector<Dim> dims = dims_of(y), merged = {dims[0], dims[1]};
    std::vector<prim::Extent> covered = {
        {0, dims[0]},
        {0, dims[1]}
    };
    Numbers order = {0, 1};
    for (size_t i = 0; i < rank; ++i) {
      const int64_t at = static_cast<int64_t>(i), reach = steps_.dilation[i] * (kernel_[i] - 1) + 1;
      order.insert(order.end(), {2 + static_cast<int64_t>(rank) + at, 2 + at});
      merged.push_back(dims[2 + rank + i] * steps_.stride[i]);
      covered.push_back({0, (dims_of(x_)[i + 2] - 1) * steps_.stride[i] + reach});
    }
    return shrunk(reshaped(y.permute(order), merged), covered);
  }

 private:
  Tensor x_;
  const Tensor weight_;
  Steps steps_;
  const Numbers kernel_;

  // (N, C, phases..., places of a phase...) for these phases of the first axes and all of the rest.
  Tensor outputs(const std::vector<Phases>& chosen) const {
    const size_t axis = chosen.size();
    if (axis == kernel_.size()) return outputs_of(chosen);
    const std::vector<Phases> all = phases_of(kernel_[axis], steps_.stride[axis]);
    std::vector<Tensor> parts;
    for (const Phases& p : all) {
      std::vector<Phases> more = chosen;
      more.push_back(p);
      Tensor part = outputs(more);
      parts.push_back(filled_up(part, 2 + kernel_.size() + axis, all[0].taps - p.taps));
    }
    Tensor y = parts.size() == 1 ? parts[0] : cat(parts, 2 + static_cast<int64_t>(axis));
    return filled_up(y, 2 + axis, steps_.stride[axis] - all.back().begin - all.back().count);
  }

  static Tensor filled_up(const Tensor& t, size_t axis, int64_t more) {
    if (more == 0) return t;
    std::vector<prim::Extent> amounts = nothing(dims_of(t).size());
    amounts[axis].end = more;
    return make_value(prim::pad(node_of(t), amounts), t);
  }

  Tensor outputs_of(const std::vector<Phases>& phases) const {
    const Steps plain{Numbers(kernel_.size(), 1), steps_.dilation, steps_.groups};
    std::vector<prim::Extent> around = nothing(dims_of(x_).size());
    for (size_t i = 0; i < phases.size(); ++i) {
      const int64_t reach = steps_.dilation[i] * (phases[i].taps - 1);
      around[i + 2] = {reach, reach};
    }
    Tensor y = correlate(make_value(prim::pad(node_of(x_), around), x_), part_of(phases), plain);
    std::vector<Dim> dims = dims_of(y), split = {dims[0], weight_.size(1) * steps_.groups};
    for (const Phases& p : phases) split.emplace_back(p.count);
    split.insert(split.end(), dims.begin() + 2, dims.end());
    const bool strided = std::ranges::any_of(steps_.stride, [](int64_t s) { return s > 1; });
    y = reshaped(y, split);
    return strided ? make_value(prim::contiguous(node_of(y)), y) : y;  // to be interleaved then
  }

  // The kernel's places of these phases: (C * phases..., O/g, taps...), turned around.
  Tensor part_of(const std::vector<Phases>& phases) const {
    const int64_t rank = steps_.spatial();
    Tensor w = weight_.unflatten(0, {steps_.groups, weight_.size(0) / steps_.groups});
    Numbers order = {0, 2}, turned, shape = {weight_.size(1) * steps_.groups, w.size(1)};
    for (int64_t i = 0; i < rank; ++i) {  // a place becomes (tap, phase)
      const Phases& p = phases[static_cast<size_t>(i)];
      const int64_t axis = 3 + 2 * i, stride = steps_.stride[static_cast<size_t>(i)];
      Numbers amounts(static_cast<size_t>(2 * (w.dim() - axis)), 0);
      amounts.back() = p.taps * stride - w.size(axis);
      w = w.pad(amounts).unflatten(axis, {p.taps, stride}).narrow(axis + 1, p.begin, p.count);
      turned.push_back(axis);
      shape[0] *= p.count;
      shape.push_back(p.taps);
      order.push_back(axis + 1);
    }
    order.push_back(1);
    order.insert(order.end(), turned.begin(), turned.end());
    return w.flip(turned).permute(order).reshape(shape);
  }
};

Tensor conv_transpose(const Tensor& input, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions& o, int64_t spatial) {
  Tensor x = batched(input, spatial);
  check_channels(x, weight, bias, o.groups, spatial, true);
  Numbers stride = per_axis(o.stride, spatial, "stride", 1);
  Numbers dilation = per_axis(o.dilation, spatial, "dilation", 1);
  Numbers padding = per_axis(o.padding, spatial, "padding", 0);
  Numbers extra = per_axis(o.output_padding, spatial, "output_padding", 0), amounts;
  for (size_t i = static_cast<size_t>(spatial); i-- > 0;) {
    expect(extra[i] < std::max(stride[i], dilation[i]), "output_padding ", extra,
           " must be smaller than stride ", stride, " or dilation ", dilation);
    amounts.push_back(-padding[i]);
    amounts.push_back(size_add(extra[i], -padding[i]));
  }
  Tensor y = finished(Spread(x, weight, {stride, dilation, o.groups}).run().pad(amounts), bias, x);
  y = recorded("conv_transpose", y, {&x, &weight, &bias}, [&] {
    return joined({{o.groups}, stride, dilation, padding, padding, extra});
  });
  return input.dim() == spatial + 1 ? y.squeeze(0) : y;
}

// Of the kernel: what it has met at each of its places, (N, g, O/g, o..., C/g, k...) summed up.
Tensor weight_gradient(const Tensor& g, const Tensor& x, const Tensor& weight, const Steps& steps) {
  const int64_t spatial = steps.spatial();
  const std::vector<Dim> dims = dims_of(g);
  std::vector<Dim> split = {dims[0], steps.groups, weight.size(0) / steps.groups};
  split.insert(split.end(), dims.begin() + 2, dims.end());
  split.insert(split.end(), static_cast<size_t>(spatial) + 1, 1);
  Tensor met = seen_by_outputs(x, kernel_of(weight), steps).to(g.dtype()) * reshaped(g, split);
  Numbers over = axes_between(3, 3 + spatial);
  over.insert(over.begin(), 0);
  return reduce_tensor(Op::Add, met, over, false).reshape(weight.shape());
}

}  // namespace

Tensor correlate_gradient(const Tensor& g, const Tensor& x, const Tensor& weight,
                          std::span<const int64_t> numbers, bool for_weight) {
  const Steps steps = Steps::from(numbers);
  if (for_weight) return weight_gradient(g, x, weight, steps).to(weight.dtype());
  Tensor covered = Spread(g, weight.to(g.dtype()), steps).run();
  std::vector<prim::Extent> rest = nothing(dims_of(x).size());
  for (size_t i = 2; i < rest.size(); ++i) rest[i].end = dims_of(x)[i] - dims_of(covered)[i];
  return make_value(prim::pad(node_of(covered), rest), x).to(x.dtype());
}

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
