// Rows that are asked for ahead: where the fetches stand, what they ask for, when they are chosen.
#include <doctest/doctest.h>

#include <algorithm>

#include "optimize/moves.h"
#include "optimize/small_kernels_test.h"

using namespace mote;

namespace {

struct Rows {
  int64_t count, size;
  int slot = 1;
  DType type = DType::f32;
  UOp i = range(0, index(count), Role::Loop), j = range(1, index(size), Role::Loop),
      k = range(2, index(size), Role::Reduce), m = range(3, index(size), Role::Reduce);
  UOp x = param(slot, type, count * size);

  UOp read(UOp column) const { return at(x, i * size + column); }
  UOp kernel(UOp value) const {
    UOp place = at(param(0, type, count * size), i * size + j);
    UOp store = make(Op::Store, DType::none, {place, value});
    return make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, i, j})},
                Arg::of(intern_arg({})));
  }
};

// Three passes, of which the second one has the exponentials.
UOp softmax(int64_t count, int64_t size) {
  const Rows r{count, size};
  UOp over_m[] = {r.m}, over_k[] = {r.k};
  UOp weight = unary(Op::Exp, r.read(r.k) - reduce_over(Op::Max, r.read(r.m), over_m));
  int64_t ints[] = {static_cast<int64_t>(Space::Local), size};
  UOp staged = make(Op::Stage, DType::f32, {weight, r.k, r.k}, Arg::of(intern_arg(ints)));
  return r.kernel(at(staged, r.j) / reduce_over(Op::Add, weight, over_k));
}

// Two passes: rows by the sums of their squares.
UOp scaled(int64_t count, int64_t size, int slot = 1) {
  const Rows r{count, size, slot};
  UOp over[] = {r.k};
  return r.kernel(r.read(r.j) / reduce_over(Op::Add, r.read(r.k) * r.read(r.k), over));
}

UOp copied(int64_t count) {
  UOp i = range(0, index(count), Role::Loop);
  UOp to = at(param(0, DType::f32, count), i), from = at(param(1, DType::f32, count), i);
  return kernel(to, from, {i});
}

UOp transposed(int64_t rows, int64_t columns) {
  UOp i = range(0, index(rows), Role::Loop), j = range(1, index(columns), Role::Loop);
  UOp to = at(param(0, DType::f32, rows * columns), i * columns + j);
  return kernel(to, at(param(1, DType::f32, rows * columns), j * rows + i), {i, j});
}

// As softmax does, without rounding: how far below its largest each element is, times the sum.
UOp distances() {
  const Rows r{3, 96, 1, DType::i32};
  UOp over_m[] = {r.m}, over_k[] = {r.k};
  UOp below = reduce_over(Op::Max, r.read(r.m), over_m) - r.read(r.k);
  int64_t ints[] = {static_cast<int64_t>(Space::Local), r.size};
  UOp staged = make(Op::Stage, DType::i32, {below, r.k, r.k}, Arg::of(intern_arg(ints)));
  return r.kernel(at(staged, r.j) * reduce_over(Op::Add, below, over_k));
}

std::vector<int32_t> run(UOp body, const Target& target) {
  const Program p = lower(body, target);
  verify(p.linear, Stage::Program, "lower");
  std::vector<int32_t> out(3 * 96, -1), x(3 * 96);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i * 7 % 23) - 9;
  void* buffers[] = {out.data(), x.data()};
  InterpProgram(p.linear, p.name, {}).run(buffers, {}, 0, p.global_extent);
  return out;
}

Target described() {
  Target t;
  t.vector_bytes = 64;
  t.vector_registers = 32;
  t.fma = true;
  t.l2_bytes = 1 << 20;
  t.cache_bytes = 16 << 20;
  return t;
}

std::vector<UOp> fetches(UOp root) {
  std::vector<UOp> found = toposort(root);
  std::erase_if(found, [](UOp n) { return !n->is(Op::Fetch); });
  return found;
}

// Where a position is for all values of the ranges it depends on.
std::vector<int64_t> places(UOp position) {
  std::vector<int64_t> out;
  const std::vector<UOp> ranges = open_ranges(position);
  std::vector<int64_t> at(ranges.size());
  for (size_t moved = 0; moved < ranges.size();) {
    std::vector<std::pair<UOp, UOp>> map;
    for (size_t i = 0; i < at.size(); ++i) map.emplace_back(ranges[i], index(at[i]));
    UOp place = simplify(substitute(position, map));
    REQUIRE(is_const(place));
    out.push_back(place->arg.i);
    for (moved = 0; moved < at.size() && ++at[moved] == ranges[moved]->src(0)->hi; ++moved)
      at[moved] = 0;
  }
  return out;
}

