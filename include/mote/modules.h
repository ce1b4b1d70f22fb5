// Recurrent networks, transformer layers, embedding bags, weight and spectral norm, and tensor
// methods as modules. Names of tensors, options and defaults are PyTorch's. See docs/modules.md.
#pragma once
#include <mote/nn.h>

namespace mote::nn {

// ---- tensor methods as modules, for Sequential: nn::ReLU(), nn::MaxPool2d{2}, nn::Softmax{1}

#define MOTE_MODULE(Name, call, ...)                                                    \
  struct Name {                                                                         \
    __VA_ARGS__;                                                                        \
    MOTE_FIELDS()                                                                       \
    Tensor operator()(const Tensor& x, Loc w = MOTE_HERE) const { return x.call; } \
  }

// clang-format off
MOTE_MODULE(Identity,    view_as(x, w));
MOTE_MODULE(ReLU,        relu(w));
MOTE_MODULE(ReLU6,       relu6(w));
MOTE_MODULE(SELU,        selu(w));
MOTE_MODULE(SiLU,        silu(w));
MOTE_MODULE(Mish,        mish(w));
MOTE_MODULE(Sigmoid,     sigmoid(w));
MOTE_MODULE(LogSigmoid,  logsigmoid(w));
MOTE_MODULE(Tanh,        tanh(w));
MOTE_MODULE(Tanhshrink,  tanhshrink(w));
MOTE_MODULE(Softsign,    softsign(w));
MOTE_MODULE(Hardswish,   hardswish(w));
MOTE_MODULE(Hardsigmoid, hardsigmoid(w));
MOTE_MODULE(GELU,        gelu(approximate, w),                const char* approximate = "none");
MOTE_MODULE(ELU,         elu(alpha, w),                       double alpha = 1);
MOTE_MODULE(CELU,        celu(alpha, w),                      double alpha = 1);
MOTE_MODULE(LeakyReLU,   leaky_relu(negative_slope, w),       double negative_slope = 0.01);
MOTE_MODULE(Hardtanh,    hardtanh(min_val, max_val, w),       double min_val = -1, max_val = 1);
MOTE_MODULE(Hardshrink,  hardshrink(lambd, w),                double lambd = 0.5);
MOTE_MODULE(Softshrink,  softshrink(lambd, w),                double lambd = 0.5);
MOTE_MODULE(Softplus,    softplus(beta, threshold, w),        double beta = 1, threshold = 20);
MOTE_MODULE(Threshold,   threshold(limit, value, w), double limit = 0, value = 0);
MOTE_MODULE(GLU,         glu(dim, w),                         int64_t dim = -1);
MOTE_MODULE(Softmax,     softmax(dim, DType::none, w),        int64_t dim = -1);
MOTE_MODULE(LogSoftmax,  log_softmax(dim, DType::none, w),    int64_t dim = -1);
MOTE_MODULE(Softmin,     softmin(dim, w),                     int64_t dim = -1);
MOTE_MODULE(Flatten,     flatten(start_dim, end_dim, w),      int64_t start_dim = 1, end_dim = -1);
MOTE_MODULE(Unflatten,   unflatten(dim, sizes, w),            int64_t dim = 1; Sizes sizes = {});
MOTE_MODULE(Upsample,    interpolate(options, w),             InterpolateOptions options = {});
MOTE_MODULE(PixelShuffle,   pixel_shuffle(factor, w),         int64_t factor = 2);
MOTE_MODULE(PixelUnshuffle, pixel_unshuffle(factor, w),       int64_t factor = 2);
MOTE_MODULE(MaxPool1d, max_pool1d(kernel, options, w), Ints kernel = 2; MaxPoolOptions options = {});
MOTE_MODULE(MaxPool2d, max_pool2d(kernel, options, w), Ints kernel = 2; MaxPoolOptions options = {});
MOTE_MODULE(MaxPool3d, max_pool3d(kernel, options, w), Ints kernel = 2; MaxPoolOptions options = {});
MOTE_MODULE(AvgPool1d, avg_pool1d(kernel, options, w), Ints kernel = 2; AvgPoolOptions options = {});
MOTE_MODULE(AvgPool2d, avg_pool2d(kernel, options, w), Ints kernel = 2; AvgPoolOptions options = {});
MOTE_MODULE(AvgPool3d, avg_pool3d(kernel, options, w), Ints kernel = 2; AvgPoolOptions options = {});
MOTE_MODULE(AdaptiveAvgPool1d, adaptive_avg_pool1d(output, w), Ints output = 1);
MOTE_MODULE(AdaptiveAvgPool2d, adaptive_avg_pool2d(output, w), Ints output = 1);
MOTE_MODULE(AdaptiveAvgPool3d, adaptive_avg_pool3d(output, w), Ints output = 1);
MOTE_MODULE(AdaptiveMaxPool1d, adaptive_max_pool1d(output, w), Ints output = 1);
MOTE_MODULE(AdaptiveMaxPool2d, adaptive_max_pool2d(output, w), Ints output = 1);

// Modules of functions that are not methods. Dropouts act only in training.
#define MOTE_FUNCTION(Name, call, ...)                                             \
  struct Name {                                                                    \
    __VA_ARGS__;                                                                   \
    MOTE_FIELDS()                                                                  \
    Tensor operator()(const Tensor& x, Loc w = MOTE_HERE) const { return mote::call; } \
  }
MOTE_FUNCTION(RReLU, rrelu(x, lower, upper, training, w),
              double lower = 0.125, upper = 1.0 / 3; Switch training = true);
MOTE_FUNCTION(Dropout1d, dropout1d(x, p, training, w), double p = 0.5; Switch training = true);
MOTE_FUNCTION(Dropout2d, dropout2d(x, p, training, w), double p = 0.5; Switch training = true);
MOTE_FUNCTION(Dropout3d, dropout3d(x, p, training, w), double p = 0.5; Switch training = true);
MOTE_FUNCTION(AlphaDropout, alpha_dropout(x, p, training, w),
              double p = 0.5; Switch training = true);
MOTE_FUNCTION(FeatureAlphaDropout, feature_alpha_dropout(x, p, training, w),
              double p = 0.5; Switch training = true);
MOTE_FUNCTION(AdaptiveMaxPool3d, adaptive_max_pool3d(x, output, w), Ints output = 1);
MOTE_FUNCTION(LPPool1d, lp_pool1d(x, norm_type, kernel, stride, false, w),
              double norm_type = 2; Ints kernel = 2, stride = {});
MOTE_FUNCTION(LPPool2d, lp_pool2d(x, norm_type, kernel, stride, false, w),
              double norm_type = 2; Ints kernel = 2, stride = {});
MOTE_FUNCTION(LocalResponseNorm, local_response_norm(x, size, alpha, beta, k, w),
              int64_t size = 5; double alpha = 1e-4, beta = 0.75, k = 1);
MOTE_FUNCTION(ChannelShuffle, channel_shuffle(x, groups, w), int64_t groups = 1);
MOTE_FUNCTION(Unfold, unfold(x, kernel, options, w), Ints kernel = 2; FoldOptions options = {});
MOTE_FUNCTION(Fold, fold(x, output, kernel, options, w),
              Ints output = 1, kernel = 2; FoldOptions options = {});
// clang-format on
#undef MOTE_FUNCTION

// One slope for all channels, or one for each.
struct PReLU {
  Tensor weight;
  MOTE_FIELDS(weight)
  explicit PReLU(int64_t channels = 1, double start = 0.25, const Options& o = {},
                 Loc w = MOTE_HERE)
      : weight(parameter(full({channels}, Number(start), o, w))) {}
  Tensor operator()(const Tensor& x, Loc w = MOTE_HERE) const { return x.prelu(weight, w); }
};

// Pairs of amounts, beginning with the last axis; one number applies to all sides of `rank` axes.
Tensor padded(const Tensor& x, const Ints& padding, int rank, const char* mode, double value, Loc);
#define MOTE_PAD(Name, mode)                                               \
  template <int Rank>                                                      \
  struct Name {                                                            \
    Ints padding = 1;                                                      \
    MOTE_FIELDS()                                                          \
    Tensor operator()(const Tensor& x, Loc where = MOTE_HERE) const { \
      return padded(x, padding, Rank, mode, 0, where);                     \
    }                                                                      \
  };                                                                       \
  using Name##1d = Name<1>;                                                \
  using Name##2d = Name<2>;                                                \
  using Name##3d = Name<3>
MOTE_PAD(ZeroPad, "constant");
MOTE_PAD(ReflectionPad, "reflect");
MOTE_PAD(ReplicationPad, "replicate");
MOTE_PAD(CircularPad, "circular");
#undef MOTE_PAD
#undef MOTE_MODULE
template <int Rank>
struct ConstantPad {
  Ints padding = 1;
  double value = 0;
  MOTE_FIELDS()
  Tensor operator()(const Tensor& x, Loc where = MOTE_HERE) const {
    return padded(x, padding, Rank, "constant", value, where);
  }
};

// ---- recurrent networks

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;  // between layers
  bool bidirectional = false;
  int64_t proj_size = 0;              // of LSTM: h is projected to this many features
  const char* nonlinearity = "tanh";  // of RNN; or "relu"
};

