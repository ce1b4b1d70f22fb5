#include "render/render.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/error.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "runtime/c_compiler.h"
#include "runtime/elf.h"
#include "runtime/llvm.h"

using namespace mote;

namespace {

using Kernel = void(void**, const int64_t*, int64_t, int64_t);

// A program written by hand, statement by statement.
struct Draft {
  Arena memory;
  ArenaScope scope{memory};
  std::vector<UOp> statements;
  Program program;
  int regs = 0;
  DType index = DType::i64;

  UOp add(UOp u) {
    statements.push_back(u);
    return u;
  }
  UOp tile(int slot, int64_t extent, Role role) {
    return make(Op::Range, index, {constant(index, extent)}, range_arg(slot, role));
  }
  UOp loop(int slot, UOp extent, Role role = Role::Loop) {
    return add(make(Op::Range, index, {extent}, range_arg(slot, role)));
  }
  UOp loop(int slot, int64_t extent, Role role = Role::Loop) {
    return loop(slot, constant(index, extent), role);
  }
  void end(UOp range) { add(make(Op::End, DType::none, {statements.back(), range})); }
  static UOp i64(int64_t v) { return constant(DType::i64, v); }

  // Adds every arithmetic node below u that is not yet a statement.
  UOp value(UOp u) {
    for (UOp n : toposort(u))
      if (has(n->op, Alu) && std::ranges::find(statements, n) == statements.end()) add(n);
    return u;
  }
  UOp load(int slot, DType d, UOp position, UOp gate = {}) {
    value(position);
    UOp place = make(Op::Index, d, {param(slot, d, 1 << 20), position});
    if (!gate) return add(make(Op::Load, d, {place}));
    return add(make(Op::Load, d, {place, value(gate)}));
  }
  void store(int slot, UOp position, UOp v, UOp gate = {}) {
    value(position);
    value(v);
    UOp place = make(Op::Index, v->dtype, {param(slot, v->dtype, 1 << 20), position});
    if (!gate)
      add(make(Op::Store, DType::none, {place, v}));
    else
      add(make(Op::Store, DType::none, {place, v, value(gate)}));
  }
  UOp reg(DType d, std::vector<UOp> tiles) {
    int64_t slot[] = {regs++};
    return make(Op::Reg, d, tiles, Arg::of(intern_arg(slot)));
  }
  UOp set(UOp r, UOp v) { return add(make(Op::Store, DType::none, {r, value(v)})); }
  UOp get(UOp r, UOp effect) {
    return add(make(Op::Load, r->dtype, {make(Op::After, r->dtype, {r, effect})}));
  }
  UOp reduce(Op op, UOp v, std::vector<UOp> ranges) {
    return add(reduce_over(op, value(v), ranges));
  }

  // Program: c[M,N] = a[M,K] b[K,N] in register tiles of `rows` by `columns` vectors of 16.
  void matmul(int64_t M, int64_t N, int64_t K, int64_t rows, int64_t columns) {
    UOp lane = tile(10, 16, Role::Vector), row = tile(11, rows, Role::Upcast),
        column = tile(12, columns, Role::Upcast);
    UOp i = loop(0, M / rows, Role::Global), j = loop(1, N / columns / 16);
    UOp acc = reg(DType::f32, {lane, row, column});
    UOp start = set(acc, constant(DType::f32, 0.0));
    UOp m = value(i * rows + row), n = value(j * (columns * 16) + column * 16 + lane);
    UOp k = loop(2, K, Role::Reduce);
    UOp a = load(1, DType::f32, m * K + k), b = load(2, DType::f32, k * N + n);
    UOp next = value(make(Op::MulAdd, DType::f32, {a, b, get(acc, start)}));
    UOp update = set(acc, next);
    end(k);
    store(0, m * N + n, get(acc, update));
    end(j);
    end(i);
  }

  const Program& finish() {
    program.linear = make(Op::Linear, DType::none, statements, Arg::of(intern_arg({})));
    program.name = "kernel";
    for (UOp u : toposort(program.linear)) {
      if (u->is(Op::Param)) program.params = std::max(program.params, int(u->ints(0)) + 1);
      if (u->is(Op::Var)) program.vars.push_back(u);
    }
    return program;
  }

