// What networks are made of, PyTorch's nn.functional: activations, convolutions, pooling, norms,
// attention, losses; the members again as functions of their first operand.
#pragma once
#include <mote/tensor.h>

namespace mote {

inline Tensor gelu(const Tensor& x, const char* approximate = "none", Loc w = Loc::current()) {
  return x.gelu(approximate, w);
}
inline Tensor elu(const Tensor& x, double alpha = 1, Loc w = Loc::current()) {
  return x.elu(alpha, w);
}
inline Tensor celu(const Tensor& x, double alpha = 1, Loc w = Loc::current()) {
  return x.celu(alpha, w);
}
inline Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01, Loc w = Loc::current()) {
  return x.leaky_relu(negative_slope, w);
}
inline Tensor prelu(const Tensor& x, const Tensor& weight, Loc w = Loc::current()) {
  return x.prelu(weight, w);
}
inline Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1,
                       Loc w = Loc::current()) {
  return x.hardtanh(min_val, max_val, w);
}
inline Tensor hardshrink(const Tensor& x, double lambd = 0.5, Loc w = Loc::current()) {
  return x.hardshrink(lambd, w);
}
inline Tensor softshrink(const Tensor& x, double lambd = 0.5, Loc w = Loc::current()) {
  return x.softshrink(lambd, w);
}
inline Tensor threshold(const Tensor& x, double threshold, double value, Loc w = Loc::current()) {
  return x.threshold(threshold, value, w);
}
inline Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20,
                       Loc w = Loc::current()) {
  return x.softplus(beta, threshold, w);
}
inline Tensor glu(const Tensor& x, int64_t dim = -1, Loc w = Loc::current()) {
  return x.glu(dim, w);
}
inline Tensor softmax(const Tensor& x, int64_t dim, DType dtype = DType::none,
                      Loc w = Loc::current()) {
  return x.softmax(dim, dtype, w);
}
inline Tensor log_softmax(const Tensor& x, int64_t dim, DType dtype = DType::none,
                          Loc w = Loc::current()) {
  return x.log_softmax(dim, dtype, w);
}
inline Tensor softmin(const Tensor& x, int64_t dim, Loc w = Loc::current()) {
  return x.softmin(dim, w);
}
inline Tensor cosine_similarity(const Tensor& x, const Tensor& other, int64_t dim = 1,
                                double eps = 1e-8, Loc w = Loc::current()) {
  return x.cosine_similarity(other, dim, eps, w);
}
inline Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {}, Loc w = Loc::current()) {
  return x.conv1d(weight, bias, options, w);
}
inline Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {}, Loc w = Loc::current()) {
  return x.conv2d(weight, bias, options, w);
}
inline Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {}, Loc w = Loc::current()) {
  return x.conv3d(weight, bias, options, w);
}
inline Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {}, Loc w = Loc::current()) {
  return x.conv_transpose1d(weight, bias, options, w);
}
inline Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {}, Loc w = Loc::current()) {
  return x.conv_transpose2d(weight, bias, options, w);
}
inline Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {}, Loc w = Loc::current()) {
  return x.conv_transpose3d(weight, bias, options, w);
}
inline Tensor max_pool1d(const Tensor& x, const Ints& kernel, const MaxPoolOptions& options = {},
                         Loc w = Loc::current()) {
  return x.max_pool1d(kernel, options, w);
}
inline Tensor max_pool2d(const Tensor& x, const Ints& kernel, const MaxPoolOptions& options = {},
                         Loc w = Loc::current()) {
  return x.max_pool2d(kernel, options, w);
}
inline Tensor max_pool3d(const Tensor& x, const Ints& kernel, const MaxPoolOptions& options = {},
                         Loc w = Loc::current()) {
  return x.max_pool3d(kernel, options, w);
}
inline ValuesIndices max_pool1d_with_indices(const Tensor& x, const Ints& kernel,
                                             const MaxPoolOptions& options = {},
                                             Loc w = Loc::current()) {
  return x.max_pool1d_with_indices(kernel, options, w);
}
inline ValuesIndices max_pool2d_with_indices(const Tensor& x, const Ints& kernel,
                                             const MaxPoolOptions& options = {},
                                             Loc w = Loc::current()) {
  return x.max_pool2d_with_indices(kernel, options, w);
}
inline ValuesIndices max_pool3d_with_indices(const Tensor& x, const Ints& kernel,
                                             const MaxPoolOptions& options = {},
                                             Loc w = Loc::current()) {
  return x.max_pool3d_with_indices(kernel, options, w);
}
inline Tensor avg_pool1d(const Tensor& x, const Ints& kernel, const AvgPoolOptions& options = {},
                         Loc w = Loc::current()) {
  return x.avg_pool1d(kernel, options, w);
}
inline Tensor avg_pool2d(const Tensor& x, const Ints& kernel, const AvgPoolOptions& options = {},
                         Loc w = Loc::current()) {
  return x.avg_pool2d(kernel, options, w);
}
inline Tensor avg_pool3d(const Tensor& x, const Ints& kernel, const AvgPoolOptions& options = {},
                         Loc w = Loc::current()) {
  return x.avg_pool3d(kernel, options, w);
}
inline Tensor adaptive_avg_pool1d(const Tensor& x, const Ints& output, Loc w = Loc::current()) {
  return x.adaptive_avg_pool1d(output, w);
}
inline Tensor adaptive_avg_pool2d(const Tensor& x, const Ints& output, Loc w = Loc::current()) {
  return x.adaptive_avg_pool2d(output, w);
}
inline Tensor adaptive_avg_pool3d(const Tensor& x, const Ints& output, Loc w = Loc::current()) {
  return x.adaptive_avg_pool3d(output, w);
}
inline Tensor adaptive_max_pool1d(const Tensor& x, const Ints& output, Loc w = Loc::current()) {
  return x.adaptive_max_pool1d(output, w);
}
inline Tensor adaptive_max_pool2d(const Tensor& x, const Ints& output, Loc w = Loc::current()) {
  return x.adaptive_max_pool2d(output, w);
}
inline Tensor interpolate(const Tensor& x, const InterpolateOptions& options,
                          Loc w = Loc::current()) {
  return x.interpolate(options, w);
}
inline Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor, Loc w = Loc::current()) {
  return x.pixel_shuffle(upscale_factor, w);
}
inline Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor, Loc w = Loc::current()) {
  return x.pixel_unshuffle(downscale_factor, w);
}
inline Tensor layer_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight = {},
                         const Tensor& bias = {}, double eps = 1e-5, Loc w = Loc::current()) {
  return x.layer_norm(normalized_shape, weight, bias, eps, w);
}
inline Tensor rms_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight = {},
                       double eps = -1, Loc w = Loc::current()) {
  return x.rms_norm(normalized_shape, weight, eps, w);
}
inline Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                         const Tensor& weight = {}, const Tensor& bias = {},
                         const BatchNormOptions& options = {}, Loc w = Loc::current()) {
  return x.batch_norm(running_mean, running_var, weight, bias, options, w);
}
inline Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {},
                         const Tensor& bias = {}, double eps = 1e-5, Loc w = Loc::current()) {
  return x.group_norm(num_groups, weight, bias, eps, w);
}
inline Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                            double eps = 1e-5, Loc w = Loc::current()) {
  return x.instance_norm(weight, bias, eps, w);
}
inline Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
                      Loc w = Loc::current()) {
  return x.dropout(p, training, w);
}
inline Tensor scaled_dot_product_attention(const Tensor& x, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& options,
                                           Loc w = Loc::current()) {
  return x.scaled_dot_product_attention(key, value, options, w);
}
inline Tensor scaled_dot_product_attention(const Tensor& x, const Tensor& key, const Tensor& value,
                                           Loc w = Loc::current()) {
  return x.scaled_dot_product_attention(key, value, w);
}
inline Tensor one_hot(const Tensor& x, int64_t num_classes = -1, Loc w = Loc::current()) {
  return x.one_hot(num_classes, w);
}
inline Tensor embedding(const Tensor& x, const Tensor& weight, int64_t padding_idx = -1,
                        Loc w = Loc::current()) {
  return x.embedding(weight, padding_idx, w);
}
inline Tensor cross_entropy(const Tensor& x, const Tensor& target,
                            const CrossEntropyOptions& options, Loc w = Loc::current()) {
  return x.cross_entropy(target, options, w);
}
inline Tensor cross_entropy(const Tensor& x, const Tensor& target, Loc w = Loc::current()) {
  return x.cross_entropy(target, w);
}
inline Tensor nll_loss(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options,
                       Loc w = Loc::current()) {
  return x.nll_loss(target, options, w);
}
inline Tensor nll_loss(const Tensor& x, const Tensor& target, Loc w = Loc::current()) {
  return x.nll_loss(target, w);
}
inline Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   Reduction reduction = Reduction::mean, Loc w = Loc::current()) {
  return x.binary_cross_entropy(target, weight, reduction, w);
}
inline Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                               const Tensor& weight = {},
                                               const Tensor& pos_weight = {},
                                               Reduction reduction = Reduction::mean,
                                               Loc w = Loc::current()) {
  return x.binary_cross_entropy_with_logits(target, weight, pos_weight, reduction, w);
}
inline Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                       Loc w = Loc::current()) {
  return x.mse_loss(target, reduction, w);
}
inline Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                      Loc w = Loc::current()) {
  return x.l1_loss(target, reduction, w);
}
inline Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                             Reduction reduction = Reduction::mean, Loc w = Loc::current()) {
  return x.smooth_l1_loss(target, beta, reduction, w);
}
inline Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                         Reduction reduction = Reduction::mean, Loc w = Loc::current()) {
  return x.huber_loss(target, delta, reduction, w);
}
inline Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                     bool log_target = false, bool batch_mean = false, Loc w = Loc::current()) {
  return x.kl_div(target, reduction, log_target, batch_mean, w);
}

}  // namespace mote
