// PyTorch's nn.functional: activations, convolutions, pooling, norms, attention and losses as free
// functions whose first argument is the tensor.
#pragma once
#include <mote/tensor.h>

namespace mote {

inline Tensor gelu(const Tensor& x, const char* approximate = "none", Loc w = MOTE_HERE) {
  return x.gelu(approximate, w);
}
inline Tensor elu(const Tensor& x, double alpha = 1, Loc w = MOTE_HERE) {
  return x.elu(alpha, w);
}
inline Tensor celu(const Tensor& x, double alpha = 1, Loc w = MOTE_HERE) {
  return x.celu(alpha, w);
}
inline Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01, Loc w = MOTE_HERE) {
  return x.leaky_relu(negative_slope, w);
}
inline Tensor prelu(const Tensor& x, const Tensor& weight, Loc w = MOTE_HERE) {
  return x.prelu(weight, w);
}
inline Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1,
                       Loc w = MOTE_HERE) {
  return x.hardtanh(min_val, max_val, w);
}
inline Tensor hardshrink(const Tensor& x, double lambd = 0.5, Loc w = MOTE_HERE) {
  return x.hardshrink(lambd, w);
}
inline Tensor softshrink(const Tensor& x, double lambd = 0.5, Loc w = MOTE_HERE) {
  return x.softshrink(lambd, w);
}
inline Tensor threshold(const Tensor& x, double threshold, double value, Loc w = MOTE_HERE) {
  return x.threshold(threshold, value, w);
}
inline Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20,
                       Loc w = MOTE_HERE) {
  return x.softplus(beta, threshold, w);
}
inline Tensor glu(const Tensor& x, int64_t dim = -1, Loc w = MOTE_HERE) {
  return x.glu(dim, w);
}
inline Tensor softmax(const Tensor& x, int64_t dim, DType dtype = DType::none,
                      Loc w = MOTE_HERE) {
  return x.softmax(dim, dtype, w);
}
inline Tensor log_softmax(const Tensor& x, int64_t dim, DType dtype = DType::none,
                          Loc w = MOTE_HERE) {
  return x.log_softmax(dim, dtype, w);
}
inline Tensor softmin(const Tensor& x, int64_t dim, Loc w = MOTE_HERE) {
  return x.softmin(dim, w);
}
inline Tensor cosine_similarity(const Tensor& x, const Tensor& other, int64_t dim = 1,
                                double eps = 1e-8, Loc w = MOTE_HERE) {
  return x.cosine_similarity(other, dim, eps, w);
}
inline Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {}, Loc w = MOTE_HERE) {
  return x.conv1d(weight, bias, options, w);
}
inline Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {}, Loc w = MOTE_HERE) {
  return x.conv2d(weight, bias, options, w);
}
inline Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {}, Loc w = MOTE_HERE) {
  return x.conv3d(weight, bias, options, w);
}
inline Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {}, Loc w = MOTE_HERE) {
  return x.conv_transpose1d(weight, bias, options, w);
}
inline Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {}, Loc w = MOTE_HERE) {
  return x.conv_transpose2d(weight, bias, options, w);
}
inline Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {}, Loc w = MOTE_HERE) {
  return x.conv_transpose3d(weight, bias, options, w);
}
inline Tensor max_pool1d(const Tensor& x, const Ints& kernel, const MaxPoolOptions& options = {},
                         Loc w = MOTE_HERE) {
  return x.max_pool1d(kernel, options, w);
}
inline Tensor max_pool2d(const Tensor& x, const Ints& kernel, const MaxPoolOptions& options = {},
                         Loc w = MOTE_HERE) {
  return x.max_pool2d(kernel, options, w);
}
inline Tensor max_pool3d(const Tensor& x, const Ints& kernel, const MaxPoolOptions& options = {},
                         Loc w = MOTE_HERE) {
  return x.max_pool3d(kernel, options, w);
}
inline ValuesIndices max_pool1d_with_indices(const Tensor& x, const Ints& kernel,
                                             const MaxPoolOptions& options = {},
                                             Loc w = MOTE_HERE) {
  return x.max_pool1d_with_indices(kernel, options, w);
}
inline ValuesIndices max_pool2d_with_indices(const Tensor& x, const Ints& kernel,
                                             const MaxPoolOptions& options = {},
                                             Loc w = MOTE_HERE) {
  return x.max_pool2d_with_indices(kernel, options, w);
}
inline ValuesIndices max_pool3d_with_indices(const Tensor& x, const Ints& kernel,
                                             const MaxPoolOptions& options = {},
                                             Loc w = MOTE_HERE) {
  return x.max_pool3d_with_indices(kernel, options, w);
}
inline Tensor avg_pool1d(const Tensor& x, const Ints& kernel, const AvgPoolOptions& options = {},
                         Loc w = MOTE_HERE) {
  return x.avg_pool1d(kernel, options, w);
}
inline Tensor avg_pool2d(const Tensor& x, const Ints& kernel, const AvgPoolOptions& options = {},
                         Loc w = MOTE_HERE) {
  return x.avg_pool2d(kernel, options, w);
}
inline Tensor avg_pool3d(const Tensor& x, const Ints& kernel, const AvgPoolOptions& options = {},
                         Loc w = MOTE_HERE) {
  return x.avg_pool3d(kernel, options, w);
}
inline Tensor adaptive_avg_pool1d(const Tensor& x, const Ints& output, Loc w = MOTE_HERE) {
  return x.adaptive_avg_pool1d(output, w);
}
inline Tensor adaptive_avg_pool2d(const Tensor& x, const Ints& output, Loc w = MOTE_HERE) {
  return x.adaptive_avg_pool2d(output, w);
}
inline Tensor adaptive_avg_pool3d(const Tensor& x, const Ints& output, Loc w = MOTE_HERE) {
  return x.adaptive_avg_pool3d(output, w);
}
inline Tensor adaptive_max_pool1d(const Tensor& x, const Ints& output, Loc w = MOTE_HERE) {
  return x.adaptive_max_pool1d(output, w);
}
inline Tensor adaptive_max_pool2d(const Tensor& x, const Ints& output, Loc w = MOTE_HERE) {
  return x.adaptive_max_pool2d(output, w);
}
inline Tensor interpolate(const Tensor& x, const InterpolateOptions& options,
                          Loc w = MOTE_HERE) {
  return x.interpolate(options, w);
}
inline Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor, Loc w = MOTE_HERE) {
  return x.pixel_shuffle(upscale_factor, w);
}
inline Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor, Loc w = MOTE_HERE) {
  return x.pixel_unshuffle(downscale_factor, w);
}
inline Tensor layer_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight = {},
                         const Tensor& bias = {}, double eps = 1e-5, Loc w = MOTE_HERE) {
  return x.layer_norm(normalized_shape, weight, bias, eps, w);
}
inline Tensor rms_norm(const Tensor& x, const Ints& normalized_shape, const Tensor& weight = {},
                       double eps = -1, Loc w = MOTE_HERE) {
  return x.rms_norm(normalized_shape, weight, eps, w);
}
inline Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                         const Tensor& weight = {}, const Tensor& bias = {},
                         const BatchNormOptions& options = {}, Loc w = MOTE_HERE) {
  return x.batch_norm(running_mean, running_var, weight, bias, options, w);
}
inline Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {},
                         const Tensor& bias = {}, double eps = 1e-5, Loc w = MOTE_HERE) {
  return x.group_norm(num_groups, weight, bias, eps, w);
}
inline Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                            double eps = 1e-5, Loc w = MOTE_HERE) {
  return x.instance_norm(weight, bias, eps, w);
}
inline Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
                      Loc w = MOTE_HERE) {
  return x.dropout(p, training, w);
}
inline Tensor scaled_dot_product_attention(const Tensor& x, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& options,
                                           Loc w = MOTE_HERE) {
  return x.scaled_dot_product_attention(key, value, options, w);
}
inline Tensor scaled_dot_product_attention(const Tensor& x, const Tensor& key, const Tensor& value,
                                           Loc w = MOTE_HERE) {
  return x.scaled_dot_product_attention(key, value, w);
}
inline Tensor one_hot(const Tensor& x, int64_t num_classes = -1, Loc w = MOTE_HERE) {
  return x.one_hot(num_classes, w);
}
inline Tensor embedding(const Tensor& x, const Tensor& weight, int64_t padding_idx = -1,
                        Loc w = MOTE_HERE) {
  return x.embedding(weight, padding_idx, w);
}
inline Tensor cross_entropy(const Tensor& x, const Tensor& target,
                            const CrossEntropyOptions& options, Loc w = MOTE_HERE) {
  return x.cross_entropy(target, options, w);
}
inline Tensor cross_entropy(const Tensor& x, const Tensor& target, Loc w = MOTE_HERE) {
  return x.cross_entropy(target, w);
}
inline Tensor nll_loss(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options,
                       Loc w = MOTE_HERE) {
  return x.nll_loss(target, options, w);
}
inline Tensor nll_loss(const Tensor& x, const Tensor& target, Loc w = MOTE_HERE) {
  return x.nll_loss(target, w);
}
inline Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   Reduction reduction = Reduction::mean, Loc w = MOTE_HERE) {
  return x.binary_cross_entropy(target, weight, reduction, w);
}
inline Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                               const Tensor& weight = {},
                                               const Tensor& pos_weight = {},
                                               Reduction reduction = Reduction::mean,
                                               Loc w = MOTE_HERE) {
  return x.binary_cross_entropy_with_logits(target, weight, pos_weight, reduction, w);
}
inline Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                       Loc w = MOTE_HERE) {
  return x.mse_loss(target, reduction, w);
}
inline Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                      Loc w = MOTE_HERE) {
  return x.l1_loss(target, reduction, w);
}
inline Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, double beta = 1,
                             Reduction reduction = Reduction::mean, Loc w = MOTE_HERE) {
  return x.smooth_l1_loss(target, beta, reduction, w);
}
inline Tensor huber_loss(const Tensor& x, const Tensor& target, double delta = 1,
                         Reduction reduction = Reduction::mean, Loc w = MOTE_HERE) {
  return x.huber_loss(target, delta, reduction, w);
}
inline Tensor kl_div(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                     bool log_target = false, bool batch_mean = false, Loc w = MOTE_HERE) {
  return x.kl_div(target, reduction, log_target, batch_mean, w);
}

