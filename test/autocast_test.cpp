// Autocast: result dtypes of every op beside PyTorch's (tools/make_autocast_goldens.py), values and
// gradients beside f32's, scopes, and networks that train.
#include "tensor/autocast.h"

#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <thread>

#include "ops_table.h"
#include "test_paths.h"

using namespace mote;
using mote::test::GoldenCase;

namespace {

const test::GoldenFile& ops() {
  static const auto* file =
      new test::GoldenFile(test::read_goldens(MOTE_SOURCE_DIR "/test/goldens/ops.gold.gz"));
  return *file;
}

test::Call make_call(const GoldenCase& golden, const char* device) {
  test::Call call{golden, device, {}};
  for (const test::GoldenInput& in : golden.inputs)
    call.inputs.push_back(
        from_bytes(in.value.bytes.data(), in.value.shape, in.value.dtype, device));
  return call;
}

// ---- result dtypes

// Where mote's result has another dtype than PyTorch's, and why. An op, or one case.
struct Difference {
  const char* whose;
  const char* why;
};
constexpr Difference differences[] = {
    {"index_put",           "it writes to a tensor, which keeps its dtype"                   },
    {"div/number_left",     "PyTorch's number / tensor is a reciprocal, which is in its list"},
    {"interpolate/area_1d", "PyTorch's area mode is a pooling, which is not in its list"     },
    {"interpolate/area_2d", "the same"                                                       },
};

const Difference* difference(const GoldenCase& c) {
  for (const Difference& d : differences)
    if (c.op == d.whose || c.name == d.whose) return &d;
  return nullptr;
}

// As tools/make_autocast_goldens.py gives them.
void give_as(test::Call& call, const std::string& how, DType low) {
  bool first = true;
  for (Tensor& t : call.inputs) {
    if (t.dtype() != DType::f32) continue;
    if (how == "low" || (how == "mixed" && first)) t = t.to(low);
    first = false;
  }
}

// PyTorch's: those for CUDA, where its list of ops is the longer one.
std::string expected(const GoldenCase& c, const std::string& how) {
  for (const char* device : {"cuda_", "cpu_"}) {
    auto it = c.attrs.find(device + how);
    if (it != c.attrs.end() && std::get<std::string>(it->second) != "error")
      return std::get<std::string>(it->second);
  }
  return "";
}

std::string dtypes_of(const std::vector<Tensor>& list) {
  std::string out;
  for (const Tensor& t : list) out += (out.empty() ? "" : " ") + std::string(name(t.dtype()));
  return out;
}

}  // namespace

TEST_CASE("autocast: every op has PyTorch's result dtype") {
  auto goldens = test::read_goldens(MOTE_SOURCE_DIR "/test/goldens/autocast.gold.gz");
  std::map<std::string, const GoldenCase*> by_name;
  for (const GoldenCase& c : ops().cases) by_name[c.name] = &c;
  std::set<std::string> seen, needed;
  int results = 0;
  for (const GoldenCase& c : goldens.cases)
    for (const char* how : {"f32", "low", "mixed"}) {
      std::string want = expected(c, how);
      auto golden = by_name.find(c.name);
      const test::TestedOp* op = test::find_op(c.op);
      if (want.empty() || golden == by_name.end() || !op) continue;
      INFO(c.name, " of ", std::string(how), " inputs");
      test::Call call = make_call(*golden->second, "CPU");
      give_as(call, how, DType::bf16);
      std::string got;
      try {
        auto scope = autocast(DType::bf16);
        got = dtypes_of(op->run(call));
      } catch (const Error& e) { got = e.what(); }
      if (const Difference* d = difference(c)) {
        if (got != want) needed.insert(d->whose);
        continue;
      }
      CHECK(got == want);
      seen.insert(c.op);
      ++results;
    }
  MESSAGE(results, " results of ", seen.size(), " ops");
  CHECK(results > 3000);
  CHECK(needed.size() == std::size(differences));
  for (const AutocastRow& row : autocast_rows())
    CHECK_MESSAGE(seen.count(std::string(row.method)), std::string(row.method), " has no case");
}

