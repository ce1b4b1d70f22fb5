// Kernels through optimize/ and lower/ into both renderers, against the interpreter of programs.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <sstream>

#include "ir/print.h"
#include "lower/lower.h"
#include "optimize/optimize.h"
#include "render/render.h"
#include "runtime/c_compiler.h"
#include "runtime/elf.h"
#include "runtime/interp_program.h"
#include "runtime/llvm.h"

using namespace mote;

namespace {

using Kernel = void(void**, const int64_t*, int64_t, int64_t);
using Run = std::function<void(std::span<void*>)>;

Target cpu_target() {
  Target t;
  t.name = "test";
  t.vector_bytes = 64;
  t.vector_registers = 32;
  t.fma = true;
  for (DType d : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2})
    t.dtypes &= ~(1u << static_cast<int>(d));
  return t;
}

UOp read(UOp memory, UOp position) { return make(Op::Index, memory->dtype, {memory, position}); }
UOp kernel(UOp out, UOp position, UOp value, std::vector<UOp> ranges) {
  std::vector<UOp> src{make(Op::Store, DType::none, {read(out, position), value})};
  src.insert(src.end(), ranges.begin(), ranges.end());
  UOp end = make(Op::End, DType::none, src);
  return make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({})));
}
UOp sum(UOp value, std::vector<UOp> ranges) { return reduce_over(Op::Add, value, ranges); }

// The memories of a kernel: small integers, so that sums are exact in any order.
std::vector<std::vector<float>> memories(UOp body) {
  std::vector<std::vector<float>> out;
  for (UOp u : toposort(body)) {
    if (!u->is(Op::Param)) continue;
    const auto slot = static_cast<size_t>(u->ints(0));
    if (out.size() <= slot) out.resize(slot + 1);
    out[slot].resize(static_cast<size_t>(u->ints(1)));
    for (size_t i = 0; i < out[slot].size(); ++i)
      out[slot][i] = static_cast<float>((i * 7 + slot * 3) % 11) - 5;
  }
  return out;
}

std::vector<float> first_after(UOp body, const Run& run) {
  std::vector<std::vector<float>> memory = memories(body);
  std::vector<void*> buffers;
  for (auto& m : memory) buffers.push_back(m.data());
  run(buffers);
  return memory[0];
}

// Makes the kernel in the current arena, lowers it with each list of actions (and with none) and
// compares what all ways of running it leave in memory 0.
void check_kernel(const std::function<UOp()>& build, std::vector<const char*> lists) {
  lists.insert(lists.begin(), "");
  std::vector<float> want;
  for (const char* list : lists) {
    Arena memory;
    ArenaScope scope(memory);
    UOp body = build();
    for (const Action& action : parse_actions(list)) {
      std::string refused;
      UOp next = apply(body, action, &refused);
      INFO(to_string(action) << ": " << refused);
      REQUIRE(next);
      body = next;
    }
    const Program p = lower(body, cpu_target());
    INFO(list << "\n" << print(p.linear));
    auto part = [&](auto&& run) {
      return [&, run](std::span<void*> b) {
        run(b, 0, p.global_extent / 2);
        if (p.has_global) run(b, p.global_extent / 2, p.global_extent);
      };
    };
    InterpProgram interp(p.linear, p.name, {});
    std::vector<float> got = first_after(
        body,
        part([&](std::span<void*> b, int64_t from, int64_t to) { interp.run(b, {}, from, to); }));
    if (want.empty()) want = got;
    CHECK(got == want);
    auto check_object = [&](const std::vector<uint8_t>& bytes) {
      LoadedObject object(bytes);
      auto* f = object.function<Kernel>(p.name);
      CHECK(first_after(body, part([&](std::span<void*> b, int64_t from, int64_t to) {
                          std::vector<void*> all(b.begin(), b.end());
                          std::vector<std::vector<std::byte>> local;
                          for (const Scratch& s : p.scratch) {
                            local.emplace_back(static_cast<size_t>(s.bytes), std::byte{0xff});
                            all.resize(std::max(all.size(), static_cast<size_t>(s.slot) + 1));
                            all[static_cast<size_t>(s.slot)] = local.back().data();
                          }
                          f(all.data(), nullptr, from, to);
                        })) == want);
    };
    if (llvm_available())
      check_object(llvm_compile(render_llvm(p, cpu_target()), host_cpu_target()));
    if (c_compiler_available()) check_object(c_compile(render_c(p, cpu_target())));
  }
}

