// Optimizers with master weights, their parameters of any mix of float dtypes, against the same
// arithmetic in f64: random optimizers, with and without flat, clipping, a loss scaler, a jit and
// a resume in the middle.
#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/nn.h>
#include <mote/optim.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/random.h"
#include "test/amount.h"

using namespace mote;

namespace {

using Values = std::vector<double>;
using optim::Optimizer;

enum Kind { SGD, Adam, AdamW, LAMB, LARS, Muon, kKinds };
enum Clip { NoClip, Norm2, NormInf, Value, kClips };
constexpr double kLr = 0.0625, kDecay = 0.125, kB1 = 0.75, kB2 = 0.875, kEps = 0.0078125;

struct Group {
  DType dtype;
  int64_t rows, columns;
  size_t count() const { return static_cast<size_t>(rows * columns); }
};

struct Case {
  Kind kind;
  Clip clip;
  bool flat, scaled, jitted;
  int resume_at, overflow_at;  // steps; -1: never
  size_t overflow_in;          // parameter
  std::vector<Group> groups;
};

Case draw(Random& random) {
  static constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64};
  Case c{};
  c.kind = static_cast<Kind>(random.below(kKinds));
  c.clip = static_cast<Clip>(random.below(kClips));
  c.flat = c.kind <= AdamW && random.below(2);
  c.scaled = random.below(2), c.jitted = random.below(2);
  c.resume_at = random.below(2) ? 2 : -1;
  c.overflow_at = c.scaled && random.below(2) ? 1 + static_cast<int>(random.below(3)) : -1;
  int64_t count = 2 + random.below(4), first = random.below(4);
  for (int64_t i = 0; i < count; ++i)
    c.groups.push_back({dtypes[(first + (i == 1 ? 1 + random.below(3) : random.below(4))) % 4],
                        1 + random.below(3), 1 + random.below(3)});
  c.overflow_in = static_cast<size_t>(random.below(count));
  return c;
}

// ---- the reference

double norm_of(const Values& x) {
  double sum = 0;
  for (double v : x) sum += v * v;
  return std::sqrt(sum);
}

Values times(const Values& a, const Values& b, int64_t n, int64_t k, int64_t m) {
  Values out(static_cast<size_t>(n * m));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      for (int64_t l = 0; l < k; ++l)
        out[static_cast<size_t>(i * m + j)] +=
            a[static_cast<size_t>(i * k + l)] * b[static_cast<size_t>(l * m + j)];
  return out;
}
Values turned(const Values& a, int64_t n, int64_t m) {
  Values out(a.size());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      out[static_cast<size_t>(j * n + i)] = a[static_cast<size_t>(i * m + j)];
  return out;
}

Values orthogonalised(Values x, int64_t rows, int64_t columns) {
  bool tall = rows > columns;
  if (tall) x = turned(x, rows, columns), std::swap(rows, columns);
  double size = std::max(norm_of(x), 1e-7);
  for (double& v : x) v /= size;
  for (int i = 0; i < 5; ++i) {
    Values gram = times(x, turned(x, rows, columns), rows, columns, rows), both = gram;
    Values square = times(gram, gram, rows, rows, rows);
    for (size_t k = 0; k < gram.size(); ++k) both[k] = -4.7750 * gram[k] + 2.0315 * square[k];
    Values more = times(both, x, rows, rows, columns);
    for (size_t k = 0; k < x.size(); ++k) x[k] = 3.4445 * x[k] + more[k];
  }
  return tall ? turned(x, rows, columns) : x;
}

struct Reference {
  const Case& c;
  std::vector<Values> p, first, second;
  int steps = 0;

