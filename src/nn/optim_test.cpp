#include <doctest/doctest.h>
#include <mote/error.h>
#include <mote/jit.h>
#include <mote/models.h>
#include <mote/optim.h>

#include <cmath>
#include <memory>

#include "engine/realize.h"
#include "ir/storage.h"
#include "nn/module_call.h"

using namespace mote;

namespace {

const Options on_null{DType::f32, "NULL"};

Tensor two(double start) { return full({2}, start).requires_grad_(); }
Tensor distance(const Tensor& p) { return ((p - 3) * (p - 3)).sum(); }

const void* storage_of(const Tensor& t) { return prim::base_of(node_of(t))->arg.storage; }

int64_t bytes_of(const std::vector<Tensor>& list) {
  int64_t sum = 0;
  for (const Tensor& t : list) sum += t.nbytes();
  return sum;
}

std::vector<Tensor> joined(std::vector<Tensor> a, const std::vector<Tensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Kernels that do more than the bookkeeping of one number.
size_t large_kernels(const ScheduleReport& r) {
  size_t n = 0;
  for (const KernelReport& k : r.kernels) n += k.estimate.bytes > 64;
  return n;
}

// A step of the MNIST net on device NULL, with gradients in memory before it.
struct MnistStep {
  models::MnistNet net{on_null};
  std::unique_ptr<optim::Optimizer> opt;
  Tensor images = nn::unset({64, 1, 28, 28}, on_null), labels = nn::unset(64, {DType::i64, "NULL"});
  ScheduleReport backward, step;
  int64_t kept_bytes = 0;  // parameters, gradients and state

  explicit MnistStep(bool flat) {
    opt = std::make_unique<optim::Adam>(parameters(net), optim::AdamOptions{.flat = flat});
    Tensor loss = net(images).cross_entropy(labels);
    loss.backward();
    std::vector<Tensor> gradients = opt->gradients();
    std::vector<Tensor> wanted = joined(joined({loss}, gradients), tensors(net));
    backward = explain(wanted);
    realize(wanted);
    step = explain(opt->step());
    kept_bytes = bytes_of(opt->params) + bytes_of(gradients) + bytes_of(tensors(*opt));
  }
};

// The whole step in one go. Gradients are dropped between step() and the realization, or still held
// by the parameters. On NULL all memory is new.
struct WholeStep {
  ScheduleReport report;
  int64_t bytes;
};
WholeStep whole_step(bool flat, bool clipped, bool dropped) {
  models::MnistNet net(on_null);
  optim::Adam opt(parameters(net), {.flat = flat});
  Tensor loss =
      net(nn::unset({64, 1, 28, 28}, on_null)).cross_entropy(nn::unset(64, {DType::i64, "NULL"}));
  loss.backward();
  if (clipped) opt.clip_grad_norm(1.0);
  std::vector<Tensor> wanted = joined(joined(opt.step(), tensors(net)), {loss});
  if (dropped) opt.zero_grad();
  ScheduleReport r = explain(wanted);
  return {r, r.arena_bytes + r.new_bytes};
}

}  // namespace

TEST_CASE("optim: state has stable names and loads into another optimizer") {
  auto names = [](auto& opt) {
    std::string out;
    for (const NamedTensor& n : state_dict(opt)) out += n.name + " ";
    return out;
  };
  Tensor p = two(1), q = two(1);
  optim::Adam a({p}), b({q});
  CHECK(names(a) == "lr steps state.exp_avg.0 state.exp_avg_sq.0 ");
  optim::SGD sgd({two(1), two(2)}, {.momentum = 0.9});
  CHECK(names(sgd) == "lr state.momentum_buffer.0 state.momentum_buffer.1 ");
  auto step = [](optim::Optimizer& opt, Tensor& x) {
    opt.zero_grad();
    distance(x).backward();
    realize(opt.step());
  };
  step(a, p);
  q.assign(p.detach());
  load_state_dict(b, state_dict(a));
  step(a, p);
  step(b, q);
  CHECK(b.steps.item<float>() == 2);
  CHECK(p.to_vector<float>() == q.to_vector<float>());
}

TEST_CASE("optim: another learning rate is found in the schedule cache") {
  Tensor p = two(1);
  optim::Adam opt({p});
  EngineCounts before;
  for (int i = 0; i < 4; ++i) {
    if (i == 1) before = engine_counts();
    opt.set_lr(0.5 / (i + 1));
    opt.zero_grad();
    distance(p).backward();
    realize(opt.step());
  }
  EngineCounts after = engine_counts();
  CHECK(after.kernels_compiled == before.kernels_compiled);
  CHECK(after.schedule_hits - before.schedule_hits == after.schedules - before.schedules);
}

TEST_CASE("optim: micro-steps add to gradients in place") {
  for (bool flat : {false, true}) {
    CAPTURE(flat);
    Tensor p = two(1), q = full({3}, 2.0).requires_grad_();
    optim::SGD opt({p, q}, {.lr = 0.25, .flat = flat});
    const void* memory = nullptr;
    EngineCounts before;
    for (int micro = 0; micro < 4; ++micro) {
      if (micro == 2) before = engine_counts();
      (p.sum() * (micro + 1) + (q * q).sum()).backward();
      std::vector<Tensor> gradients = opt.gradients();
      realize(gradients);
      if (micro == 0) memory = storage_of(gradients[0]);
      CHECK(storage_of(gradients[0]) == memory);
      CHECK(gradients.size() == (flat ? 1 : 2));
    }
    CHECK(engine_counts().schedules == before.schedules + 2);
    realize(opt.step());
    CHECK(p.to_vector<float>() == std::vector<float>(2, 1 - 0.25f * 10));
    CHECK(q.to_vector<float>() == std::vector<float>(3, 2 - 0.25f * 16));
  }
}

TEST_CASE("optim: micro-steps and steps as calls of a jit") {
  std::vector<std::vector<float>> ends;
  for (int kind = 0; kind < 4; ++kind) {
    bool flat = kind & 1, jitted = kind & 2;
    Tensor p = two(1), q = full({2, 2}, 2.0).requires_grad_();
    optim::Adam opt({p, q}, {.lr = 0.1, .flat = flat});
    auto add = [&](const Tensor& x) {
      Tensor loss = (p * x).square().sum() + (q - x).square().sum();
      loss.backward();
      std::vector<Tensor> out = opt.gradients();
      out.push_back(loss);
      return out;
    };
    auto update = [&] {
      Tensor norm = opt.clip_grad_norm(10);
      std::vector<Tensor> out = opt.step();
      out.push_back(norm);
      opt.zero_grad(false);
      return joined(out, opt.gradients());
    };
    auto add_call = jit(add);
    auto update_call = jit(update);
    for (int step = 0; step < 6; ++step) {
      opt.set_lr(0.1 / (step + 1));
      for (double x : {1.0, 3.0}) {
        Tensor input = tensor({x, x + step});
        jitted ? (void)add_call(input) : realize(add(input));
      }
      jitted ? (void)update_call() : realize(update());
    }
    CHECK(add_call.captured() == jitted);
    CHECK(update_call.captured() == jitted);
    ends.push_back(p.to_vector<float>());
    ends.push_back(q.to_vector<float>());
  }
  CHECK(ends[0][1] != 1);
  for (size_t i = 2; i < ends.size(); ++i) CHECK(ends[i] == ends[i % 2]);
}

TEST_CASE("optim: flat steps are one kernel and take no more memory") {
  MnistStep plain(false), flat(true);
  MESSAGE("step with gradients in memory: ", plain.step.kernels.size(), " kernels, flat ",
          flat.step.kernels.size(), "; backward ", plain.backward.kernels.size(), " and ",
          flat.backward.kernels.size(), ", arena ", plain.backward.arena_bytes, " and ",
          flat.backward.arena_bytes);
  CHECK(large_kernels(plain.step) > 5);
  CHECK(large_kernels(flat.step) == 1);
  CHECK(flat.kept_bytes == plain.kept_bytes);
  CHECK(flat.step.arena_bytes <= plain.step.arena_bytes);
  CHECK(flat.backward.arena_bytes <= plain.backward.arena_bytes);
  // The parts of one buffer are written one after another. That can move one of two sums over the
  // same values to a later level, where it is not merged with the other.
  CHECK(flat.backward.kernels.size() <= plain.backward.kernels.size() + 1);
  CHECK(flat.backward.total.ops <= plain.backward.total.ops * 1.001);
}

TEST_CASE("optim: clipped gradients are no reason to keep activations, flat or not") {
  const int64_t most = whole_step(false, false, true).bytes / 20 * 21;
  for (bool clipped : {true, false})
    for (bool dropped : {true, false}) {
      CAPTURE(clipped);
      CAPTURE(dropped);
      WholeStep plain = whole_step(false, clipped, dropped);
      WholeStep flat = whole_step(true, clipped, dropped);
      MESSAGE("whole step: ", plain.report.kernels.size(), " kernels, flat ",
              flat.report.kernels.size(), "; temporaries ", plain.report.arena_bytes, " and ",
              flat.report.arena_bytes, ", all ", plain.bytes, " and ", flat.bytes);
      if (clipped) CHECK(flat.report.kernels.size() < plain.report.kernels.size());
      // Without clipping plain gradients that nobody keeps are used up where they are made.
      // Which of equal kernels comes first, a hash decides: it is worth less than a hundredth.
      if (clipped || !dropped) CHECK(flat.bytes <= plain.bytes / 100 * 101);
      CHECK(plain.bytes <= most);
      CHECK(flat.bytes <= most);
    }
}

TEST_CASE("optim: gradients that are dropped before the step is realized are no less right") {
  for (const char* device : {"CPU", "INTERP"}) {
    std::vector<std::vector<float>> ends;
    for (int kind = 0; kind < 8; ++kind) {
      const bool flat = kind & 1, dropped = kind & 2, jitted = kind & 4;
      Tensor p = full({2, 3}, 1.0, {DType::f32, device}).requires_grad_();
      Tensor q = full({3}, 2.0, {DType::f32, device}).requires_grad_();
      optim::Adam opt({p, q}, {.lr = 0.1, .flat = flat});
      Tensor x = arange(8).to(device).view({4, 2}).to(DType::f32).realize();
      auto step = [&] {
        opt.zero_grad();
        (matmul(x, p) - q).square().mean().backward();
        opt.clip_grad_norm(1.0);
        std::vector<Tensor> written = opt.step();
        if (dropped) opt.zero_grad();
        realize(written);
        CHECK(opt.params[0].grad().defined() != dropped);
        return written;
      };
      auto call = jit(step);
      for (int i = 0; i < 4; ++i) jitted&& device == std::string("CPU") ? call() : step();
      ends.push_back(cat({p.flatten(), q}).to_vector<float>());
    }
    CHECK(ends[0][0] != 1);
    for (const std::vector<float>& end : ends) CHECK(end == ends[0]);
  }
}

TEST_CASE("optim: the parameters of a flat optimizer are views of one leaf") {
  nn::Linear a(3, 2), b(3, 2);
  load_state_dict(b, state_dict(a));
  Tensor x = tensor({
      {1.0, 2.0, 3.0}
  });
  optim::SGD plain(parameters(a), {.lr = 0.1}), flat(parameters(b), {.lr = 0.1, .flat = true});
  CHECK(flat.params.size() == 1);
  CHECK(b.weight.is_view());
  for (int t = 0; t < 3; ++t)
    for (auto [net, opt] : {std::pair(&a, &plain), std::pair(&b, &flat)}) {
      opt->zero_grad();
      (*net)(x).square().sum().backward();
      realize(opt->step());
    }
  CHECK(a.weight.to_vector<float>() == b.weight.to_vector<float>());
  load_state_dict(b, {
                         {"weight", zeros({2, 3})},
                         {"bias",   ones(2)      }
  });
  CHECK(flat.params[0].to_vector<float>() == std::vector<float>{0, 0, 0, 0, 0, 0, 1, 1});
  // A part that the loss does not use has a gradient of zero.
  flat.zero_grad();
  b.bias.sum().backward();
  realize(flat.step());
  CHECK(flat.params[0].to_vector<float>() == std::vector<float>{0, 0, 0, 0, 0, 0, 0.9f, 0.9f});
}

TEST_CASE("optim: master weights keep what 16 bits would lose") {
  for (DType dtype : {DType::bf16, DType::f16})
    for (bool flat : {false, true}) {
      CAPTURE(flat);
      Tensor p = full({4}, 1.0, {dtype}).requires_grad_();
      Tensor q = full({3}, 1.0, {dtype}).requires_grad_();
      optim::SGD opt({p, q}, {.lr = 1e-4, .momentum = 0.5, .flat = flat, .master_weights = true});
      CHECK(opt.state["momentum_buffer"][0].dtype() == DType::f32);
      double expected = 1, buffer = 0;
      for (int t = 0; t < 20; ++t) {
        opt.zero_grad();
        (p.sum() + q.sum()).backward();
        realize(opt.step());
        buffer = 0.5 * buffer + 1;
        expected -= 1e-4 * buffer;
      }
      CHECK(opt.state["master"][0].to_vector<float>()[0] == doctest::Approx(expected));
      CHECK(p.to_vector<float>() == full({4}, expected, {dtype}).to_vector<float>());
      CHECK(p.to_vector<float>()[0] < 1);
    }
}

TEST_CASE("optim: a parameter that is assigned to is what the next step begins with") {
  for (bool flat : {false, true}) {
    Tensor p = full({2}, 1.0, {DType::bf16}).requires_grad_();
    Tensor q = full({3}, 1.0, {DType::bf16}).requires_grad_();
    optim::SGD opt({p, q}, {.lr = 0x1p-12, .flat = flat, .master_weights = true});
    auto step = [&] {
      opt.zero_grad();
      (p.sum() + q.sum()).backward();
      realize(opt.step());
      return opt.state["master"][0].to_vector<float>();
    };
    for (int t = 0; t < 3; ++t) step();
    p.assign(tensor({4.0, 1.0}));  // the second element is the one it was
    std::vector<float> master = step();
    CHECK(master[0] == 4 - 0x1p-12f);
    CHECK(master[1] == 1 - 4 * 0x1p-12f);
    CHECK(p.to_vector<float>() == std::vector<float>{4, 1});
  }
}

TEST_CASE("optim: the norm of gradients of several dtypes is as wide as the widest") {
  Tensor p = two(1), q = full({2}, 1.0, {DType::f64}).requires_grad_();
  optim::SGD opt({p, q}, {.lr = 1});
  ((p * 3e10).sum().to(DType::f64) + (q * 4e100).sum()).backward();
  Tensor norm = opt.clip_grad_norm(1.0);
  CHECK(norm.dtype() == DType::f64);
  CHECK(norm.item<double>() == doctest::Approx(std::sqrt(2.0) * 4e100));
  realize(opt.step());
  CHECK(q.to_vector<double>()[1] == doctest::Approx(1 - std::sqrt(0.5)));
}

TEST_CASE("optim: scaled f16 gradients survive, and clipping sees them unscaled") {
  Tensor p = ones({4}, {DType::f16}).requires_grad_();
  optim::SGD opt({p}, {.lr = 1e7, .master_weights = true});
  optim::LossScaler scaler;
  // 1e-8 is less than half of f16's smallest number.
  scaler.scale((p.to(DType::f32) * 1e-8).sum()).backward();
  scaler.unscale(opt);
  Tensor norm = opt.clip_grad_norm(1.0);
  std::vector<Tensor> written = scaler.step(opt);
  written.push_back(norm);
  realize(written);
  CHECK(norm.item<float>() == doctest::Approx(2e-8).epsilon(1e-2));
  CHECK(p.to_vector<float>()[3] == doctest::Approx(0.9).epsilon(1e-2));
}

TEST_CASE("optim: a skipped step changes nothing but the scale") {
  Tensor p = two(1);
  optim::Adam opt({p}, {.lr = 0.1});
  optim::LossScaler scaler({.init_scale = 8});
  auto step = [&](double slope) {
    opt.zero_grad();
    scaler.scale((p * tensor(slope)).sum()).backward();
    realize(scaler.step(opt));
  };
  step(1);
  std::vector<float> after_one = p.to_vector<float>();
  EngineCounts before = engine_counts();
  step(INFINITY);
  CHECK(engine_counts().kernels_compiled == before.kernels_compiled);
  CHECK(p.to_vector<float>() == after_one);
  CHECK(opt.steps.item<float>() == 1);
  CHECK(opt.state["exp_avg_sq"][0].isfinite().all().item<bool>());
  CHECK(scaler.factor.item<float>() == 4);
  step(1);
  CHECK(p.to_vector<float>()[0] < after_one[0]);
}

TEST_CASE("optim: f16 parameters without copies have their gradients unscaled in f32") {
  Tensor p = ones({4}, {DType::f16}).requires_grad_();
  optim::SGD opt({p}, {.lr = 1e7});
  optim::LossScaler scaler;
  scaler.scale((p.to(DType::f32) * 1e-8).sum()).backward();
  realize(scaler.step(opt));
  CHECK(p.to_vector<float>()[3] == doctest::Approx(0.9).epsilon(1e-2));
}

TEST_CASE("optim: several optimizers make a scaled step together or not at all") {
  for (int jitted = 0; jitted < 2; ++jitted) {
    Tensor p = two(1), q = two(1);
    optim::SGD a({p}, {.lr = 1}), b({q}, {.lr = 1, .momentum = 0.5});
    optim::LossScaler scaler({.init_scale = 8, .growth_interval = 1});
    auto step = [&](const Tensor& slope) {
      a.zero_grad(), b.zero_grad();
      scaler.scale(p.sum() + (q * slope).sum()).backward();
      std::vector<Tensor> written = scaler.step({&a, &b});
      realize(written);
      return written;
    };
    auto call = jit(step);
    for (double slope : {1.0, 1.0, 1e39, 1.0, std::nan(""), 1.0}) {
      Tensor given = tensor(slope).realize();
      jitted ? (void)call(given) : (void)step(given);
    }
    CHECK(p.to_vector<float>() == std::vector<float>{-3, -3});  // four steps by 1
    CHECK(q.to_vector<float>()[0] == 1 - 1 - 1.5f - 1.75f - 1.875f);
    CHECK(scaler.factor.item<float>() == 32);
  }
}

TEST_CASE("optim: gradients that are dropped after unscaling leave nothing behind") {
  Tensor p = two(1);
  optim::SGD opt({p}, {.lr = 1});
  optim::LossScaler scaler({.init_scale = 8});
  scaler.scale((p * INFINITY).sum()).backward();
  scaler.unscale(opt);
  opt.zero_grad();
  scaler.scale(p.sum()).backward();
  realize(scaler.step(opt));
  CHECK(p.to_vector<float>() == std::vector<float>{0, 0});
  CHECK(scaler.factor.item<float>() == 8);
}

TEST_CASE("optim: misuse") {
  CHECK_THROWS_WITH_AS(optim::Adam({}), doctest::Contains("at least one parameter"), Error);
  CHECK_THROWS_WITH_AS(optim::Adam({zeros({2})}), doctest::Contains("is not marked"), Error);
  CHECK_THROWS_WITH_AS(optim::SGD({two(1)}, {.nesterov = true}),
                       doctest::Contains("nesterov needs a momentum"), Error);
  CHECK_THROWS_WITH_AS(optim::Muon({two(1)}), doctest::Contains("parameter 0 has shape (2)"),
                       Error);
  Tensor elsewhere = zeros({2}, {DType::f32, "INTERP"}).requires_grad_();
  CHECK_THROWS_WITH_AS(optim::SGD({two(1), elsewhere}, {.flat = true}),
                       doctest::Contains("flat needs parameters of one device, got CPU and INTERP"),
                       Error);
  optim::SGD opt({two(1)});
  CHECK_THROWS_WITH_AS(opt.clip_grad_norm(1), doctest::Contains("no parameter has a gradient"),
                       Error);
  CHECK_THROWS_WITH_AS(optim::LossScaler().step(std::vector<optim::Optimizer*>{}),
                       doctest::Contains("at least one optimizer"), Error);
  CHECK_THROWS_WITH_AS(optim::LossScaler({.growth_factor = 1}),
                       doctest::Contains("[LossScaler] needs a growth factor > 1, got 1"), Error);
  CHECK_THROWS_WITH_AS(optim::LossScaler({.backoff_factor = 1}),
                       doctest::Contains("needs a backoff factor between 0 and 1"), Error);
  CHECK_THROWS_WITH_AS(optim::LossScaler({.init_scale = INFINITY}),
                       doctest::Contains("needs a finite scale > 0"), Error);
  CHECK_THROWS_WITH_AS(optim::sequential_lr({optim::constant_lr(1)}, {5}),
                       doctest::Contains("one milestone between two parts"), Error);
}

TEST_CASE("optim: settings out of range are errors") {
  using doctest::Contains;
  const double nan = std::nan("");
  auto one = [] { return std::vector{two(1)}; };
  CHECK_THROWS_WITH_AS(optim::Adam(one(), {.beta1 = 1.0}),
                       Contains("[Adam] the beta1 must be >= 0 and < 1, got 1 ("), Error);
  CHECK_THROWS_WITH_AS(optim::AdamW(one(), {.beta2 = -0.1}), Contains("beta2 must be"), Error);
  CHECK_THROWS_WITH_AS(optim::LAMB(one(), {.eps = -1}), Contains("eps must be >= 0"), Error);
  CHECK_THROWS_WITH_AS(optim::Adam(one(), {.weight_decay = nan}), Contains("weight decay"), Error);
  for (double lr : {-1e-3, nan}) {
    CHECK_THROWS_WITH_AS(optim::SGD(one(), {.lr = lr}), Contains("rate must be >= 0"), Error);
    CHECK_THROWS_WITH_AS(optim::Muon({zeros({2, 2}).requires_grad_()}, {.lr = lr}),
                         Contains("rate must be >= 0"), Error);
    optim::SGD opt(one());
    CHECK_THROWS_WITH_AS(opt.set_lr(lr), Contains("[set_lr] the learning rate must"), Error);
    CHECK(opt.lr.item<float>() == 1e-3f);
  }
  CHECK_THROWS_WITH_AS(optim::SGD(one(), {.momentum = -1}), Contains("[SGD] the momentum"), Error);
  CHECK_THROWS_WITH_AS(optim::LARS(one(), {.momentum = -1}), Contains("[LARS] the momentum"),
                       Error);
}

TEST_CASE("optim: a factor of the rate may capture what it needs") {
  using namespace mote::optim;
  const int64_t warm_up = 10;
  Schedule up = lambda_lr(0.5, [=](int64_t step) {
    return step < warm_up ? static_cast<double>(step) / static_cast<double>(warm_up) : 1.0;
  });
  const Schedule copy = up, both = chained_lr(0.5, {up, step_lr(0.5, 3)});
  up = constant_lr(0.5);
  CHECK(copy(5) == 0.25);
  CHECK(copy(20) == 0.5);
  CHECK(both(4) == doctest::Approx(0.5 * 0.4 * 0.1));
}

TEST_CASE("optim: errors of schedules name the user's line") {
  auto line = [](int n) {
    return doctest::Contains((std::string(__FILE__) + ":" + std::to_string(n)).c_str());
  };
  CHECK_THROWS_WITH_AS(optim::step_lr(1, 0), line(__LINE__), Error);
  CHECK_THROWS_WITH_AS(optim::multi_step_lr(1, {3, 2}), line(__LINE__), Error);
  CHECK_THROWS_WITH_AS(optim::linear_lr(1, 0), line(__LINE__), Error);
  CHECK_THROWS_WITH_AS(optim::cosine_annealing_lr(1, 0), line(__LINE__), Error);
  CHECK_THROWS_WITH_AS(optim::one_cycle_lr(1, 0), line(__LINE__), Error);
  CHECK_THROWS_WITH_AS(optim::sequential_lr({}, {5}), line(__LINE__), Error);
}
