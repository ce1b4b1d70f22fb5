// Optimizers, learning-rate schedules, clipping, loss scaling, recurrent cells, attention and names
// of state dicts against PyTorch: the cases of tools/make_optim_goldens.py.
#include <doctest/doctest.h>
#include <mote/mote.h>
#include <mote/nn.h>
#include <mote/optim.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <sstream>

#include "engine/realize.h"
#include "golden_file.h"
#include "test_paths.h"

using namespace mote;
using namespace mote::test;

namespace {

// Tolerances, all of them: |got - want| <= atol + rtol * |want| + steps * per_step. The first row
// whose name the case's name begins with counts.
struct Tolerance {
  const char* whose;
  double rtol, atol, per_step;
  const char* why;
};
constexpr Tolerance tolerances[] = {
    {"Muon/f32", 1e-6, 1e-6, 5e-8, "f32 against f64"},
    {"Muon/", 0, 2e-4, 1e-3, "a bf16 iteration rounds otherwise on every machine"},
    {"LAMB/", 1e-6, 1e-6, 4e-7, "f32 against f64; the ratio of norms moves all elements"},
    {"schedule/", 1e-12, 1e-15, 0, "f64 on both sides"},
    {"", 1e-6, 1e-6, 5e-8, "f32 against f64"},
};

const Tolerance& tolerance(const GoldenCase& c) {
  return *std::ranges::find_if(tolerances,
                               [&](const Tolerance& t) { return c.name.starts_with(t.whose); });
}

std::vector<const GoldenCase*> cases(std::initializer_list<const char*> ops) {
  static const GoldenFile file = read_goldens(MOTE_SOURCE_DIR "/test/goldens/optim.gold.gz");
  std::vector<const GoldenCase*> out;
  for (const GoldenCase& c : file.cases)
    if (std::ranges::any_of(ops, [&](const char* op) { return c.op == op; })) out.push_back(&c);
  REQUIRE(!out.empty());
  return out;
}

template <class T>
T attr(const GoldenCase& c, const char* key, T otherwise = {}) {
  auto it = c.attrs.find(key);
  return it == c.attrs.end() ? otherwise : std::get<T>(it->second);
}
double number(const GoldenCase& c, const char* key, double otherwise = 0) {
  return attr(c, key, otherwise);
}

std::vector<float> values(const GoldenTensor& g) {
  std::vector<float> out(static_cast<size_t>(g.numel()));
  std::memcpy(out.data(), g.bytes.data(), g.bytes.size());
  return out;
}
Tensor load(const GoldenTensor& g) { return tensor(values(g)).reshape(g.shape); }
Tensor input(const GoldenCase& c, const char* role) {
  for (const GoldenInput& in : c.inputs)
    if (in.role == role) return load(in.value);
  return {};
}

void check_close(const GoldenCase& c, const std::string& what, const Tensor& got,
                 const GoldenTensor& want, int64_t steps = 0) {
  const Tolerance& t = tolerance(c);
  CAPTURE(what);
  REQUIRE(got.shape() == want.shape);
  std::vector<float> a = got.to_vector<float>(), b = values(want);
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i)
    worst = std::max(worst, std::abs(a[i] - b[i]) - t.rtol * std::abs(b[i]));
  CHECK(worst <= t.atol + static_cast<double>(steps) * t.per_step);
}

// ---- optimizers

using Params = std::vector<Tensor>;

std::unique_ptr<optim::Optimizer> make_optimizer(const GoldenCase& c, Params params, bool flat) {
  auto n = [&](const char* key, double otherwise = 0) { return number(c, key, otherwise); };
  bool nesterov = attr(c, "nesterov", false);
  double b1 = n("beta1", 0.9), b2 = n("beta2", 0.999), decay = n("weight_decay");
  if (c.op == "SGD")
    return std::make_unique<optim::SGD>(
        params, optim::SGDOptions{n("lr"), n("momentum"), n("dampening"), decay, nesterov, flat});
  if (c.op == "Adam")
    return std::make_unique<optim::Adam>(
        params, optim::AdamOptions{n("lr"), b1, b2, n("eps", 1e-8), decay, flat});
  if (c.op == "AdamW")
    return std::make_unique<optim::AdamW>(
        params, optim::AdamWOptions{n("lr"), b1, b2, n("eps", 1e-8), decay, flat});
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

template <class Module>
void load_parameters(Module& m, const GoldenCase& c) {
  for (const NamedTensor& n : state_dict(m)) Tensor(n.tensor).assign(input(c, n.name.c_str()));
}

// call: the module and the inputs to the outputs.
template <class Module, class Call>
void check_module(const GoldenCase& c, Module m, Call call) {
  load_parameters(m, c);
  std::map<std::string, Tensor> in;
  for (const NamedTensor& n : state_dict(m)) in[n.name] = n.tensor;
  for (const GoldenInput& g : c.inputs)
    if (!in.count(g.role)) in[g.role] = nn::parameter(load(g.value));
  std::vector<Tensor> outputs = call(m, in);
  Tensor loss = tensor(0.0);
  for (size_t i = 0; i < outputs.size(); ++i)
    loss = loss + (outputs[i] * load(*c.outputs[i].weight)).sum();
  loss.backward();
  REQUIRE(outputs.size() == c.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    check_close(c, "output", outputs[i], c.outputs[i].value);
  for (size_t i = 0; i < c.inputs.size(); ++i)
    check_close(c, "gradient of " + c.inputs[i].role, in[c.inputs[i].role].grad(),
                *c.gradients[i]);
}

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
  bool bias = input(c, "in_proj_bias").defined(), self = !input(c, "key").defined();
  int64_t heads = c.name.ends_with("self") ? 3 : 2;
  check_module(c, nn::MultiheadAttention(6, heads, bias), [&](auto& m, Named& in) {
    Tensor q = in["query"], k = self ? q : in["key"], v = self ? q : in["value"];
    return std::vector<Tensor>{m(q, k, v, {.is_causal = c.name.ends_with("causal")})};
  });
}

template <class Module>
std::string state_text(Module m) {
  std::ostringstream out;
  for (const NamedTensor& n : state_dict(m)) {
    out << n.name;
    for (int64_t d : n.tensor.shape()) out << ' ' << d;
    out << '\n';
  }
  return out.str();
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
    for (const GoldenCase* c : cases({"SGD", "Adam", "AdamW", "LAMB", "LARS", "Muon"}))
      follow(*c, false);
  }

  TEST_CASE("flat optimizers follow PyTorch as well") {
    for (const GoldenCase* c : cases({"SGD", "Adam", "AdamW"})) follow(*c, true);
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