  void clip(std::vector<Values>& g) const {
    double norm = 0;
    for (const Values& one : g)
      for (double v : one) norm = c.clip == Norm2 ? norm + v * v : std::max(norm, std::abs(v));
    if (c.clip == Norm2) norm = std::sqrt(norm);
    for (Values& one : g)
      for (double& v : one)
        v = c.clip == Value ? std::clamp(v, -1.5, 1.5) : v * std::min(1.0, 2 / (norm + 1e-6));
  }
  void step(std::vector<Values> g) {
    if (c.clip != NoClip) clip(g);
    ++steps;
    for (size_t i = 0; i < p.size(); ++i) update(p[i], first[i], second[i], g[i], c.groups[i]);
  }
  void update(Values& x, Values& m, Values& v, const Values& g, const Group& group) const {
    Values r(x.size());  // the direction
    for (size_t k = 0; k < x.size(); ++k) {
      double slope = c.kind == SGD || c.kind == Adam ? g[k] + kDecay * x[k] : g[k];
      if (c.kind == SGD) r[k] = m[k] = kB1 * m[k] + slope;
      if (c.kind == Adam || c.kind == AdamW || c.kind == LAMB) {
        m[k] += (slope - m[k]) * (1 - kB1);
        v[k] = v[k] * kB2 + slope * slope * (1 - kB2);
        r[k] = m[k] / (1 - std::pow(kB1, steps)) /
               (std::sqrt(v[k] / (1 - std::pow(kB2, steps))) + kEps);
      }
      if (c.kind == LAMB) r[k] += kDecay * x[k];
      if (c.kind == Muon) {
        m[k] += (g[k] - m[k]) * (1 - kB1);
        r[k] = g[k] + (m[k] - g[k]) * kB1;
      }
    }
    double size = norm_of(x), slope = norm_of(g), rate = kLr, shrink = 1;
    if (c.kind == LAMB && size > 0 && norm_of(r) > 0) rate *= size / norm_of(r);
    if (c.kind == LARS) {
      if (size > 0 && slope > 0) rate *= 0.5 * size / (slope + kDecay * size);
      for (size_t k = 0; k < x.size(); ++k)
        r[k] = m[k] = kB1 * m[k] + (g[k] + kDecay * x[k]) * rate;
      rate = 1;
    }
    if (c.kind == AdamW || c.kind == Muon) shrink = 1 - kLr * kDecay;
    if (c.kind == Muon) {
      r = orthogonalised(r, group.rows, group.columns);
      double more = static_cast<double>(group.rows) / static_cast<double>(group.columns);
      rate *= std::sqrt(std::max(1.0, more));
    }
    for (size_t k = 0; k < x.size(); ++k) x[k] = x[k] * shrink - r[k] * rate;
  }
};

// ---- what is tested

std::unique_ptr<Optimizer> make(const Case& c, const std::vector<Tensor>& params) {
  using namespace optim;
  switch (c.kind) {
    case Kind::SGD:
      return std::make_unique<optim::SGD>(params,
                                          SGDOptions{kLr, kB1, 0, kDecay, false, c.flat, true});
    case Kind::Adam:
      return std::make_unique<optim::Adam>(params,
                                           AdamOptions{kLr, kB1, kB2, kEps, kDecay, c.flat, true});
    case Kind::AdamW:
      return std::make_unique<optim::AdamW>(
          params, AdamWOptions{kLr, kB1, kB2, kEps, kDecay, c.flat, true});
    case Kind::LAMB:
      return std::make_unique<optim::LAMB>(params, LAMBOptions{kLr, kB1, kB2, kEps, kDecay, true});
    case Kind::LARS:
      return std::make_unique<optim::LARS>(params, LARSOptions{kLr, kB1, kDecay, 0.5, true});
    default:
      return std::make_unique<optim::Muon>(
          params, MuonOptions{kLr, kDecay, kB1, true, false, DType::f32, 5, 1e-7, true});
  }
}

// Parameters, optimizer and scaler, and a step given the gradients.
struct Training {
  const Case& c;
  std::vector<Tensor> params;
  std::unique_ptr<Optimizer> opt;
  optim::LossScaler scaler{
      {.init_scale = 64, .growth_interval = 2}
  };

  Training(const Case& drawn, const std::vector<Values>& start) : c(drawn) {
    for (size_t i = 0; i < start.size(); ++i) {
      Tensor p = tensor(start[i]).reshape({c.groups[i].rows, c.groups[i].columns});
      params.push_back(p.to(c.groups[i].dtype).requires_grad_());
    }
    opt = make(c, params);
  }
  std::vector<Tensor> step(const std::vector<Tensor>& slopes) {
    opt->zero_grad();
    Tensor loss = tensor(0.0, {DType::f64});
    for (size_t i = 0; i < params.size(); ++i)
      loss = loss + (params[i].to(DType::f64) * slopes[i]).sum();
    (c.scaled ? scaler.scale(loss) : loss).backward();
    if (c.scaled && c.clip != NoClip) scaler.unscale(*opt);
    if (c.clip == Norm2 || c.clip == NormInf)
      opt->clip_grad_norm(2, c.clip == Norm2 ? 2 : INFINITY);
    if (c.clip == Value) opt->clip_grad_value(1.5);
    std::vector<Tensor> written = c.scaled ? scaler.step(*opt) : opt->step();
    realize(written);
    return written;
  }
  std::vector<NamedTensor> state() {
    std::vector<NamedTensor> all;
    for (size_t i = 0; i < params.size(); ++i) all.push_back({std::to_string(i), params[i]});
    for (const NamedTensor& n : state_dict(*opt)) all.push_back(n);
    for (const NamedTensor& n : state_dict(scaler)) all.push_back(n);
    for (NamedTensor& n : all) n.tensor = n.tensor.detach().clone().realize();
    return all;
  }
  void load(const std::vector<NamedTensor>& saved) {
    for (size_t i = 0; i < params.size(); ++i) params[i].assign(saved[i].tensor);
    load_state_dict(*opt, saved, false);
    load_state_dict(scaler, saved, false);
  }
  // The parameters as the optimizer keeps them, in f64: f32 copies where there are some.
  std::vector<Values> kept() {
    std::map<DType, Values> of_dtype;  // one after the other
    for (size_t i = 0; i < opt->params.size(); ++i) {
      const Tensor &p = opt->params[i], &master = opt->state["master"][i];
      REQUIRE(master.defined() == (size_of(p.dtype()) == 2));
      Values v = (master.defined() ? master : p).to_vector<double>();
      of_dtype[p.dtype()].insert(of_dtype[p.dtype()].end(), v.begin(), v.end());
    }
    std::vector<Values> out;
    std::map<DType, size_t> at;
    for (const Tensor& p : params) {
      auto from = of_dtype[p.dtype()].begin() + static_cast<long>(at[p.dtype()]);
      out.emplace_back(from, from + p.numel());
      at[p.dtype()] += out.back().size();
      Tensor rounded = tensor(out.back()).to(p.dtype());
      CHECK(rounded.to_vector<double>() == p.to_vector<double>());
    }
    return out;
  }
};

