#include <doctest/doctest.h>
#include <mote/data.h>
#include <mote/error.h>
#include <mote/models.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

#include "test/shared_data.h"
#include "test/temp_folder.h"

using namespace mote;

namespace {

int32_t likeliest(const std::vector<float>& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// A file of llama2.c: 2 layers, 4 features, 2 heads of which 1 for keys, 5
// words.
std::string small_model(int32_t vocabulary = 5) {
  int32_t header[] = {4, 6, 2, 2, 1, vocabulary, 3};
  size_t block = 4 + 16 + 8 + 8 + 16 + 4 + 3 * 24;
  size_t count = 20 + 2 * block + 4 + 2 * 3 + (vocabulary < 0 ? 20 : 0);
  std::string out(reinterpret_cast<const char*>(header), sizeof header);
  for (size_t i = 0; i < count; ++i) {
    float value = std::sin(static_cast<float>(i));
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return out;
}

models::Llama load(const std::string& bytes) {
  test::TempFolder folder;
  test::write_file(folder / "model.bin", bytes);
  return models::load_llama2c(folder / "model.bin");
}

std::string refusal(const std::string& bytes) {
  try {
    load(bytes);
  } catch (const Error& e) {
    std::string why = e.what();
    CHECK(why.find("model.bin: ") != std::string::npos);
    return why;
  }
  return "accepted";
}

}  // namespace

TEST_CASE("sampler: greedy, and chance among the likeliest") {
  std::vector<float> logits = {0.5f, 3.f, -1.f, 2.f, 2.5f};
  for (auto options : {models::SamplerOptions{.temperature = 0}, models::SamplerOptions{.top_k = 1},
                       models::SamplerOptions{.top_p = 1e-3}}) {
    models::Sampler sampler(options);
    for (int i = 0; i < 20; ++i) CHECK(sampler(logits) == 1);
  }
  auto counts = [&](const models::SamplerOptions& options) {
    models::Sampler sampler(options);
    std::vector<double> out(5);
    for (int i = 0; i < 20000; ++i) out[static_cast<size_t>(sampler(logits))] += 1.0 / 20000;
    return out;
  };
  std::vector<double> weights, all = counts({.temperature = 2});
  double sum = 0;
  for (float l : logits) sum += weights.emplace_back(std::exp(l / 2));
  for (size_t i = 0; i < 5; ++i) CHECK(all[i] == doctest::Approx(weights[i] / sum).epsilon(0.08));
  std::vector<double> three = counts({.top_k = 3});
  CHECK(three[0] + three[2] == 0);
  CHECK(three[3] > 0.1);
  // Probabilities 0.47, 0.29, 0.17, 0.04 ...: two reach 0.7.
  std::vector<double> two = counts({.top_p = 0.7});
  CHECK(two[0] + two[2] + two[3] == 0);
  CHECK(two[1] == doctest::Approx(1 / (1 + std::exp(-0.5))).epsilon(0.05));
}

TEST_CASE("sampler: what it draws depends on the seed") {
  std::vector<float> logits(100, 0.f);
  auto draw = [&](uint64_t seed) {
    models::Sampler sampler({.seed = seed});
    std::vector<int32_t> out;
    for (int i = 0; i < 10; ++i) out.push_back(sampler(logits));
    return out;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
  CHECK_THROWS_WITH(models::Sampler({.top_p = 0}), doctest::Contains("top_p"));
  CHECK_THROWS_WITH(models::Sampler({.temperature = -1}), doctest::Contains("temperature"));
  logits[3] = NAN;
  CHECK_THROWS_WITH(models::Sampler()(logits), doctest::Contains("a logit is NaN"));
}

TEST_CASE("generate: a GPT continues as by calls of its own, beyond its context") {
  manual_seed(11);
  models::Gpt gpt({.layers = 1, .heads = 2, .features = 8, .context = 4, .vocabulary = 7});
  eval(gpt);
  for (const Tensor& p : parameters(gpt)) p.detach().mul_(20).realize();  // telling logits
  std::vector<int64_t> want = {2, 5};
  for (int i = 0; i < 5; ++i) {
    std::vector<int64_t> seen(want.end() - std::min<int64_t>(4, static_cast<int64_t>(want.size())),
                              want.end());
    Tensor logits = gpt(from_data(seen, {1, seen.size()}));
    want.push_back(
        likeliest(logits.select(1, static_cast<int64_t>(seen.size()) - 1).to_vector<float>()));
  }
  models::Sampler greedy({.temperature = 0});
  CHECK(models::generate(gpt, {2, 5}, 5, greedy) == std::vector<int32_t>(want.begin(), want.end()));
}

TEST_CASE(
    "generate: a Llama fed token by token gives what it gives for the "
    "whole text") {
  models::Llama model = load(small_model());
  CHECK(model.output.weight.impl() == model.tok_embeddings.weight.impl());
  std::vector<float> whole = model(tensor({
                                       {3, 1, 4}
  }))
                                 .to_vector<float>();
  models::Generator generator(model);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 3; ++i) {
      std::vector<float> logits = generator.next(std::array{3, 1, 4}[static_cast<size_t>(i)]);
      for (size_t k = 0; k < 5; ++k)
        CHECK(logits[k] == doctest::Approx(whole[static_cast<size_t>(i) * 5 + k]).epsilon(1e-4));
    }
    CHECK(generator.position() == 3);
    CHECK_THROWS_WITH(generator.next(0), doctest::Contains("context of 3 tokens is full"));
    generator.restart();
  }
  CHECK_THROWS_WITH(generator.next(5), doctest::Contains("no token 5"));
}

TEST_CASE("llama2.c: weights in their places, malformed files refused") {
  models::Llama model = load(small_model(-5));
  auto first = [](const Tensor& t) { return t.flatten()[0].item<float>(); };
  size_t block = 20 + 2 * (4 + 16 + 8 + 8 + 16 + 4 + 3 * 24) + 4 + 6;
  CHECK(first(model.layers[1].attention_norm.weight) == std::sin(24.f));
  CHECK(first(model.layers[1].attention.wk.weight) == std::sin(20.f + 8 + 32 + 8));
  CHECK(first(model.output.weight) == std::sin(static_cast<float>(block)));
  std::string good = small_model();
  CHECK(refusal(good) == "accepted");
  CHECK(refusal(good.substr(0, 20)).find("vocabulary") != std::string::npos);
  CHECK(refusal(good.substr(0, good.size() - 4)).find("rotary.sin") != std::string::npos);
  CHECK(refusal(good + "1234").find("4 bytes follow") != std::string::npos);
  for (size_t field = 0; field < 7; ++field)
    for (int32_t value : {0, 3, -7, 1 << 30, INT32_MIN}) {
      std::string bad = good;
      std::memcpy(bad.data() + 4 * field, &value, 4);
      if (bad != good) CHECK(refusal(bad) != "accepted");
    }
}

TEST_CASE("llama2.c: stories260K tells the expected story, byte for byte") {
  std::string folder = shared_data("llm");
  if (folder.empty()) return;
  models::Llama model = models::load_llama2c(folder + "/stories260K.bin");
  data::Tokenizer tokenizer = data::Tokenizer::llama2c(folder + "/tok512.bin");
  models::Generator generator(model);
  std::vector<int32_t> tokens;
  auto start = std::chrono::steady_clock::now();
  for (int32_t token = tokenizer.begin(); tokens.size() < 200; tokens.push_back(token)) {
    if (tokens.size() == 10) start = std::chrono::steady_clock::now();
    token = likeliest(generator.next(token));
  }
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  MESSAGE("tokens/s: ", 190 / time.count());
  CHECK(tokenizer.decode(tokens) == read_text(folder + "/expected_greedy_200steps.txt"));
}