// The tensors of all layers and directions, named "weight_ih_l0", "weight_hh_l0_reverse" and so on.
// x: (length, batch, features), (batch, length, features) if batch_first, or (length, features).
// States: (layers * directions, batch, features), forward and backward for each layer. lengths, i64
// (batch), replaces PyTorch's packed sequences: beyond the end of a sequence the output is 0 and
// the state no longer changes, and the backward direction begins at the last element.
class Recurrent {
 public:
  struct Weights {
    Tensor ih, hh, bias_ih, bias_hh, hr;
  };
  struct Result {
    Tensor output, h, c;  // c: of LSTM
    MOTE_FIELDS(output, h, c)
  };
  std::vector<Weights> weights;  // by layer, forward and backward
  RecurrentOptions options;
  Switch training = true;

  template <class F>
  void each_field(F&& f) {
    each_weight(*this, f);
  }
  template <class F>
  void each_field(F&& f) const {
    each_weight(*this, f);
  }

 protected:
  enum class Kind { RNN, GRU, LSTM };
  Recurrent() = default;
  Recurrent(Kind kind, int64_t input_size, int64_t hidden_size, const RecurrentOptions&,
            const Options&, const Loc&);
  Result run(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& lengths,
             const Loc&) const;

 private:
  template <class Self, class F>
  static void each_weight(Self& self, F& f) {
    for (size_t i = 0; i < self.weights.size(); ++i) {
      const std::string end = self.weight_suffix(i);
      auto& w = self.weights[i];
      f(std::string_view("weight_ih" + end), w.ih);
      f(std::string_view("weight_hh" + end), w.hh);
      f(std::string_view("bias_ih" + end), w.bias_ih);
      f(std::string_view("bias_hh" + end), w.bias_hh);
      f(std::string_view("weight_hr" + end), w.hr);
    }
  }
  struct States;
  std::string weight_suffix(size_t i) const;
  States step(const Weights& w, const Tensor& in, const States& before) const;
  Tensor direction(size_t which, const Tensor& x, const Tensor& lengths, States& state) const;
  Kind kind_ = Kind::RNN;
  int64_t hidden_ = 0;
};

