// Every derivative row against central differences in f64, and what the walk promises.
#include "grad/grad.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "ir/provenance.h"
#include "ir/storage.h"
#include "runtime/interp_graph.h"
#include "tensor/primitives.h"

using namespace mote;

namespace {

using Values = std::vector<double>;

struct Memory : Storage {
  std::vector<std::byte> bytes;
  void write(const Values& values) {
    HostArray array(dtype, {count});
    for (int64_t i = 0; i < count; ++i) array.set(i, scalar(dtype, values[static_cast<size_t>(i)]));
    bytes = array.bytes;
  }
};

// A buffer with values in it, seen in a shape.
struct Input {
  Memory* memory;
  Ref buffer, node;
  Input(std::vector<int64_t> shape, const Values& values, DType dtype = DType::f64) {
    memory = new Memory;
    memory->id = next_storage_id();
    memory->dtype = dtype;
    memory->count = static_cast<int64_t>(values.size());
    memory->write(values);
    buffer = tensor_graph::buffer(memory);
    node = prim::reshape(buffer, std::vector<Dim>(shape.begin(), shape.end()));
  }
};

Values evaluate(const Ref& node) {
  GraphReader reader{.bytes_of = [](const Storage& s) {
    return std::span<const std::byte>(static_cast<const Memory&>(s).bytes);
  }};
  HostArray array = interpret(node, reader);
  Values out;
  for (int64_t i = 0; i < array.count(); ++i) out.push_back(array.at(i).f);
  return out;
}

// Values strewn over [lo, hi], no two close together.
Values strewn(int64_t count, double lo, double hi, double phase) {
  Values out;
  for (int64_t i = 0; i < count; ++i) {
    double at = std::fmod((static_cast<double>(i) + phase) * 0.618033988749895, 1.0);
    out.push_back(lo + (hi - lo) * at);
  }
  return out;
}

Ref sum_all(const Ref& a) {
  std::vector<int64_t> axes(a->shape->dims.size());
  std::iota(axes.begin(), axes.end(), 0);
  return prim::reshape(prim::reduce(Op::Add, a, axes), {});
}

// A number that depends on every element of a differently.
Ref weighed(const Ref& a, double phase) {
  Values w = strewn(a->shape->count(), 0.5, 2.0, phase);
  return sum_all(prim::mul(a, Input(a->shape->sizes(), w).node));
}

Ref one() { return prim::constant(DType::f64, 1.0); }

// d value / d input by central differences.
Values differences(const Input& input, const Ref& value) {
  constexpr double h = 1e-5;
  Values at(static_cast<size_t>(input.memory->count)), out;
  std::memcpy(at.data(), input.memory->bytes.data(), at.size() * sizeof(double));
  for (size_t i = 0; i < at.size(); ++i) {
    Values moved = at;
    moved[i] = at[i] + h;
    input.memory->write(moved);
    double above = evaluate(value)[0];
    moved[i] = at[i] - h;
    input.memory->write(moved);
    out.push_back((above - evaluate(value)[0]) / (2 * h));
  }
  input.memory->write(at);
  return out;
}

void check_close(const Values& got, const Values& want) {
  REQUIRE(got.size() == want.size());
  for (size_t i = 0; i < got.size(); ++i)
    CHECK_MESSAGE(std::abs(got[i] - want[i]) <= 2e-6 * (1 + std::abs(want[i])), "element ", i, ": ",
                  got[i], " but differences say ", want[i]);
}

using Function = std::function<Ref(std::span<const Ref>)>;

struct Case {
  const char* name;
  std::vector<std::vector<int64_t>> shapes;
  double lo, hi;
  Function f;
};

// First and second derivatives of a random mix of the outputs, in every input.
void check_derivatives(const Case& c) {
  INFO(std::string(c.name));
  std::vector<Input> inputs;
  std::vector<Ref> nodes;
  for (const auto& shape : c.shapes) {
    int64_t count = 1;
    for (int64_t d : shape) count *= d;
    double phase = 1.3 * static_cast<double>(inputs.size() + 1);
    inputs.emplace_back(shape, strewn(count, c.lo, c.hi, phase));
    nodes.push_back(inputs.back().node);
  }
  Ref loss = weighed(c.f(nodes), 0.7);
  std::vector<Ref> first = gradients(loss, nodes, one());
  Ref slope;
  for (size_t i = 0; i < nodes.size(); ++i) {
    REQUIRE(first[i]);
    CHECK(first[i]->shape == nodes[i]->shape);
    check_close(evaluate(first[i]), differences(inputs[i], loss));
    Ref part = weighed(first[i], 0.2 + static_cast<double>(i));
    slope = slope ? prim::add(slope, part) : part;
  }
  std::vector<Ref> second = gradients(slope, nodes, one());
  for (size_t i = 0; i < nodes.size(); ++i) {
    Values want = differences(inputs[i], slope);
    check_close(second[i] ? evaluate(second[i]) : Values(want.size(), 0.0), want);
  }
}

Function unary(Op op) {
  return [op](std::span<const Ref> x) { return prim::alu(op, {x[0]}); };
}
Function binary(Op op) {
  return [op](std::span<const Ref> x) { return prim::alu(op, {x[0], x[1]}); };
}
// Squared first, so that linear ops have second derivatives too.
Function moved(std::function<Ref(const Ref&)> f) {
  return [f](std::span<const Ref> x) { return f(prim::mul(x[0], x[0])); };
}
Function reduced(Op op, std::vector<int64_t> axes) {
  return [op, axes](std::span<const Ref> x) { return prim::reduce(op, x[0], axes); };
}

}  // namespace

