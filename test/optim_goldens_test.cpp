// Optimizers, learning-rate schedules, clipping, loss scaling, recurrent cells, attention and names
// of state dicts against PyTorch: the cases of tools/make_optim_goldens.py.
#include <doctest/doctest.h>
#include <mote/mote.h>
#include <mote/nn.h>
#include <mote/optimizers.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "engine/realize.h"
#include "training_goldens.h"

using namespace mote;
using namespace mote::test;

namespace {

// ---- optimizers

using Params = std::vector<Tensor>;

// Those of mote/optimizers.h.
std::unique_ptr<optim::Optimizer> make_another(const GoldenCase& c, const Params& params,
                                               bool flat) {
  using namespace optim;
  auto n = [&](const char* key, double otherwise = 0) { return number(c, key, otherwise); };
  double lr = n("lr"), decay = n("weight_decay"), eps = n("eps", 1e-8);
  double b1 = n("beta1", 0.9), b2 = n("beta2", 0.999);
  if (c.op == "RMSprop")
    return std::make_unique<RMSprop>(params,
                                     RMSpropOptions{lr, n("alpha", 0.99), eps, decay, n("momentum"),
                                                    attr(c, "centered", false), flat});
  if (c.op == "Adagrad")
    return std::make_unique<Adagrad>(
        params, AdagradOptions{lr, n("lr_decay"), decay, n("initial_accumulator_value"),
                               n("eps", 1e-10), flat});
  if (c.op == "Adadelta")
    return std::make_unique<Adadelta>(
        params, AdadeltaOptions{lr, n("rho", 0.9), n("eps", 1e-6), decay, flat});
  if (c.op == "Adamax")
    return std::make_unique<Adamax>(params, AdamaxOptions{lr, b1, b2, eps, decay, flat});
  if (c.op == "NAdam")
    return std::make_unique<NAdam>(
        params, NAdamOptions{lr, b1, b2, eps, decay, n("momentum_decay", 4e-3), flat});
  if (c.op == "RAdam")
    return std::make_unique<RAdam>(params, RAdamOptions{lr, b1, b2, eps, decay, flat});
  if (c.op == "ASGD")
    return std::make_unique<ASGD>(
        params, ASGDOptions{lr, n("lambd", 1e-4), n("alpha", 0.75), n("t0", 1e6), decay, flat});
  if (c.op == "Rprop") return std::make_unique<Rprop>(params, RpropOptions{.lr = lr, .flat = flat});
  return nullptr;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const GoldenCase& c, Params params, bool flat) {
  auto n = [&](const char* key, double otherwise = 0) { return number(c, key, otherwise); };
  bool nesterov = attr(c, "nesterov", false), maximize = attr(c, "maximize", false);
  bool amsgrad = attr(c, "amsgrad", false);
  double b1 = n("beta1", 0.9), b2 = n("beta2", 0.999), decay = n("weight_decay");
  if (c.op == "SGD")
    return std::make_unique<optim::SGD>(
        params, optim::SGDOptions{n("lr"), n("momentum"), n("dampening"), decay, nesterov, flat,
                                  false, maximize});
  if (c.op == "Adam")
    return std::make_unique<optim::Adam>(
        params,
        optim::AdamOptions{n("lr"), b1, b2, n("eps", 1e-8), decay, flat, false, amsgrad, maximize});
  if (c.op == "AdamW")
    return std::make_unique<optim::AdamW>(
        params, optim::AdamWOptions{n("lr"), b1, b2, n("eps", 1e-8), decay, flat, false, amsgrad});
  if (auto more = make_another(c, params, flat)) return more;
  if (c.op == "LAMB")
    return std::make_unique<optim::LAMB>(
        params, optim::LAMBOptions{n("lr"), b1, b2, n("eps"), decay});
  if (c.op == "LARS")
    return std::make_unique<optim::LARS>(
        params, optim::LARSOptions{n("lr"), n("momentum"), decay, n("trust_coefficient")});
  DType wide = attr(c, "compute", std::string("bf16")) == "f32" ? DType::f32 : DType::bf16;
  bool match = attr(c, "adjust", std::string()) == "match_rms_adamw";
  return std::make_unique<optim::Muon>(
      params, optim::MuonOptions{n("lr"), decay, n("momentum"), nesterov, match, wide});
}

struct Net {
  Tensor weight1, bias1, weight2, bias2;
  MOTE_FIELDS(weight1, bias1, weight2, bias2)
  explicit Net(const GoldenCase& c)
      : weight1(nn::parameter(input(c, "weight1"))),
        bias1(nn::parameter(input(c, "bias1"))),
        weight2(nn::parameter(input(c, "weight2"))),
        bias2(nn::parameter(input(c, "bias2"))) {}
  Tensor loss(const Tensor& x, const Tensor& y) const {
    return (x.linear(weight1, bias1).tanh().linear(weight2, bias2) - y).square().mean();
  }
};

void follow(const GoldenCase& c, bool flat) {
  CAPTURE(c.name);
  CAPTURE(flat);
  Net net(c);
  Tensor x = input(c, "x"), y = input(c, "y");
  std::vector<Tensor> kept = parameters(net);
  auto opt = make_optimizer(c, kept, flat);
  auto at = attr<std::vector<int64_t>>(c, "at");
  double clip = number(c, "clip"), base = number(c, "lr");
  auto period = attr<int64_t>(c, "cosine");
  optim::Schedule rate =
      period ? optim::cosine_annealing_lr(base, period) : optim::constant_lr(base);
  size_t out = 0;
  EngineCounts before;
  for (int64_t t = 1; t <= at.back(); ++t) {
    opt->set_lr(rate(t - 1));
    opt->zero_grad();
    Tensor loss = net.loss(x, y);
    loss.backward();
    if (clip > 0) opt->clip_grad_norm(clip);
    if (t == 2) before = engine_counts();
    realize(opt->step());
    if (t == 2) {  // nothing of the first step was a constant
      CHECK(engine_counts().kernels_compiled == before.kernels_compiled);
      CHECK(engine_counts().schedule_hits == before.schedule_hits + 1);
    }
    if (!std::ranges::count(at, t)) continue;
    for (const Tensor& p : kept)
      check_close(c, "step " + std::to_string(t), p, c.outputs[out++].value, t);
  }
  CHECK(out == c.outputs.size());
}

// ---- schedules

optim::Schedule make_schedule(const GoldenCase& c) {
  using namespace optim;
  auto kind = attr<std::string>(c, "kind");
  double lr = number(c, "lr"), gamma = number(c, "gamma");
  if (kind == "constant")
    return constant_lr(lr, number(c, "factor"), attr<int64_t>(c, "total_iters"));
  if (kind == "step") return step_lr(lr, attr<int64_t>(c, "step_size"), gamma);
  if (kind == "multistep")
    return multi_step_lr(lr, attr<std::vector<int64_t>>(c, "milestones"), gamma);
  if (kind == "exponential") return exponential_lr(lr, gamma);
  if (kind == "linear")
    return linear_lr(lr, attr<int64_t>(c, "total_iters"), number(c, "start_factor"),
                     number(c, "end_factor"));
  if (kind == "cosine")
    return cosine_annealing_lr(lr, attr<int64_t>(c, "T_max"), number(c, "eta_min"));
  if (kind == "restarts")
    return cosine_annealing_warm_restarts(lr, attr<int64_t>(c, "T_0"),
                                          attr<int64_t>(c, "T_mult", 1), number(c, "eta_min"));
  if (kind == "polynomial")
    return polynomial_lr(lr, attr<int64_t>(c, "total_iters"), number(c, "power"));
  if (kind == "lambda")
    return lambda_lr(lr, [](int64_t t) { return 1 / (1 + static_cast<double>(t)); });
  if (kind == "chained")
    return chained_lr(lr, {constant_lr(lr, number(c, "factor"), 9), exponential_lr(lr, gamma)});
  if (kind == "onecycle")
    return one_cycle_lr(number(c, "max_lr"), attr<int64_t>(c, "total_steps"),
                        {.pct_start = number(c, "pct_start", 0.3),
                         .div_factor = number(c, "div_factor", 25),
                         .final_div_factor = number(c, "final_div_factor", 1e4),
                         .linear = attr<std::string>(c, "anneal_strategy") == "linear",
                         .three_phase = attr(c, "three_phase", false)});
  if (kind == "sequential") {
    auto warm_up = attr<int64_t>(c, "warm_up"), total = attr<int64_t>(c, "total");
    return sequential_lr(
        {linear_lr(lr, warm_up, 0.05), cosine_annealing_lr(lr, total - warm_up)}, {warm_up});
  }
  return sequential_lr({constant_lr(lr, 0.1, 100), exponential_lr(lr, 0.9), step_lr(lr, 6, 0.5)},
                       {attr<int64_t>(c, "first"), attr<int64_t>(c, "second")});
}

// An optimizer whose parameters have the case's inputs for gradients.
std::unique_ptr<optim::SGD> with_gradients(const GoldenCase& c, Params& params) {
  for (const GoldenInput& in : c.inputs)
    params.push_back(nn::parameter(zeros(in.value.shape)));
  auto opt = std::make_unique<optim::SGD>(params, optim::SGDOptions{.lr = 1});
  Tensor loss = tensor(0.0);
  for (size_t i = 0; i < params.size(); ++i)
    loss = loss + (params[i] * load(c.inputs[i].value)).sum();
  loss.backward();
  return opt;
}

// With a rate of 1 from 0, the parameters are the negated gradients.
void check_clipped(const GoldenCase& c, optim::SGD& opt, const Params& params) {
  realize(opt.step());
  for (size_t i = 0; i < params.size(); ++i)
    check_close(c, "gradient", -params[i], c.outputs[i].value);
}

// ---- modules

using Named = std::map<std::string, Tensor>;

void check_cell(const GoldenCase& c) {
  bool bias = input(c, "bias_ih").defined();
  if (c.op == "LSTMCell")
    return check_module(c, nn::LSTMCell(5, 4, bias), [](auto& m, Named& in) {
      nn::LSTMCell::State s = m(in["x"], {in["h"], in["c"]});
      return std::vector<Tensor>{s.h, s.c};
    });
  check_module(c, nn::GRUCell(5, 4, bias), [](auto& m, Named& in) {
    return std::vector<Tensor>{m(in["x"], in["h"])};
  });
}

void check_attention(const GoldenCase& c) {
  if (c.name.find("attend_") != c.name.npos) return;  // test/module_goldens_test.cpp
  bool bias = input(c, "in_proj_bias").defined(), self = !input(c, "key").defined();
  int64_t heads = c.name.ends_with("self") ? 3 : 2;
  check_module(c, nn::MultiheadAttention(6, heads, bias), [&](auto& m, Named& in) {
    Tensor q = in["query"], k = self ? q : in["key"], v = self ? q : in["value"];
    return std::vector<Tensor>{m(q, k, v, {.is_causal = c.name.ends_with("causal")})};
  });
}

std::map<std::string, std::function<std::string()>> module_states() {
  using namespace nn;
  ConvOptions pairs{.groups = 2};
  ConvTransposeOptions up{.groups = 2};
  auto relu = [](const Tensor& x) { return x.relu(); };
  return {
      {"Linear", [] { return state_text(Linear(3, 2)); }},
      {"Linear_no_bias", [] { return state_text(Linear(3, 2, false)); }},
      {"Conv1d", [] { return state_text(Conv1d(4, 6, 3)); }},
      {"Conv2d", [=] { return state_text(Conv2d(4, 6, {3, 5}, pairs)); }},
      {"Conv3d", [] { return state_text(Conv3d(2, 4, 3, {}, false)); }},
      {"ConvTranspose1d", [] { return state_text(ConvTranspose1d(4, 6, 3)); }},
      {"ConvTranspose2d", [=] { return state_text(ConvTranspose2d(4, 6, {3, 2}, up)); }},
      {"ConvTranspose3d", [] { return state_text(ConvTranspose3d(2, 4, 3, {}, false)); }},
      {"BatchNorm", [] { return state_text(BatchNorm(5)); }},
      {"BatchNorm_plain", [] { return state_text(BatchNorm(5, {}, false)); }},
      {"BatchNorm_no_stats", [] { return state_text(BatchNorm(5, {}, true, false)); }},
      {"LayerNorm", [] { return state_text(LayerNorm(Ints{3, 4})); }},
      {"LayerNorm_no_bias", [] { return state_text(LayerNorm(4, 1e-5, true, {}, false)); }},
      {"LayerNorm_plain", [] { return state_text(LayerNorm(4, 1e-5, false)); }},
      {"GroupNorm", [] { return state_text(GroupNorm(2, 6)); }},
      {"GroupNorm_plain", [] { return state_text(GroupNorm(2, 6, 1e-5, false)); }},
      {"InstanceNorm", [] { return state_text(InstanceNorm(4, 1e-5, true)); }},
      {"InstanceNorm_plain", [] { return state_text(InstanceNorm(4)); }},
      {"RMSNorm", [] { return state_text(RMSNorm(Ints{3, 4})); }},
      {"RMSNorm_plain", [] { return state_text(RMSNorm(4, -1, {}, false)); }},
      {"Embedding", [] { return state_text(Embedding(7, 3)); }},
      {"Dropout", [] { return state_text(Dropout{0.2}); }},
      {"LSTMCell", [] { return state_text(LSTMCell(3, 4)); }},
      {"LSTMCell_no_bias", [] { return state_text(LSTMCell(3, 4, false)); }},
      {"GRUCell", [] { return state_text(GRUCell(3, 4)); }},
      {"GRUCell_no_bias", [] { return state_text(GRUCell(3, 4, false)); }},
      {"MultiheadAttention", [] { return state_text(MultiheadAttention(6, 2)); }},
      {"MultiheadAttention_no_bias", [] { return state_text(MultiheadAttention(6, 2, false)); }},
      {"Sequential",
       [=] {
         return state_text(Sequential(Conv2d(3, 8, 3), BatchNorm(8), relu,
                                      Sequential(Dropout(), Linear(8, 4))));
       }},
  };
}

}  // namespace