struct RNN : Recurrent {
  RNN() = default;
  RNN(int64_t input_size, int64_t hidden_size, const RecurrentOptions& r = {},
      const Options& o = {}, Loc where = MOTE_HERE)
      : Recurrent(Kind::RNN, input_size, hidden_size, r, o, where) {}
  Result operator()(const Tensor& x, const Tensor& h0 = {}, const Tensor& lengths = {},
                    Loc where = MOTE_HERE) const {
    return run(x, h0, {}, lengths, where);
  }
};
struct GRU : Recurrent {
  GRU() = default;
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentOptions& r = {},
      const Options& o = {}, Loc where = MOTE_HERE)
      : Recurrent(Kind::GRU, input_size, hidden_size, r, o, where) {}
  Result operator()(const Tensor& x, const Tensor& h0 = {}, const Tensor& lengths = {},
                    Loc where = MOTE_HERE) const {
    return run(x, h0, {}, lengths, where);
  }
};
struct LSTM : Recurrent {
  LSTM() = default;
  LSTM(int64_t input_size, int64_t hidden_size, const RecurrentOptions& r = {},
       const Options& o = {}, Loc where = MOTE_HERE)
      : Recurrent(Kind::LSTM, input_size, hidden_size, r, o, where) {}
  Result operator()(const Tensor& x, const LSTMCell::State& before = {}, const Tensor& lengths = {},
                    Loc where = MOTE_HERE) const {
    return run(x, before.h, before.c, lengths, where);
  }
};

// ---- transformer layers

struct TransformerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  const char* activation = "relu";  // or "gelu"
  double layer_norm_eps = 1e-5;
  bool batch_first = false, norm_first = false, bias = true;
};
// Masks with the meaning that MultiheadCall gives them.
struct TransformerMasks {
  Tensor mask = {}, key_padding_mask = {};
  bool is_causal = false;
};

struct TransformerEncoderLayer {
  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  Dropout dropout, dropout1, dropout2;
  MOTE_FIELDS(self_attn, linear1, dropout, linear2, norm1, norm2, dropout1, dropout2)
  TransformerEncoderLayer() = default;
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& = {},
                          const Options& = {}, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& src, const TransformerMasks& = {}, Loc = MOTE_HERE) const;
  const char* activation = "relu";
  bool norm_first = false;
};

struct TransformerDecoderLayer {
  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  Dropout dropout, dropout1, dropout2, dropout3;
  MOTE_FIELDS(self_attn, multihead_attn, linear1, dropout, linear2, norm1, norm2, norm3, dropout1,
              dropout2, dropout3)
  TransformerDecoderLayer() = default;
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& = {},
                          const Options& = {}, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const TransformerMasks& tgt_masks = {},
                    const TransformerMasks& memory_masks = {}, Loc = MOTE_HERE) const;
  const char* activation = "relu";
  bool norm_first = false;
};

