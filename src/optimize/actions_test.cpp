#include <doctest/doctest.h>

#include <algorithm>

#include "optimize/moves.h"
#include "optimize/small_kernels_test.h"

using namespace mote;

namespace {

std::vector<int32_t> run(UOp body, int64_t m, int64_t n, int64_t k) {
  Program p = lower(body, Target{});
  std::vector<int32_t> c(static_cast<size_t>(m * n), -1), a(static_cast<size_t>(m * k)),
      b(static_cast<size_t>(k * n));
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<int32_t>(i * 7 % 23) - 9;
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<int32_t>(i * 5 % 19) - 4;
  void* buffers[] = {c.data(), a.data(), b.data()};
  InterpProgram(p.linear, p.name, {}).run(buffers, {}, 0, p.global_extent);
  return c;
}

}  // namespace

TEST_SUITE("actions") {
  TEST_CASE("every action keeps what the kernel computes") {
    const char* lists[] = {
        "split 0 4 upcast",
        "split 1 3 vector",
        "split 1 4 vector",
        "split 2 4 unroll",
        "split 2 4 reduce",
        "split 2 5 upcast",
        "split 0 2 loop",
        "global 0",
        "order 1 0",
        "order 1 0; global 1",
        "split 0 3 upcast; split 1 4 vector; split 2 2 unroll; global 0",
        "split 1 4 vector; split 1 2 upcast; split 2 3 reduce; order 2 5",
        "accumulate 2",
        "split 2 2 unroll; accumulate 2; order 2 0",
        "split 2 4 reduce; accumulate 2; order 2 0 1",
        "split 2 3 reduce; accumulate 2; order 0 2 1",
        "split 2 4 reduce; split 3 2 vector; accumulate 2; order 2 0",
        "split 2 2 upcast; accumulate 2",
        "stage sum 1; split 2 4 reduce; accumulate 2; split 4 2 upcast; split 4 2 vector; "
        "order 2 3",
        "stage 1 0 2",
        "stage 1 0+2",
        "split 2 4 reduce; stage 2 1 2+3",
        "stage 2 2 1; stage 1 2",
        "split 1 4 vector; stage 2 1 2 3; split 4 2 upcast",
        "split 1 4 vector; split 0 3 upcast; stage 1 2 4; stage 2 2 3; global 0",
        "split 1 4 vector; split 1 2 upcast; split 0 4 upcast; split 2 3 reduce; accumulate 2; "
        "order 2 0; stage 2 1 6 4 3; stage 1 2 6 5",
    };
    Arena arena;
    ArenaScope scope(arena);
    const int64_t m = 6, n = 10, k = 8;
    std::vector<int32_t> want = run(matmul_body(m, n, k), m, n, k);
    for (const char* list : lists) {
      CAPTURE(std::string(list));
      UOp body = matmul_body(m, n, k);
      for (const Action& a : parse_actions(list)) {
        std::string refused;
        UOp next = apply(body, a, &refused);
        CAPTURE(refused);
        if (next) body = next;
        else CHECK(refused == "roles differ");  // slot 5 of the last list
      }
      CHECK(run(body, m, n, k) == want);
    }
  }

  TEST_CASE("merge joins what is contiguous and refuses what is not") {
    Arena arena;
    ArenaScope scope(arena);
    UOp to = param(0, DType::f32, 12), from = param(1, DType::f32, 12);
    UOp i = range(0, index(3), Role::Loop), j = range(1, index(4), Role::Loop);
    auto body = [&](UOp read) {
      UOp store = make(Op::Store, DType::none, {at(to, i * 4 + j), at(from, read)});
      return make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, i, j})},
                  Arg::of(intern_arg({})));
    };
    std::string refused;
    UOp merged = apply(body(i * 4 + j), {Action::Merge, 0, 1, Role::Loop}, &refused);
    REQUIRE(merged);
    CHECK(merged->src(0)->nsrc == 2);
    CHECK(!apply(body(j * 3 + i), {Action::Merge, 0, 1, Role::Loop}, &refused));
    CHECK(refused == "positions would need division");
  }

  TEST_CASE("lists print and parse back, and bad text is an error") {
    const char* text =
        "split 2 8 upcast; merge 0 1; order 3 1 2; global 0; accumulate 5; stage 1 5 3; "
        "stage 1 2+4+7 5; stage sum 3 1; skip 4; stream 0; stage_rows 1 48; bound 1; divide 3; "
        "fetch 1 0; fetch 1 0 2; ahead 1 4096; split 4 16 vector";
    CHECK(to_string(parse_actions(text)) == text);
    for (const char* bad : {"split 2", "split 2 8", "turn 1", "global", "split 0 4 sideways",
                            "global 0 1", "stage 1 2+", "order 2+3"})
      CHECK_THROWS_AS(parse_actions(bad), Error);
  }

  TEST_CASE("a value has lanes once, a kernel once for every nest") {
    Arena arena;
    ArenaScope scope(arena);
    const Action output{Action::Split, 1, 8, Role::Vector}, sum{Action::Split, 2, 4, Role::Vector};
    UOp once = apply(row_sums_added(), output);
    REQUIRE(once);
    CHECK(apply(once, sum));
    std::string refused;
    CHECK(!apply(once, {Action::Split, 1, 2, Role::Vector}, &refused));
    CHECK(refused == "some value has two axes of vectors");
    CHECK(!apply(apply(matmul_body(8, 8, 8), output), sum, &refused));
    CHECK(refused == "some value has two axes of vectors");
  }

  TEST_CASE("a loop whose extent depends on others stays inside them") {
    Arena arena;
    ArenaScope scope(arena);
    UOp out = param(0, DType::f32, 8), w = param(1, DType::f32, 48);
    UOp x = range(0, index(8), Role::Loop), t = range(1, index(3), Role::Reduce),
        o = range(2, index(16), Role::Reduce);
    UOp over[] = {t, o};
    UOp value = where(logical_not(lt(x, t)), at(w, o * 3 + t), constant(DType::f32, 0));
    UOp store = make(Op::Store, DType::none, {at(out, x), reduce_over(Op::Add, value, over)});
    UOp body = make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, x})},
                    Arg::of(intern_arg({})));
    std::string refused;
    CHECK(!apply(body, parse_actions("skip 1")[0], &refused));
    CHECK(refused == "the gate depends on range 1");
    UOp skipped = apply(body, parse_actions("skip 2")[0]);
    REQUIRE(skipped);
    auto reason = [&](const char* list) {
      CHECK(!apply(skipped, parse_actions(list)[0], &refused));
      return refused;
    };
    CHECK(reason("accumulate 2") == "its extent depends on other loops");
    CHECK(reason("split 2 4 unroll") == "its extent depends on other loops");
    CHECK(reason("split 0 4 vector") == "the extent of a loop depends on one inside it");
    CHECK(reason("order 2 1") == "the extent of a loop depends on one inside it");
    CHECK(reason("stage 1 1") == "a loop would run differently in a copy of its nest");
    refused.clear();
    CHECK_MESSAGE(apply(skipped, parse_actions("stage 1 1 2")[0], &refused), refused);
  }

  // out[i] = sum over k of x[i, k] * (the largest of x[i, m] over m), in i32.
  UOp sums_by_largest() {
    UOp out = param(0, DType::i32, 4), x = param(1, DType::i32, 20);
    UOp i = range(0, index(4), Role::Loop), m = range(1, index(5), Role::Reduce),
        k = range(2, index(5), Role::Reduce);
    UOp over_m[] = {m}, over_k[] = {k};
    UOp largest = reduce_over(Op::Max, at(x, i * 5 + m), over_m);
    UOp value = reduce_over(Op::Add, at(x, i * 5 + k) * largest, over_k);
    UOp store = make(Op::Store, DType::none, {at(out, i), value});
    return make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, i})},
                Arg::of(intern_arg({})));
  }

  TEST_CASE("a stage that is copied with its reader has loops of its own") {
    Arena arena;
    ArenaScope scope(arena);
    std::vector<int32_t> out(4), x(20);
    for (size_t n = 0; n < x.size(); ++n) x[n] = static_cast<int32_t>(n * 7 % 11) - 3;
    auto run_with = [&](const char* list) {
      UOp body = apply_all(sums_by_largest(), parse_actions(list));
      REQUIRE(body);
      Program p = lower(body, Target{});
      void* buffers[] = {out.data(), x.data()};
      InterpProgram(p.linear, p.name, {}).run(buffers, {}, 0, p.global_extent);
      return out;
    };
    const std::vector<int32_t> wanted = run_with("");
    CHECK(run_with("stage 1 1; stage 1 2 0") == wanted);
    CHECK(run_with("stage 1 2 0; stage 1 1") == wanted);
  }

  // out[i] = sum over k of x[k], in i32.
  TEST_CASE("accumulating a sum that is stored in many places") {
    Arena arena;
    ArenaScope scope(arena);
    UOp i = range(0, index(6), Role::Loop), k = range(1, index(4), Role::Reduce);
    UOp over[] = {k};
    UOp value = reduce_over(Op::Add, at(param(1, DType::i32, 4), k), over);
    UOp store = make(Op::Store, DType::none, {at(param(0, DType::i32, 6), i), value});
    UOp body = make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, i})},
                    Arg::of(intern_arg({})));
    for (const char* list :
         {"accumulate 1", "accumulate 1; split 0 2 loop", "accumulate 1; split 0 4 upcast",
          "split 1 2 reduce; accumulate 1; split 0 4 vector; split 0 2 loop"}) {
      CAPTURE(std::string(list));
      Program p = lower(apply_all(body, parse_actions(list)), Target{});
      std::vector<int32_t> out(6, -1), x{3, 5, -4, 7};
      void* buffers[] = {out.data(), x.data()};
      InterpProgram(p.linear, p.name, {}).run(buffers, {}, 0, p.global_extent);
      CHECK(out == std::vector<int32_t>(6, 11));
    }
  }

  TEST_CASE("drawn actions are legal, repeat, and start with those of a shorter list") {
    Arena arena;
    ArenaScope scope(arena);
    Target target;
    UOp body = matmul_body(12, 10, 8);
    bool staged = false, accumulated = false;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      const std::vector<Action> list = draw_actions(body, target, seed, 12);
      CHECK(apply_all(body, list));
      CHECK(draw_actions(body, target, seed, 12) == list);
      std::vector<Action> start = draw_actions(body, target, seed, 4);
      CHECK(std::equal(start.begin(), start.end(), list.begin()));
      staged |= std::ranges::count(list, Action::Stage, &Action::kind) > 0;
      accumulated |= std::ranges::count(list, Action::Accumulate, &Action::kind) > 0;
    }
    CHECK(staged);
    CHECK(accumulated);
  }

  TEST_CASE("neighbours change sizes, leave actions out and add some") {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = matmul_body(12, 16, 8);
    const std::vector<Action> list =
        parse_actions("split 0 4 upcast; split 1 8 vector; stage 1 2 3; split 2 4 reduce");
    std::vector<std::string> near;
    for (const auto& n : neighbours(body, list, Target{}))
      near.push_back(to_string(accepted(body, n).actions));
    auto has = [&](const char* wanted) { return std::ranges::count(near, wanted) > 0; };
    CHECK(has("split 0 6 upcast; split 1 8 vector; stage 1 2 3; split 2 4 reduce"));
    CHECK(has("split 1 8 vector; split 2 4 reduce"));  // the stage was over the cut's tile
    CHECK(has("split 0 4 upcast; stage 1 2 3; split 2 4 reduce"));
    CHECK(has("split 0 4 upcast; split 1 8 vector; stage 1 2 3; split 2 4 reduce; global 0"));
  }

  TEST_CASE("what cannot be is refused with a reason") {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = matmul_body(4, 4, 4);
    auto reason = [&](const char* list) {
      std::string refused;
      CHECK(!apply(body, parse_actions(list)[0], &refused));
      return refused;
    };
    CHECK(reason("split 9 2 upcast") == "no range of slot 9");
    CHECK(reason("split 0 1 upcast") == "a split by less than 2");
    CHECK(reason("split 0 2 unroll") == "only reduces are unrolled");
    CHECK(reason("split 0 2 reduce") == "the inner loop must have the role of the range");
    CHECK(reason("global 2") == "not an output loop");
    CHECK(reason("merge 1 2") == "roles differ");
    CHECK(reason("order 0 2") == "roles differ");
    CHECK(reason("order 0 1 0") == "slot 0 twice");
    CHECK(reason("accumulate 0") == "not a reduce loop");
    CHECK(reason("stage 0 0 1") == "the memory is written by this kernel");
    CHECK(reason("stage 1 1") == "no read of 1 depends on all of these");
    CHECK(reason("skip 2") == "what is folded has no gate");
    CHECK(reason("stream 1") == "nothing is stored to 1");
    CHECK(reason("stage sum 2") == "the sum does not depend on all of these");
    CHECK(reason("stage 1 0 0") == "slot 0 twice");
    CHECK(reason("stage sum 0+1") == "sums have no ranges to join");
    CHECK(reason("stage 1 0+0") == "slot 0 twice");
    CHECK(reason("fetch 1 2") == "not a loop that all outputs stand in");
    CHECK(reason("fetch 1 0 9") == "no such nest, or not right in the loops of outputs");
    CHECK(reason("fetch 1 0 2 1") == "one nest at most");
    CHECK(reason("fetch 1 1") == "no read of 1 depends on all of these");
    CHECK(reason("fetch 2 1") == "what is read is not one stretch of memory");
    CHECK(reason("fetch 1 0") == "half a line to 32 for each round, not 0.0625");
    UOp lanes = apply(body, parse_actions("split 1 2 vector")[0]);
    std::string refused;
    CHECK(!apply(lanes, parse_actions("stage 2 2")[0], &refused));
    CHECK(refused == "something is staged for each position of a tile");
    UOp padded = apply(body, parse_actions("split 2 3 reduce")[0]);
    CHECK(!apply(padded, parse_actions("stage 1 2+3+0")[0], &refused));
    CHECK(refused == "the read has a gate");
    UOp staged = apply(body, parse_actions("stage 1 2")[0]);
    CHECK(!apply(staged, parse_actions("split 0 2 upcast")[0], &refused));
    CHECK(refused == "something is staged for each position of a tile");
    UOp streamed = apply(body, parse_actions("stream 0")[0]);
    CHECK(!apply(streamed, parse_actions("stream 0")[0], &refused));
    CHECK(refused == "they do already");
    UOp fetched = apply(apply(matmul_body(4, 4, 256), parse_actions("split 1 4 upcast")[0]),
                        parse_actions("fetch 1 0")[0]);
    REQUIRE(fetched);
    CHECK(!apply(fetched, parse_actions("stage 1 2")[0], &refused));
    CHECK(refused == "it is fetched ahead");
  }
}