TEST_CASE("autocast: docs/mixed_precision.md has the table") {
  std::ifstream in(MOTE_SOURCE_DIR "/docs/mixed_precision.md");
  std::stringstream page;
  page << in.rdbuf();
  static constexpr const char* titles[] = {"the scope's dtype", "f32", "the widest among them"};
  for (Precision p : {Precision::Low, Precision::Full, Precision::Widest}) {
    std::string line = "| " + std::string(titles[static_cast<int>(p)]) + " |";
    for (const AutocastRow& row : autocast_rows())
      if (row.precision == p) line += " `" + std::string(row.method) + "`";
    CHECK_MESSAGE(page.str().find(line + " |\n") != std::string::npos, "the page lacks: ", line);
  }
}

// ---- values and gradients

namespace {

double largest(const std::vector<double>& list) {
  double most = 0;
  for (double v : list) most = std::max(most, std::abs(v));
  return most;
}

// Rounding to `low` of what goes in and what comes out, beside values computed in f32.
void check_near(const Tensor& got, const test::GoldenTensor& want, DType low) {
  std::vector<double> a = got.to(DType::f64).to_vector<double>();
  std::vector<double> b =
      from_bytes(want.bytes.data(), want.shape, want.dtype).to(DType::f64).to_vector<double>();
  REQUIRE(a.size() == b.size());
  double rounding = low == DType::bf16 ? 0x1p-8 : 0x1p-11, worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  CHECK(worst <= 8 * rounding * std::max(1.0, largest(b)));
}

// The first case of the op whose float inputs are all f32 and have gradients.
const GoldenCase* differentiable_case(std::string_view op) {
  for (const GoldenCase& c : ops().cases) {
    bool fits = c.op == op && !c.is_variant() && !c.gradients.empty() && c.outputs[0].weight;
    for (const test::GoldenInput& in : c.inputs)
      fits &= !is_float(in.value.dtype) || (in.value.dtype == DType::f32 && in.value.numel() > 1);
    if (fits) return &c;
  }
  return nullptr;
}

// The op in a scope, f32 leaves in and their gradients out; backward runs outside of the scope.
void check_row(const AutocastRow& row, const GoldenCase& c, const char* device, DType low) {
  INFO(c.name, " on ", std::string(device), " in ", std::string(name(low)));
  test::Call call = make_call(c, device);
  for (Tensor& t : call.inputs)
    if (t.is_floating_point()) t.requires_grad_();
  std::vector<Tensor> outputs;
  {
    auto scope = autocast(low);
    outputs = test::find_op(c.op)->run(call);
  }
  CHECK(outputs[0].dtype() == (row.precision == Precision::Low ? low : DType::f32));
  Tensor loss = tensor(0.0, {DType::f32, device});
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& weight = c.outputs[i].weight;
    if (!weight) continue;
    check_near(outputs[i], c.outputs[i].value, low);
    loss = loss + (outputs[i].to_float() *
                   from_bytes(weight->bytes.data(), weight->shape, DType::f32, device))
                      .sum();
  }
  loss.backward();
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    if (!c.gradients[i]) continue;
    CHECK(call.inputs[i].grad().dtype() == DType::f32);
    check_near(call.inputs[i].grad(), *c.gradients[i], low);
  }
}

}  // namespace

TEST_CASE("autocast: ops are close to f32, and so are gradients, which have the leaves' dtype") {
  int rows = 0;
  for (const AutocastRow& row : autocast_rows()) {
    const GoldenCase* c = differentiable_case(row.method);
    CHECK_MESSAGE(c, std::string(row.method), " has no case with gradients");
    if (!c) continue;
    ++rows;
    check_row(row, *c, "INTERP", rows % 2 ? DType::bf16 : DType::f16);
    if (row.precision == Precision::Low) check_row(row, *c, "CPU", DType::bf16);
  }
  MESSAGE(rows, " ops");
}

