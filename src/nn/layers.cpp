// Linear, convolutions, embedding, dropout. Initial values as PyTorch's reset_parameters.
#include <cmath>
#include <string_view>

#include "nn/module_call.h"

namespace mote::nn {

namespace {

struct Weights {
  Tensor weight, bias;
};

// kaiming_uniform with a = sqrt(5) is uniform in +-1 / sqrt(fan in), and so is the bias.
Weights draw(const std::vector<int64_t>& shape, int64_t out, bool with_bias, const Options& o) {
  int64_t fan_in = 1;
  for (size_t i = 1; i < shape.size(); ++i) fan_in *= shape[i];
  double bound = fan_in ? 1 / std::sqrt(static_cast<double>(fan_in)) : 0;
  Weights w{uniform_parameter(shape, bound, o), {}};
  if (with_bias) w.bias = uniform_parameter(out, bound, o);
  return w;
}

// (a, b, kernel...), one kernel size standing for all axes.
std::vector<int64_t> kernel_shape(int64_t a, int64_t b, const Ints& kernel, int rank) {
  expect(kernel.list.size() == 1 || kernel.list.size() == static_cast<size_t>(rank), "needs 1 or ",
         rank, " kernel sizes, got ", kernel.list.size());
  expect_sizes(kernel.list);
  std::vector<int64_t> shape = {a, b};
  for (int i = 0; i < rank; ++i)
    shape.push_back(kernel.list[kernel.list.size() == 1 ? 0 : static_cast<size_t>(i)]);
  return shape;
}

void expect_groups(int64_t in, int64_t out, int64_t groups) {
  expect_sizes({in, out});
  expect(groups > 0 && in % groups == 0 && out % groups == 0, in, " and ", out,
         " channels cannot be divided into ", groups, " groups");
}

ConvOptions without_padding(ConvOptions o) {
  o.padding = 0, o.same = false;
  return o;
}

// What a convolution pads, as pairs from the last axis on.
Ints amounts_around(const Tensor& weight, const ConvOptions& o, int rank) {
  auto of = [](const Ints& list, int axis) {
    return list.list[list.list.size() == 1 ? 0 : static_cast<size_t>(axis)];
  };
  Ints out;
  for (int axis = rank; axis-- > 0;) {
    const int64_t reach = of(o.dilation, axis) * (weight.size(axis + 2) - 1);
    const int64_t before = o.same ? reach / 2 : of(o.padding, axis);
    out.list.insert(out.list.end(), {before, o.same ? reach - before : before});
  }
  return out;
}

}  // namespace

Linear::Linear(int64_t in_features, int64_t out_features, bool with_bias, const Options& o,
               Loc where) {
  ModuleCall call("Linear", where);
  expect_sizes({in_features, out_features});
  Weights w = draw({out_features, in_features}, out_features, with_bias, o);
  weight = w.weight, bias = w.bias;
}
Tensor Linear::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("Linear", where);
  return x.linear(weight, bias);
}

template <int Rank>
Conv<Rank>::Conv(int64_t in_channels, int64_t out_channels, const Ints& kernel,
                 const ConvOptions& conv, bool with_bias, const Options& o, Loc where)
    : options(conv) {
  ModuleCall call("Conv", where);
  expect_groups(in_channels, out_channels, conv.groups);
  auto shape = kernel_shape(out_channels, in_channels / conv.groups, kernel, Rank);
  Weights w = draw(shape, out_channels, with_bias, o);
  weight = w.weight, bias = w.bias;
}
template <int Rank>
Tensor Conv<Rank>::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("Conv", where);
  const bool as_values = std::string_view(padding_mode) != "zeros";
  const ConvOptions o = as_values ? without_padding(options) : options;
  const Tensor in = as_values ? x.pad(amounts_around(weight, options, Rank), padding_mode) : x;
  if constexpr (Rank == 1) return in.conv1d(weight, bias, o);
  if constexpr (Rank == 2) return in.conv2d(weight, bias, o);
  if constexpr (Rank == 3) return in.conv3d(weight, bias, o);
}
template struct Conv<1>;
template struct Conv<2>;
template struct Conv<3>;

template <int Rank>
ConvTranspose<Rank>::ConvTranspose(int64_t in_channels, int64_t out_channels, const Ints& kernel,
                                   const ConvTransposeOptions& conv, bool with_bias,
                                   const Options& o, Loc where)
    : options(conv) {
  ModuleCall call("ConvTranspose", where);
  expect_groups(in_channels, out_channels, conv.groups);
  auto shape = kernel_shape(in_channels, out_channels / conv.groups, kernel, Rank);
  Weights w = draw(shape, out_channels, with_bias, o);
  weight = w.weight, bias = w.bias;
}
template <int Rank>
Tensor ConvTranspose<Rank>::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("ConvTranspose", where);
  if constexpr (Rank == 1) return x.conv_transpose1d(weight, bias, options);
  if constexpr (Rank == 2) return x.conv_transpose2d(weight, bias, options);
  if constexpr (Rank == 3) return x.conv_transpose3d(weight, bias, options);
}
template struct ConvTranspose<1>;
template struct ConvTranspose<2>;
template struct ConvTranspose<3>;

Embedding::Embedding(int64_t rows, int64_t features, const Options& o, Loc where) {
  ModuleCall call("Embedding", where);
  expect_sizes({rows, features});
  weight = normal_parameter({rows, features}, 1, o);
}
Tensor Embedding::operator()(const Tensor& indices, Loc where) const {
  ModuleCall call("Embedding", where);
  return indices.embedding(weight, padding_idx);
}

Tensor Dropout::operator()(const Tensor& x, Loc where) const {
  ModuleCall call("Dropout", where);
  return x.dropout(p, training);
}

}  // namespace mote::nn
