// Fine-tunes GPT-2, or a small model of its shape, on another text:
//   finetune WEIGHTS TEXT encoder.json vocab.bpe [steps]
// WEIGHTS is Hugging Face's model.safetensors or pytorch_model.bin, or nanoGPT's .pt. Without
// arguments it first trains a small model on one rhyme, and fine-tunes that on another one.
#include <mote/data.h>
#include <mote/models.h>
#include <mote/mote.h>
#include <mote/optimizers.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

using namespace mote;

const std::string first_rhyme =
    "Monday's child is fair of face,\nTuesday's child is full of grace,\n"
    "Wednesday's child is full of woe,\nThursday's child has far to go,\n"
    "Friday's child is loving and giving,\nSaturday's child works hard for a living.\n";
const std::string second_rhyme =
    "One for sorrow,\nTwo for mirth,\nThree for a funeral,\nFour for a birth,\n"
    "Five for heaven,\nSix for hell,\nSeven for the devil, his own self.\n";

float train_on(models::Gpt& gpt, const std::vector<int32_t>& tokens, int64_t length, int steps,
               double rate) {
  std::vector<Tensor> matrices, others;  // only matrices decay
  for (const Tensor& p : parameters(gpt)) (p.dim() > 1 ? matrices : others).push_back(p);
  optim::Groups adam;
  adam.add("matrices", optim::AdamW(matrices, {.lr = rate, .weight_decay = 0.1}));
  adam.add("others", optim::AdamW(others, {.lr = rate, .weight_decay = 0}));
  auto step = jit([&](const data::TokenBatch& batch) {
    adam.zero_grad();
    Tensor loss = gpt(batch.tokens).flatten(0, 1).cross_entropy(batch.targets.flatten());
    loss.backward();
    adam.clip_grad_norm(1);
    adam.step();
    return loss;
  });
  train(gpt);
  Tensor loss;
  optim::Schedule schedule = optim::cosine_annealing_lr(rate, steps);
  data::Order order(data::token_starts(tokens, length), 8);
  for (int i = 0; i < steps; ++i) {
    adam.set_lr(schedule(i));
    loss = step(data::token_batch(tokens, order.next(), length));
    if (i % 50 == 0) std::printf("step %3d  loss %.3f\n", i, loss.item<float>());
  }
  eval(gpt);
  return loss.item<float>();
}

template <class Text>
void show(const models::Gpt& gpt, const Text& text, const std::string& prompt) {
  models::Sampler sampler({.temperature = 0.5, .top_k = 40});
  std::vector<int32_t> tokens = models::generate(gpt, text.encode(prompt), 50, sampler);
  std::printf("---\n%s\n---\n", text.decode(tokens).c_str());
}

int main(int argc, char** argv) {
  manual_seed(0);
  if (argc > 4) {
    models::Gpt gpt = models::load_gpt2(argv[1], 0, /*dropout=*/0.1);
    data::Tokenizer tokenizer = data::Tokenizer::gpt2(argv[3], argv[4]);
    std::ifstream file(argv[2]);
    std::string text(std::istreambuf_iterator<char>(file), {});
    train_on(gpt, tokenizer.encode(text), 128, argc > 5 ? std::atoi(argv[5]) : 200, 3e-5);
    show(gpt, tokenizer, text.substr(0, 20));
    save_safetensors("finetuned.safetensors", state_dict(gpt));
    return 0;
  }
  data::Characters characters = data::characters(first_rhyme + second_rhyme);
  models::GptConfig config{.layers = 1, .heads = 2, .features = 32, .context = 32};
  config.vocabulary = static_cast<int64_t>(characters.characters.size());
  models::Gpt start(config);
  train_on(start, characters.encode(first_rhyme), 32, 150, 1e-2);
  const std::string path = std::filesystem::temp_directory_path() / "mote_finetune.pt";
  save_torch(path, state_dict(start));  // torch.load reads it too

  models::Gpt gpt = models::load_gpt2(path, config.heads);
  train_on(gpt, characters.encode(second_rhyme), 32, 150, 1e-2);
  show(gpt, characters, "Three for");
  std::filesystem::remove(path);
}