TEST_CASE("autocast: a call in a scope is the same graph as one with operands cast by hand") {
  int cases = 0;
  for (const AutocastRow& row : autocast_rows())
    for (const GoldenCase& c : ops().cases) {
      if (c.op != row.method || c.name.find("@") != std::string::npos) continue;
      INFO(c.name);
      test::Call call = make_call(c, "CPU"), by_hand = call;
      give_as(call, "mixed", DType::bf16);
      DType to = row.precision == Precision::Full ? DType::f32 : DType::bf16;
      for (const Tensor& t : call.inputs)
        if (row.precision == Precision::Widest && t.dtype() == DType::f32) to = DType::f32;
      for (size_t i = 0; i < call.inputs.size(); ++i) {
        const std::string& role = c.inputs[i].role;
        Tensor& t = by_hand.inputs[i] = call.inputs[i];
        bool added = row.precision == Precision::Low && (role == "bias" || role == "attn_mask");
        if (is_float(t.dtype()) && t.dtype() != DType::f64 && !added) t = t.to(to);
      }
      std::vector<Tensor> want = test::find_op(c.op)->run(by_hand), got;
      {
        auto scope = autocast();
        got = test::find_op(c.op)->run(call);
      }
      for (size_t i = 0; i < want.size(); ++i) CHECK(node_of(got[i]) == node_of(want[i]));
      ++cases;
    }
  MESSAGE(cases, " cases");
  CHECK(cases > 500);
}

TEST_CASE("autocast: methods without a row make the same graph in a scope, whatever they call") {
  // Those that write to new memory are never the same graph, nor are programs of several methods.
  std::set<std::string_view> others = {"batch_norm", "index_put", "setitem",
                                       "symbolic",   "unique",    "unique_consecutive"};
  for (const AutocastRow& row : autocast_rows()) others.insert(row.method);
  int cases = 0;
  for (const GoldenCase& c : ops().cases) {
    if (others.count(c.op) || c.is_variant() || c.inputs.empty()) continue;
    INFO(c.name);
    test::Call call = make_call(c, "CPU");
    give_as(call, "low", DType::bf16);
    auto run = [&](bool on) -> std::vector<Tensor> {
      auto scope = autocast(DType::bf16, on);
      try {
        return test::find_op(c.op)->run(call);
      } catch (const Error&) {
        return {};  // a method that does not take bf16
      }
    };
    std::vector<Tensor> want = run(false), got = run(true);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) CHECK(node_of(got[i]) == node_of(want[i]));
    ++cases;
  }
  MESSAGE(cases, " cases");
  CHECK(cases > 1000);
}

// ---- scopes

TEST_CASE("autocast: scopes nest, are switched off, and end with exceptions") {
  Tensor a = ones({2, 2}), b = ones({2, 2});
  auto product = [&] { return a.matmul(b).dtype(); };
  CHECK(product() == DType::f32);
  CHECK(autocast_dtype() == DType::none);
  {
    auto outer = autocast();
    CHECK(product() == DType::bf16);
    {
      auto inner = autocast(DType::f16);
      CHECK(product() == DType::f16);
      auto off = autocast(DType::bf16, false);
      CHECK(product() == DType::f32);
      CHECK(autocast_dtype() == DType::none);
    }
    CHECK(product() == DType::bf16);
    CHECK_THROWS_WITH_AS((void)autocast(DType::f32),
                         doctest::Contains("[autocast] needs bf16 or f16, got f32 ("), Error);
    CHECK_THROWS_AS(a.matmul(ones({3, 2})), Error);
    CHECK(product() == DType::bf16);
  }
  CHECK(product() == DType::f32);
  try {
    auto scope = autocast();
    a.matmul(ones({3, 2}));
  } catch (const Error& e) {
    CHECK(std::string(e.what()).starts_with("[matmul] shapes (2, 2) and (3, 2)"));
  }
  CHECK(product() == DType::f32);
}

TEST_CASE("autocast: a scope is its thread's" * doctest::test_suite("threads")) {
  auto scope = autocast(DType::f16);
  DType other = DType::none, inside = DType::none;
  std::thread([&] {
    other = ones({2, 2}).matmul(ones({2, 2})).dtype();
    auto own = autocast(DType::bf16);
    inside = ones({2, 2}).matmul(ones({2, 2})).dtype();
  }).join();
  CHECK(other == DType::f32);
  CHECK(inside == DType::bf16);
  CHECK(ones({2, 2}).matmul(ones({2, 2})).dtype() == DType::f16);
}