TEST_SUITE("optim goldens") {
  TEST_CASE("optimizers follow PyTorch, and the second step makes no new kernel") {
    for (const GoldenCase* c :
         cases({"SGD", "Adam", "AdamW", "LAMB", "LARS", "Muon", "RMSprop", "Adagrad", "Adadelta",
                "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"}))
      follow(*c, false);
  }

  TEST_CASE("flat optimizers follow PyTorch as well") {
    for (const GoldenCase* c : cases({"SGD", "Adam", "AdamW", "RMSprop", "NAdam", "Rprop"}))
      follow(*c, true);
  }

  TEST_CASE("schedules give PyTorch's rates") {
    for (const GoldenCase* c : cases({"schedule"})) {
      CAPTURE(c->name);
      optim::Schedule rate = make_schedule(*c);
      const GoldenTensor& want = c->outputs[0].value;
      std::vector<double> rates(static_cast<size_t>(want.numel()));
      std::memcpy(rates.data(), want.bytes.data(), want.bytes.size());
      const Tolerance& t = tolerance(*c);
      for (size_t i = 0; i < rates.size(); ++i) {
        CAPTURE(i);
        CHECK(std::abs(rate(static_cast<int64_t>(i)) - rates[i]) <= t.atol + t.rtol * rates[i]);
      }
    }
  }

  TEST_CASE("a rate on a plateau is lowered when PyTorch lowers it, resumed or not") {
    for (const GoldenCase* c : cases({"plateau"})) {
      CAPTURE(c->name);
      optim::PlateauOptions options{.larger_is_better = attr<std::string>(*c, "mode") == "max",
                                    .factor = number(*c, "factor", 0.1),
                                    .patience = attr<int64_t>(*c, "patience", 10),
                                    .threshold = number(*c, "threshold", 1e-4),
                                    .absolute = attr<std::string>(*c, "threshold_mode") == "abs",
                                    .cooldown = attr<int64_t>(*c, "cooldown", 0),
                                    .min_lr = number(*c, "min_lr")};
      optim::ReduceLROnPlateau whole(0.5, options), first(0.5, options);
      std::vector<float> metrics = values(c->inputs[0].value);
      std::vector<double> rates(metrics.size());
      std::memcpy(rates.data(), c->outputs[0].value.bytes.data(), rates.size() * sizeof(double));
      for (size_t i = 0; i < metrics.size(); ++i) {
        CAPTURE(i);
        CHECK(whole.step(metrics[i]) == doctest::Approx(rates[i]));
        optim::ReduceLROnPlateau next(0.5, options);
        next.restore(first.state());
        CHECK(next.step(metrics[i]) == doctest::Approx(rates[i]));
        first = next;
      }
    }
  }

  TEST_CASE("averages of weights") {
    for (const GoldenCase* c : cases({"average"})) {
      CAPTURE(c->name);
      Tensor rows = input(*c, "rows"), weight = zeros({1, 5}).requires_grad_();
      optim::WeightAverage average({weight}, {.decay = number(*c, "decay")});
      for (int64_t i = 0; i < rows.size(0); ++i) {
        weight.assign(rows.narrow(0, i, 1));
        realize(average.update());
      }
      check_close(*c, "average", average.averages[0], c->outputs[0].value);
      average.swap();
      check_close(*c, "in use", weight, c->outputs[0].value);
      average.swap();
      CHECK(weight.to_vector<float>() == rows.narrow(0, 5, 1).to_vector<float>());
    }
  }

  TEST_CASE("clipping by norm and by value") {
    for (const GoldenCase* c : cases({"clip_grad_norm"})) {
      CAPTURE(c->name);
      Params params;
      auto opt = with_gradients(*c, params);
      Tensor norm = opt->clip_grad_norm(number(*c, "max_norm"), number(*c, "norm_type"));
      check_close(*c, "norm", norm, c->outputs.back().value);
      check_clipped(*c, *opt, params);
    }
    for (const GoldenCase* c : cases({"clip_grad_value"})) {
      Params params;
      auto opt = with_gradients(*c, params);
      opt->clip_grad_value(number(*c, "clip_value"));
      check_clipped(*c, *opt, params);
    }
  }

  TEST_CASE("loss scaling grows, shrinks and skips as PyTorch's") {
    for (const GoldenCase* c : cases({"GradScaler"})) {
      Tensor p = nn::parameter(ones({1}));
      optim::SGD opt({p}, {.lr = number(*c, "lr"), .momentum = number(*c, "momentum")});
      optim::LossScaler scaler(
          {.init_scale = number(*c, "init_scale"),
           .growth_factor = number(*c, "growth_factor"),
           .backoff_factor = number(*c, "backoff_factor"),
           .growth_interval = static_cast<int>(attr<int64_t>(*c, "growth_interval"))});
      std::vector<float> scales = values(c->outputs[0].value), want = values(c->outputs[1].value);
      std::vector<float> grads = values(c->inputs[0].value);
      for (size_t t = 0; t < grads.size(); ++t) {
        CAPTURE(t);
        opt.zero_grad();
        scaler.scale((p * tensor(std::vector<float>{grads[t]})).sum()).backward();
        realize(scaler.step(opt));
        CHECK(scaler.factor.item<float>() == scales[t]);
        CHECK(p.item<float>() == want[t]);
      }
    }
  }

  TEST_CASE("recurrent cells and attention, with gradients") {
    for (const GoldenCase* c : cases({"LSTMCell", "GRUCell"})) {
      CAPTURE(c->name);
      check_cell(*c);
    }
    for (const GoldenCase* c : cases({"MultiheadAttention"})) {
      CAPTURE(c->name);
      check_attention(*c);
    }
  }

  TEST_CASE("state dicts have PyTorch's names and shapes") {
    auto states = module_states();
    for (const GoldenCase* c : cases({"state_dict"})) {
      CAPTURE(c->name);
      auto it = states.find(c->name.substr(c->op.size() + 1));
      REQUIRE(it != states.end());
      CHECK(it->second() == attr<std::string>(*c, "state"));
    }
  }
}
