// Products of words: what they are, when they are chosen, and that they give what products give.
#include "ir/dots.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/flags.h"
#include "base/random.h"
#include "ir/eval.h"
#include "optimize/moves.h"
#include "optimize/small_kernels_test.h"
#include "render/render.h"
#include "runtime/device.h"
#include "runtime/llvm.h"

using namespace mote;

namespace {

Target with_words() {
  Target t = device("NULL").target();
  t.threads = 1;
  t.vector_bytes = 64;
  t.vector_registers = 32;
  t.fma = true;
  for (const Dot& dot : dots()) t.dots.add(dot.op);
  return t;
}

// c[i, j] = sum over k of a[i, k] * b[k, j], whatever way the factors lie.
UOp narrow_product(DType a, DType b, DType sum, int64_t m, int64_t n, int64_t k, bool a_turned,
                   bool b_turned) {
  UOp i = range(0, index(m), Role::Loop), j = range(1, index(n), Role::Loop),
      r = range(2, index(k), Role::Reduce), over[] = {r};
  UOp left = at(param(1, a, m * k), a_turned ? r * m + i : i * k + r),
      right = at(param(2, b, k * n), b_turned ? j * k + r : r * n + j);
  return kernel(at(param(0, sum, m * n), i * n + j),
                reduce_over(Op::Add, cast(left, sum) * cast(right, sum), over), {i, j});
}

std::vector<std::vector<std::byte>> run(UOp body, const Target& target, uint64_t seed) {
  const Program p = lower(body, target);
  std::vector<std::vector<std::byte>> memory;
  std::vector<void*> buffers;
  for (UOp u : toposort(body)) {
    if (!u->is(Op::Param)) continue;
    const auto slot = static_cast<size_t>(u->ints(0));
    memory.resize(std::max(memory.size(), slot + 1));
    memory[slot].resize(static_cast<size_t>(u->ints(1) * size_of(u->dtype)));
  }
  Random random(seed);
  for (size_t slot = 1; slot < memory.size(); ++slot)
    for (std::byte& b : memory[slot]) b = static_cast<std::byte>(random.below(256));
  for (auto& m : memory) buffers.push_back(m.data());
  InterpProgram(p.linear, p.name, {}).run(buffers, {}, 0, p.global_extent);
  return memory;
}

int count(UOp body, Op op) {
  const std::vector<UOp> all = toposort(body);
  return static_cast<int>(std::ranges::count(all, op, [](UOp n) { return n->op; }));
}

struct Pair {
  DType a, b, sum;
  Op op;
};
constexpr Pair pairs[] = {
    {DType::bf16, DType::bf16, DType::f32, Op::DotBF16},
    {DType::u8,   DType::i8,   DType::i32, Op::DotU8  },
    {DType::i8,   DType::u8,   DType::i32, Op::DotU8  },
    {DType::i8,   DType::i8,   DType::i32, Op::DotI16 },
    {DType::u8,   DType::u8,   DType::i32, Op::DotI16 },
    {DType::i16,  DType::i8,   DType::i32, Op::DotI16 },
};

Action dot_action(Op op) { return {Action::Dot, 2, dot_of(op) - dots().data()}; }

}  // namespace

