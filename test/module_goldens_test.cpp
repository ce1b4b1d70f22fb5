// Recurrent networks, attention, transformer layers and other modules against PyTorch: the cases of
// tools/make_module_goldens.py.
#include <mote/modules.h>

#include <functional>

#include "training_goldens.h"

using namespace mote;
using namespace mote::test;

namespace {

using Named = std::map<std::string, Tensor>;
using Tensors = std::vector<Tensor>;

bool has(const GoldenCase& c, const char* word) { return c.name.find(word) != c.name.npos; }

struct Interpreted {
  std::string before = default_device();
  Interpreted() { set_default_device("INTERP"); }
  ~Interpreted() { set_default_device(before); }
};

// ---- recurrent

nn::RecurrentOptions recurrent_options(const GoldenCase& c) {
  const bool both = has(c, "/both") || has(c, "/packed") || has(c, "/projected");
  const bool two = both || has(c, "/states") || has(c, "/single");
  return {.num_layers = two ? 2 : 1,
          .bias = !has(c, "batch_first"),
          .batch_first = has(c, "batch_first"),
          .bidirectional = both || has(c, "batch_first"),
          .proj_size = has(c, "/projected") ? 3 : 0,
          .nonlinearity = has(c, "/relu") ? "relu" : "tanh"};
}

template <class Module>
void check_recurrent(const GoldenCase& c) {
  check_module(c, Module(5, 4, recurrent_options(c)), [&](auto& m, Named& in) {
    Tensor lengths = has(c, "/packed") ? tensor({int64_t{3}, int64_t{4}, int64_t{1}}) : Tensor();
    nn::Recurrent::Result r;
    if constexpr (std::is_same_v<Module, nn::LSTM>)
      r = m(in["x"], {in["h"], in["c"]}, lengths);
    else
      r = m(in["x"], in["h"], lengths);
    return r.c.defined() ? Tensors{r.output, r.h, r.c} : Tensors{r.output, r.h};
  });
}

// ---- attention

Tensor bools(const std::vector<uint8_t>& values, const Sizes& shape) {
  return from_data(values, shape).to(DType::boolean);
}
Tensor causal() { return ones({4, 4}, DType::boolean).triu(1); }
Tensor padding() { return bools({0, 0, 0, 1, 1, 0, 0, 0, 0, 0}, {2, 5}); }

void check_attention(const GoldenCase& c) {
  const bool extra = has(c, "extra"), dims = has(c, "dims");
  nn::MultiheadAttention m(6, 2,
                           {.add_bias_kv = extra,
                            .add_zero_attn = extra,
                            .kdim = dims ? 7 : 0,
                            .vdim = dims ? 3 : 0,
                            .batch_first = has(c, "batch_first")});
  check_module(c, m, [&](auto& module, Named& in) {
    nn::MultiheadCall call;
    if (has(c, "padding") || has(c, "quiet") || extra) call.key_padding_mask = padding();
    if (has(c, "single")) call.key_padding_mask = padding()[0];
    if (in["mask"].defined()) call.attn_mask = in["mask"];
    if (has(c, "causal")) call.attn_mask = causal();
    call.need_weights = !has(c, "quiet");
    call.average_attn_weights = !has(c, "heads");
    Tensor q = in["query"], k = in["key"].defined() ? in["key"] : q;
    Tensor v = in["value"].defined() ? in["value"] : q;
    nn::MultiheadResult r = module.attend(q, k, v, call);
    if (has(c, "causal")) {  // the same said in the other way
      nn::MultiheadResult same = module.attend(q, k, v, {.is_causal = true});
      CHECK(same.output.isclose(r.output).all().template item<bool>());
    }
    return r.weights.defined() ? Tensors{r.output, r.weights} : Tensors{r.output};
  });
}

// ---- transformer

nn::TransformerOptions transformer_options(const GoldenCase& c) {
  return {.dim_feedforward = 8,
          .dropout = 0,
          .activation = has(c, "gelu") ? "gelu" : "relu",
          .batch_first = has(c, "gelu"),
          .norm_first = has(c, "norm_first")};
}

void check_encoder(const GoldenCase& c) {
  nn::TransformerMasks masks;
  if (has(c, "masked")) masks = {causal(), padding().narrow(1, 1, 4)};
  auto call = [&](auto& m, Named& in) { return Tensors{m(in["src"], masks)}; };
  if (c.op == "TransformerEncoder")
    check_module(c, nn::TransformerEncoder(2, 6, 2, transformer_options(c), true), call);
  else
    check_module(c, nn::TransformerEncoderLayer(6, 2, transformer_options(c)), call);
}

void check_decoder(const GoldenCase& c) {
  nn::TransformerMasks of_target, of_memory;
  if (has(c, "masked"))
    of_target = {.is_causal = true}, of_memory = {.key_padding_mask = padding()};
  auto call = [&](auto& m, Named& in) {
    return Tensors{m(in["tgt"], in["memory"], of_target, of_memory)};
  };
  if (c.op == "TransformerDecoder")
    check_module(c, nn::TransformerDecoder(2, 6, 2, transformer_options(c), true), call);
  else
    check_module(c, nn::TransformerDecoderLayer(6, 2, transformer_options(c)), call);
}

// ---- others

Tensor indices() { return from_data(std::vector<int64_t>{1, 4, 2, 0, 3, 3, 2, 2, 2}, {3, 3}); }

void check_bag(const GoldenCase& c) {
  const bool flat = has(c, "flat");
  const char* mode = has(c, "mean") ? "mean" : has(c, "max") ? "max" : "sum";
  check_module(c, nn::EmbeddingBag(5, 4, {.mode = mode, .padding_idx = has(c, "rows") ? 2 : -1}),
               [&](auto& m, Named& in) {
                 if (!flat) return Tensors{m(indices(), {}, in["weights"])};
                 const std::vector<int64_t> offsets = {0, 2, 2, 5}, ends = {0, 2, 2, 5, 9};
                 nn::EmbeddingBag other = m;
                 other.options.include_last_offset = true;
                 Tensor y = m(indices().flatten(), from_data(offsets, {4}));
                 Tensor z = other(indices().flatten(), from_data(ends, {5}));
                 CHECK(z.eq(y).all().template item<bool>());
                 return Tensors{y};
               });
}

void check_conv(const GoldenCase& c) {
  const bool same = has(c, "same");
  nn::Conv2d conv(3, 4,
                  {
                      3, 2
  },
                  {.padding = same ? Ints(0) : Ints{2, 1}, .same = same});
  conv.padding_mode = has(c, "reflect") ? "reflect" : has(c, "circular") ? "circular" : "replicate";
  check_module(c, conv, [](auto& m, Named& in) { return Tensors{m(in["x"])}; });
}

template <class Module>
void check_weight_norm(const GoldenCase& c, nn::WeightNorm<Module> m) {
  check_module(c, m, [](auto& module, Named& in) { return Tensors{module(in["x"])}; });
}

std::map<std::string, std::function<std::string()>> states() {
  using namespace nn;
  const TransformerOptions small{.dim_feedforward = 8};
  return {
      {"LSTM",
       [] {
         return state_text(LSTM(3, 4, {.num_layers = 2, .bidirectional = true, .proj_size = 2}));
       }                                                                                      },
      {"GRU_no_bias",   [] { return state_text(GRU(3, 4, {.num_layers = 2, .bias = false})); }},
      {"RNN",           [] { return state_text(RNN(3, 4)); }                                  },
      {"Multihead_all",
       [] {
         return state_text(MultiheadAttention(6, 2, {.add_bias_kv = true, .kdim = 5, .vdim = 4}));
       }                                                                                      },
      {"EncoderLayer",  [=] { return state_text(TransformerEncoderLayer(6, 2, small)); }      },
      {"DecoderLayer",  [=] { return state_text(TransformerDecoderLayer(6, 2, small)); }      },
      {"Encoder",       [=] { return state_text(TransformerEncoder(2, 6, 2, small, true)); }  },
      {"EmbeddingBag",  [] { return state_text(EmbeddingBag(5, 4)); }                         },
      {"WeightNorm",    [] { return state_text(WeightNorm(Linear(3, 2))); }                   },
      {"SpectralNorm",  [] { return state_text(SpectralNorm(Conv2d(3, 2, 2))); }              },
      {"Plain",
       [] { return state_text(Sequential(ReLU(), Linear(3, 2), MaxPool2d{2}, Flatten())); }   },
  };
}

}  // namespace

