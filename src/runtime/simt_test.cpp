// What the model of blocks reports, and that it does: kernels as lowering makes them, with a
// barrier taken away, and programs written by hand.
#include <doctest/doctest.h>

#include "optimize/optimize.h"
#include "optimize/small_kernels_test.h"
#include "runtime/device.h"
#include "runtime/simt_block.h"

using namespace mote;

namespace {

using Words = std::vector<std::vector<int32_t>>;

std::string run(UOp linear, const Program& p, Words& memory, const Target& target) {
  std::vector<void*> buffers;
  for (auto& m : memory) buffers.push_back(m.data());
  SimtKernel kernel{
      assemble(linear, p.name, {}), p.grid, p.block, target.warp, target.fragments, target.box};
  try {
    run_blocks(kernel, buffers, {});
  } catch (const Error& e) { return e.what(); }
  return "";
}

Words numbers(UOp body) {
  Words out;
  for (UOp n : toposort(body)) {
    if (!n->is(Op::Param)) continue;
    out.resize(std::max(out.size(), static_cast<size_t>(n->ints(0)) + 1));
    std::vector<int32_t>& m = out[static_cast<size_t>(n->ints(0))];
    for (int64_t i = 0; i < n->ints(1); ++i) {
      const auto v = static_cast<int32_t>((i + 1) * (7 + 4 * n->ints(0)) % 23) - 9;
      const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(v));
      if (n->dtype == DType::f32)
        m.push_back(std::bit_cast<int32_t>(bits));
      else if (n->dtype != DType::bf16)
        m.push_back(v);
      else if (i % 2 == 0)
        m.push_back(static_cast<int32_t>(bits >> 16));
      else
        m.back() |= static_cast<int32_t>(bits);
    }
  }
  return out;
}

// The sum of each row of 64, added to its elements.
UOp rows() {
  UOp out = param(0, DType::i32, 192), x = param(1, DType::i32, 192);
  UOp i = range(0, index(3), Role::Loop), j = range(1, index(64), Role::Loop),
      k = range(2, index(64), Role::Reduce), over[] = {k};
  UOp sum = reduce_over(Op::Add, at(x, i * 64 + k), over);
  return kernel(at(out, i * 64 + j), at(x, i * 64 + j) + sum, {i, j});
}

UOp tiles() { return matmul_body(16, 24, 20); }
UOp whole_sum() { return sum_of_all(); }

// out[i, j] = the sum of products of bf16, in f32.
UOp bf16_tiles() {
  UOp i = range(0, index(128), Role::Loop), j = range(1, index(48), Role::Loop),
      k = range(2, index(80), Role::Reduce), over[] = {k};
  UOp a = at(param(1, DType::bf16, 128 * 80), i * 80 + k),
      b = at(param(2, DType::bf16, 80 * 48), k * 48 + j);
  UOp sum = reduce_over(Op::Add, cast(a, DType::f32) * cast(b, DType::f32), over);
  return kernel(at(param(0, DType::f32, 128 * 48), i * 48 + j), sum, {i, j});
}

#define TILES(staged)                                                                        \
  "split 0 8 loop; split 1 8 loop; split 2 8 reduce; local 3; local 4; global 0; global 1; " \
  "stage 1 3 5; " staged "; stage 2 5 4; " staged

#define BOXES                                                                                \
  "split 0 8 loop; split 1 8 loop; split 2 8 reduce; local 3; local 4; global 0; global 1; " \
  "stage 1 3 5; box 6 2; stage 2 5 4; box 8 2"

#define PENDING(a, b)                                                                             \
  "split 0 64 loop; split 1 16 loop; split 2 16 reduce; fragment 3 128 4 5; global 0; global 1; " \
  "stage 1 3 5; " a "; stage 2 5 4; " b