TEST_SUITE("words") {
  TEST_CASE("eval: products of words") {
    auto dot = [](Op op, DType sum, uint32_t a, uint32_t b, Scalar c) {
      Scalar src[] = {scalar(DType::u32, int64_t{a}), scalar(DType::u32, int64_t{b}), c};
      return eval(op, sum, src);
    };
    auto ints = [&](Op op, uint32_t a, uint32_t b, int64_t c) {
      return dot(op, DType::i32, a, b, scalar(DType::i32, c)).i;
    };
    CHECK(ints(Op::DotU8, 0xff000001, 0x80000002, 5) == 255 * -128 + 2 + 5);
    CHECK(ints(Op::DotI16, 0xffff0002, 0x00030004, 7) == -3 + 8 + 7);
    CHECK(ints(Op::DotI16, 0x80008000, 0x80008000, 0) == INT32_MIN);  // wraps
    auto floats = [&](uint32_t a, uint32_t b, double c) {
      return dot(Op::DotBF16, DType::f32, a, b, scalar(DType::f32, c)).f;
    };
    CHECK(floats(0x40003f80, 0x40403f80, 0.5) == 7.5);
    CHECK(floats(0x00013f80, 0x7f003f80, 0) == 1);  // a subnormal part is zero
    CHECK(floats(0, 0, 0x1p-127) == 0);             // and so is a subnormal sum
    CHECK(floats(0x3f80bf80, 0x30803f80, 1) == 0);  // the last part is added first
    CHECK(std::isnan(floats(0x7f80, 0, 1)));
    CHECK(std::isinf(floats(0x7f80, 0x3f80, 1)));
  }

  // Any order of integers gives the same bits; of floats these have products that are sums' own.
  TEST_CASE("the action keeps what sums of integers are, also where words are not full") {
    for (const Pair& pair : pairs) {
      if (is_float(pair.sum)) continue;
      for (int64_t k : {8, 9, 11, 31})
        for (int turned = 0; turned < 4; ++turned) {
          Arena arena;
          ArenaScope scope(arena);
          const UOp plain =
              narrow_product(pair.a, pair.b, pair.sum, 5, 6, k, turned & 1, turned & 2);
          const auto want = run(plain, Target{}, 3);
          for (const char* list :
               {"dot 2 1", "dot 2 2", "dot 2 1; split 1 4 vector; stage 2 1 2 4; stage 1 2 0",
                "dot 2 2; split 1 2 vector; split 0 4 upcast; stage 2 2 4; split 2 2 unroll",
                "split 2 4 reduce; dot 3 1; accumulate 2; order 2 0"}) {
            UOp body = plain;
            for (const Action& a : parse_actions(list))
              if (UOp next = apply(body, a)) body = next;
            CAPTURE(std::string(list));
            CAPTURE(std::string(name(pair.a)));
            CAPTURE(k);
            CHECK((run(body, Target{}, 3) == want));
          }
        }
    }
  }

  // out[i] = a[i, k] << shift * k, all k together.
  TEST_CASE("what is no word is not read as one") {
    for (int shift : {0, 3, 8}) {
      Arena arena;
      ArenaScope scope(arena);
      UOp i = range(0, index(6), Role::Loop), k = range(1, index(4), Role::Reduce), over[] = {k};
      UOp read = at(param(1, DType::i8, 24), i * 4 + k);
      UOp part = cast(make(Op::Bitcast, DType::u8, {read}), DType::u32);
      UOp value = reduce_over(Op::Or, binary(Op::Shl, part, cast(k * shift, DType::u32)), over);
      const UOp body = kernel(at(param(0, DType::u32, 6), i), value, {i});
      const UOp unrolled = apply(body, parse_actions("split 1 4 unroll")[0]);
      REQUIRE(unrolled);
      CHECK((run(unrolled, Target{}, 7) == run(body, Target{}, 7)));
      const std::vector<UOp> all = toposort(lower(unrolled, Target{}).linear);
      const auto words = std::ranges::count_if(all, [](UOp n) {
        return n->is(Op::Load) && n->src(0)->is(Op::Index) && n->dtype == DType::u32;
      });
      CHECK(words == (shift == 8));
    }
  }

  TEST_CASE("narrow products are chosen to be of words where the target has them") {
    Target without = with_words();
    without.dots = {};
    for (const Pair& pair : pairs)
      for (int turned : {0, 3}) {
        Arena arena;
        ArenaScope scope(arena);
        const UOp body =
            narrow_product(pair.a, pair.b, pair.sum, 24, 48, 37, turned & 1, turned & 2);
        CAPTURE(std::string(name(pair.a)));
        CAPTURE(turned);
        const Tuned tuned = choose_actions(body, with_words());
        CAPTURE(to_string(tuned.actions));
        CHECK(count(tuned.body, pair.op) == 1);
        CHECK(count(choose_actions(body, without).body, pair.op) == 0);
        FlagScope strict(Flag::STRICT, 1);
        CHECK(count(choose_actions(body, with_words()).body, pair.op) == !is_float(pair.sum));
        if (!is_float(pair.sum))
          CHECK((run(tuned.body, with_words(), 5)[0] == run(body, Target{}, 5)[0]));
      }
  }

#if defined(__x86_64__)
  TEST_CASE("machine code has the instructions, and a tile of words stays in registers") {
    if (!llvm_available()) return;
    struct Case {
      Pair pair;
      const char *instruction, *cpu;
      int vector_bytes, vector_registers;
    };
    const Case cases[] = {
        {pairs[0], "vdpbf16ps", "sapphirerapids", 64, 32},
        {pairs[1], "vpdpbusd",  "sapphirerapids", 64, 32},
        {pairs[3], "vpdpwssd",  "icelake-server", 64, 32},
        {pairs[3], "vpdpwssd",  "alderlake",      32, 16},
    };
    for (const Case& c : cases) {
      Arena arena;
      ArenaScope scope(arena);
      CpuTarget machine = host_cpu_target();
      machine.cpu = c.cpu;
      machine.features.clear();
      Target target = with_words();
      target.vector_bytes = c.vector_bytes, target.vector_registers = c.vector_registers;
      const UOp body = narrow_product(c.pair.a, c.pair.b, c.pair.sum, 96, 96, 128, false, false);
      auto assembly_of = [&](UOp kernel) {
        return llvm_assembly(render_llvm(lower(kernel, target), target), machine);
      };
      const std::string tile = assembly_of(choose_actions(body, target).body);
      int found = 0;
      for (size_t at = tile.find(c.instruction); at != tile.npos;
           at = tile.find(c.instruction, at + 1))
        ++found;
      INFO(tile);
      CHECK(found >= 8);
      CHECK(tile.find("(%rsp), %zmm") == tile.npos);
      // Of other numbers of lanes than the instructions have.
      for (const char* lanes : {"split 1 2 vector", "split 1 8 vector", "split 1 32 vector", ""}) {
        UOp other = apply(body, dot_action(c.pair.op));
        for (const Action& a : parse_actions(lanes)) other = apply(other, a);
        CHECK(assembly_of(other).find(c.instruction) != std::string::npos);
      }
    }
  }
#endif
}
