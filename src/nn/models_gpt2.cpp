// GPT-2's weights as others write them.
#include <mote/io.h>
#include <mote/models.h>

#include <map>

#include "tensor/impl.h"

namespace mote::models {
namespace {

constexpr std::string_view kBody = "transformer.";

// Masks of attention are stored beside the weights; they are no parameters.
bool is_mask(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

// The model's names. Nothing is copied.
std::vector<NamedTensor> named_as_ours(std::vector<NamedTensor> file) {
  std::vector<NamedTensor> out;
  for (NamedTensor& t : file) {
    if (is_mask(t.name)) continue;
    const bool is_whole = t.name.starts_with(kBody) || t.name.starts_with("lm_head.");
    if (!is_whole) t.name.insert(0, kBody);
    out.push_back(std::move(t));
  }
  return out;
}

GptConfig config_of(const std::string& path, const std::vector<NamedTensor>& weights) {
  std::map<std::string_view, const Tensor*> by_name;
  for (const NamedTensor& t : weights) by_name[t.name] = &t.tensor;
  auto shape = [&](std::string_view name, size_t axes) {
    auto it = by_name.find(name);
    expect(it != by_name.end(), path, " holds no GPT-2: it lacks ", name);
    expect(it->second->shape().size() == axes, path, ": ", name, " has shape ", *it->second,
           ", not ", axes, axes == 1 ? " axis" : " axes");
    return it->second->shape();
  };
  GptConfig config{.layers = 0};
  const std::vector<int64_t> words = shape("transformer.wte.weight", 2);
  config.vocabulary = words[0], config.features = words[1];
  config.context = shape("transformer.wpe.weight", 2)[0];
  while (by_name.contains(text(kBody, "h.", config.layers, ".ln_1.weight"))) ++config.layers;
  expect(config.layers > 0, path, " holds no GPT-2: it lacks transformer.h.0.ln_1.weight");
  config.bias = by_name.contains("transformer.h.0.attn.c_attn.bias");
  return config;
}

}  // namespace

Gpt load_gpt2(const std::string& path, int64_t heads, double dropout, const Options& options,
              Loc where) {
  OuterCall call("load_gpt2", where);
  std::vector<NamedTensor> weights = named_as_ours(load(path));
  GptConfig config = config_of(path, weights);
  config.heads = heads ? heads : std::max<int64_t>(1, config.features / 64);
  expect(config.heads > 0 && config.features % config.heads == 0, config.features,
         " features cannot be shared out to ", config.heads, " heads");
  config.dropout = dropout, config.options = options;
  // Hugging Face's weights of linear layers are (in, out). Square ones (attn.c_proj) show nothing by
  // their shape, but all of a file are the same way round.
  bool turned = false;
  for (const NamedTensor& t : weights)
    if (t.name == "transformer.h.0.attn.c_attn.weight")
      turned = t.tensor.size(0) == config.features;
  config.tanh_gelu = turned;
  Gpt model(config);
  for (NamedTensor& t : weights)
    if (turned && t.name.ends_with(".weight") && t.tensor.dim() == 2 &&
        t.name.starts_with("transformer.h."))
      t.tensor = t.tensor.t();
  load_state_dict(model, weights, true, where);
  return model;
}

}  // namespace mote::models