TEST_SUITE("module goldens") {
  // Interpreted but for one of them: what takes time is compiling what is then run once.
  TEST_CASE("recurrent networks") {
    const Interpreted scope;
    for (const GoldenCase* c : cases({"LSTM"})) check_recurrent<nn::LSTM>(*c);
    for (const GoldenCase* c : cases({"GRU"})) check_recurrent<nn::GRU>(*c);
    for (const GoldenCase* c : cases({"RNN"})) check_recurrent<nn::RNN>(*c);
  }
  TEST_CASE("a recurrent network in kernels") {
    for (const GoldenCase* c : cases({"RNN"}))
      if (has(*c, "/packed")) check_recurrent<nn::RNN>(*c);
  }

  TEST_CASE("attention with all arguments") {
    const Interpreted scope;
    for (const GoldenCase* c : cases({"MultiheadAttention"}))
      if (has(*c, "attend_")) check_attention(*c);
  }

  TEST_CASE("transformer layers") {
    const Interpreted scope;
    for (const GoldenCase* c : cases({"TransformerEncoder", "TransformerEncoderLayer"}))
      check_encoder(*c);
    for (const GoldenCase* c : cases({"TransformerDecoder", "TransformerDecoderLayer"}))
      check_decoder(*c);
  }

  TEST_CASE("bags, padding modes and norms of weights") {
    const Interpreted scope;
    for (const GoldenCase* c : cases({"EmbeddingBag"})) check_bag(*c);
    for (const GoldenCase* c : cases({"Conv2d"}))
      has(*c, "weight_norm") ? check_weight_norm(*c, nn::WeightNorm(nn::Conv2d(3, 4, 2), 1))
                             : check_conv(*c);
    for (const GoldenCase* c : cases({"Linear"}))
      check_weight_norm(*c, nn::WeightNorm(nn::Linear(5, 3)));
    for (const GoldenCase* c : cases({"SpectralNorm"})) {
      nn::SpectralNorm m(nn::Linear(5, 3));
      load_parameters(m, *c);
      Tensor x = input(*c, "x");
      for (size_t i = 0; i < 3; ++i) {
        train(m, i < 2);
        Tensor y = m(x);
        realize({y, m.state.weight_u, m.state.weight_v});
        check_close(*c, "output", y, c->outputs[i].value);
      }
    }
  }

  TEST_CASE("names of tensors") {
    auto all = states();
    for (const GoldenCase* c : cases({"module_state"})) {
      CAPTURE(c->name);
      auto it = all.find(c->name.substr(c->name.find('/') + 1));
      if (it == all.end()) continue;
      CHECK(it->second() == attr<std::string>(*c, "state"));
      all.erase(it);
    }
    CHECK(all.empty());
  }

  TEST_CASE("plain modules are the methods they are named after") {
    using namespace nn;
    Tensor x = uniform({2, 4, 6, 6}, -2, 2).realize();
    auto same = [](const Tensor& a, const Tensor& b) {
      CHECK(a.shape() == b.shape());
      CHECK(a.isclose(b).all().item<bool>());
    };
    same(ReLU()(x), x.relu());
    same(GELU{"tanh"}(x), x.gelu("tanh"));
    same(LeakyReLU{0.2}(x), x.leaky_relu(0.2));
    same(Softmax{1}(x), x.softmax(1));
    same(Threshold{0.5, 3}(x), x.threshold(0.5, 3));
    same(
        MaxPool2d{
            3, {.stride = 2, .padding = 1}
    }(x),
        x.max_pool2d(3, {.stride = 2, .padding = 1}));
    same(AvgPool2d{2}(x), x.avg_pool2d(2));
    same(AdaptiveAvgPool2d{1}(x), x.mean({2, 3}, true));
    same(Flatten()(x), x.flatten(1));
    same(
        Unflatten{
            1, {2, 2}
    }(x),
        x.unflatten(1, {2, 2}));
    same(Upsample{{.scale_factor = 2.0}}(x), x.interpolate({.scale_factor = 2.0}));
    same(PixelShuffle{2}(x), x.pixel_shuffle(2));
    same(ReflectionPad2d{2}(x), x.pad({2, 2, 2, 2}, "reflect"));
    same(
        ZeroPad2d{
            {1, 0, 2, 1}
    }(x),
        x.pad({1, 0, 2, 1}));
    same(ConstantPad<2>{1, 7}(x), x.pad({1, 1, 1, 1}, "constant", 7));
    same(Identity()(x), x);
    Sequential net(Conv2d(4, 3, 3), ReLU(), MaxPool2d{2}, Flatten(), Linear(12, 2));
    CHECK(net(x).shape() == std::vector<int64_t>{2, 2});
  }
}
