// A small GPT that learns a rhyme, character by character, and writes in its manner.
#include <mote/data.h>
#include <mote/jit.h>
#include <mote/models.h>
#include <mote/optim.h>

#include <cstdio>

using namespace mote;

const char rhyme[] =
    "Monday's child is fair of face,\nTuesday's child is full of grace,\n"
    "Wednesday's child is full of woe,\nThursday's child has far to go,\n"
    "Friday's child is loving and giving,\nSaturday's child works hard for a living.\n";

int main() {
  manual_seed(0);
  std::string text;
  for (int i = 0; i < 10; ++i) text += rhyme;
  data::Characters characters = data::characters(text);
  models::GptConfig config{.layers = 1, .heads = 2, .features = 32, .context = 32};
  config.vocabulary = static_cast<int64_t>(characters.characters.size());
  models::Gpt gpt(config);
  optim::AdamW adam(parameters(gpt));

  auto step = jit([&](const data::TokenBatch& batch) {
    adam.zero_grad();
    Tensor loss = gpt(batch.tokens).flatten(0, 1).cross_entropy(batch.targets.flatten());
    loss.backward();
    adam.step();
    return loss;
  });
  const int steps = 300;
  optim::Schedule rate = optim::one_cycle_lr(1e-2, steps);
  data::Order order(data::token_starts(characters.train, config.context), 16);
  for (int i = 0; i < steps; ++i) {
    adam.set_lr(rate(i));
    Tensor loss = step(data::token_batch(characters.train, order.next(), config.context));
    if (i % 100 == 99) std::printf("step %3d  loss %.3f\n", i + 1, loss.item<float>());
  }

  models::Sampler likeliest({.temperature = 0});
  std::vector<int32_t> tokens = characters.encode("Thursday's");
  tokens = models::generate(gpt, tokens, 60, likeliest);
  std::printf("%s\n", characters.decode(tokens).c_str());
}