std::string last_action(UOp body, const Target& target) {
  return to_string(choose_actions(body, target).actions.back());
}

}  // namespace

TEST_SUITE("actions") {
  TEST_CASE("the next row is asked for in the later pass that computes most") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = described();
    CHECK(last_action(softmax(2048, 8192), target) == "fetch 1 0 2");
    CHECK(last_action(scaled(2048, 8192), target) == "fetch 1 0");
    target.threads = 2;
    CHECK(last_action(softmax(2048, 8192), target) == "fetch 1 0 2");
  }

  TEST_CASE("rows that are near, short or too long are not asked for") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = described();
    auto is_fetched = [&](UOp body) { return last_action(body, target).starts_with("fetch"); };
    CHECK(!is_fetched(softmax(32, 8192)));
    CHECK(!is_fetched(softmax(65536, 256)));
    CHECK(is_fetched(softmax(512, 32768)));
    CHECK(!is_fetched(softmax(256, 65536)));  // two rows, and one that is staged
    CHECK(is_fetched(scaled(256, 65536)));
    target.l2_bytes = 64 << 10;
    CHECK(!is_fetched(softmax(2048, 8192)));
  }

  TEST_CASE("outputs that the caches do not hold go past them") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = described();
    auto streams = [&](UOp body) {
      const std::vector<Action> list = choose_actions(body, target).actions;
      return std::ranges::count(list, Action::Stream, &Action::kind) == 1;
    };
    CHECK(streams(scaled(2048, 8192)));
    CHECK(!streams(scaled(512, 8192)));
    // Rows that end within a line are written with other rows in between.
    CHECK(streams(transposed(8192, 2048)));
    CHECK(!streams(transposed(8192, 2040)));
    target.vector_bytes = 32;
    CHECK(streams(copied((1 << 24) + 1)));  // only the end is no whole line
    target.vector_bytes = 64;
    target.cache_bytes = 64 << 20;
    CHECK(!streams(scaled(2048, 8192)));
  }

  TEST_CASE("every line of the next row is asked for once in a pass, none of another row") {
    for (const char* list :
         {"split 2 64 upcast; fetch 1 0 2", "split 3 16 vector; fetch 1 0 3",
          "split 1 16 vector; fetch 1 0", "split 1 16 vector; fetch 1 0; global 0"})
      for (const int64_t size : {512, 520}) {
        Arena arena;
        ArenaScope scope(arena);
        CAPTURE(std::string(list));
        CAPTURE(size);
        UOp body = apply_all(softmax(3, size), parse_actions(list));
        REQUIRE(body);
        REQUIRE(fetches(body).size() == 1);
        UOp fetch = fetches(body)[0];
        CHECK(fetch->arg.i == 1);  // past the nearest cache, which the present row needs
        std::vector<int64_t> lines = places(fetch->src(0)->src(1));
        CHECK(std::ranges::all_of(lines, [&](int64_t p) { return p >= size && p < 4 * size; }));
        for (int64_t& p : lines) p /= 16;
        std::ranges::sort(lines);
        const bool exact = size % 64 == 0;
        CHECK((std::ranges::adjacent_find(lines) == lines.end()) == exact);
        lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
        CHECK(lines.size() == static_cast<size_t>((3 * size + 15) / 16));
      }
  }

  TEST_CASE("what reads several stretches, or too little, is not fetched") {
    Arena arena;
    ArenaScope scope(arena);
    const Rows r{8, 64};
    UOp over[] = {r.k};
    UOp both = r.kernel(r.read(r.j) + reduce_over(Op::Add, at(r.x, r.i * 32 + r.k), over));
    std::string refused;
    CHECK(!apply(both, parse_actions("fetch 1 0 2")[0], &refused));
    CHECK(refused == "reads of several stretches of memory");
    CHECK(!apply(softmax(8, 64), parse_actions("fetch 1 0 2")[0], &refused));
    CHECK(refused == "half a line to 32 for each round, not 0.0625");
  }

  TEST_CASE("whatever comes before or after a fetch, values stay") {
    int in_folds = 0, lowered = 0;
    for (uint64_t seed = 1; seed <= 100; ++seed) {
      Arena arena;
      ArenaScope scope(arena);
      const Target target = described();
      UOp body = distances();
      const std::vector<int32_t> want = run(body, target);
      UOp before = apply_all(body, draw_actions(body, target, seed, 3));
      for (const Action& fetch : candidate_actions(before, target)) {
        UOp fetched = fetch.kind == Action::Fetch ? apply(before, fetch) : UOp();
        if (!fetched) continue;
        const std::vector<Action> rest = draw_actions(fetched, target, seed + 1, 3);
        INFO(to_string(fetch) << "; " << to_string(rest));
        UOp after = apply_all(fetched, rest);
        CHECK(run(after, target) == want);
        in_folds += !fetch.over.empty();
        lowered += !fetches(lower(after, target).linear).empty();
      }
    }
    CHECK(in_folds > 10);
    CHECK(lowered > 10);
  }

  TEST_CASE("a search may leave out what came before a fetch, which stays what it is") {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = scaled(8, 256, 5);
    const std::vector<Action> list =
        parse_actions("split 2 16 vector; split 1 16 vector; fetch 5 0");
    auto is_near = [&](const char* wanted) {
      const auto all = neighbours(body, list, described());
      return std::ranges::any_of(all, [&](const auto& n) { return to_string(n) == wanted; });
    };
    CHECK(is_near("split 1 16 vector; fetch 5 0"));
    CHECK(is_near("split 2 16 vector; split 1 16 vector; fetch 5 0; global 0"));
  }

  UOp sum_of_rows(const Rows& r, UOp value) {
    UOp over[] = {r.k};
    UOp place = at(param(0, DType::f32, r.count), r.i);
    UOp store = make(Op::Store, DType::none, {place, reduce_over(Op::Add, value, over)});
    return make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, r.i})},
                Arg::of(intern_arg({})));
  }

  TEST_CASE("streams are asked for ahead where the processor does not do so by itself") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = described();
    const Rows large{2048, 8192}, near{64, 8192};
    auto last = [&](UOp body) { return last_action(body, target); };
    CHECK(last(sum_of_rows(large, large.read(large.k))) == "split 2 4 upcast");
    target.ahead_bytes = 8192;
    CHECK(last(sum_of_rows(large, large.read(large.k))) == "ahead 1 8192");
    CHECK(last(sum_of_rows(near, near.read(near.k))) == "split 2 4 upcast");
    // Loads are waited for beside other work, or the row is fetched as a whole.
    UOp weight = at(param(2, DType::f32, 8192), large.k);
    CHECK(!last(sum_of_rows(large, large.read(large.k) * weight)).starts_with("ahead"));
    CHECK(last(softmax(2048, 8192)) == "fetch 1 0 2");
  }

  TEST_CASE("each line that is read is asked for so many bytes ahead, in the same loop") {
    Arena arena;
    ArenaScope scope(arena);
    const Rows r{4, 512};
    UOp body = sum_of_rows(r, r.read(r.k));
    UOp ahead = apply_all(body, parse_actions("split 2 16 vector; split 2 4 upcast; ahead 1 4096"));
    REQUIRE(ahead);
    REQUIRE(fetches(ahead).size() == 1);
    std::vector<int64_t> found = places(fetches(ahead)[0]->src(0)->src(1)), wanted;
    for (int64_t line = 0; line < 4 * 512; line += 16) wanted.push_back(line + 1024);
    std::ranges::sort(found);
    CHECK(found == wanted);
    CHECK(fetches(lower(ahead, described()).linear).size() == 1);

    std::string refused;
    CHECK(!apply(body, parse_actions("ahead 1 4096")[0], &refused));
    CHECK(refused == "read by less than lines of memory");
    CHECK(!apply(body, parse_actions("ahead 2 4096")[0], &refused));
    body = apply(body, parse_actions("split 2 16 vector")[0]);
    CHECK(!apply(body, parse_actions("ahead 1 32")[0], &refused));
    CHECK(refused == "some lines ahead, not 32 bytes");
  }

  TEST_CASE("fetches stand in the loop of the fold, or nowhere") {
    Arena arena;
    ArenaScope scope(arena);
    auto lowered = [](const std::string& list) {
      UOp body = apply_all(softmax(4, 256), parse_actions(list));
      REQUIRE(body);
      return lower(body, described()).linear;
    };
    UOp linear = lowered("split 2 16 vector; fetch 1 0 2");
    REQUIRE(fetches(linear).size() == 1);
    std::vector<int> open;
    for (Node* n : linear->src()) {
      if (n->op == Op::Range) open.push_back(range_slot(UOp(n)));
      if (n->op == Op::End) open.pop_back();
      if (n->op == Op::Fetch) CHECK(open == std::vector{0, 2});
    }
    // The fold is made for several rows at once, in loops of its own.
    CHECK(fetches(lowered("split 2 16 upcast; fetch 1 0 2; stage_rows 0 2")).empty());
  }
}