TEST_SUITE("grad") {
  // clang-format off
  TEST_CASE("elementwise rows") {
    const Case cases[] = {
        {"neg", {{5}}, -2, 2, unary(Op::Neg)},
        {"sqrt", {{5}}, 0.2, 3, unary(Op::Sqrt)},
        {"exp", {{5}}, -2, 2, unary(Op::Exp)},
        {"exp2", {{5}}, -2, 2, unary(Op::Exp2)},
        {"log", {{5}}, 0.2, 3, unary(Op::Log)},
        {"log2", {{5}}, 0.2, 3, unary(Op::Log2)},
        {"sin", {{5}}, -4, 4, unary(Op::Sin)},
        {"cos", {{5}}, -4, 4, unary(Op::Cos)},
        {"tanh", {{5}}, -2, 2, unary(Op::Tanh)},
        {"erf", {{5}}, -2, 2, unary(Op::Erf)},
        {"add", {{2, 3}, {2, 3}}, -2, 2, binary(Op::Add)},
        {"mul", {{2, 3}, {2, 3}}, -2, 2, binary(Op::Mul)},
        {"div", {{2, 3}, {2, 3}}, 0.5, 2, binary(Op::Div)},
        {"max", {{2, 3}, {2, 3}}, -2, 2, binary(Op::Max)},
        {"min", {{2, 3}, {2, 3}}, -2, 2, binary(Op::Min)},
        {"square", {{4}}, -2, 2, [](auto x) { return prim::mul(x[0], x[0]); }},
        {"scalar times tensor", {{}, {2, 3}}, 0.5, 2, binary(Op::Mul)},
        {"tensor over scalar", {{2, 3}, {}}, 0.5, 2, binary(Op::Div)},
        {"where", {{4}, {4}}, -1, 1, [](auto x) {
           Ref c = prim::alu(Op::Lt, {x[0], prim::constant(DType::f64, 0.1)});
           return prim::where(c, prim::mul(x[0], x[1]), prim::mul(x[1], x[1]));
         }},
        {"where of a scalar", {{4}, {}}, -1, 1, [](auto x) {
           Ref c = prim::alu(Op::Lt, {x[0], prim::constant(DType::f64, 0.1)});
           return prim::where(c, prim::mul(x[0], x[0]), x[1]);
         }},
        {"muladd", {{4}, {4}, {4}}, -1, 1,
         [](auto x) { return prim::alu(Op::MulAdd, {x[0], x[1], x[2]}); }},
        {"contiguous", {{4}}, -1, 1, moved([](const Ref& x) { return prim::contiguous(x); })},
    };
    for (const Case& c : cases) check_derivatives(c);
  }

  TEST_CASE("reduce rows") {
    const Case cases[] = {
        {"sum", {{2, 3}}, -2, 2, moved([](const Ref& x) {
           int64_t axes[] = {1};
           return prim::reduce(Op::Add, x, axes);
         })},
        {"max", {{2, 3, 2}}, -2, 2, reduced(Op::Max, {0, 2})},
        {"min", {{2, 3}}, -2, 2, reduced(Op::Min, {1})},
        {"prod of one axis", {{2, 3}}, -2, 2, reduced(Op::Mul, {1})},
        {"prod of the first axis", {{5, 2}}, -2, 2, reduced(Op::Mul, {0})},
        {"prod of a power of two", {{4}}, -2, 2, reduced(Op::Mul, {0})},
        {"prod of outer axes", {{2, 3, 3}}, -2, 2, reduced(Op::Mul, {0, 2})},
        {"prod of all", {{2, 3}}, -2, 2, reduced(Op::Mul, {0, 1})},
    };
    for (const Case& c : cases) check_derivatives(c);
  }

  TEST_CASE("movement rows") {
    auto window = [](int64_t axis, int64_t size, int64_t step, int64_t dilation) {
      return moved([=](const Ref& x) { return prim::window(x, axis, size, step, dilation); });
    };
    auto permute = [](std::vector<int64_t> axes) {
      return moved([axes](const Ref& x) { return prim::permute(x, axes); });
    };
    const Case cases[] = {
        {"reshape", {{2, 3}}, -2, 2, moved([](const Ref& x) {
           Dim shape[] = {3, 2};
           return prim::reshape(prim::contiguous(x), shape);
         })},
        {"permute", {{2, 3, 2}}, -2, 2, permute({2, 0, 1})},
        {"expand", {{2, 1}}, -2, 2, moved([](const Ref& x) {
           Dim shape[] = {2, 3};
           return prim::expand(x, shape);
         })},
        {"expand a scalar", {{}}, -2, 2, moved([](const Ref& x) {
           Dim shape[] = {2, 3};
           return prim::expand(x, shape);
         })},
        {"pad", {{2, 3}}, -2, 2, moved([](const Ref& x) {
           prim::Extent amounts[] = {{1, 0}, {0, 2}};
           return prim::pad(x, amounts);
         })},
        {"shrink", {{3, 4}}, -2, 2, moved([](const Ref& x) {
           prim::Extent bounds[] = {{1, 3}, {0, 2}};
           return prim::shrink(x, bounds);
         })},
        {"window", {{2, 5}}, -2, 2, window(1, 3, 1, 1)},
        {"window with steps", {{7, 2}}, -2, 2, window(0, 3, 2, 1)},
        {"window with holes", {{2, 8}}, -2, 2, window(1, 2, 3, 2)},
        {"window of steps only", {{8}}, -2, 2, window(0, 1, 3, 1)},
        {"flip", {{2, 3}}, -2, 2, moved([](const Ref& x) {
           int64_t axes[] = {1};
           return prim::flip(x, axes);
         })},
    };
    for (const Case& c : cases) check_derivatives(c);
  }
  // clang-format on

  TEST_CASE("casts between floats carry, rounding steps have slope 0, bits and integers do not") {
    Input x({2}, {1.5, 2.5});
    auto gradient = [&](const Ref& y) {
      return gradients(sum_all(y), std::span(&x.node, 1), prim::constant(y->dtype, 1.0))[0];
    };
    CHECK(evaluate(gradient(prim::cast(x.node, DType::f32))) == Values{1, 1});
    CHECK(evaluate(gradient(prim::alu(Op::Trunc, {x.node}))) == Values{0, 0});
    CHECK(!gradient(prim::cast(prim::cast(x.node, DType::i32), DType::f64)));
    CHECK(!gradient(prim::bitcast(prim::bitcast(x.node, DType::i64), DType::f64)));
    CHECK(!gradient(prim::detach(x.node)));
    Ref less = prim::alu(Op::Lt, {x.node, one()});
    CHECK(!gradient(prim::cast(less, DType::f64)));
  }

  TEST_CASE("ties share evenly") {
    Input a({3}, {1, 2, 3}), b({3}, {1, 3, 2});
    Ref targets[] = {a.node, b.node};
    std::vector<Ref> larger =
        gradients(sum_all(prim::alu(Op::Max, {targets[0], targets[1]})), targets, one());
    CHECK(evaluate(larger[0]) == Values{0.5, 0, 1});
    CHECK(evaluate(larger[1]) == Values{0.5, 1, 0});
    Input x({2, 4}, {5, 1, 5, 5, 7, 8, 6, 2});
    int64_t axes[] = {1};
    Ref most = prim::reduce(Op::Max, x.node, axes);
    Ref g = gradients(sum_all(most), std::span(&x.node, 1), one())[0];
    double third = 1.0 / 3;
    CHECK(evaluate(g) == Values{third, 0, third, third, 0, 1, 0, 0});
  }

  TEST_CASE("a product's derivatives are exact where factors are zero") {
    for (Values at : {
             Values{2, 0, 3},
             Values{0, 5, 0},
             Values{0, 0, 0},
             Values{1, 2, 3}
    }) {
      Input x({3}, at);
      int64_t axes[] = {0};
      Ref product = prim::reshape(prim::reduce(Op::Mul, x.node, axes), {});
      Ref first = gradients(product, std::span(&x.node, 1), one())[0];
      CHECK(evaluate(first) == Values{at[1] * at[2], at[0] * at[2], at[0] * at[1]});
      Ref weights = Input({3}, {1, 10, 100}).node;
      Ref second = gradients(sum_all(prim::mul(first, weights)), std::span(&x.node, 1), one())[0];
      Values want = {10 * at[2] + 100 * at[1], at[2] + 100 * at[0], at[1] + 10 * at[0]};
      CHECK(evaluate(second) == want);
    }
  }

  TEST_CASE("sums of 16-bit floats accumulate in f32") {
    for (DType dtype : {DType::f16, DType::bf16}) {
      Input x({}, {1}, dtype);
      Dim shape[] = {4096};
      Ref wide = prim::expand(x.node, shape);
      Ref seed = prim::full(shape, prim::constant(dtype, 1.0));
      CHECK(evaluate(gradients(wide, std::span(&x.node, 1), seed)[0]) == Values{4096});
      Ref product = prim::mul(x.node, Input({4096}, Values(4096, 1), dtype).node);
      CHECK(evaluate(gradients(product, std::span(&x.node, 1), seed)[0]) == Values{4096});
    }
  }

  TEST_CASE("a written memory passes gradients to what was written and what was kept") {
    Input base({2, 3}, {1, 2, 3, 4, 5, 6}), value({2, 2}, {7, 8, 9, 10});
    prim::Extent bounds[] = {
        {0, 2},
        {1, 3}
    };
    Ref version = prim::assign(prim::shrink(base.node, bounds), prim::mul(value.node, value.node));
    Ref weights = Input({6}, {1, 2, 3, 4, 5, 6}).node;
    Ref loss = sum_all(prim::mul(version, weights));
    CHECK(evaluate(loss)[0] == 1 + 2 * 49 + 3 * 64 + 16 + 5 * 81 + 6 * 100);
    Ref targets[] = {base.node, value.node};
    std::vector<Ref> got = gradients(loss, targets, one());
    CHECK(evaluate(got[0]) == Values{1, 0, 0, 4, 0, 0});
    CHECK(evaluate(got[1]) == Values{2 * 14, 3 * 16, 5 * 18, 6 * 20});
    SUBCASE("all of it") {
      Ref whole = prim::assign(base.node, prim::add(base.node, base.node));
      Ref g = gradients(sum_all(whole), std::span(targets, 1), one())[0];
      CHECK(evaluate(g) == Values{2, 2, 2, 2, 2, 2});
    }
    SUBCASE("nothing of the version before is left") {
      Ref whole = prim::assign(base.buffer, Input({6}, Values(6, 3)).node);
      CHECK(!gradients(sum_all(whole), std::span(targets, 1), one())[0]);
    }
  }

  TEST_CASE("a marked leaf ends the walk, at any version") {
    Input w({2}, {1, 2}), v({2}, {3, 4});
    w.memory->requires_grad = true;
    Ref version = prim::assign(w.node, prim::mul(w.node, v.node));
    Ref loss = sum_all(prim::mul(version, version));
    auto leaves = leaf_gradients(loss, one());
    REQUIRE(leaves.size() == 1);
    CHECK(leaves[0].first == version);
    CHECK(evaluate(leaves[0].second) == Values{6, 16});
    CHECK(!gradients(loss, std::span(&v.node, 1), one())[0]);
    CHECK(leaf_gradients(sum_all(prim::detach(version)), one()).empty());
  }

  TEST_CASE("a target is found under reshapes, permutations and its buffer") {
    Input x({2, 3}, {1, 2, 3, 4, 5, 6});
    int64_t turn[] = {1, 0};
    Dim flat[] = {6};
    Ref turned = prim::permute(x.node, turn);
    Ref weights = Input({6}, {1, 2, 3, 4, 5, 6}).node;
    Ref loss = sum_all(prim::mul(prim::reshape(x.node, flat), weights));
    CHECK(evaluate(gradients(loss, std::span(&turned, 1), one())[0]) == Values{1, 4, 2, 5, 3, 6});
    Ref square = prim::mul(x.node, x.node);
    Ref above = sum_all(prim::mul(square, square));
    Input stored({2, 3}, {1, 4, 9, 16, 25, 36});
    tensor_graph::set_realized(square, stored.buffer);
    CHECK(evaluate(gradients(above, std::span(&stored.node, 1), one())[0]) ==
          Values{2, 8, 18, 32, 50, 72});
  }

  TEST_CASE("a realized value of marked leaves on the way is an error, unless it is the target") {
    Input y({2}, {1, 2}), x({2}, {3, 4});
    y.memory->from_graph = true;
    Ref loss = sum_all(prim::mul(x.node, y.node));
    CHECK_THROWS_AS(gradients(loss, std::span(&x.node, 1), one()), Error);
    CHECK_THROWS_AS(leaf_gradients(loss, one()), Error);
    CHECK(evaluate(gradients(loss, std::span(&y.node, 1), one())[0]) == Values{3, 4});
    Ref cut = sum_all(prim::mul(x.node, prim::detach(y.node)));
    CHECK(evaluate(gradients(cut, std::span(&x.node, 1), one())[0]) == Values{1, 2});
  }

  TEST_CASE("what the loss does not depend on gets none") {
    Input x({2}, {1, 2}), other({2}, {1, 2});
    Ref targets[] = {x.node, other.node};
    std::vector<Ref> got = gradients(sum_all(x.node), targets, one());
    CHECK(got[0]);
    CHECK(!got[1]);
  }

  TEST_CASE("gradient nodes remember who made the forward node") {
    Input x({2}, {1, 2});
    Ref y, loss;
    uint32_t made_by;
    {
      CallScope scope("sin", std::source_location::current());
      y = prim::alu(Op::Sin, {x.node});
      made_by = current_provenance();
    }
    loss = sum_all(y);
    CallScope scope("gradient", std::source_location::current());
    Ref g = gradients(loss, std::span(&x.node, 1), one())[0];
    CHECK(g->is(Op::Mul));
    CHECK(g->provenance == made_by);
    CHECK(current_provenance() != made_by);
  }

  TEST_CASE("deep and wide graphs cost linear time and no stack") {
    Input x({2}, {0, 0});
    Ref deep = x.node;
    for (int i = 0; i < 200000; ++i) deep = prim::alu(Op::Sin, {deep});
    auto start = std::chrono::steady_clock::now();
    CHECK(gradients(sum_all(deep), std::span(&x.node, 1), one())[0]);
    Ref wide;
    for (int i = 0; i < 10000; ++i) {
      Ref term = prim::mul(x.node, prim::constant(DType::f64, static_cast<double>(i)));
      wide = wide ? prim::add(wide, term) : term;
    }
    Ref g = gradients(sum_all(wide), std::span(&x.node, 1), one())[0];
    double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(seconds < 5);
    CHECK(evaluate(g) == Values{49995000, 49995000});
  }

  TEST_CASE("only nodes between loss and target are differentiated") {
    Input x({2}, {1, 2}), other({2}, {1, 2});
    Ref side = other.node;
    for (int i = 0; i < 1000; ++i) side = prim::alu(Op::Sin, {side});
    Ref loss = sum_all(prim::mul(x.node, side));
    uint64_t before = tensor_graph::live_nodes();
    Ref g = gradients(loss, std::span(&x.node, 1), one())[0];
    CHECK(tensor_graph::live_nodes() < before + 10);
  }
}