struct Case {
  const char* name;
  UOp (*body)();
  const char* actions;
  int warp, barriers;
};
// clang-format off
constexpr Case cases[] = {
    {"rows, through memory", rows, "global 0; local 1; share 2 1", 1, 1},
    {"rows, by shuffles", rows, "global 0; local 1; share 2 1", 64, 0},
    {"rows, by both", rows, "global 0; local 1; share 2 1", 16, 1},
    {"rows, in rounds", rows, "global 0; split 1 24 loop; local 3; share 2 3", 8, 1},
    {"a sum of all", whole_sum, "group 1", 4, 1},
    {"a sum of all, several loops", whole_sum, "group 1; group 2", 2, 1},
    {"staged rows", rows, "global 0; local 1; stage 1 2; share 3 1", 1, 1},
    {"tiles", tiles,
     "split 0 8 loop; split 1 8 loop; split 2 8 reduce; local 3; local 4; global 0; global 1; "
     "stage 1 3 5; share 6 3; share 7 4; stage 2 5 4; share 6 3; share 7 4",
     32, 2},
    {"tiles, padded", tiles, TILES("pad 6 1; share 6 3; share 7 4"), 32, 2},
    {"tiles, swizzled", tiles, TILES("swizzle 6 2; share 6 3; share 7 4"), 32, 2},
    {"tiles, two deep", tiles, TILES("deep 6 2; share 6 3; share 7 4"), 32, 1},
    {"tiles, by copies", tiles, TILES("copy 6; share 6 3; share 7 4"), 32, 2},
    {"tiles, two deep by copies", tiles, TILES("copy 6; deep 6 2; share 6 3; share 7 4"), 32, 1},
    {"tiles, four deep by copies, swizzled", tiles,
     TILES("swizzle 6 1; copy 6; deep 6 4; share 6 3; share 7 4"), 32, 1},
    {"rounds of tiles, three deep", tiles,
     "split 1 8 loop; split 2 4 reduce; local 3; global 1; stage 2 4 3; deep 5 3; copy 5; share 5 3",
     32, 2},
    {"tiles, one copied before the rounds that the other is filled ahead for", tiles,
     "split 0 4 loop; split 1 4 loop; local 3; local 4; global 0; stage 2 2 4; deep 5 2; "
     "share 5 3; share 6 4; stage 1 3 2; copy 6; share 6 3; share 7 4", 16, 1},
    {"tiles, both by copies, one for all rounds", tiles,
     "split 0 4 loop; split 1 4 loop; local 3; local 4; global 0; stage 2 2 4; copy 5; deep 5 3; "
     "share 5 3; share 6 4; stage 1 3 2; copy 6; share 6 3; share 7 4", 16, 1},
    {"products of tiles", bf16_tiles,
     "split 0 16 loop; split 1 8 loop; split 2 16 reduce; fragment 3 32 4 5; global 0; global 1", 32,
     0},
    {"products of tiles, turned, four in one block", bf16_tiles,
     "split 0 8 loop; split 1 16 loop; split 2 16 reduce; split 0 4 loop; global 0; global 1; "
     "local 6; fragment 4 32 3 5", 32, 0},
    {"several products of tiles", bf16_tiles,
     "split 0 16 loop; split 1 8 loop; split 2 16 reduce; split 0 2 upcast; split 1 3 upcast; "
     "fragment 3 32 4 5; global 0; global 1", 32, 0},
    {"products of staged tiles", bf16_tiles,
     "split 0 16 loop; split 1 8 loop; split 2 16 reduce; fragment 3 32 4 5; global 0; global 1; "
     "stage 1 3 5; copy 7; deep 7 3; share 7 6; stage 2 5 4; swizzle 9 2; share 9 6", 32, 2},
    {"pending products", bf16_tiles, PENDING("share 7 6", "share 9 6"), 32, 2},
    {"pending products, copied ahead", bf16_tiles,
     PENDING("copy 7; deep 7 3; share 7 6", "copy 9; deep 9 3; share 9 6"), 32, 1},
    {"tiles by boxes", tiles, BOXES, 32, 1},
    {"tiles of one side", tiles,
     "split 0 8 loop; split 2 4 reduce; local 3; global 0; stage 2 4 1; share 6 3", 32, 2},
};
// clang-format on

