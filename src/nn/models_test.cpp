#include <doctest/doctest.h>
#include <mote/io.h>
#include <mote/models.h>

#include "engine/realize.h"
#include "nn/training_step.h"
#include "test/small_models.h"
#include "test/temp_folder.h"

using namespace mote;

TEST_CASE("models: kernels and memory of the MNIST training step") {
  models::MnistNet net({DType::f32, "NULL"});
  optim::Adam adam(parameters(net));
  Tensor images = zeros({512, 1, 28, 28}, Options{DType::f32, "NULL"}).contiguous();
  Tensor labels = zeros({512}, Options{DType::i64, "NULL"}).contiguous();
  realize({images, labels});
  clear_caches();
  EngineCounts before = engine_counts();
  ScheduleReport report = explain(training_step(net, adam, images, labels));
  MESSAGE("MNIST step: ", report.kernels.size(), " kernels, ", report.distinct, " distinct, ",
          report.total.ops / 1e9, " Gop, ", report.total.bytes / 1e6, " MB moved, ",
          report.arena_bytes, " of ", report.unplanned_bytes, " bytes");
  CHECK(report.kernels.size() <= 80);
  CHECK(report.total.ops <= 60e9);
  CHECK(report.total.bytes <= 1.2e9);
  // Host time, in constructions: the count does not depend on the machine's load.
  CHECK(engine_counts().nodes - before.nodes <= 180'000);
  CHECK(static_cast<double>(report.arena_bytes) <=
        0.7 * static_cast<double>(report.unplanned_bytes));
}

TEST_CASE("models: the MNIST net learns, and its second step is found in the cache") {
  manual_seed(7);
  models::MnistNet net;
  optim::Adam adam(parameters(net), {.lr = 3e-3});
  Tensor images = rand({4, 1, 28, 28}).realize(), labels = tensor({3, 1, 4, 1});
  std::vector<double> losses;
  EngineCounts before;
  for (int i = 0; i < 4; ++i) {
    if (i == 2) before = engine_counts();
    std::vector<Tensor> wanted = training_step(net, adam, images, labels);
    realize(wanted);
    losses.push_back(wanted.back().item<double>());
  }
  CHECK(losses[3] < losses[0] * 0.8);
  EngineCounts after = engine_counts();
  CHECK(after.kernels_compiled == before.kernels_compiled);
  CHECK(after.schedule_hits - before.schedule_hits == 2);
  CHECK(net.bn1.num_batches_tracked.item<int>() == 4);
}

TEST_CASE("models: a deeper network has no more distinct kernels") {
  auto distinct = [](int64_t layers) {
    models::Gpt gpt({.layers = layers, .options = {DType::f32, "NULL"}});
    Tensor tokens = zeros({4, 64}, Options{DType::i64, "NULL"}).contiguous();
    Tensor next = zeros({256}, Options{DType::i64, "NULL"}).contiguous();
    realize({tokens, next});
    Tensor loss = gpt(tokens).flatten(0, 1).cross_entropy(next);
    loss.backward();
    std::vector<Tensor> wanted = {loss};
    for (const Tensor& p : parameters(gpt)) wanted.push_back(p.grad());
    return explain(wanted).distinct;
  };
  int base = distinct(12);
  CHECK(distinct(24) == base);
  CHECK(distinct(48) == base);
}

TEST_CASE("models: names as in the checkpoints people have") {
  Options null{DType::f32, "NULL"};
  auto has = [](const std::vector<NamedTensor>& list, const std::string& name) {
    for (const NamedTensor& n : list)
      if (n.name == name) return true;
    return false;
  };
  models::ResNet resnet = models::resnet50(1000, null);
  CHECK(named_parameters(resnet).size() == 161);
  CHECK(has(state_dict(resnet), "layer1.0.downsample.1.running_var"));
  CHECK(has(state_dict(resnet), "layer4.2.conv3.weight"));
  models::Bert bert({.options = null});
  CHECK(has(state_dict(bert), "bert.encoder.layer.23.attention.output.LayerNorm.weight"));
  models::Gpt gpt({.options = null});
  CHECK(has(state_dict(gpt), "transformer.h.3.attn.c_attn.bias"));
  CHECK(has(state_dict(gpt), "lm_head.weight"));
  CHECK(named_parameters(gpt).size() == 4 * 12 + 4);
  models::LlamaConfig config = models::llama3_8b();
  config.options = null;
  models::Llama llama(config);
  CHECK(named_parameters(llama).size() == 32 * 9 + 3);
  CHECK(has(state_dict(llama), "layers.31.attention.wq.weight"));
}

TEST_CASE("models: decoding token by token gives what the whole sequence gives") {
  const models::LlamaConfig config = test::small_llama();
  manual_seed(3);
  models::Llama net(config);
  Tensor tokens = tensor({{1, 5, 2, 7}});
  std::vector<float> whole = net(tokens)(0, 3).to_vector<float>();
  std::vector<models::KvCache> cache = net.make_cache(1);
  Variable position("position", 1, config.context - 1);
  Tensor last;
  auto feed = [&](int64_t i, const Size& at) {
    last = net.decode(tokens(Slice(), Slice(i, i + 1)), cache, at);
    std::vector<Tensor> wanted = tensors(cache);
    wanted.push_back(last);
    realize(wanted);
  };
  feed(0, 0);
  for (int64_t i = 1; i < 4; ++i) feed(i, position.bind(i));
  std::vector<float> stepped = last.to_vector<float>();
  for (size_t i = 0; i < whole.size(); ++i)
    CHECK(stepped[i] == doctest::Approx(whole[i]).epsilon(1e-4));
}

TEST_CASE("models: BERT and GPT train") {
  models::Bert bert(test::small_bert(8));
  const models::Bert::Batch batch = test::small_bert_batch();
  Tensor loss = bert.loss(batch);
  loss.backward();
  CHECK(bert.cls.predictions.bias.grad().abs().sum().item<double>() > 0);
  models::Gpt gpt({.layers = 1, .heads = 2, .features = 8, .context = 4, .vocabulary = 5});
  Tensor logits = gpt(tensor({{0, 1, 2, 3}}));
  logits.flatten(0, 1).cross_entropy(tensor({1, 2, 3, 4})).backward();
  CHECK(gpt.transformer.wte.weight.grad().abs().sum().item<double>() > 0);
}

TEST_CASE("models: GPT-2's weights are found as Hugging Face and nanoGPT write them") {
  test::TempFolder folder;
  manual_seed(5);
  models::GptConfig config{.layers = 2, .heads = 2, .features = 8, .context = 6, .vocabulary = 11};
  models::Gpt gpt(config);
  const Tensor tokens = tensor({
      {1, 5, 10}
  });
  const std::vector<float> want = gpt(tokens).to_vector<float>();
  for (models::GptBlock& block : gpt.transformer.h) block.mlp.tanh_gelu = true;
  const std::vector<float> want_by_tanh = gpt(tokens).to_vector<float>();
  CHECK(want_by_tanh != want);
  auto logits = [&](const std::string& path) {
    return models::load_gpt2(path, 2)(tokens).to_vector<float>();
  };
  save_torch(folder / "nano.pt", state_dict(gpt));
  CHECK(logits(folder / "nano.pt") == want);

  std::vector<NamedTensor> turned;  // linear weights are (in, out), masks are there, the head not
  for (const NamedTensor& t : without_prefix(state_dict(gpt), "transformer.")) {
    const bool linear = t.name.starts_with("h.") && t.tensor.dim() == 2;
    turned.push_back({t.name, linear ? t.tensor.t().contiguous() : t.tensor});
  }
  turned.push_back({"h.0.attn.bias", ones({1, 1, 6, 6}).tril()});
  save_safetensors(folder / "hf.safetensors", turned);
  CHECK(logits(folder / "hf.safetensors") == want_by_tanh);
  save_torch(folder / "hf.pt", with_prefix(turned, "transformer."));
  CHECK(logits(folder / "hf.pt") == want_by_tanh);

  CHECK_THROWS_WITH_AS(models::load_gpt2(folder / "hf.pt", 3),
                       doctest::Contains("8 features cannot be shared out to 3 heads"), Error);
  save_safetensors(folder / "other.safetensors", {{"weight", ones({2, 2})}});
  CHECK_THROWS_WITH_AS(models::load_gpt2(folder / "other.safetensors"),
                       doctest::Contains("holds no GPT-2: it lacks transformer.wte.weight"), Error);
}