 private:
  static Arg range_arg(int slot, Role role) {
    int64_t ints[] = {slot, static_cast<int64_t>(role)};
    return Arg::of(intern_arg(ints));
  }
};

Target wide_target() {
  Target t;
  t.vector_bytes = 64;
  t.fma = true;
  return t;
}

// Compile with the one or the other, if it is there, and run `check_results` on the function.
void with_llvm(const Program& p, const std::function<void(Kernel*)>& check_results) {
  if (!llvm_available()) return;
  const std::string ir_text = render_llvm(p, wide_target());
  INFO(ir_text);
  LoadedObject object(llvm_compile(ir_text, host_cpu_target()));
  check_results(object.function<Kernel>(p.name));
}
void with_c(const Program& p, const std::function<void(Kernel*)>& check_results) {
  if (!c_compiler_available()) return;
  const std::string c_text = render_c(p, wide_target());
  INFO(c_text);
  LoadedObject object(c_compile(c_text));
  check_results(object.function<Kernel>(p.name));
}
void with_kernels(const Program& p, const std::function<void(Kernel*)>& check_results) {
  with_llvm(p, check_results);
  with_c(p, check_results);
}

// Every elementwise op that is one instruction or a few, of each dtype it takes.
std::vector<UOp> all_ops(DType d, UOp a, UOp b, UOp c) {
  std::vector<UOp> out{a, where(lt(a, b), b, c), binary(Op::Eq, a, b), lt(a, b)};
  auto add = [&](Op op) { out.push_back(binary(op, a, b)); };
  for (Op op : {Op::Max, Op::Min}) add(op);
  out.push_back(binary(Op::Max, a, constant(d, 0)));
  out.push_back(binary(Op::Min, constant(d, 1), a));
  if (d != DType::boolean)
    for (Op op : {Op::Add, Op::Mul}) add(op);
  if (d != DType::boolean) out.push_back(unary(Op::Neg, a));
  if (is_float(d)) {
    add(Op::Div);
    for (Op op : {Op::Sqrt, Op::Trunc}) out.push_back(unary(op, a));
    if (d != DType::f16) out.push_back(make(Op::MulAdd, d, {a, b, c}));
    return out;
  }
  for (Op op : {Op::And, Op::Or, Op::Xor}) add(op);
  if (d == DType::boolean) return out;
  UOp by = binary(Op::And, b, constant(d, row(d).bits - 1));
  UOp divisor = binary(Op::Or, binary(Op::And, b, constant(d, 126)), constant(d, 1));
  for (Op op : {Op::Shl, Op::Shr}) out.push_back(binary(op, a, by));
  for (Op op : {Op::IDiv, Op::IMod}) out.push_back(binary(op, a, divisor));
  return out;
}

// Conversions that are plain: not from float to int where the value may not fit.
bool converts(DType from, DType to) { return !(is_float(from) && is_int(to)) && from != to; }

constexpr DType types[] = {DType::boolean, DType::u8,  DType::u16, DType::u32,
                           DType::u64,     DType::i8,  DType::i16, DType::i32,
                           DType::i64,     DType::f32, DType::f64, DType::f16};
constexpr std::span<const DType> common_types = std::span(types).first(11);

// Interesting values of d, the same for each n.
Scalar sample(DType d, uint64_t n) {
  uint64_t bits = (n + 1) * 0x9e3779b97f4a7c15ull;
  bits ^= bits >> 29;
  if (!is_float(d)) {
    constexpr int64_t edges[] = {0, 1, -1, INT64_MIN, INT64_MAX, 127, INT32_MIN, 255};
    return scalar(d, n % 3 ? static_cast<int64_t>(bits) >> (n % 56) : edges[n / 3 % 8]);
  }
  constexpr double edges[] = {0.0, -0.0, NAN, INFINITY, -INFINITY, 1.0, 5e-8, -1.5};
  if (n % 3 == 0) return scalar(d, edges[n / 3 % 8]);
  return scalar(d, std::ldexp(static_cast<double>(static_cast<int64_t>(bits)), -63 + int(n % 20)));
}

Scalar reference(UOp u, std::span<const Scalar> inputs) {
  if (u->is(Op::Const)) return scalar_of(u);
  if (u->is(Op::Load)) return inputs[size_t(u->src(0)->src(0)->ints(0))];
  std::vector<Scalar> src;
  for (Node* s : u->src()) src.push_back(reference(UOp(s), inputs));
  return eval(u->op, u->dtype, src);
}

Scalar element(DType d, const void* memory, size_t k) {
  const char* at = static_cast<const char*>(memory) + k * size_t(row(d).bytes);
  return is_float(d) ? scalar(d, load_float(d, at)) : scalar(d, load_int(d, at));
}

bool same_value(const Scalar& a, const Scalar& b) {
  return same_bits(a, b) || (is_float(a.dtype) && a.f == 0 && b.f == 0);
}

int occurrences(const std::string& in, std::string_view what) {
  int found = 0;
  for (size_t at = in.find(what); at != std::string::npos; at = in.find(what, at + 1)) ++found;
  return found;
}

std::vector<float> ramp(size_t n, float start = 0, float step = 1) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = start + step * static_cast<float>(i);
  return v;
}