TEST_CASE("autocast: f64, integers and bools stay as they are") {
  auto scope = autocast();
  Tensor wide = ones({2, 2}, {DType::f64}), whole = ones({2, 2}, {DType::i32});
  CHECK(wide.matmul(wide).dtype() == DType::f64);
  CHECK(wide.exp().dtype() == DType::f64);
  CHECK(whole.matmul(whole).dtype() == DType::i32);
  CHECK(whole.sum().dtype() == DType::i64);
  CHECK(whole.to_bool().sum().dtype() == DType::i64);
  CHECK(whole.softmax(0).dtype() == DType::f32);
  CHECK_THROWS_WITH_AS(wide.matmul(ones({2, 2})), doctest::Contains("dtypes f64 and bf16 differ"),
                       Error);
  CHECK(ones({2}).sum({}, false, DType::bf16).dtype() == DType::bf16);  // asked for
}

TEST_CASE("autocast: modules, and the same weight is cast once") {
  nn::Linear linear(3, 3);
  nn::LayerNorm norm(3);
  nn::LSTMCell cell(3, 3);
  nn::MultiheadAttention attention(4, 2);
  auto scope = autocast();
  Tensor x = ones({2, 3});
  CHECK(linear(x).dtype() == DType::bf16);
  CHECK(norm(linear(x)).dtype() == DType::f32);
  CHECK(attention(ones({1, 2, 4}), ones({1, 2, 4}), ones({1, 2, 4})).dtype() == DType::bf16);
  CHECK(cell(x).c.dtype() == DType::f32);  // gates of bf16 and a state of f32
  auto casts = [](const Tensor& t) {
    std::set<const Node*> found;
    std::vector<UOp> rest = {node_of(t)};
    while (!rest.empty()) {
      UOp n = rest.back();
      rest.pop_back();
      if (n->is(Op::Cast) && n->dtype == DType::bf16 && prim::base_of(n->src(0)))
        found.insert(n.operator->());
      for (size_t i = 0; i < n->nsrc; ++i) rest.push_back(n->src(i));
    }
    return found.size();
  };
  linear.weight.realize();
  CHECK(casts(x.linear(linear.weight).linear(linear.weight).linear(linear.weight)) == 1);
}

TEST_CASE("autocast: backward and optimizers are the same inside a scope and outside") {
  std::vector<std::vector<float>> ends;
  for (bool inside : {false, true}) {
    manual_seed(1);
    Tensor w = randn({4, 4}).requires_grad_(), x = randn({4, 4});
    optim::Muon opt({w}, {.lr = 0.1, .iterate_in = DType::f32});
    for (int t = 0; t < 2; ++t) {
      opt.zero_grad();
      Tensor loss;
      {
        auto scope = autocast();
        loss = x.matmul(w).tanh().matmul(w).square().mean();
      }
      auto scope = autocast(DType::f16, inside);
      loss.backward();
      opt.clip_grad_norm(1.0);
      realize(opt.step());
    }
    ends.push_back(w.to_vector<float>());
  }
  CHECK(ends[0] == ends[1]);
}

TEST_CASE("autocast: a jit replays the casts of the scope it is called in") {
  manual_seed(2);
  Tensor w = randn({8, 8}).realize(), x = ones({2, 8}).realize();
  auto f = jit([&](const Tensor& in) { return in.matmul(w).softmax(-1); });
  auto g = jit([&](const Tensor& in) {
    auto scope = autocast();
    return in.matmul(w).softmax(-1);
  });
  for (int call = 0; call < 4; ++call) {
    std::vector<float> outside = g(x).to_vector<float>();
    auto scope = autocast();
    std::vector<float> inside = f(x).to_vector<float>();
    CHECK(inside == x.matmul(w).softmax(-1).to_vector<float>());
    CHECK(inside == outside);
  }
  // In another scope the function is called, and captured for that one too.
  for (int call = 0; call < 4; ++call) {
    CHECK(f(x).to_vector<float>() == x.matmul(w).softmax(-1).to_vector<float>());
    auto other = autocast(DType::f16);
    CHECK(f(x).to_vector<float>() == x.matmul(w).softmax(-1).to_vector<float>());
  }
}