// Functions that are not methods.
Tensor rrelu(const Tensor& x, double lower = 0.125, double upper = 1.0 / 3, bool training = false,
             Loc = MOTE_HERE);
Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, int64_t dim = -1,
                      Loc = MOTE_HERE);
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false, Loc = MOTE_HERE);
// These drop whole channels of (N, C, ...).
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false,
                             Loc = MOTE_HERE);
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true, Loc = MOTE_HERE);
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true, Loc = MOTE_HERE);
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true, Loc = MOTE_HERE);

Tensor bilinear(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& bias = {},
                Loc = MOTE_HERE);
Tensor pairwise_distance(const Tensor& x, const Tensor& y, double p = 2, double eps = 1e-6,
                         bool keepdim = false, Loc = MOTE_HERE);
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75,
                           double k = 1, Loc = MOTE_HERE);
Tensor channel_shuffle(const Tensor& x, int64_t groups, Loc = MOTE_HERE);
// Sums, means or maxima of rows of the weight: for each row of indices, or for each bag of a vector
// of indices, where bags begin at the offsets.
Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const Tensor& offsets = {},
                     const char* mode = "mean", const Tensor& per_sample_weights = {},
                     int64_t padding_idx = -1, Loc = MOTE_HERE);

// Windows of (N, C, H, W) as columns (N, C * kernel, positions), and back by summing.
Tensor unfold(const Tensor& x, const Ints& kernel, const FoldOptions&, Loc = MOTE_HERE);
Tensor fold(const Tensor& x, const Ints& output, const Ints& kernel, const FoldOptions& = {},
            Loc = MOTE_HERE);