// From the first to the last of them.
UOp without(Op op, UOp linear, int first, int last) {
  std::vector<UOp> kept;
  int number = -1;
  for (Node* s : linear->src()) {
    number += s->op == op;
    if (s->op != op || number < first || number > last) kept.emplace_back(s);
  }
  return make(Op::Linear, DType::none, kept, linear->arg);
}

Program parsed(const char* text, std::vector<int64_t> grid, std::vector<int64_t> block) {
  Program p;
  p.name = "test";
  p.linear = parse(text);
  verify(p.linear, Stage::Program, "test");
  p.grid = std::move(grid), p.block = std::move(block);
  return p;
}

bool has(const std::string& text, const char* part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("simt: what workers do together is right, and no barrier may be left out") {
  for (const Case& c : cases) {
    CAPTURE(std::string(c.name));
    Arena arena;
    ArenaScope scope(arena);
    Target target = device("SIMT").target();
    target.warp = c.warp;
    const UOp body = c.body();
    std::string refused;
    const UOp chosen = apply_all(body, parse_actions(c.actions), &refused);
    REQUIRE_MESSAGE(chosen, refused);
    CHECK(runs_on(chosen, target));
    verify(chosen, Stage::Kernel, "actions");
    const Program plain = lower(body, target), p = lower(chosen, target);
    verify(p.linear, Stage::Program, "lower");
    verify_text(p.linear, "lower");
    CAPTURE(print(p.linear));
    Words wanted = numbers(body), got = wanted, again;
    REQUIRE(run(plain.linear, plain, wanted, target) == "");
    CHECK(run(p.linear, p, got, target) == "");
    CHECK((got == wanted));
    CHECK(std::ranges::count(p.linear->src(), Op::Barrier, &Node::op) == c.barriers);
    std::vector<UOp> wrong;
    for (int i = 0; i < c.barriers; ++i) wrong.push_back(without(Op::Barrier, p.linear, i, i));
    if (std::ranges::count(p.linear->src(), Op::Wait, &Node::op))
      wrong.push_back(without(Op::Wait, p.linear, 0, 100));
    std::vector<UOp> kept;
    for (Node* n : p.linear->src())
      if (n->op != Op::Wait || n->arg.object->ints.size() == 2) kept.emplace_back(n);
    if (has(c.name, "pending"))
      CHECK(has(
          run(make(Op::Linear, DType::none, kept, p.linear->arg), p, again = numbers(body), target),
          "pending"));
    for (UOp linear : wrong) {
      again = numbers(body);
      const std::string error = run(linear, p, again, target);
      CHECK_MESSAGE((has(error, "a race") || has(error, "nobody has written") ||
                     has(error, "to which a copy is on its way") || has(error, "pending")),
                    error);
      CHECK(has(error, p.name.c_str()));
    }
  }
}

TEST_CASE("simt: nothing is filled ahead where sums wait in memory between rounds") {
  Arena arena;
  ArenaScope scope(arena);
  std::string refused;
  const char* tiled = "split 0 8 loop; local 3; accumulate 2; order 2 1; stage 2 1; share 4 3";
  UOp body = apply_all(tiles(), parse_actions(tiled), &refused);
  REQUIRE_MESSAGE(body, refused);
  CHECK(!apply_all(body, parse_actions("deep 3 2"), &refused));
  CHECK(refused == "a stage is filled ahead for rounds that are not known");
}

TEST_CASE("simt: boxes are awaited, and not too large") {
  Arena arena;
  ArenaScope scope(arena);
  Target target = device("SIMT").target();
  const UOp body = apply_all(tiles(), parse_actions(BOXES));
  const Program p = lower(body, target);
  Words memory = numbers(body);
  const std::string error = run(without(Op::Await, p.linear, 0, 0), p, memory, target);
  CHECK_MESSAGE(has(error, "to which a copy is on its way"), error);
  target.box = 4;
  CHECK(!runs_on(body, target));
  CHECK(has(run(p.linear, p, memory, target), "a box of 8 positions, where 4 is the most"));
  std::string refused;
  CHECK(!apply_all(tiles(), parse_actions("stage 1 0 2; box 3 2"), &refused));
  CHECK(!apply_all(tiles(), parse_actions("split 2 4 reduce; stage 1 3; box 4 2"), &refused));
  CHECK(refused == "no box of this is sent ahead");
}

// The first worker writes for the second one, and then again where that has read.
std::string by_roles(const char* first, const char* second) {
  const std::string text = std::string(R"(%0 = Param i32 [0 4 global 0]
%1 = Param i32 [1 2 shared 0]
%2 = Param u64 [2 2 shared 0]
%3 = Range i32 2:i32 [0 local]
%4 = Lt bool %3 1:i32
%5 = Xor bool %4 true
%6 = Range i32 2:i32 [1 loop]
%7 = Index u64 %2 0:i32
%8 = Index u64 %2 1:i32
%9 = Where i32 %4 %6 0:i32
%10 = Await void %8 %9 [1]
%11 = Index i32 %1 0:i32
%12 = Add i32 %6 7:i32
%13 = Store void %11 %12 %4
%14 = Arrive void %7 %4 [1]
%15 = Add i32 %6 1:i32
%16 = Where i32 %5 %15 0:i32
%17 = Await void %7 %16 [1]
%18 = Load i32 %11 %5
%19 = Index i32 %0 %6
%20 = Store void %19 %18 %5
%21 = Arrive void %8 %5 [1]
%22 = End void %21 %6
%23 = End void %22 %3
%24 = Linear void %3 %4 %5 %6 %9 )") +
                           first + "%12 %13 %14 %15 %16 " + second + "%18 %20 %21 %22 %23";
  const Program p = parsed(text.c_str(), {}, {2});
  Words memory{
      {0, 0, 0, 0}
  };
  const std::string error = run(p.linear, p, memory, {});
  CHECK((!error.empty() || memory[0] == std::vector<int32_t>{7, 8, 0, 0}));
  return error;
}

TEST_CASE("simt: roles that meet at counted barriers") {
  Arena arena;
  ArenaScope scope(arena);
  CHECK(by_roles("%10 ", "%17 ") == "");
  CHECK(has(by_roles("", "%17 "), "a race"));
  CHECK(!by_roles("%10 ", "").empty());
}

TEST_CASE("simt: the choice of loops uses what a target has") {
  Arena arena;
  ArenaScope scope(arena);
  auto chosen = [](UOp body, const char* name) {
    return to_string(choose_actions(body, device(name).target()).actions);
  };
  CHECK(
      chosen(bf16_tiles(), "SIMT") ==
      "split 0 64 loop; split 1 16 loop; split 2 16 reduce; fragment 3 128 4 5; stage 1 3 5; "
      "copy 7; deep 7 3; share 7 6; stage 2 5 4; copy 9; deep 9 3; share 9 6; global 1; global 0");
  const std::string plain = chosen(bf16_tiles(), "SIMT_SMALL");
  CHECK(has(plain, "deep"));
  CHECK(!has(plain, "copy"));
  CHECK(!has(plain, "fragment"));
}

TEST_CASE("simt: what is not filled ahead, and not copied") {
  Arena arena;
  ArenaScope scope(arena);
  auto why = [](UOp body, const char* actions) {
    std::string refused;
    return apply_all(body, parse_actions(actions), &refused) ? "" : refused;
  };
  CHECK(why(tiles(), "split 2 8 reduce; stage 1 3; deep 4 2") == "");
  CHECK(why(tiles(), "stage 1 2; deep 3 1") == "2 to 8 memories");
  CHECK(why(tiles(), "stage 1 0 2; deep 3 2") ==
        "a stage is filled ahead for rounds that are not known");
  CHECK(why(tiles(), "deep 2 2") == "nothing is staged over it");
  CHECK(why(tiles(), "split 0 4 loop; stage sum 3; deep 4 2") ==
        "a stage is filled ahead with what may change");
  CHECK(why(tiles(), "split 0 4 loop; stage sum 3; copy 4") == "what is computed is not copied");
  CHECK(why(tiles(), "fragment 0 32 1") == "it is no product of two tiles");
  CHECK(why(rows(), "fragment 0 32 1 2") == "it is no product of two tiles");
  CHECK(why(tiles(), "stage 1 0 2; swizzle 3 3") == "a row has no 2^n such pieces");
  CHECK(why(tiles(), "stage 1 0 2; pad 4 1") == "its positions are not rows of the stage");
}

TEST_CASE("simt: workers do not meet in loops that some leave earlier") {
  Arena arena;
  ArenaScope scope(arena);
  // Row i has i + 1 positions; workers of different rows fold for each of them.
  UOp out = param(0, DType::i32, 32), x = param(1, DType::i32, 64);
  UOp i = range(0, index(8), Role::Loop), j = range(1, index(4), Role::Loop),
      k = range(2, i + 1, Role::Reduce), m = range(3, index(8), Role::Reduce), over_k[] = {k},
      over_m[] = {m};
  UOp inner = reduce_over(Op::Add, at(x, k * 8 + m), over_m);
  UOp body = kernel(at(out, i * 4 + j), reduce_over(Op::Max, inner, over_k), {i, j});
  std::string refused;
  CHECK(apply_all(body, parse_actions("global 0; local 1; share 3 1"), &refused));
  CHECK(!apply_all(body, parse_actions("local 0; local 1; share 3 1"), &refused));
  CHECK(refused == "workers meet in a loop that some leave earlier");
}

TEST_CASE("simt: a race in the kernel's arguments") {
  Arena arena;
  ArenaScope scope(arena);
  const Program p = parsed(R"(%0 = Param i32 [0 2 global 0]
%1 = Range i32 2:i32 [0 global]
%2 = Range i32 4:i32 [1 local]
%3 = Index i32 %0 %1
%4 = Store void %3 %2
%5 = End void %4 %2
%6 = End void %5 %1
%7 = Linear void %1 %2 %4 %5 %6)",
                           {2}, {4});
  Words memory{
      {0, 0}
  };
  CHECK(run(p.linear, p, memory, {}) ==
        "internal error: kernel test, statement 2, block 0, worker 1: a race: writes element 0 of "
        "argument 0 beside worker 0");
}

