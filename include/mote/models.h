// Networks as modules. Their tensors have the names of the usual checkpoints: torchvision's ResNet,
// Hugging Face's BERT, nanoGPT's GPT, Meta's Llama. On the device NULL, models of any size are
// free.
#pragma once
#include <mote/nn.h>

#include <optional>
#include <span>
#include <tuple>

namespace mote::models {

// (batch, 1, 28, 28) to 10 logits: two pairs of convolutions, each with batch norm and a 2x2 pool.
struct MnistNet {
  nn::Conv2d conv1, conv2, conv3, conv4;
  nn::BatchNorm bn1, bn2;
  nn::Linear fc;
  MOTE_FIELDS(conv1, conv2, bn1, conv3, conv4, bn2, fc)
  explicit MnistNet(const Options& = {});
  Tensor operator()(const Tensor& images, Loc = MOTE_HERE) const;
};

// (batch, 3, height, width) to logits.
struct ResNet {
  struct Block {
    nn::Conv2d conv1, conv2, conv3;  // conv3 only in bottlenecks
    nn::BatchNorm bn1, bn2, bn3;
    std::optional<std::tuple<nn::Conv2d, nn::BatchNorm>> downsample;
    MOTE_FIELDS(conv1, bn1, conv2, bn2, conv3, bn3, downsample)
    Tensor operator()(const Tensor& x) const;
  };
  nn::Conv2d conv1;
  nn::BatchNorm bn1;
  std::vector<Block> layer1, layer2, layer3, layer4;
  nn::Linear fc;
  MOTE_FIELDS(conv1, bn1, layer1, layer2, layer3, layer4, fc)
  Tensor operator()(const Tensor& images, Loc = MOTE_HERE) const;
};
ResNet resnet18(int64_t classes = 1000, const Options& = {});
ResNet resnet50(int64_t classes = 1000, const Options& = {});

struct UNetConfig {
  int64_t in_channels = 3, out_channels = 1;
  std::vector<int64_t> features = {32, 64, 128, 256};  // of each level, the finest first
  int64_t groups = 8;                                  // of the norms
  Options options = {};
};
// (batch, in, height, width) to (batch, out, height, width): down through the levels by pooling,
// and up again by transposed convolutions, with a skip connection at each level. Height and width
// must be divisible by 2 once for each level but the first.
struct UNet {
  struct Block {
    nn::Conv2d conv1, conv2;
    nn::GroupNorm norm1, norm2;
    MOTE_FIELDS(conv1, norm1, conv2, norm2)
    Tensor operator()(const Tensor& x) const;
  };
  struct Up {
    nn::ConvTranspose2d grow;
    Block block;
    MOTE_FIELDS(grow, block)
  };
  std::vector<Block> down;  // the last is the bottom
  std::vector<Up> up;       // the coarsest first
  nn::Conv2d head;
  MOTE_FIELDS(down, up, head)
  explicit UNet(const UNetConfig& = {});
  Tensor operator()(const Tensor& images, Loc = MOTE_HERE) const;
};

struct BertConfig {  // large
  int64_t layers = 24, heads = 16, features = 1024, hidden = 4096;
  int64_t vocabulary = 30522, positions = 512, types = 2;
  double dropout = 0.1;
  Options options = {};
};
struct BertLayer {
  struct Self {
    nn::Linear query, key, value;
    MOTE_FIELDS(query, key, value)
  };
  struct Output {
    nn::Linear dense;
    nn::LayerNorm LayerNorm;
    nn::Dropout dropout;
    MOTE_FIELDS(dense, LayerNorm, dropout)
    Tensor operator()(const Tensor& x, const Tensor& residual) const;
  };
  struct Attention {
    Self self;
    Output output;
    MOTE_FIELDS(self, output)
  };
  struct Intermediate {
    nn::Linear dense;
    MOTE_FIELDS(dense)
  };
  Attention attention;
  Intermediate intermediate;
  Output output;
  int64_t heads = 1;
  MOTE_FIELDS(attention, intermediate, output)
  Tensor operator()(const Tensor& x, const Tensor& mask, Loc = MOTE_HERE) const;
};
// With the heads for pre-training: masked words and next sentence.
struct Bert {
  struct Embeddings {
    nn::Embedding word_embeddings, position_embeddings, token_type_embeddings;
    nn::LayerNorm LayerNorm;
    nn::Dropout dropout;
    MOTE_FIELDS(word_embeddings, position_embeddings, token_type_embeddings, LayerNorm, dropout)
  };
  struct Encoder {
    std::vector<BertLayer> layer;
    MOTE_FIELDS(layer)
  };
  struct Pooler {
    nn::Linear dense;
    MOTE_FIELDS(dense)
  };
  struct Body {
    Embeddings embeddings;
    Encoder encoder;
    Pooler pooler;
    MOTE_FIELDS(embeddings, encoder, pooler)
  };
  struct Transform {
    nn::Linear dense;
    nn::LayerNorm LayerNorm;
    MOTE_FIELDS(dense, LayerNorm)
  };
  struct Predictions {
    Tensor bias;  // the decoder's weight is the word embeddings'
    Transform transform;
    MOTE_FIELDS(bias, transform)
  };
  struct Heads {
    Predictions predictions;
    nn::Linear seq_relationship;
    MOTE_FIELDS(predictions, seq_relationship)
  };
  Body bert;
  Heads cls;
  MOTE_FIELDS(bert, cls)
  explicit Bert(const BertConfig& = {});