Tensor lp_pool1d(const Tensor& x, double p, const Ints& kernel, const Ints& stride = {},
                 bool ceil_mode = false, Loc = MOTE_HERE);
Tensor lp_pool2d(const Tensor& x, double p, const Ints& kernel, const Ints& stride = {},
                 bool ceil_mode = false, Loc = MOTE_HERE);
Tensor lp_pool3d(const Tensor& x, double p, const Ints& kernel, const Ints& stride = {},
                 bool ceil_mode = false, Loc = MOTE_HERE);
Tensor adaptive_max_pool3d(const Tensor& x, const Ints& output, Loc = MOTE_HERE);
ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x, const Ints& output,
                                               Loc = MOTE_HERE);
ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x, const Ints& output,
                                               Loc = MOTE_HERE);
ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x, const Ints& output,
                                               Loc = MOTE_HERE);
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, const Ints& kernel,
                    const UnpoolOptions& = {}, Loc = MOTE_HERE);
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, const Ints& kernel,
                    const UnpoolOptions& = {}, Loc = MOTE_HERE);
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, const Ints& kernel,
                    const UnpoolOptions& = {}, Loc = MOTE_HERE);
// The grid has positions from -1 to 1. mode: bilinear (trilinear for volumes), nearest, bicubic;
// padding_mode: zeros, border, reflection.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const char* mode = "bilinear",
                   const char* padding_mode = "zeros", bool align_corners = false,
                   Loc = MOTE_HERE);