// Runs all ops of a dtype, and its conversions, on 64 elements in vectors and 11 in scalars.
void check_ops(DType dtype, std::span<const DType> others, bool in_c) {
  constexpr size_t N = 75;
  std::vector<char> inputs[3];
  for (size_t s = 0; s < 3; ++s) {
    inputs[s].resize(N * 8);
    for (size_t k = 0; k < N; ++k) {
      Scalar v = sample(dtype, k * (s + 2) + s * 5);
      void* at = inputs[s].data() + k * size_t(row(dtype).bytes);
      if (is_float(dtype))
        store_float(dtype, at, v.f);
      else
        store_int(dtype, at, v.i);
    }
  }
  Draft d;
  std::vector<UOp> values;
  for (bool vectors : {true, false}) {
    UOp i = d.loop(vectors ? 0 : 1, vectors ? 8 : 11);
    UOp at = vectors ? i * 8 + d.tile(2, 8, Role::Vector) : i + 64;
    UOp a = d.load(0, dtype, at), b = d.load(1, dtype, at), c = d.load(2, dtype, at);
    values = all_ops(dtype, a, b, c);
    for (DType to : others) {
      if (converts(dtype, to)) values.push_back(cast(a, to));
      if (row(to).bytes == row(dtype).bytes && to != DType::boolean)
        values.push_back(make(Op::Bitcast, to, {a}));
    }
    for (size_t v = 0; v < values.size(); ++v) d.store(int(v + 3), at, values[v]);
    d.end(i);
  }
  auto check_values = [&](Kernel* run) {
    std::vector<std::vector<char>> outputs(values.size(), std::vector<char>(N * 8, 0x55));
    std::vector<void*> buffers;
    for (auto& in : inputs) buffers.push_back(in.data());
    for (auto& out : outputs) buffers.push_back(out.data());
    run(buffers.data(), nullptr, 0, 1);
    for (size_t v = 0; v < values.size(); ++v)
      for (size_t k = 0; k < N; ++k) {
        Scalar in[3];
        for (size_t s = 0; s < 3; ++s) in[s] = element(dtype, inputs[s].data(), k);
        Scalar want = reference(values[v], in);
        Scalar got = element(values[v]->dtype, outputs[v].data(), k);
        INFO(name(values[v]->op), " ", std::string(name(dtype)), " to ", name(values[v]->dtype),
             " at ", k, ": ", in[0].f, " ", in[0].i, ", ", in[1].f, " ", in[1].i, " gives ", got.f,
             " ", got.i, ", not ", want.f, " ", want.i);
        REQUIRE(same_value(got, want));
      }
  };
  if (in_c)
    with_c(d.finish(), check_values);
  else
    with_llvm(d.finish(), check_values);
}

}  // namespace

