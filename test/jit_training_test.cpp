// Whole programs with jit: training, accumulation, decoding. What jit gives is bit for bit what the
// function gives.
#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/models.h>
#include <mote/mote.h>
#include <mote/optim.h>

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/flags.h"
#include "engine/realize.h"
#include "test/odd_devices.h"
#include "test/small_models.h"

using namespace mote;

namespace {

using Bytes = std::vector<std::vector<float>>;

Bytes values(const std::vector<Tensor>& all) {
  Bytes out;
  for (const Tensor& t : all) out.push_back(t.to_vector<float>());
  return out;
}

struct Net {
  nn::Conv2d conv;
  nn::BatchNorm norm;
  nn::Linear fc;
  nn::Dropout drop{0.3};
  MOTE_FIELDS(conv, norm, fc)
  explicit Net(const Options& o) : conv(1, 4, 3, {}, true, o), norm(4, o), fc(4 * 9, 5, true, o) {}
  Tensor operator()(const Tensor& x) const {
    return fc(drop(norm(conv(x).relu()).max_pool2d(2).flatten(1)));
  }
};

struct Batch {
  Tensor images, labels;
  MOTE_FIELDS(images, labels)
};

// The same batches for everyone.
Batch batch(int i, const std::string& device) {
  std::vector<float> pixels(8 * 64);
  std::vector<int64_t> labels;
  for (size_t k = 0; k < pixels.size(); ++k)
    pixels[k] = static_cast<float>((k * 7919 + static_cast<size_t>(i) * 104729) % 997) / 997;
  for (int k = 0; k < 8; ++k) labels.push_back((k * 3 + i) % 5);
  return {from_data(pixels, {8, 1, 8, 8}, {.device = device}),
          from_data(labels, {8}, {.device = device})};
}

enum class Style { JitRealizes, FunctionRealizes, Flat };

struct Trained {
  Bytes parameters, losses, gradients;
  bool operator==(const Trained&) const = default;
};

Trained train(bool use_jit, Style style, const std::string& device) {
  FlagScope mode(Flag::JIT, use_jit);
  manual_seed(11);
  Net net({DType::f32, device});
  optim::Adam opt(parameters(net), {.lr = 1e-2, .flat = style == Style::Flat});
  auto step = jit([&](const Batch& b) {
    opt.zero_grad();
    Tensor loss = net(b.images).cross_entropy(b.labels);
    loss.backward();
    std::vector<Tensor> written = opt.step();
    if (style == Style::FunctionRealizes) realize(written);
    return loss;
  });
  std::vector<Tensor> losses;
  for (int i = 0; i < 20; ++i) {
    if (i == 9) opt.set_lr(5e-3);
    losses.push_back(step(batch(i, device)));
  }
  CHECK(step.captured() == use_jit);
  std::vector<Tensor> gradients;
  for (const Tensor& p : opt.params) gradients.push_back(p.grad());
  return {values(tensors(net)), values(losses), values(gradients)};
}

}  // namespace