TEST_CASE("simt: a barrier that not all reach") {
  Arena arena;
  ArenaScope scope(arena);
  const Program p = parsed(R"(%0 = Param i32 [0 4 global 0]
%1 = Range i32 4:i32 [0 local]
%2 = Range i32 %1 [1 loop]
%3 = Barrier void
%4 = Index i32 %0 %1
%5 = Store void %4 %2
%6 = End void %5 %2
%7 = End void %6 %1
%8 = Linear void %1 %2 %3 %5 %6 %7)",
                           {}, {4});
  Words memory{
      {0, 0, 0, 0}
  };
  CHECK(has(run(p.linear, p, memory, {}),
            "statement 2, block 0, worker 3: not all workers come to "
            "this barrier"));
}

// Each worker copies an element and reads its neighbour's.
std::string copied(const char* wait, const char* barrier, Words& memory) {
  const std::string text = std::string(R"(%0 = Param i32 [0 4 global 0]
%1 = Param i32 [1 4 global 0]
%2 = Param i32 [2 4 shared 0]
%3 = Range i32 4:i32 [0 local]
%4 = Index i32 %1 %3
%5 = Load i32 %4
%6 = Index i32 %2 %3
%7 = Store void %6 %5 [2]
%8 = Wait void [0 0]
%9 = Barrier void
%10 = Xor i32 %3 1:i32
%11 = Index i32 %2 %10
%12 = Load i32 %11
%13 = Index i32 %0 %3
%14 = Store void %13 %12
%15 = End void %14 %3
%16 = Linear void %3 %5 %7 )") +
                           wait + barrier + "%10 %12 %14 %15";
  const Program p = parsed(text.c_str(), {}, {4});
  return run(p.linear, p, memory, {});
}

