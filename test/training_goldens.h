// What the tests against goldens of training share: cases, their values, tolerances, modules.
#pragma once
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <sstream>

#include "golden_file.h"
#include "test_paths.h"

namespace mote::test {

// Tolerances, all of them: |got - want| <= atol + rtol * |want| + steps * per_step. The first row
// whose name the case's name begins with counts.
struct Tolerance {
  const char* whose;
  double rtol, atol, per_step;
  const char* why;
};
constexpr Tolerance tolerances[] = {
    {"Muon/f32",  1e-6,  1e-6,  5e-8, "f32 against f64"                                       },
    {"Muon/",     0,     2e-4,  1e-3, "a bf16 iteration rounds otherwise on every machine"    },
    {"LAMB/",     1e-6,  1e-6,  4e-7, "f32 against f64; the ratio of norms moves all elements"},
    {"Conv2d/",   1e-6,  5e-6,  0,    "sums over whole pictures"                              },
    {"schedule/", 1e-12, 1e-15, 0,    "f64 on both sides"                                     },
    {"",          1e-6,  1e-6,  5e-8, "f32 against f64"                                       },
};

inline const Tolerance& tolerance(const GoldenCase& c) {
  return *std::ranges::find_if(tolerances,
                               [&](const Tolerance& t) { return c.name.starts_with(t.whose); });
}

inline std::vector<const GoldenCase*> cases(std::initializer_list<const char*> ops) {
  static const GoldenFile files[] = {
      read_goldens(MOTE_SOURCE_DIR "/test/goldens/optim.gold.gz"),
      read_goldens(MOTE_SOURCE_DIR "/test/goldens/training.gold.gz")};
  std::vector<const GoldenCase*> out;
  for (const GoldenFile& file : files)
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
inline double number(const GoldenCase& c, const char* key, double otherwise = 0) {
  return attr(c, key, otherwise);
}

inline std::vector<float> values(const GoldenTensor& g) {
  std::vector<float> out(static_cast<size_t>(g.numel()));
  std::memcpy(out.data(), g.bytes.data(), g.bytes.size());
  return out;
}
inline Tensor load(const GoldenTensor& g) { return tensor(values(g)).reshape(g.shape); }
inline Tensor input(const GoldenCase& c, const char* role) {
  for (const GoldenInput& in : c.inputs)
    if (in.role == role) return load(in.value);
  return {};
}

inline void check_close(const GoldenCase& c, const std::string& what, const Tensor& got,
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
    check_close(c, "gradient of " + c.inputs[i].role, in[c.inputs[i].role].grad(), *c.gradients[i]);
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

}  // namespace mote::test