TEST_SUITE("jit") {
  TEST_CASE("jit: training with Adam and dropout is bit for bit the same") {
    add_odd_devices();
    for (Style style : {Style::JitRealizes, Style::FunctionRealizes, Style::Flat})
      for (const char* device : {"CPU", "LATE"}) {
        CAPTURE(device);
        CAPTURE(static_cast<int>(style));
        Trained plain = train(false, style, device), replayed = train(true, style, device);
        CHECK(plain == replayed);
        CHECK(plain.losses[2] != plain.losses[19]);
      }
  }

  TEST_CASE("jit: random numbers advance from replay to replay, as without it") {
    auto draw = [](bool use_jit) {
      FlagScope mode(Flag::JIT, use_jit);
      manual_seed(5);
      auto f = jit([](const Tensor& x) { return x + rand({4}); });
      Bytes all;
      Tensor x = zeros({4}).contiguous();
      for (int i = 0; i < 6; ++i) {
        all.push_back(f(x).to_vector<float>());
        if (i == 3) all.push_back(rand({3}).to_vector<float>());
      }
      return all;
    };
    Bytes plain = draw(false), replayed = draw(true);
    CHECK(plain == replayed);
    for (size_t i = 0; i < plain.size(); ++i)
      for (size_t k = 0; k < i; ++k) CHECK(plain[i] != plain[k]);
  }

  TEST_CASE("jit: gradients accumulated by micro-steps") {
    add_odd_devices();
    enum Clearing { Outside, InUpdate, Zeroed };
    auto accumulate = [](bool use_jit, Clearing clearing, const std::string& device) {
      FlagScope mode(Flag::JIT, use_jit);
      manual_seed(2);
      nn::Linear net(6, 3, true, {DType::f32, device});
      optim::SGD opt(parameters(net), {.lr = 0.1, .momentum = 0.9});
      auto micro = jit([&](const Tensor& x) {
        Tensor loss = net(x).square().mean();
        loss.backward();
        return loss;
      });
      auto update = jit([&] {
        opt.step();
        if (clearing == InUpdate) opt.zero_grad();
        if (clearing == Zeroed)
          for (const Tensor& p : opt.params) p.grad().zero_();
      });
      Bytes losses;
      std::vector<float> pixels(12);
      for (int i = 0; i < 6; ++i) {
        for (int k = 0; k < 3; ++k) {
          for (size_t p = 0; p < pixels.size(); ++p)
            pixels[p] =
                static_cast<float>((p * 31 + static_cast<size_t>(i * 3 + k) * 17) % 13) / 13;
          losses.push_back(micro(from_data(pixels, {2, 6}, {.device = device})).to_vector<float>());
        }
        update();
        if (clearing == Outside) opt.zero_grad();
      }
      losses.push_back(net.weight.to_vector<float>());
      return losses;
    };
    for (const char* device : {"CPU", "LATE"})
      for (Clearing clearing : {Outside, InUpdate, Zeroed}) {
        CAPTURE(device);
        CAPTURE(static_cast<int>(clearing));
        CHECK(accumulate(false, clearing, device) == accumulate(true, clearing, device));
      }
  }

  TEST_CASE("jit: forward and backward in a jit, the optimizer outside") {
    auto run = [](bool use_jit) {
      FlagScope mode(Flag::JIT, use_jit);
      manual_seed(4);
      nn::Linear net(4, 2);
      optim::Adam opt(parameters(net), {.lr = 0.05});
      auto both = jit([&](const Tensor& x) {
        Tensor loss = net(x).exp().sum();
        loss.backward();
        return loss;
      });
      std::vector<Tensor> kept;
      for (int i = 0; i < 6; ++i) {
        opt.zero_grad();
        both(full({3, 4}, 0.1 * i).contiguous());
        kept.push_back(net.weight.grad());
        realize(opt.step());
      }
      kept.push_back(net.weight);
      return values(kept);
    };
    CHECK(run(true) == run(false));
    nn::Linear net(4, 2);
    auto f = jit([&](const Tensor& x) { net(x).sum().backward(); });
    Tensor x = ones({1, 4}).contiguous();
    for (int i = 0; i < 3; ++i) {
      for (Tensor& p : parameters(net)) p.zero_grad();
      f(x);
    }
    for (float want : {2.f, 3.f, 4.f, 5.f}) {  // another situation: there is one to add to
      f(x);
      CHECK(net.bias.grad().to_vector<float>() == std::vector<float>(2, want));
    }
  }

  TEST_CASE("jit: decoding with a cache and a symbolic position") {
    const models::LlamaConfig config = test::small_llama(12);
    auto decode = [&](bool use_jit, bool cache_is_argument) {
      FlagScope mode(Flag::JIT, use_jit);
      manual_seed(3);
      models::Llama net(config);
      std::vector<models::KvCache> cache = net.make_cache(1);
      Variable position("position", 1, config.context - 1);
      auto by_capture = jit([&](const Tensor& token, const Sym& at) {
        return net.decode(token, cache, at).argmax(-1).reshape({1, 1});
      });
      auto by_argument =
          jit([&](const Tensor& token, std::vector<models::KvCache>& c, const Sym& at) {
            return net.decode(token, c, at).argmax(-1).reshape({1, 1});
          });
      Tensor token = net.decode(ones({1, 1}, {DType::i64}), cache, 0).argmax(-1).reshape({1, 1});
      std::vector<int64_t> said;
      for (int64_t i = 1; i < 10; ++i) {
        token = cache_is_argument ? by_argument(token, cache, position.bind(i))
                                  : by_capture(token, position.bind(i));
        said.push_back(token.item<int64_t>());
      }
      CHECK((cache_is_argument ? by_argument.captured() : by_capture.captured()) == use_jit);
      for (float v : cache[1].keys.to_vector<float>())
        said.push_back(static_cast<int64_t>(v * 1e6f));
      return said;
    };
    CHECK(decode(true, false) == decode(false, false));
    CHECK(decode(true, true) == decode(false, false));
  }

  TEST_CASE("jit: on NULL a step of any size replays") {
    models::MnistNet net({DType::f32, "NULL"});
    optim::Adam opt(parameters(net));
    int calls = 0;
    auto step = jit([&](const Batch& b) {
      ++calls;
      opt.zero_grad();
      Tensor loss = net(b.images).cross_entropy(b.labels);
      loss.backward();
      opt.step();
      return loss;
    });
    Batch b{zeros({512, 1, 28, 28}, {.device = "NULL"}).contiguous(),
            zeros({512}, {DType::i64, "NULL"}).contiguous()};
    for (int i = 0; i < 5; ++i) step(b);
    CHECK(calls == 2);
    size_t written = 0, read = 0;
    for (const JitState& s : step.state(named_tensors(net))) (s.written ? written : read) += 1;
    CHECK(written == 3 * parameters(net).size() + 6 + 1);  // with running statistics, steps
    CHECK(read >= 1);                                      // the learning rate
  }

  TEST_CASE("jit: a late kernel's error surfaces where the value is asked for") {
    add_odd_devices();
    auto f = jit([](const Tensor& x) { return (x * 2).contiguous().sum(); });
    Tensor x = from_data(std::vector<float>{1, 2}, {2}, {.device = "LATE"});
    for (int i = 0; i < 3; ++i) CHECK(f(x).item<float>() == 6);
    fail_late_kernel(0);
    Tensor y = f(x);
    CHECK_THROWS_WITH_AS(y.item<float>(), doctest::Contains("no more ink"), Error);
    CHECK(x.sum().item<float>() == 3);
  }
}

TEST_SUITE_BEGIN("threads");

TEST_CASE("jit: threads that call one function take turns") {
  Tensor total = zeros({4}).contiguous().realize();
  auto add = jit([&](const Tensor& x) {
    total.add_(x);
    return x * 2;
  });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      Tensor x = full({4}, i).to(DType::f32).contiguous().realize();
      for (int k = 0; k < 25; ++k)
        wrong += add(x).to_vector<float>() != std::vector<float>(4, 2 * static_cast<float>(i));
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
  CHECK(total.to_vector<float>() == std::vector<float>(4, 25 * 6));
}

TEST_SUITE_END();