  struct Batch {
    Tensor input_ids, attention_mask, token_type_ids;   // (batch, length); mask: 1 takes part
    Tensor masked_positions, masked_ids;                // (batch, predictions)
    Tensor next_sentence;                               // (batch)
    MOTE_FIELDS(input_ids, attention_mask, token_type_ids, masked_positions, masked_ids,
                next_sentence)
  };
  Tensor encode(const Batch&, Loc = MOTE_HERE) const;  // (batch, length, features)
  Tensor loss(const Batch&, Loc = MOTE_HERE) const;
};

struct GptConfig {  // nanoGPT's CPU setting
  int64_t layers = 4, heads = 4, features = 128, context = 64, vocabulary = 65;
  double dropout = 0;
  bool bias = true;
  bool tanh_gelu = false;  // GELU by tanh, as OpenAI's GPT-2 has it
  Options options = {};
};
struct GptBlock {
  struct Attention {
    nn::Linear c_attn, c_proj;
    nn::Dropout dropout;
    int64_t heads = 1;
    MOTE_FIELDS(c_attn, c_proj, dropout)
    Tensor operator()(const Tensor& x) const;
  };
  struct Mlp {
    nn::Linear c_fc, c_proj;
    nn::Dropout dropout;
    bool tanh_gelu = false;
    MOTE_FIELDS(c_fc, c_proj, dropout)
    Tensor operator()(const Tensor& x) const;
  };
  nn::LayerNorm ln_1;
  Attention attn;
  nn::LayerNorm ln_2;
  Mlp mlp;
  MOTE_FIELDS(ln_1, attn, ln_2, mlp)
  Tensor operator()(const Tensor& x) const;
};
struct Gpt {
  struct Body {
    nn::Embedding wte, wpe;
    nn::Dropout drop;
    std::vector<GptBlock> h;
    nn::LayerNorm ln_f;
    MOTE_FIELDS(wte, wpe, drop, h, ln_f)
  };
  Body transformer;
  nn::Linear lm_head;  // its weight is wte's
  MOTE_FIELDS(transformer, lm_head)
  explicit Gpt(const GptConfig& = {});
  // (batch, length) to (batch, length, vocabulary)
  Tensor operator()(const Tensor& tokens, Loc = MOTE_HERE) const;
};

// GPT-2 with the weights of a file as Hugging Face or nanoGPT write it (.safetensors, .pt): with or
// without the prefix "transformer.", and with linear weights stored either way round: Hugging Face
// stores them transposed and computes GELU by tanh, nanoGPT neither. Sizes are taken from the file,
// except the number of heads; 0: 64 features per head.
Gpt load_gpt2(const std::string& path, int64_t heads = 0, double dropout = 0, const Options& = {},
              Loc = MOTE_HERE);

struct LlamaConfig {  // Llama 3 8B
  int64_t features = 4096, layers = 32, heads = 32, kv_heads = 8, hidden = 14336;
  int64_t vocabulary = 128256, context = 8192;
  double norm_eps = 1e-5, rope_theta = 500000;
  Options options = {};
};
LlamaConfig llama3_8b();
LlamaConfig llama3_405b();

// cos and sin of the angles at every position, (context, features of a head / 2).
struct RotaryTable {
  Tensor cos, sin;
  RotaryTable() = default;
  RotaryTable(int64_t context, int64_t head_features, double theta, const Options&);
  // x: (batch, length, heads, features), whose first row is at `position`.
  Tensor rotate(const Tensor& x, const Size& position) const;
};

// Keys and values of the tokens so far, (batch, context, heads, features).
struct KvCache {
  Tensor keys, values;
  MOTE_FIELDS(keys, values)
};

struct LlamaBlock {
  struct Attention {
    nn::Linear wq, wk, wv, wo;
    int64_t heads = 1, kv_heads = 1;
    MOTE_FIELDS(wq, wk, wv, wo)
    struct Projected {
      Tensor q, k, v;  // (batch, length, heads, features)
    };
    Projected project(const Tensor& x) const;
    Tensor operator()(const Tensor& x, const RotaryTable&) const;  // causal, no cache
    Tensor operator()(const Tensor& x, const RotaryTable&, KvCache&, const Size& position) const;
  };
  struct FeedForward {
    nn::Linear w1, w2, w3;
    MOTE_FIELDS(w1, w2, w3)
    Tensor operator()(const Tensor& x) const;
  };
  Attention attention;
  FeedForward feed_forward;
  nn::RMSNorm attention_norm, ffn_norm;
  MOTE_FIELDS(attention, feed_forward, attention_norm, ffn_norm)
};
struct Llama {
  nn::Embedding tok_embeddings;
  std::vector<LlamaBlock> layers;
  nn::RMSNorm norm;
  nn::Linear output;
  RotaryTable rotary;
  LlamaConfig config;
  MOTE_FIELDS(tok_embeddings, layers, norm, output)
  explicit Llama(const LlamaConfig& = {});