TEST_SUITE("render") {
  TEST_CASE("a vector loop with a scalar remainder") {
    Draft d;
    UOp lane = d.tile(10, 16, Role::Vector);
    UOp i = d.loop(0, 6);
    UOp at = i * 16 + lane;
    d.store(0, at, d.load(1, DType::f32, at) + d.load(2, DType::f32, at));
    d.end(i);
    UOp rest = d.loop(1, 4);
    UOp tail = rest + 96;
    d.store(0, tail, d.load(1, DType::f32, tail) + d.load(2, DType::f32, tail));
    d.end(rest);
    with_kernels(d.finish(), [](Kernel* run) {
      std::vector<float> out(101, -7), a = ramp(100), b = ramp(100, 0.5f, 3);
      void* buffers[] = {out.data(), a.data(), b.data()};
      run(buffers, nullptr, 0, 1);
      for (size_t k = 0; k < 100; ++k) REQUIRE(out[k] == a[k] + b[k]);
      CHECK(out[100] == -7);
    });
  }

  TEST_CASE("memory need not be aligned") {
    Draft d;
    UOp at = d.tile(0, 8, Role::Vector);
    d.store(0, at, d.load(1, DType::f64, at) * constant(DType::f64, 2.0));
    with_kernels(d.finish(), [](Kernel* run) {
      std::vector<char> out(8 * 8 + 3), in(8 * 8 + 1);
      for (int k = 0; k < 8; ++k) {
        double v = k + 0.25;
        std::memcpy(in.data() + 1 + 8 * k, &v, 8);
      }
      void* buffers[] = {out.data() + 3, in.data() + 1};
      run(buffers, nullptr, 0, 1);
      for (int k = 0; k < 8; ++k) {
        double v;
        std::memcpy(&v, out.data() + 3 + 8 * k, 8);
        CHECK(v == 2 * (k + 0.25));
      }
    });
  }

  TEST_CASE("gated loads read 0 and gated stores vanish, touching nothing") {
    Draft d;
    UOp lane = d.tile(10, 8, Role::Vector), up = d.tile(11, 3, Role::Upcast);
    UOp i = d.loop(0, 3);
    UOp at = i * 24 + up * 8 + lane;
    UOp inside = lt(at, Draft::i64(50));
    UOp vector = d.load(1, DType::f32, at, inside);                       // gate differs by lane
    UOp uniform = d.load(1, DType::f32, lane, lt(i, Draft::i64(1)));      // by loop
    UOp strided = d.load(1, DType::f32, at * 2, lt(at, Draft::i64(25)));  // one lane at a time
    UOp never = d.load(2, DType::f32, at, lt(i, Draft::i64(0)));          // of an empty buffer
    d.store(0, at, vector + uniform + strided + never, inside);
    d.store(3, at * 2, vector, inside);
    d.store(4, at, vector, lt(i, Draft::i64(1)));
    d.end(i);
    with_kernels(d.finish(), [](Kernel* run) {
      std::vector<float> out(50, -1), spread(100, -1), first(24, -1), a = ramp(50, 1);
      void* buffers[] = {out.data(), a.data(), nullptr, spread.data(), first.data()};
      run(buffers, nullptr, 0, 1);
      for (size_t k = 0; k < 50; ++k) {
        float want = a[k] + (k < 24 ? a[k % 8] : 0) + (k < 25 ? a[2 * k] : 0);
        REQUIRE(out[k] == want);
        REQUIRE(spread[2 * k] == a[k]);
        REQUIRE(spread[2 * k + 1] == -1);
        if (k < 24) REQUIRE(first[k] == a[k]);
      }
    });
  }

  TEST_CASE("a reduction keeps lanes apart in the loop and folds them as a tree") {
    Draft d;
    UOp lane = d.tile(10, 4, Role::Vector), unroll = d.tile(11, 2, Role::Unroll);
    UOp acc = d.reg(DType::f32, {lane});
    UOp start = d.set(acc, constant(DType::f32, 0.0));
    UOp k = d.loop(0, 5, Role::Reduce);
    UOp two = d.reduce(Op::Add, d.load(1, DType::f32, k * 8 + unroll * 4 + lane), {unroll});
    UOp update = d.set(acc, d.get(acc, start) + two);
    d.end(k);
    UOp all = d.reduce(Op::Add, d.get(acc, update), {lane});
    d.store(0, Draft::i64(0), all);
    with_kernels(d.finish(), [](Kernel* run) {
      std::vector<float> in(40);
      for (size_t n = 0; n < 40; ++n) in[n] = std::ldexp(1.0f + float(n) * 0.01f, int(n * 7 % 23));
      float out = 0, lanes[4] = {};
      for (size_t n = 0; n < 40; n += 8)
        for (size_t l = 0; l < 4; ++l) lanes[l] += in[n + l] + in[n + 4 + l];
      void* buffers[] = {&out, in.data()};
      run(buffers, nullptr, 0, 1);
      CHECK(out == (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
    });
  }

  TEST_CASE("a reduce folds positions its value does not depend on") {
    Draft d;
    UOp lane = d.tile(10, 4, Role::Vector), unroll = d.tile(11, 3, Role::Unroll);
    UOp x = d.load(1, DType::i32, Draft::i64(0));
    d.store(0, Draft::i64(0), d.reduce(Op::Add, x, {unroll, lane}));
    d.store(0, Draft::i64(1), d.reduce(Op::Max, d.load(1, DType::i32, unroll), {unroll}));
    with_kernels(d.finish(), [](Kernel* run) {
      int32_t out[2] = {}, in[3] = {5, 9, -2};
      void* buffers[] = {out, in};
      run(buffers, nullptr, 0, 1);
      CHECK(out[0] == 60);
      CHECK(out[1] == 9);
    });
  }

  TEST_CASE("a matmul tile: upcast rows and columns, lanes, an accumulator each") {
    constexpr int M = 8, N = 64, K = 24;
    Draft d;
    d.matmul(M, N, K, 4, 2);
    with_kernels(d.finish(), [](Kernel* run) {
      std::vector<float> out(M * N), a = ramp(M * K, -3, 0.25f), b = ramp(K * N, 2, -0.125f);
      void* buffers[] = {out.data(), a.data(), b.data()};
      run(buffers, nullptr, 0, M / 4);
      for (int r = 0; r < M; ++r)
        for (int c = 0; c < N; ++c) {
          double want = 0;
          for (int q = 0; q < K; ++q) want += double(a[r * K + q]) * b[q * N + c];
          REQUIRE(out[r * N + c] == doctest::Approx(want).epsilon(1e-5));
        }
    });
    const std::string ir_text = render_llvm(d.program, wide_target());
    auto count = [&](const char* what) { return occurrences(ir_text, what); };
    CHECK(count("alloca <16 x float>") == 8);
    CHECK(count("call <16 x float> @llvm.fma") == 8);
    CHECK(count("load <16 x float>, ptr %a") == 2);  // of b; shared by the rows
    CHECK(count("load float") == 4);                 // of a; splat
    CHECK(count("shufflevector") == 4);
  }

#if defined(__x86_64__)
  TEST_CASE("an 8x3 matmul tile stays in registers") {
    if (!llvm_available()) return;
    Draft d;
    d.matmul(64, 96, 128, 8, 3);
    CpuTarget avx512 = host_cpu_target();
    avx512.cpu = "icelake-server";
    avx512.features.clear();
    const std::string assembly = llvm_assembly(render_llvm(d.finish(), wide_target()), avx512);
    INFO(assembly);
    CHECK(occurrences(assembly, "vfmadd") == 24);
    CHECK(occurrences(assembly, "vbroadcastss") == 8);
    CHECK(occurrences(assembly, "(%rsp)") == 0);
  }
#endif

  TEST_CASE("32-bit positions, negative ones under a gate") {
    Draft d;
    d.index = DType::i32;
    UOp lane = d.tile(10, 8, Role::Vector);
    UOp i = d.loop(0, 3);
    UOp at = i * 8 + lane, before = at + -3;
    UOp inside = lt(constant(DType::i32, -1), before);
    d.store(0, at, d.load(1, DType::f32, before, inside));
    d.end(i);
    with_kernels(d.finish(), [](Kernel* run) {
      std::vector<float> out(24, -1), in = ramp(21, 1);
      void* buffers[] = {out.data(), in.data()};
      run(buffers, nullptr, 0, 1);
      for (size_t k = 0; k < 24; ++k) REQUIRE(out[k] == (k < 3 ? 0 : in[k - 3]));
    });
  }

  TEST_CASE("threads run over their part; variables bound loops, even empty ones") {
    Draft d;
    int64_t ints[] = {0, 10, 0, 0};
    UOp count = make(Op::Var, DType::i64, {}, Arg::of(intern_arg(ints, "n")));
    UOp i = d.loop(0, 4, Role::Global);
    UOp j = d.loop(1, count);
    d.store(0, i * 10 + j, cast(d.value(i * 100 + j + count), DType::i32));
    d.end(j);
    d.end(i);
    with_kernels(d.finish(), [](Kernel* run) {
      std::vector<int32_t> out(40, -1);
      void* buffers[] = {out.data()};
      int64_t n = 7;
      run(buffers, &n, 1, 3);
      for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 10; ++c)
          REQUIRE(out[size_t(r * 10 + c)] ==
                  (r == 1 || r == 2 ? c < 7 ? r * 100 + c + 7 : -1 : -1));
      n = 0;
      out.assign(40, -1);
      run(buffers, &n, 0, 4);
      run(buffers, &n, 2, 2);
      CHECK(std::ranges::count(out, -1) == 40);
    });
  }

  TEST_CASE("positions that are not linear are followed lane by lane") {
    Draft d;
    UOp lane = d.tile(10, 8, Role::Vector), up = d.tile(11, 2, Role::Upcast);
    UOp row = d.load(1, DType::i32, up);  // a gathered row, lanes in order
    UOp taken = d.load(2, DType::f32, cast(d.value(row), DType::i64) * 8 + lane);
    UOp index = d.load(3, DType::i32, lane);  // gathered lanes
    UOp mixed = d.load(2, DType::f32, cast(d.value(index), DType::i64));
    UOp back = d.load(2, DType::f32, lane * -1 + 7);  // backwards
    d.store(0, up * 8 + lane, taken + mixed + back);
    UOp half = binary(Op::IDiv, lane, Draft::i64(2));  // two lanes write each place
    d.store(4, half, mixed);
    with_kernels(d.finish(), [](Kernel* run) {
      std::vector<float> out(16), pairs(4), table = ramp(32, 0.5f);
      int32_t rows[] = {3, 1}, lanes[] = {7, 0, 5, 5, 31, 2, 9, 1};
      void* buffers[] = {out.data(), rows, table.data(), lanes, pairs.data()};
      run(buffers, nullptr, 0, 1);
      for (int u = 0; u < 2; ++u)
        for (int l = 0; l < 8; ++l)
          REQUIRE(out[size_t(u * 8 + l)] ==
                  table[size_t(rows[u] * 8 + l)] + table[size_t(lanes[l])] + table[size_t(7 - l)]);
      for (int l = 0; l < 4; ++l) CHECK(pairs[size_t(l)] == table[size_t(lanes[2 * l + 1])]);
    });
  }

  TEST_CASE("every op of every dtype means what ir/eval says, as scalars and as vectors") {
    for (DType dtype : common_types) check_ops(dtype, common_types, true);
    for (DType dtype : types) check_ops(dtype, types, false);
  }

  TEST_CASE("lanes that are no power of two become registers") {
    Draft d;
    UOp lane = d.tile(10, 3, Role::Vector);
    UOp x = d.load(1, DType::i16, lane);
    d.store(0, lane, x + x);
    d.store(0, Draft::i64(3), d.reduce(Op::Mul, x, {lane}));
    with_kernels(d.finish(), [](Kernel* run) {
      int16_t out[4], in[] = {7, -3, 30000};
      void* buffers[] = {out, in};
      run(buffers, nullptr, 0, 1);
      CHECK(out[0] == 14);
      CHECK(out[1] == -6);
      CHECK(out[2] == int16_t(60000));
      CHECK(out[3] == int16_t(7 * -3 * 30000));
    });
  }

  TEST_CASE("text is the same each time") {
    Draft d;
    UOp lane = d.tile(0, 8, Role::Vector);
    d.store(0, lane, d.load(1, DType::f32, lane));
    d.finish();
    CHECK(render_llvm(d.program, wide_target()) == render_llvm(d.program, wide_target()));
    CHECK(render_c(d.program, wide_target()) == render_c(d.program, wide_target()));
    CHECK(render_llvm(d.program, wide_target()) ==
          "define void @kernel(ptr %buffers, ptr %vars, i64 %begin, i64 %end) #0 {\n"
          "entry:\n"
          "  %p0.at = getelementptr ptr, ptr %buffers, i64 0\n"
          "  %p0 = load ptr, ptr %p0.at\n"
          "  %p1.at = getelementptr ptr, ptr %buffers, i64 1\n"
          "  %p1 = load ptr, ptr %p1.at\n"
          "  %a0 = getelementptr float, ptr %p1, i64 0\n"
          "  %v1 = load <8 x float>, ptr %a0, align 1\n"
          "  %a2 = getelementptr float, ptr %p0, i64 0\n"
          "  store <8 x float> %v1, ptr %a2, align 1\n"
          "  ret void\n"
          "}\n\n"
          "attributes #0 = { nounwind \"prefer-vector-width\"=\"512\" "
          "\"no-trapping-math\"=\"true\" }\n");
  }
}
