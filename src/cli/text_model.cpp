#include "cli/text_model.h"

#include <numeric>

#include "base/error.h"

namespace mote {

std::string write_text(models::Gpt& net, const data::Characters& characters,
                       const std::string& prompt, int64_t count,
                       const models::SamplerOptions& options) {
  eval(net);
  models::Sampler sampler(options);
  std::vector<int32_t> tokens = characters.encode(prompt.empty() ? "\n" : prompt);
  tokens = models::generate(net, std::move(tokens), count, sampler);
  return characters.decode(std::span(tokens).subspan(prompt.empty() ? 1 : 0));
}

std::string alphabet(const data::Characters& characters) {
  std::vector<int32_t> all(characters.characters.size());
  std::iota(all.begin(), all.end(), 0);
  return characters.decode(all);
}
data::Characters characters_from(const std::string& alphabet) {
  // Distinct characters in order are a text whose alphabet they are.
  data::Characters out = data::characters(alphabet);
  out.train.clear();
  out.validation.clear();
  return out;
}

models::GptConfig gpt_config(Settings& settings, int64_t vocabulary) {
  models::GptConfig c;
  c.layers = settings.integer("layers", c.layers);
  c.heads = settings.integer("heads", c.heads);
  c.features = settings.integer("width", c.features);
  c.context = settings.integer("context", c.context);
  c.dropout = settings.number("dropout", c.dropout);
  c.vocabulary = vocabulary;
  check(c.features % c.heads == 0, "[train] --width ", c.features, " is not a multiple of --heads ",
        c.heads);
  return c;
}

}  // namespace mote
