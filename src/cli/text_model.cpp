#include "cli/text_model.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "cli/interrupt.h"
#include "io/bytes.h"
#include "runtime/device.h"

namespace mote {

namespace {

// The end of a line, after which anything may begin, where the text had lines.
int32_t token_before_text(const data::Characters& characters) {
  const std::vector<uint32_t>& all = characters.characters;
  const auto at = std::ranges::find(all, uint32_t{'\n'});
  return at == all.end() ? 0 : static_cast<int32_t>(at - all.begin());
}

std::string only_in(const data::Characters& a, const data::Characters& b) {
  data::Characters out;
  std::ranges::set_difference(a.characters, b.characters, std::back_inserter(out.characters));
  return alphabet(out);
}

}  // namespace

std::string write_text(models::Gpt& net, const data::Characters& characters,
                       const std::string& prompt, int64_t count,
                       const models::SamplerOptions& options) {
  eval(net);
  models::Sampler sampler(options);
  std::vector<int32_t> tokens = characters.encode(prompt);
  if (prompt.empty()) tokens = {token_before_text(characters)};
  constexpr int64_t piece = 50;  // tokens before a signal is noticed
  for (int64_t left = count; left > 0 && !interrupt_signal(); left -= piece)
    tokens = models::generate(net, std::move(tokens), std::min(left, piece), sampler);
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

void keep_alphabet(Settings& settings, const data::Characters& characters,
                   const std::string& path) {
  const std::string now = alphabet(characters), before = settings.text("characters", now);
  if (now == before) return;
  const data::Characters learned = characters_from(before);
  std::string what;
  if (std::string more = only_in(characters, learned); !more.empty())
    what += text(", only here: ", quoted(more));
  if (std::string gone = only_in(learned, characters); !gone.empty())
    what += text(", only there: ", quoted(gone));
  fail(ErrorKind::User, text("[train] the characters of ", printable(path),
                             " differ from those of the checkpoint", what));
}

static void check_weights_fit(const models::GptConfig& c) {
  auto number = [](int64_t n) { return static_cast<double>(n); };
  const double width = number(c.features), blocks = 12 * number(c.layers) * width * width;
  const double bytes =
      sizeof(float) * (blocks + (number(c.context) + number(c.vocabulary)) * width);
  const double limit = number(device(default_device()).pool().byte_limit());
  check(bytes <= limit, "[train] the weights of ", c.layers, " layers, width ", c.features,
        " and context ", c.context, " take ", bytes, " bytes; ", default_device(), " has ", limit);
}

models::GptConfig gpt_config(Settings& settings, int64_t vocabulary) {
  models::GptConfig c;
  c.layers = settings.integer("layers", c.layers, kGptLayers);
  c.heads = settings.integer("heads", c.heads, kGptWidth);
  c.features = settings.integer("width", c.features, kGptWidth);
  c.context = settings.integer("context", c.context, kGptContext);
  c.dropout = settings.number("dropout", c.dropout, kGptDropout);
  c.vocabulary = vocabulary;
  check(c.features % c.heads == 0, "[train] --width ", c.features, " is not a multiple of --heads ",
        c.heads);
  check_weights_fit(c);
  return c;
}

}  // namespace mote