TEST_CASE("simt: asynchronous stores are there after a wait and a barrier") {
  Arena arena;
  ArenaScope scope(arena);
  Words memory{
      {0, 0, 0, 0},
      {1, 2, 3, 4}
  };
  CHECK(copied("%8 ", "%9 ", memory) == "");
  CHECK((memory[0] == std::vector<int32_t>{2, 1, 4, 3}));
  CHECK(has(copied("", "%9 ", memory), "to which a copy is on its way"));
  CHECK(has(copied("%8 ", "", memory), "nobody has written"));
}

TEST_CASE("simt: a product of tiles, as the layouts of its row say") {
  Arena arena;
  ArenaScope scope(arena);
  const Target target = device("SIMT").target();
  const Fragment& f = target.fragments[0];
  // Registers of a lane lie side by side in memory, lane after lane.
  const Program p = parsed(R"(%0 = Param f32 [0 128 global 0]
%1 = Param f32 [1 256 global 0]
%2 = Param f32 [2 128 global 0]
%3 = Range i32 32:i32 [0 local]
%4 = Range i32 8:i32 [1 upcast]
%5 = Range i32 4:i32 [2 upcast]
%6 = Range i32 4:i32 [3 upcast]
%7 = Mul i32 %3 8:i32
%8 = Add i32 %7 %4
%9 = Index f32 %1 %8
%10 = Load f32 %9
%11 = Mul i32 %3 4:i32
%12 = Add i32 %11 %5
%13 = Index f32 %2 %12
%14 = Load f32 %13
%15 = Add i32 %11 %6
%16 = Index f32 %0 %15
%17 = Load f32 %16
%18 = Fragment f32 %17 %10 %14 %6 %4 %5 [0 0]
%19 = Store void %16 %18
%20 = End void %19 %3
%21 = Linear void %3 %7 %8 %10 %11 %12 %14 %15 %17 %18 %19 %20)",
                           {}, {32});
  auto number = [](int i) { return static_cast<float>(i * 7 % 23 - 9); };
  auto scattered = [&](const Fragment::Layout& layout, int columns, int salt) {
    std::vector<int32_t> out;
    for (int lane = 0; lane < f.lanes; ++lane)
      for (int r = 0; r < layout.registers(); ++r) {
        const Fragment::Step at = layout.at(lane, r);
        out.push_back(std::bit_cast<int32_t>(number(at.row * columns + at.column + salt)));
      }
    return out;
  };
  Words memory{scattered(f.c, f.columns, 0), scattered(f.a, f.depth, 1),
               scattered(f.b, f.columns, 2)};
  CHECK(run(p.linear, p, memory, target) == "");
  for (int lane = 0; lane < f.lanes; ++lane)
    for (int r = 0; r < f.c.registers(); ++r) {
      const auto [row, column] = f.c.at(lane, r);
      float sum = number(row * f.columns + column);
      for (int k = 0; k < f.depth; ++k)
        sum += number(row * f.depth + k + 1) * number(k * f.columns + column + 2);
      CHECK(std::bit_cast<float>(memory[0][static_cast<size_t>(lane * 4 + r)]) == sum);
    }
}
