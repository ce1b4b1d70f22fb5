// Text from models, token by token.
#include <mote/jit.h>
#include <mote/models.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "tensor/impl.h"

namespace mote::models {

Sampler::Sampler(const SamplerOptions& o, Loc where) : options_(o) {
  OuterCall call("Sampler", where);
  expect(o.temperature >= 0, "the temperature must not be negative, got ", o.temperature);
  expect(o.top_k >= 0, "top_k must not be negative, got ", o.top_k);
  expect(o.top_p > 0 && o.top_p <= 1, "top_p must be above 0 and at most 1, got ", o.top_p);
}

// The likeliest tokens, sorted, whose probabilities add up to top_p; at most top_k of them.
int32_t Sampler::operator()(std::span<const float> logits, Loc where) {
  OuterCall call("Sampler", where);
  expect(!logits.empty(), "there are no logits to choose from");
  if (options_.temperature == 0)
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  auto likelier = [&](int32_t a, int32_t b) {
    float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  size_t kept = order.size();
  if (options_.top_k > 0) kept = std::min(kept, static_cast<size_t>(options_.top_k));
  if (kept < order.size() || options_.top_p < 1)
    std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(kept), order.end(),
                      likelier);
  double top = *std::max_element(logits.begin(), logits.end());
  std::vector<double> up_to(kept);  // sums of weights
  double sum = 0;
  for (size_t i = 0; i < kept; ++i)
    up_to[i] = sum +=
        std::exp((logits[static_cast<size_t>(order[i])] - top) / options_.temperature);
  expect(std::isfinite(sum), "a logit is NaN");
  auto reaches = [&](double share) {  // the first token at which the sums reach this share
    auto at = std::upper_bound(up_to.begin(), up_to.end(), share * up_to.back());
    return std::min(static_cast<size_t>(at - up_to.begin()), up_to.size() - 1);
  };
  if (options_.top_p < 1) up_to.resize(reaches(options_.top_p) + 1);
  return order[reaches(Random(options_.seed, drawn_++).uniform())];
}

static void expect_token(int32_t token, int64_t vocabulary) {
  expect(token >= 0 && token < vocabulary, "no token ", token, " in a vocabulary of ", vocabulary);
}

std::vector<int32_t> generate(const Gpt& model, std::vector<int32_t> tokens, int64_t count,
                              Sampler& sampler, Loc where) {
  ProgramCall call("generate", where);
  expect(!tokens.empty(), "needs at least one token to begin with");
  const Tensor& positions = model.transformer.wpe.weight;
  int64_t context = positions.size(0), vocabulary = model.transformer.wte.weight.size(0);
  for (int32_t token : tokens) expect_token(token, vocabulary);
  // Always the whole context, filled up behind the text, where nothing looks: one shape for all.
  auto last_logits = jit([&](const Tensor& window, const Tensor& last) {
    return model(window).index_select(1, last).flatten();
  });
  for (int64_t i = 0; i < count; ++i) {
    std::vector<int64_t> window(static_cast<size_t>(context));
    int64_t seen = std::min(context, static_cast<int64_t>(tokens.size()));
    std::copy(tokens.end() - seen, tokens.end(), window.begin());
    Options ids{DType::i64, positions.device()};
    Tensor logits = last_logits(from_data(window, {1, context}, ids), tensor({seen - 1}, ids));
    tokens.push_back(sampler(logits.to_vector<float>()));
  }
  return tokens;
}

struct Generator::State {
  struct Step {
    const Llama& model;
    std::vector<KvCache>& cache;
    Tensor operator()(const Tensor& token, const Sym& at) const {
      return model.decode(token, cache, at).flatten();
    }
  };
  Llama model;
  std::vector<KvCache> cache;
  Variable at;
  int64_t position = 0;
  Jit<Step> step;
  explicit State(const Llama& m)
      : model(m),
        cache(m.make_cache(1)),
        at("position", 0, m.config.context - 1),
        step(jit(Step{model, cache})) {}
};

Generator::Generator(const Llama& model, Loc where) {
  OuterCall call("Generator", where);
  state_ = new State(model);
}
Generator::~Generator() { delete state_; }
int64_t Generator::position() const { return state_->position; }
void Generator::restart() { state_->position = 0; }

std::vector<float> Generator::next(int32_t token, Loc where) {
  ProgramCall call("next", where);
  const LlamaConfig& config = state_->model.config;
  expect_token(token, config.vocabulary);
  expect(state_->position < config.context, "the context of ", config.context, " tokens is full");
  Options ids{DType::i64, state_->model.tok_embeddings.weight.device()};
  Tensor input = from_data(std::vector<int64_t>{token}, {1, 1}, ids);
  Tensor logits = state_->step(input, state_->at.bind(state_->position));
  ++state_->position;
  return logits.to_vector<float>();
}

}  // namespace mote::models