  // (batch, length) to (batch, length, vocabulary), from position 0, for training.
  Tensor operator()(const Tensor& tokens, Loc = MOTE_HERE) const;
  // The logits of the last token, (batch, vocabulary). The tokens are written to the cache at
  // `position`, which may be a bound variable: then one schedule serves all positions. Realize the
  // cache as well.
  Tensor decode(const Tensor& tokens, std::vector<KvCache>& cache, const Size& position,
                Loc = MOTE_HERE) const;
  std::vector<KvCache> make_cache(int64_t batch) const;
};
// Loads a model of llama2.c (in its first file format).
Llama load_llama2c(const std::string& path, const Options& = {}, Loc = MOTE_HERE);

// Chooses the next token from logits: the most likely one, or a random one among the most likely.
// The choice depends on the seed and on the number of tokens drawn before.
struct SamplerOptions {
  double temperature = 1;  // 0: always the most likely token
  int64_t top_k = 0;       // among this many tokens; 0: all
  double top_p = 1;        // among the most likely with this total probability
  uint64_t seed = 0;
};
class Sampler {
 public:
  explicit Sampler(const SamplerOptions& = {}, Loc = MOTE_HERE);
  int32_t operator()(std::span<const float> logits, Loc = MOTE_HERE);

 private:
  SamplerOptions options_;
  uint64_t drawn_ = 0;
};

// The tokens followed by `count` new ones. Of a text longer than the context, the model sees the
// end.
std::vector<int32_t> generate(const Gpt&, std::vector<int32_t> tokens, int64_t count, Sampler&,
                              Loc = MOTE_HERE);

// Feeds a model token by token, with a cache of the keys and values of earlier tokens.
class Generator {
 public:
  explicit Generator(const Llama&, Loc = MOTE_HERE);
  Generator(const Generator&) = delete;
  ~Generator();
  // Feeds one more token and returns the logits of the one that follows.
  std::vector<float> next(int32_t token, Loc = MOTE_HERE);
  int64_t position() const;  // the number of tokens fed
  void restart();            // with a new text

 private:
  struct State;
  State* state_;
};

}  // namespace mote::models