// The first stretch of assembly without labels and jumps that multiplies and adds.
std::string first_arithmetic(const std::string& assembly) {
  std::istringstream lines(assembly);
  std::string block;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("\t") || line.starts_with("\tj")) {
      if (block.find("\tvfm") != std::string::npos) return block;
      block.clear();
    }
    block += line + "\n";
  }
  return block;
}

// Those that move nothing but compute.
int vector_instructions(const std::string& block) {
  std::istringstream lines(block);
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    const bool moves = line.starts_with("\tvmov") && line.find("{%k") == std::string::npos;
    const bool spreads = line.starts_with("\tvbroadcast") || line.starts_with("\tvpbroadcast");
    count += line.starts_with("\tkortest") ||
             (line.find("%zmm") != std::string::npos && !moves && !spreads);
  }
  return count;
}

}  // namespace

TEST_SUITE("lowered") {
  TEST_CASE("elementwise, whole vectors and padded ones") {
    check_kernel(
        [] {
          UOp i = range(0, index(37), Role::Loop), j = range(1, index(6), Role::Loop);
          UOp a = read(param(1, DType::f32, 222), i * 6 + j), b = read(param(2, DType::f32, 37), i);
          return kernel(param(0, DType::f32, 222), i * 6 + j, binary(Op::Max, a * b, zero_like(a)),
                        {i, j});
        },
        {"split 0 8 vector", "split 1 4 vector", "split 0 3 upcast; split 1 2 vector"});
  }

  TEST_CASE("sums of rows, lanes across rows or along them") {
    check_kernel(
        [] {
          UOp i = range(0, index(24), Role::Loop), k = range(1, index(45), Role::Reduce);
          UOp a = read(param(1, DType::f32, 24 * 45), i * 45 + k);
          return kernel(param(0, DType::f32, 24), i, sum(a, {k}), {i});
        },
        {"split 0 8 vector", "split 1 8 vector", "split 1 5 unroll; split 0 4 upcast",
         "split 1 16 vector; ahead 1 256", "split 1 16 vector; split 0 4 upcast; ahead 1 4096"});
  }

  TEST_CASE("a matmul in tiles") {
    check_kernel(
        [] {
          UOp m = range(0, index(12), Role::Loop), n = range(1, index(40), Role::Loop),
              k = range(2, index(14), Role::Reduce);
          UOp a = read(param(1, DType::f32, 12 * 14), m * 14 + k);
          UOp b = read(param(2, DType::f32, 14 * 40), k * 40 + n);
          return kernel(param(0, DType::f32, 480), m * 40 + n, sum(a * b, {k}), {m, n});
        },
        {"split 1 8 vector", "split 1 16 vector; split 0 4 upcast",
         "split 2 2 unroll; split 0 5 upcast", "global 0",
         "split 2 7 reduce; accumulate 2; order 2 0 1",
         "split 2 2 unroll; accumulate 2; order 2 0 1",
         "split 0 6 upcast; split 1 16 vector; split 1 2 upcast; split 2 5 reduce; accumulate 2; "
         "order 2 0; stage 2 1 6 5 4; stage 1 2 6 3; global 1"});
  }

  TEST_CASE("matmuls whose right sides are fetched ahead") {
    const std::string tile = "split 1 4 upcast; split 2 16 vector; fetch 2 0";
    auto build = [] {
      UOp s = range(0, index(3), Role::Loop), m = range(1, index(8), Role::Loop),
          n = range(2, index(16), Role::Loop), k = range(3, index(32), Role::Reduce);
      UOp a = read(param(1, DType::f32, 3 * 8 * 32), (s * 8 + m) * 32 + k);
      UOp b = read(param(2, DType::f32, 3 * 32 * 16), (s * 32 + k) * 16 + n);
      return kernel(param(0, DType::f32, 384), (s * 8 + m) * 16 + n, sum(a * b, {k}), {s, m, n});
    };
    const std::string threads = tile + "; global 0", padded = tile + "; split 0 2 upcast";
    check_kernel(build, {tile.c_str(), threads.c_str(), padded.c_str()});

    Arena memory;
    ArenaScope scope(memory);
    const Program p = lower(apply_all(build(), parse_actions(tile)), cpu_target());
    CHECK(render_llvm(p, cpu_target()).find("@llvm.prefetch") != std::string::npos);
    CHECK(render_c(p, cpu_target()).find("__builtin_prefetch") != std::string::npos);
  }

  TEST_CASE("rows in two passes, the next one fetched ahead in either of them") {
    auto build = [] {
      UOp i = range(0, index(4), Role::Loop), j = range(1, index(72), Role::Loop),
          k = range(2, index(72), Role::Reduce), x = param(1, DType::f32, 4 * 72);
      UOp value = read(x, i * 72 + j) * sum(read(x, i * 72 + k), {k});
      return kernel(param(0, DType::f32, 4 * 72), i * 72 + j, value, {i, j});
    };
    const char* in_fold = "split 1 8 vector; split 2 16 vector; fetch 1 0 2";
    check_kernel(build, {"split 1 16 vector; split 2 8 vector; fetch 1 0", in_fold,
                         "split 2 12 upcast; fetch 1 0 2; global 0",
                         "split 2 12 reduce; split 3 12 upcast; fetch 1 0 2; split 2 4 upcast",
                         "split 1 24 upcast; fetch 1 0; split 0 2 loop; order 5 1"});

    Arena memory;
    ArenaScope scope(memory);
    const Program p = lower(apply_all(build(), parse_actions(in_fold)), cpu_target());
    CHECK(render_llvm(p, cpu_target()).find("i32 0, i32 2, i32 1)") != std::string::npos);
    CHECK(render_c(p, cpu_target()).find(", 0, 2);") != std::string::npos);
  }

  TEST_CASE("a matmul whose right side lies across: packed by shuffles") {
    check_kernel(
        [] {
          UOp m = range(0, index(12), Role::Loop), n = range(1, index(44), Role::Loop),
              k = range(2, index(16), Role::Reduce);
          UOp a = read(param(1, DType::f32, 12 * 16), m * 16 + k);
          UOp b = read(param(2, DType::f32, 16 * 44), n * 16 + k);
          return kernel(param(0, DType::f32, 528), m * 44 + n, sum(a * b, {k}), {m, n});
        },
        {"split 0 4 upcast; split 1 8 vector; stage 2 2 4; split 5 8 upcast",
         "split 1 4 vector; split 1 2 upcast; stage 2 1 2 4 3; split 6 8 upcast"});
  }

  TEST_CASE("a transposed copy: squares of lanes and rows") {
    check_kernel(
        [] {
          UOp i = range(0, index(21), Role::Loop), j = range(1, index(32), Role::Loop);
          UOp a = read(param(1, DType::f32, 21 * 32), i * 32 + j);
          return kernel(param(0, DType::f32, 21 * 32), j * 21 + i, a, {i, j});
        },
        {"split 0 4 vector; split 1 4 upcast", "split 1 8 vector; split 0 8 upcast",
         "split 1 4 vector; split 0 7 upcast", "split 0 8 vector; split 1 16 upcast",
         "split 0 4 vector; split 1 4 upcast; stream 0", "stream 0"});
  }

  // A gradient of a window: where the window does not reach nothing is added.
  TEST_CASE("lanes over every other element: neighbours in two vectors") {
    check_kernel(
        [] {
          UOp i = range(0, index(21), Role::Loop), j = range(1, index(2), Role::Loop);
          UOp a = read(param(1, DType::f32, 42), i * 2 + j), b = read(param(2, DType::f32, 21), i);
          return kernel(param(0, DType::f32, 42), i * 2 + j, a * b, {i, j});
        },
        {"split 1 2 upcast; split 0 8 vector", "split 1 2 upcast; split 0 4 vector"});
    check_kernel(
        [] {
          UOp i = range(0, index(16), Role::Loop), j = range(1, index(2), Role::Reduce);
          return kernel(param(0, DType::f32, 16), i,
                        sum(read(param(1, DType::f32, 32), i * 2 + j), {j}), {i});
        },
        {"split 1 2 unroll; split 0 8 vector", "split 1 2 upcast; split 0 16 vector"});
    check_kernel(
        [] {  // one value, past an edge that only one of the two has
          UOp i = range(0, index(33), Role::Loop);
          return kernel(param(0, DType::f32, 33), i, read(param(1, DType::f32, 1), index(0)), {i});
        },
        {"split 0 2 upcast; split 0 4 vector"});
  }

  // out[n, x] = sum over o and k of dy[n, o, x - k] * w[o, k] where x - k is inside.
  TEST_CASE("windows that overlap, packed as the stretch of memory they move over") {
    check_kernel(
        [] {
          UOp n = range(0, index(4), Role::Loop), x = range(1, index(7), Role::Loop),
              k = range(2, index(3), Role::Reduce), o = range(3, index(6), Role::Reduce);
          UOp inside = logical_not(lt(x, k)) & lt(x, k + 5);
          UOp place = where(inside, (n * 6 + o) * 5 + x + k * -1, invalid());
          UOp product = read(param(1, DType::f32, 120), place) *
                        read(param(2, DType::f32, 18), o * 3 + k);
          UOp value = where(inside, product, constant(DType::f32, 0));
          return kernel(param(0, DType::f32, 28), n * 7 + x, sum(value, {k, o}), {n, x});
        },
        {"skip 3; stage 1 1+2 3", "skip 3; split 0 4 upcast; stage 1 1+2 3 4; split 7 4 upcast",
         "skip 3; split 0 2 loop; stage sum 1 4; stage 1 5+2 3 6"});
  }

  TEST_CASE("a gated sum whose loop is skipped, kept along other lanes and copied") {
    check_kernel(
        [] {
          UOp b = range(0, index(6), Role::Loop), c = range(1, index(16), Role::Loop),
              x = range(2, index(12), Role::Loop), t = range(3, index(3), Role::Reduce),
              o = range(4, index(8), Role::Reduce);
          UOp inside = logical_not(lt(x, t)) & lt(x, t + 10);
          auto gated_at = [&](UOp at) { return where(inside, at, invalid()); };
          UOp g = read(param(1, DType::f32, 480), gated_at(b * 80 + o * 10 + x - t));
          UOp w = read(param(2, DType::f32, 384), gated_at(o * 48 + c * 3 + t));
          UOp value = where(inside, g * w, constant(DType::f32, 0));
          return kernel(param(0, DType::f32, 6 * 16 * 12), b * 192 + c * 12 + x,
                        sum(value, {t, o}), {b, c, x});
        },
        {"skip 4", "skip 4; stage sum 0 1; split 5 3 upcast; split 6 8 vector; order 2 0 1",
         "skip 4; stage sum 0 1; split 5 2 upcast; split 6 4 vector; stage 2 6 3 4 8",
         "stage sum 2 1; split 2 4 vector; split 1 4 upcast; split 5 6 upcast; split 6 16 vector",
         "skip 4; accumulate 3; order 3 0 1"});
  }

  TEST_CASE("a padded window and its gates") {
    check_kernel(
        [] {
          UOp x = range(0, index(33), Role::Loop), t = range(1, index(5), Role::Reduce);
          UOp at = x + t + -2;
          UOp inside = lt(index(-1), at) & lt(at, index(33));
          UOp a = read(param(1, DType::f32, 33), where(inside, at, invalid()));
          UOp w = read(param(2, DType::f32, 5), t);
          return kernel(param(0, DType::f32, 33), x, sum(a * w, {t}), {x});
        },
        {"split 0 8 vector", "split 0 16 vector; split 1 5 unroll", "split 0 3 upcast"});
  }

  TEST_CASE("two reduces, one of the other's result") {
    check_kernel(
        [] {
          UOp i = range(0, index(6), Role::Loop), k = range(1, index(20), Role::Reduce),
              q = range(2, index(20), Role::Reduce);
          UOp memory = param(1, DType::f32, 120);
          UOp top = reduce_over(Op::Max, read(memory, i * 20 + k), std::vector{k});
          UOp count = where(eq(read(memory, i * 20 + q), top), constant(DType::f32, 1),
                            constant(DType::f32, 0));
          return kernel(param(0, DType::f32, 6), i, sum(count, {q}) + top, {i});
        },
        {"split 2 4 vector", "split 1 4 vector", "split 0 2 vector"});
  }

  TEST_CASE("every nest has lanes of its own, and scalars meet them all") {
    check_kernel(
        [] {
          UOp i = range(0, index(5), Role::Loop), j = range(1, index(24), Role::Loop),
              k = range(2, index(24), Role::Reduce), q = range(3, index(24), Role::Reduce);
          UOp memory = param(1, DType::f32, 120);
          UOp top = reduce_over(Op::Max, read(memory, i * 24 + k), std::vector{k});
          UOp all = sum(read(memory, i * 24 + q) - top, {q});
          return kernel(param(0, DType::f32, 120), i * 24 + j,
                        (read(memory, i * 24 + j) - top) * all, {i, j});
        },
        {"split 1 8 vector; split 2 4 vector; split 3 16 vector",
         "split 2 8 vector; split 3 8 vector",
         "split 1 4 vector; split 2 2 upcast; split 3 3 unroll; split 2 4 vector; global 0"});
  }

  TEST_CASE("casts, division and narrow floats, decomposed") {
    check_kernel(
        [] {
          UOp i = range(0, index(50), Role::Loop);
          UOp a = read(param(1, DType::f32, 50), i), b = read(param(2, DType::f32, 50), i);
          UOp n = cast(a * constant(DType::f32, 1e9), DType::i32), m = cast(b, DType::i32);
          UOp divided = cast(n / m + n % m, DType::f32);
          UOp half = cast(cast(a * constant(DType::f32, 0.3), DType::f16), DType::f32);
          UOp at = cast(i % 7, DType::f32);
          return kernel(param(0, DType::f32, 50), i, where(lt(a, b), divided, half) + at, {i});
        },
        {"split 0 8 vector", "split 0 2 vector; split 0 3 upcast"});
  }

  // Two choices by one condition, one by another and one that needs the first, in a sum.
  TEST_CASE("what is hardly ever needed stands behind a branch") {
    check_kernel(
        [] {
          UOp i = range(0, index(24), Role::Loop), k = range(1, index(20), Role::Reduce);
          auto number = [](double v) { return constant(DType::f32, v); };
          UOp a = read(param(1, DType::f32, 480), i * 20 + k);
          UOp b = read(param(2, DType::f32, 24), i);
          UOp rare = lt(a, number(-4)), shared = (a + number(3)) * a;
          UOp first = where_rarely(rare, shared * number(2), a);
          UOp second = where_rarely(rare, shared + b * b, b);
          UOp other = where_rarely(lt(number(4), b), b * b * a, a);
          UOp after = where_rarely(rare, first * first, second);
          return kernel(param(0, DType::f32, 24), i, sum(first + second + other + after, {k}), {i});
        },
        {"split 1 4 vector", "split 0 8 vector", "split 0 16 vector; split 1 5 unroll",
         "split 0 2 upcast; split 1 4 vector"});
  }

#if defined(__x86_64__)
  // Two units run all instructions on such vectors, so that their number is the time of a curve.
  TEST_CASE("curves are few vector instructions") {
    if (!llvm_available()) return;
    const std::pair<Op, int> most[] = {{Op::Exp, 19}, {Op::Log, 18}, {Op::Tanh, 21}};
    for (auto [op, bound] : most) {
      Arena memory;
      ArenaScope scope(memory);
      UOp i = range(0, index(4096), Role::Loop);
      UOp value = make(op, DType::f32, {read(param(1, DType::f32, 4096), i)});
      UOp body = kernel(param(0, DType::f32, 4096), i, value, {i});
      for (const Action& action : parse_actions("split 0 16 vector")) body = apply(body, action);
      CpuTarget avx512 = host_cpu_target();
      avx512.cpu = "icelake-server";
      avx512.features.clear();
      Target target = cpu_target();
      target.fma = true;
      target.vector_bytes = 64;
      const Program p = lower(body, target);
      const std::string block = first_arithmetic(llvm_assembly(render_llvm(p, target), avx512));
      INFO(block);
      CHECK(vector_instructions(block) <= bound);
      CHECK(vector_instructions(block) > bound / 2);
    }
  }
#endif
}
