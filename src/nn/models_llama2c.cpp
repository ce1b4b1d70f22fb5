// The models of llama2.c, in its first file format: seven numbers, then all weights as f32.
#include <mote/models.h>

#include "io/formats.h"
#include "tensor/impl.h"

namespace mote::models {
namespace {

struct Header {
  int64_t features, hidden, layers, heads, kv_heads, vocabulary, context;
  bool own_classifier;  // or the embedding's weights serve as one
};

Header read_header(Reader& in) {
  auto number = [&](const char* what) {
    int64_t n = in.read<int32_t>(what);
    in.check(n > 0, what, " must be positive, got ", n);
    return n;
  };
  Header h;
  h.features = number("the number of features"), h.hidden = number("the hidden size");
  h.layers = number("the number of layers"), h.heads = number("the number of heads");
  h.kv_heads = number("the number of key heads");
  int64_t vocabulary = in.read<int32_t>("the size of the vocabulary");
  in.check(vocabulary != 0, "the size of the vocabulary must not be 0");
  h.own_classifier = vocabulary < 0;
  h.vocabulary = vocabulary < 0 ? -vocabulary : vocabulary;
  h.context = number("the context");
  bool divides = h.features % h.heads == 0 && h.heads % h.kv_heads == 0;
  in.check(divides && h.features / h.heads % 2 == 0, h.features, " features, ", h.heads,
           " heads and ", h.kv_heads, " key heads do not divide");
  return h;
}

// A tensor of the file: for each layer one of this shape, or (layers 0) one in all.
struct Part {
  const char* name;
  int64_t layers;
  std::vector<int64_t> shape;
};

std::vector<Part> parts_of(const Header& h) {
  int64_t head = h.features / h.heads, kv = head * h.kv_heads, n = h.layers, d = h.features;
  std::vector<Part> parts = {
      {"tok_embeddings.weight",  0, {h.vocabulary, d}    },
      {"attention_norm.weight",  n, {d}                  },
      {"attention.wq.weight",    n, {d, d}               },
      {"attention.wk.weight",    n, {kv, d}              },
      {"attention.wv.weight",    n, {kv, d}              },
      {"attention.wo.weight",    n, {d, d}               },
      {"ffn_norm.weight",        n, {d}                  },
      {"feed_forward.w1.weight", n, {h.hidden, d}        },
      {"feed_forward.w2.weight", n, {d, h.hidden}        },
      {"feed_forward.w3.weight", n, {h.hidden, d}        },
      {"norm.weight",            0, {d}                  },
      {"rotary.cos",             0, {h.context, head / 2}},
      {"rotary.sin",             0, {h.context, head / 2}},
  };
  if (h.own_classifier)
    parts.push_back({
        "output.weight", 0, {h.vocabulary, d}
    });
  return parts;
}

// The weights under the model's names, on DISK. The angles are left out: the model has its own.
std::vector<NamedTensor> weights_of(const File& file, Reader& in, const Header& h) {
  std::vector<NamedTensor> out;
  for (const Part& p : parts_of(h)) {
    uint64_t bytes = byte_size(file.name, p.name, p.shape, sizeof(float));
    for (int64_t layer = 0; layer < std::max<int64_t>(p.layers, 1); ++layer) {
      in.skip(bytes, p.name);
      if (std::string_view(p.name).starts_with("rotary")) continue;
      std::string prefix = p.layers ? text("layers.", layer, ".") : "";
      Tensor weights = disk_tensor(file.bytes.part(in.at() - bytes, bytes), DType::f32, p.shape);
      out.push_back({prefix + p.name, weights});
    }
  }
  in.check(in.left() == 0, in.left(), " bytes follow the last weight");
  if (!h.own_classifier) out.push_back({"output.weight", out[0].tensor});
  return out;
}

}  // namespace

Llama load_llama2c(const std::string& path, const Options& options, Loc where) {
  OuterCall call("load_llama2c", where);
  File file = open_file(path);
  Reader in(file);
  Header h = read_header(in);
  std::vector<NamedTensor> weights = weights_of(file, in, h);
  Llama model({.features = h.features,
               .layers = h.layers,
               .heads = h.heads,
               .kv_heads = h.kv_heads,
               .hidden = h.hidden,
               .vocabulary = h.vocabulary,
               .context = h.context,
               .norm_eps = 1e-5,
               .rope_theta = 10000,
               .options = options});
  if (!h.own_classifier) model.output.weight = model.tok_embeddings.weight;
  load_state_dict(model, weights, true, where);
  return model;
}

}  // namespace mote::models
