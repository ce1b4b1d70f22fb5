// Which actions are chosen for which kernel.
#include <doctest/doctest.h>

#include <algorithm>

#include "optimize/moves.h"
#include "optimize/small_kernels_test.h"
#include "runtime/device.h"

using namespace mote;

namespace {

Target avx512() {
  Target t = device("NULL").target();
  t.threads = 1;
  t.vector_bytes = 64;
  t.vector_registers = 32;
  return t;
}

// Statements that a program executes.
double executed(const Program& p) {
  double all = 0, times = 1;
  std::vector<double> around;
  for (Node* n : p.linear->src()) {
    if (n->op == Op::Range) {
      around.push_back(times);
      times *= static_cast<double>(n->sources[0]->hi);
    } else if (n->op == Op::End) {
      times = around.back();
      around.pop_back();
    }
    all += times;
  }
  return all;
}

}  // namespace

TEST_SUITE("actions") {
  TEST_CASE("every nest gets lanes, and a long sum several accumulators") {
    Arena arena;
    ArenaScope scope(arena);
    Target target;
    target.vector_bytes = 32;
    CHECK(to_string(choose_actions(row_sums_added(), target).actions) ==
          "split 1 8 vector; split 2 8 vector; split 2 4 upcast");
  }

  // Threads that share out a row would each sum all of it.
  TEST_CASE("threads share out few long rows, but not what each row's sum is for") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = avx512();
    constexpr int64_t length = 59999;
    UOp i = range(0, index(7), Role::Loop), j = range(1, index(length), Role::Loop),
        k = range(2, index(length), Role::Reduce), over[] = {k},
        a = param(1, DType::f32, 7 * length);
    UOp sum = reduce_over(Op::Add, at(a, i * length + k), over);
    UOp body = kernel(at(param(0, DType::f32, 7 * length), i * length + j),
                      binary(Op::Div, at(a, i * length + j), sum), {i, j});
    for (target.threads = 1; target.threads <= 32; target.threads *= 2) {
      const std::string chosen = to_string(choose_actions(body, target).actions);
      CHECK(chosen.find("part 1") == std::string::npos);
      CHECK((chosen.find("part 0 1") != std::string::npos) == (target.threads > 1));
    }
  }

  // Rows of 4096, of which no cache holds much.
  UOp large_fold(Op op, bool of_rows, int64_t rows = 2048) {
    UOp i = range(0, index(of_rows ? rows : 4096), Role::Loop),
        k = range(1, index(of_rows ? 4096 : rows), Role::Reduce);
    UOp over[] = {k};
    UOp a = at(param(1, DType::f32, rows * 4096), of_rows ? i * 4096 + k : k * 4096 + i);
    UOp value = of_rows ? a * at(param(2, DType::f32, 4096), k) : a;
    return kernel(at(param(0, DType::f32, 4096), i), reduce_over(op, value, over), {i});
  }

  TEST_CASE("columns are swept by as many vectors as few registers hold") {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = large_fold(Op::Max, false, 2005);
    Target target = avx512();
    CHECK(to_string(choose_actions(body, target).actions).find("split 0 2 upcast") !=
          std::string::npos);
    target.vector_registers = 8;
    CHECK(to_string(choose_actions(body, target).actions).find("upcast") == std::string::npos);
  }

  TEST_CASE("large matrices are read in streams that lie far apart") {
    Arena arena;
    ArenaScope scope(arena);
    Target target;
    target.vector_bytes = 64;
    target.vector_registers = 32;
    CHECK(to_string(choose_actions(large_fold(Op::Add, true), target).actions) ==
          "split 1 16 vector; split 0 512 loop; split 0 4 upcast");
    CHECK(
        to_string(choose_actions(large_fold(Op::Add, false), target).actions) ==
        "split 0 16 vector; split 0 8 upcast; split 1 512 reduce; split 1 4 unroll; accumulate 4; "
        "order 4 0");
    // One part for each thread: rows stay long.
    target.threads = 2;
    CHECK(
        to_string(choose_actions(large_fold(Op::Add, false), target).actions) ==
        "split 0 16 vector; split 0 8 upcast; split 1 512 reduce; split 1 4 unroll; accumulate 4; "
        "order 4 0; part 4 16");
  }

  // c[s, i, j] = sum over k of a[s, i, k] * b[s, k, j]
  UOp batched_matmul(int64_t m, int64_t k, int64_t n) {
    UOp s = range(0, index(16), Role::Loop), i = range(1, index(m), Role::Loop),
        j = range(2, index(n), Role::Loop), r = range(3, index(k), Role::Reduce);
    UOp over[] = {r};
    UOp product = at(param(1, DType::f32, 16 * m * k), (s * m + i) * k + r) *
                  at(param(2, DType::f32, 16 * k * n), (s * k + r) * n + j);
    UOp to = at(param(0, DType::f32, 16 * m * n), (s * m + i) * n + j);
    UOp store = make(Op::Store, DType::none, {to, reduce_over(Op::Add, product, over)});
    return make(Op::Sink, DType::none, {make(Op::End, DType::none, {store, s, i, j})},
                Arg::of(intern_arg({})));
  }

  TEST_CASE("rows of a result are stored one after the other where all columns are near") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = avx512();
    target.l2_bytes = 1 << 20;
    const std::string tile = "split 1 4 upcast; split 2 16 vector; split 2 4 upcast";
    CHECK(to_string(choose_actions(batched_matmul(128, 64, 128), target).actions) == tile);
    // Too much to be read again for every few rows.
    target.l2_bytes = 64 << 10;
    CHECK(to_string(choose_actions(batched_matmul(128, 64, 128), target).actions)
              .find("order 0 2 1") != std::string::npos);
    // What comes from afar is asked for ahead.
    target.l2_bytes = 256 << 10;
    CHECK(to_string(choose_actions(batched_matmul(128, 64, 128), target).actions) ==
          tile + "; fetch 2 0");
    target.threads = 2;
    CHECK(to_string(choose_actions(batched_matmul(128, 64, 128), target).actions) ==
          tile + "; part 0 1; fetch 2 0");
  }

  TEST_CASE("all that the next position of a loop reads is fetched, each line once") {
    Arena arena;
    ArenaScope scope(arena);
    std::vector<Action> list =
        parse_actions("split 1 4 upcast; split 2 16 vector; split 2 4 upcast; fetch 2 0");
    UOp fetch, body = apply_all(batched_matmul(128, 64, 128), list);
    REQUIRE(body);
    for (UOp n : toposort(body))
      if (n->is(Op::Fetch)) fetch = n;
    REQUIRE(fetch);
    std::vector<UOp> ranges = open_ranges(fetch->src(0)->src(1));
    CHECK(ranges.size() == 4);
    std::vector<int> lines(16 * 512);
    std::vector<int64_t> at(ranges.size());
    for (size_t moved = 0; moved < ranges.size();) {
      std::vector<std::pair<UOp, UOp>> map;
      for (size_t i = 0; i < at.size(); ++i) map.emplace_back(ranges[i], index(at[i]));
      UOp place = simplify(substitute(fetch->src(0)->src(1), map));
      REQUIRE(is_const(place));
      const auto line = static_cast<size_t>(place->arg.i / 16 - 512);
      REQUIRE(line < lines.size());
      ++lines[line];
      for (moved = 0; moved < at.size() && ++at[moved] == ranges[moved]->src(0)->hi; ++moved)
        at[moved] = 0;
    }
    CHECK(std::ranges::count(lines, 1) == static_cast<int64_t>(lines.size()));
  }

  TEST_CASE("partial sums of columns are swept part by part") {
    Arena arena;
    ArenaScope scope(arena);
    Target target;
    target.vector_bytes = 64;
    target.vector_registers = 32;
    UOp part = range(0, index(8), Role::Loop), column = range(1, index(4096), Role::Loop),
        k = range(2, index(128), Role::Reduce), stream = range(3, index(4), Role::Reduce);
    UOp over[] = {k, stream};
    UOp row = (stream * 8 + part) * 128 + k;
    UOp sum = reduce_over(Op::Add, at(param(1, DType::f32, 1 << 24), row * 4096 + column), over);
    UOp place = at(param(0, DType::f32, 8 * 4096), part * 4096 + column);
    UOp end =
        make(Op::End, DType::none, {make(Op::Store, DType::none, {place, sum}), part, column});
    UOp body = simplify(make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({}))));
    const std::string lane = "order 3 2; split 1 16 vector", upcast = "; split 1 8 upcast",
                      block = "; split 2 4 unroll; accumulate 3; order 3 1";
    CHECK(to_string(choose_actions(body, target).actions) == lane + upcast + block);
    target.threads = 2;
    CHECK(to_string(choose_actions(body, target).actions) == lane + upcast + block + "; part 0 1");
  }

  TEST_CASE("sums of channels are folded as memory lies") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = avx512();
    target.l2_bytes = 1 << 20;
    auto chosen = [&](int64_t n, int64_t k, bool near_first = true) {
      UOp c = range(0, index(32), Role::Loop), image = range(1, index(n), Role::Reduce),
          pixel = range(2, index(k), Role::Reduce);
      UOp over[] = {image, pixel};
      UOp from = near_first ? (image * 32 + c) * k + pixel : (c * n + image) * k + pixel;
      UOp sum = reduce_over(Op::Add, at(param(1, DType::f32, 32 * n * k), from), over);
      UOp body = kernel(at(param(0, DType::f32, 32), c), sum + sum, {c});
      return to_string(choose_actions(body, target).actions);
    };
    const std::string inside = "split 2 16 vector; split 2 5 upcast; accumulate 1; order 1 ";
    CHECK(chosen(512, 400) == "stage sum 0; " + inside + "3");
    auto is_other = [](const std::string& list) {
      return list.find("accumulate") == std::string::npos;
    };
    CHECK(is_other(chosen(512, 400, false)));  // a channel lies together
    CHECK(is_other(chosen(512, 4096)));        // long pieces come fast
    CHECK(is_other(chosen(16, 400)));          // near
    target.threads = 2;
    CHECK(chosen(512, 400) == "stage sum 0; " + inside + "3; part 0 16");
    target.threads = 3;  // does not divide
    CHECK(chosen(512, 400) == "stage sum 0; " + inside + "3; part 0 11");
  }

  TEST_CASE("partial gradients of weights are shared out by parts, and packed once") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = avx512();
    // Of x(512, 32, 12, 12) and y(512, 32, 10, 10), in 8 parts of the pictures.
    UOp part = range(0, index(8), Role::Loop), o = range(1, index(32), Role::Loop),
        c = range(2, index(32), Role::Loop), dy = range(3, index(3), Role::Loop),
        dx = range(4, index(3), Role::Loop), n = range(5, index(64), Role::Reduce),
        y = range(6, index(10), Role::Reduce), x = range(7, index(10), Role::Reduce);
    UOp over[] = {n, y, x}, picture = part * 64 + n;
    UOp pixel =
        at(param(1, DType::f32, 512 * 4608), ((picture * 32 + c) * 12 + y + dy) * 12 + x + dx);
    UOp from = at(param(2, DType::f32, 512 * 3200), ((picture * 32 + o) * 10 + y) * 10 + x);
    UOp sum = reduce_over(Op::Add, pixel * from, over);
    UOp place = at(param(0, DType::f32, 8 * 9216), (((part * 32 + o) * 32 + c) * 3 + dy) * 3 + dx);
    UOp end = make(Op::End, DType::none,
                   {make(Op::Store, DType::none, {place, sum}), part, o, c, dy, dx});
    UOp body = simplify(make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({}))));
    const double alone = executed(lower(optimize(body, target), target));
    target.threads = 2;
    const Program shared = lower(optimize(body, target), target);
    CHECK(executed(shared) < 1.01 * alone);
    CHECK(shared.global_extent == 8);
    // What is packed at a time lies in L1, however large the next cache is.
    for (int64_t megabytes : {1, 2, 4}) {
      target.l2_bytes = megabytes << 20;
      CAPTURE(megabytes);
      CHECK(to_string(choose_actions(body, target).actions).find("accumulate") !=
            std::string::npos);
    }
  }

  TEST_CASE("each thread packs once") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = avx512();
    for (int64_t n : {512, 1024}) {
      target.threads = 1;
      const double alone = executed(lower(optimize(matmul_body(n, n, n), target), target));
      target.threads = 2;
      Program shared = lower(optimize(matmul_body(n, n, n), target), target);
      CHECK(shared.global_extent == 2);
      CHECK(executed(shared) < 1.12 * alone);
    }
  }

  TEST_CASE("products are shared out evenly") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = avx512();
    // Blocks of rows part the share of a thread evenly too.
    target.l2_bytes = 1 << 20;
    target.threads = 1;
    const double alone = executed(lower(optimize(matmul_body(1096, 1000, 1024), target), target));
    target.threads = 4;
    CHECK(executed(lower(optimize(matmul_body(1096, 1000, 1024), target), target)) < 1.1 * alone);
  }

  TEST_CASE("threads repeat no staged sum, and packing a few times") {
    Arena arena;
    ArenaScope scope(arena);
    Target target = avx512();
    // A convolution of small pictures: x(400, 128, 4, 4), w(128, 128, 3, 3), padded by 1.
    UOp n = range(0, index(400), Role::Loop), o = range(1, index(128), Role::Loop),
        y = range(2, index(4), Role::Loop), x = range(3, index(4), Role::Loop),
        c = range(4, index(128), Role::Reduce), dy = range(5, index(3), Role::Reduce),
        dx = range(6, index(3), Role::Reduce);
    UOp over[] = {c, dy, dx};
    UOp row = y + dy + -1, column = x + dx + -1;
    UOp inside =
        lt(index(-1), row) & lt(row, index(4)) & lt(index(-1), column) & lt(column, index(4));
    UOp pixel = where(inside, ((n * 128 + c) * 4 + row) * 4 + column, invalid());
    UOp weight = at(param(1, DType::f32, 128 * 1152), ((o * 128 + c) * 3 + dy) * 3 + dx);
    UOp sum = reduce_over(Op::Add, weight * at(param(2, DType::f32, 400 * 2048), pixel), over);
    UOp place = at(param(0, DType::f32, 400 * 2048), ((n * 128 + o) * 4 + y) * 4 + x);
    UOp store = make(Op::Store, DType::none, {place, sum});
    UOp end = make(Op::End, DType::none, {store, n, o, y, x});
    UOp body = simplify(make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({}))));
    const double alone = executed(lower(optimize(body, target), target));
    target.threads = 2;
    const Program shared = lower(optimize(body, target), target);
    CHECK(executed(shared) < 1.1 * alone);
    CHECK(shared.has_global);
  }

  // A convolution of x(64, 32, 12, 12) with w(32, 32, 3, 3); of its sums `more` is stored too.
  UOp convolution(bool more) {
    UOp n = range(0, index(64), Role::Loop), o = range(1, index(32), Role::Loop),
        y = range(2, index(10), Role::Loop), x = range(3, index(10), Role::Loop),
        c = range(4, index(32), Role::Reduce), dy = range(5, index(3), Role::Reduce),
        dx = range(6, index(3), Role::Reduce);
    UOp over[] = {c, dy, dx};
    UOp pixel = at(param(1, DType::f32, 64 * 4608), ((n * 32 + c) * 12 + y + dy) * 12 + x + dx);
    UOp weight = at(param(2, DType::f32, 9216), ((o * 32 + c) * 3 + dy) * 3 + dx);
    UOp sum = reduce_over(Op::Add, pixel * weight, over);
    auto stored = [&](UOp memory, UOp value) {
      UOp place = at(memory, ((n * 32 + o) * 10 + y) * 10 + x);
      UOp store = make(Op::Store, DType::none, {place, value});
      return make(Op::End, DType::none, {store, n, o, y, x});
    };
    std::vector<UOp> ends{stored(param(0, DType::f32, 64 * 3200), sum)};
    if (more)
      ends.push_back(stored(param(3, DType::boolean, 64 * 3200), lt(sum, constant(DType::f32, 0))));
    return simplify(make(Op::Sink, DType::none, ends, Arg::of(intern_arg({}))));
  }

  TEST_CASE("a product is tiled whatever is made of its sums") {
    Arena arena;
    ArenaScope scope(arena);
    const Target target = avx512();
    const double one = executed(lower(optimize(convolution(false), target), target));
    const double two = executed(lower(optimize(convolution(true), target), target));
    CHECK(two < 1.05 * one);
  }

  // The gradient of a convolution's input: out[n, c, y, x] = sum of g[n, o, y - dy, x - dx] * w.
  UOp input_gradient(int64_t images) {
    UOp n = range(0, index(images), Role::Loop), c = range(1, index(32), Role::Loop),
        y = range(2, index(12), Role::Loop), x = range(3, index(12), Role::Loop),
        dy = range(4, index(3), Role::Reduce), dx = range(5, index(3), Role::Reduce),
        o = range(6, index(32), Role::Reduce);
    UOp over[] = {dy, dx, o};
    UOp inside = logical_not(lt(y, dy)) & lt(y, dy + 10) & logical_not(lt(x, dx)) & lt(x, dx + 10);
    UOp place = where(inside, ((n * 32 + o) * 10 + y + dy * -1) * 10 + x + dx * -1, invalid());
    UOp product = at(param(1, DType::f32, images * 3200), place) *
                  at(param(2, DType::f32, 9216), ((o * 32 + c) * 3 + dy) * 3 + dx);
    UOp sum = reduce_over(Op::Add, where(inside, product, constant(DType::f32, 0)), over);
    UOp to = at(param(0, DType::f32, images * 4608), ((n * 32 + c) * 12 + y) * 12 + x);
    UOp store = make(Op::Store, DType::none, {to, sum});
    UOp end = make(Op::End, DType::none, {store, n, c, y, x});
    return simplify(make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({}))));
  }

  // Of sums over windows of padded pictures, the channels apart or together.
  UOp padded_convolution(int64_t channels, bool apart, int64_t side = 14, int64_t stride = 1) {
    const int64_t all = 8 * channels * side * side, out = side / stride;
    UOp n = range(0, index(8), Role::Loop), o = range(1, index(channels), Role::Loop),
        y = range(2, index(out), Role::Loop), x = range(3, index(out), Role::Loop),
        c = range(4, index(channels), Role::Reduce), dy = range(5, index(3), Role::Reduce),
        dx = range(6, index(3), Role::Reduce);
    std::vector<UOp> over = {dy, dx};
    if (!apart) over.insert(over.begin(), c);
    UOp i = y * stride + dy + -1, j = x * stride + dx + -1, from = apart ? o : c,
        w = apart ? o * 9 : (o * channels + c) * 9;
    UOp inside = logical_not(lt(i, index(0))) & lt(i, index(side)) & logical_not(lt(j, index(0))) &
                 lt(j, index(side));
    UOp place = where(inside, ((n * channels + from) * side + i) * side + j, invalid());
    UOp seen = where(inside, at(param(1, DType::f32, all), place), constant(DType::f32, 0));
    UOp weight = at(param(2, DType::f32, channels * 9 * (apart ? 1 : channels)), w + dy * 3 + dx);
    UOp to =
        at(param(0, DType::f32, all / stride / stride), ((n * channels + o) * out + y) * out + x);
    return simplify(kernel(to, reduce_over(Op::Add, seen * weight, over), {n, o, y, x}));
  }

  TEST_CASE("windows of padded pictures are read from planes, each element put there once") {
    Arena arena;
    ArenaScope scope(arena);
    for (bool apart : {false, true}) {
      CAPTURE(apart);
      const UOp body = optimize(padded_convolution(256, apart), avx512());
      bool plane = false;
      for (UOp n : toposort(body)) {
        if (n->is(Op::Stage) && n->src(0)->is(Op::Where)) plane = true;
        if (n->is(Op::Reduce)) CHECK(!n->src(0)->is(Op::Where));
      }
      CHECK(plane);
    }
  }

  TEST_CASE("lanes go along positions of windows that lie apart, not along a window") {
    Arena arena;
    ArenaScope scope(arena);
    for (UOp n : toposort(optimize(padded_convolution(144, true, 56, 2), avx512())))
      if (n->is(Op::Reduce))
        for (Node* r : closed_ranges(n)) CHECK(range_role(UOp(r)) != Role::Vector);
  }

  TEST_CASE("no gate is left beside products of overlapping windows") {
    Arena arena;
    ArenaScope scope(arena);
    const Target target = avx512();
    const Program p = lower(optimize(input_gradient(64), target), target);
    int reduces = 0, gated = 0;
    for (Node* n : p.linear->src()) {
      if (n->op == Op::Range) reduces += range_role(UOp(n)) == Role::Reduce;
      if (n->op == Op::End) reduces -= range_role(UOp(n->sources[1])) == Role::Reduce;
      gated += reduces && n->op == Op::Load && n->nsrc == 2;
    }
    CHECK(gated == 0);
  }
}