// Each layer has weights of its own. final_norm adds a norm at the end.
struct TransformerEncoder {
  std::vector<TransformerEncoderLayer> layers;
  LayerNorm norm;
  bool has_norm = false;
  MOTE_FIELDS(layers, norm)
  TransformerEncoder() = default;
  TransformerEncoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                     const TransformerOptions& = {}, bool final_norm = false, const Options& = {},
                     Loc = MOTE_HERE);
  Tensor operator()(const Tensor& src, const TransformerMasks& = {}, Loc = MOTE_HERE) const;
};
struct TransformerDecoder {
  std::vector<TransformerDecoderLayer> layers;
  LayerNorm norm;
  bool has_norm = false;
  MOTE_FIELDS(layers, norm)
  TransformerDecoder() = default;
  TransformerDecoder(int64_t num_layers, int64_t d_model, int64_t nhead,
                     const TransformerOptions& = {}, bool final_norm = false, const Options& = {},
                     Loc = MOTE_HERE);
  Tensor operator()(const Tensor& tgt, const Tensor& memory, const TransformerMasks& tgt_masks = {},
                    const TransformerMasks& memory_masks = {}, Loc = MOTE_HERE) const;
};

// ---- embeddings and other forms of weights

struct EmbeddingBagOptions {
  const char* mode = "mean";  // or "sum", "max"
  int64_t padding_idx = -1;   // this row does not count
  bool include_last_offset = false;
};
struct EmbeddingBag {
  Tensor weight;
  EmbeddingBagOptions options;
  MOTE_FIELDS(weight)
  EmbeddingBag() = default;
  EmbeddingBag(int64_t rows, int64_t features, const EmbeddingBagOptions& = {}, const Options& = {},
               Loc = MOTE_HERE);
  // indices: (bags, length), or a vector with the offsets at which bags begin.
  // per_sample_weights have the shape of the indices and need mode "sum".
  Tensor operator()(const Tensor& indices, const Tensor& offsets = {},
                    const Tensor& per_sample_weights = {}, Loc = MOTE_HERE) const;
};

// weight = weight_g * weight_v / |weight_v|, the norm over all axes but `dim`.
Tensor norm_but(const Tensor& weight, int64_t dim);
template <class Module>
struct WeightNorm {
  Module module;  // without its weight
  Tensor weight_g, weight_v;
  int64_t dim = 0;
  WeightNorm() = default;
  explicit WeightNorm(Module m, int64_t keep = 0) : module(std::move(m)), dim(keep) {
    weight_v = std::exchange(module.weight, Tensor());
    weight_g = parameter(norm_but(weight_v.detach(), dim));
  }
  template <class F>
  void each_field(F&& f) {
    module.each_field(f);
    f("weight_g", weight_g), f("weight_v", weight_v);
  }
  template <class F>
  void each_field(F&& f) const {
    module.each_field(f);
    f("weight_g", weight_g), f("weight_v", weight_v);
  }
  Tensor operator()(const Tensor& x, Loc where = MOTE_HERE) const {
    Module m = module;
    m.weight = weight_v * (weight_g / norm_but(weight_v, dim));
    return m(x, where);
  }
};

// weight / its largest singular value, which is found by power iteration. Each call in training
// makes one more iteration and writes weight_u and weight_v: realize them too.
struct SpectralState {
  Tensor weight_orig, weight_u, weight_v;
};
SpectralState spectral_start(const Tensor& weight, int64_t dim, double eps);
Tensor spectral_weight(const SpectralState& s, int64_t dim, double eps, bool training);
template <class Module>
struct SpectralNorm {
  Module module;  // without its weight
  SpectralState state;
  int64_t dim = 0;
  double eps = 1e-12;
  Switch training = true;
  SpectralNorm() = default;
  explicit SpectralNorm(Module m, int64_t along = 0) : module(std::move(m)), dim(along) {
    state = spectral_start(std::exchange(module.weight, Tensor()), dim, eps);
  }
  template <class F>
  void each_field(F&& f) {
    module.each_field(f);
    f("weight_orig", state.weight_orig), f("weight_u", state.weight_u);
    f("weight_v", state.weight_v);
  }
  template <class F>
  void each_field(F&& f) const {
    module.each_field(f);
    f("weight_orig", state.weight_orig), f("weight_u", state.weight_u);
    f("weight_v", state.weight_v);
  }
  Tensor operator()(const Tensor& x, Loc where = MOTE_HERE) const {
    Module m = module;
    m.weight = spectral_weight(state, dim, eps, training);
    return m(x, where);
  }
};

}  // namespace mote::nn