Tensor affine_grid(const Tensor& theta, const Ints& size, bool align_corners = false,
                   Loc = MOTE_HERE);

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, bool log_input = true,
                        bool full = false, double eps = 1e-8, Reduction = Reduction::mean,
                        Loc = MOTE_HERE);
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         bool full = false, double eps = 1e-6, Reduction = Reduction::mean,
                         Loc = MOTE_HERE);
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1,
                            Reduction = Reduction::mean, Loc = MOTE_HERE);
Tensor margin_ranking_loss(const Tensor& x, const Tensor& y, const Tensor& target,
                           double margin = 0, Reduction = Reduction::mean, Loc = MOTE_HERE);
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean,
                        Loc = MOTE_HERE);
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, int64_t p = 1, double margin = 1,
                         const Tensor& weight = {}, Reduction = Reduction::mean,
                         Loc = MOTE_HERE);
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean,
                              Loc = MOTE_HERE);
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target,
                                   const Tensor& weight = {}, Reduction = Reduction::mean,
                                   Loc = MOTE_HERE);
Tensor cosine_embedding_loss(const Tensor& x, const Tensor& y, const Tensor& target,
                             double margin = 0, Reduction = Reduction::mean,
                             Loc = MOTE_HERE);
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1, double p = 2, double eps = 1e-6, bool swap = false,
                           Reduction = Reduction::mean, Loc = MOTE_HERE);
using Distance = Tensor (*)(const Tensor& x, const Tensor& y);
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive,
                                         const Tensor& negative, Distance distance,
                                         double margin = 1, bool swap = false,
                                         Reduction = Reduction::mean, Loc = MOTE_HERE);
// log_probs (T, N, classes); targets (N, S); lengths (N).
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, int64_t blank = 0, Reduction = Reduction::mean,
                bool zero_infinity = false, Loc = MOTE_HERE);

}  // namespace mote
