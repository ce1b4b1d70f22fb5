// Training that is saved with the library and goes on in new objects gives the bits of training
// that was never interrupted.
#include <doctest/doctest.h>
#include <mote/io.h>
#include <mote/jit.h>
#include <mote/mote.h>
#include <mote/optim.h>

#include <functional>
#include <memory>

#include "base/flags.h"
#include "test/temp_folder.h"

using namespace mote;

namespace {

struct Net {
  nn::Linear in, out;
  nn::BatchNorm norm;
  nn::Dropout drop{0.2};
  MOTE_FIELDS(in, out, norm)
  Net() : in(12, 24), out(24, 3), norm(24) {}
  Tensor operator()(const Tensor& x) const { return out(drop(norm(in(x)).relu())); }
};

struct RandomState {
  std::vector<Tensor> numbers = random_state();
  MOTE_FIELDS(numbers)
};

using MakeOptimizer = std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)>;
using Numbers = std::vector<std::vector<float>>;

// All that a run is made of.
struct Run {
  Net net;
  std::unique_ptr<optim::Optimizer> opt;
  Numbers losses;
  bool use_jit;

  Run(const MakeOptimizer& make, bool with_jit) : opt(make(parameters(net))), use_jit(with_jit) {}

  Tensor step(const Tensor& x, const Tensor& y) {
    opt->zero_grad();
    Tensor loss = net(x).cross_entropy(y);
    loss.backward();
    opt->clip_grad_norm(1.0);
    std::vector<Tensor> written = opt->step();
    if (!use_jit) {
      for (const Tensor& t : tensors(net)) written.push_back(t);
      written.push_back(loss);
      realize(written);
    }
    return loss;
  }
  // The batches are pending when they are passed.
  void train(int from, int to) {
    auto compiled = jit([&](const Tensor& x, const Tensor& y) { return step(x, y); });
    for (int i = from; i < to; ++i) {
      Tensor x = (arange(16 * 12, {DType::f32}).reshape({16, 12}) * (0.37 + i)).sin() * 2;
      Tensor y = (arange(16) * (i + 3)) % 3;
      losses.push_back((use_jit ? compiled(x, y) : step(x, y)).to_vector<float>());
    }
  }
  std::vector<NamedTensor> state() {
    std::vector<NamedTensor> all = named_tensors(net, "model");
    RandomState random;
    for (NamedTensor& n : named_tensors(*opt, "optimizer")) all.push_back(n);
    for (NamedTensor& n : named_tensors(random, "random")) all.push_back(n);
    return all;
  }
  void load(const std::vector<NamedTensor>& saved) {
    struct Into {
      Run& run;
      RandomState random;
    } into{*this, {}};
    auto part = [&](const std::string& prefix) {
      std::vector<NamedTensor> out;
      for (const NamedTensor& n : saved)
        if (n.name.starts_with(prefix + "."))
          out.push_back({n.name.substr(prefix.size() + 1), n.tensor});
      return out;
    };
    load_state_dict(net, part("model"));
    load_state_dict(*opt, part("optimizer"));
    load_state_dict(into.random, part("random"));
  }
  Numbers values() {
    Numbers out = losses;
    for (const NamedTensor& n : state()) out.push_back(n.tensor.to(DType::f32).to_vector<float>());
    return out;
  }
};

Numbers uninterrupted(const MakeOptimizer& make, bool use_jit) {
  manual_seed(5);
  Run run(make, use_jit);
  run.train(0, 9);
  return run.values();
}

Numbers resumed(const MakeOptimizer& make, bool before, bool after, int at) {
  test::TempFolder folder;
  manual_seed(5);
  Numbers losses;
  {
    Run run(make, before);
    run.train(0, at);
    save_safetensors(folder / "run.safetensors", run.state());
    losses = run.losses;
  }
  manual_seed(99);
  Run run(make, after);
  run.load(load(folder / "run.safetensors"));
  run.losses = losses;
  run.train(at, 9);
  return run.values();
}

template <class Optimizer, class Options>
MakeOptimizer maker(const Options& options) {
  return [=](std::vector<Tensor> p) { return std::make_unique<Optimizer>(std::move(p), options); };
}

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("resume: the bits of a run that was not interrupted, jit or not, any optimizer") {
    const std::vector<MakeOptimizer> optimizers = {
        maker<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}),
        maker<optim::SGD>(optim::SGDOptions{.lr = 0.1, .momentum = 0.9, .flat = true}),
        maker<optim::Adam>(optim::AdamOptions{.lr = 0.02}),
        maker<optim::AdamW>(optim::AdamWOptions{.lr = 0.02, .flat = true}),
        maker<optim::LAMB>(optim::LAMBOptions{.lr = 0.02, .weight_decay = 0.01}),
        maker<optim::LARS>(optim::LARSOptions{.lr = 0.5}),
    };
    int runs = 0;
    for (const MakeOptimizer& make : optimizers) {
      const Numbers plain = uninterrupted(make, false), jitted = uninterrupted(make, true);
      for (int at : {1, 4}) {
        CAPTURE(runs);
        CHECK(resumed(make, false, false, at) == plain);
        CHECK(resumed(make, true, true, at) == jitted);
        runs += 2;
      }
      FlagScope off(Flag::JIT, 0);
      CHECK(uninterrupted(make, true) == jitted);
      CHECK(resumed(make, true, true, 4) == jitted);
      runs += 2;
    }
    MESSAGE(runs, " runs");
  }
}