Values eighths(Random& random, size_t count, int64_t reach) {
  Values out(count);
  for (double& v : out) v = static_cast<double>(random.below(2 * reach + 1) - reach) / 8;
  return out;
}

void follow(const Case& c, Random& random) {
  std::vector<Values> start, slopes;
  for (const Group& g : c.groups) start.push_back(eighths(random, g.count(), 16));
  Reference want{c, start, start, start};
  for (auto* list : {&want.first, &want.second})
    for (Values& v : *list) std::ranges::fill(v, 0.0);
  auto training = std::make_unique<Training>(c, start);
  auto make_step = [&] {
    return jit([&](const std::vector<Tensor>& g) { return training->step(g); });
  };
  auto step = std::make_unique<decltype(make_step())>(make_step());
  float scale = 64;
  int good = 0;
  for (int t = 0; t < 5; ++t) {
    slopes.clear();
    std::vector<Tensor> given;
    for (const Group& g : c.groups) slopes.push_back(eighths(random, g.count(), 24));
    bool skipped = t == c.overflow_at;
    if (skipped) slopes[c.overflow_in].back() = random.below(2) ? INFINITY : NAN;
    for (size_t i = 0; i < slopes.size(); ++i)
      given.push_back(
          tensor(slopes[i], {DType::f64}).reshape({c.groups[i].rows, c.groups[i].columns}));
    c.jitted ? (void)(*step)(given) : (void)training->step(given);
    if (!skipped) want.step(slopes);
    good = skipped ? 0 : good + 1;
    if (skipped) scale /= 2;
    if (good == 2) scale *= 2, good = 0;
    if (c.scaled) CHECK(training->scaler.factor.item<float>() == scale);
    std::vector<Values> got = training->kept();
    double worst = 0;
    for (size_t i = 0; i < got.size(); ++i)
      for (size_t k = 0; k < got[i].size(); ++k)
        worst = std::max(worst, std::abs(got[i][k] - want.p[i][k]));
    CAPTURE(t);
    CHECK(worst <= (c.kind == Muon ? 2e-4 : 4e-6));
    if (t != c.resume_at) continue;
    std::vector<NamedTensor> saved = training->state();
    training = std::make_unique<Training>(c, start);
    training->load(saved);
    step = std::make_unique<decltype(make_step())>(make_step());
  }
}

void follow_many(int count) {
  const uint64_t seed = 20261116;
  Random random(seed);
  MESSAGE("seed ", seed, ", ", count, " optimizers");
  for (int i = 0; i < count; ++i) {
    Case c = draw(random);
    std::string dtypes;
    for (const Group& g : c.groups) dtypes += std::string(name(g.dtype)) + " ";
    INFO("case ", i, ": kind ", c.kind, ", clip ", c.clip, ", flat ", c.flat, ", scaled ", c.scaled,
         ", jit ", c.jitted, ", resumed ", c.resume_at, ", overflow ", c.overflow_at, ", ", dtypes);
    follow(c, random);
  }
}

}  // namespace

TEST_CASE("optim: master weights with any mix of dtypes follow f64") { follow_many(test::scaled(12)); }
TEST_CASE("optim: master weights with many mixes of dtypes follow f64" *
          doctest::test_suite("soak")) {
  follow_many(test::scaled(1000));
}
