#include "optimize/cost.h"

#include <doctest/doctest.h>

#include "optimize/optimize.h"
#include "optimize/small_kernels_test.h"

using namespace mote;

namespace {

Target avx512() {
  Target t;
  t.vector_bytes = 64, t.vector_registers = 32, t.fma = true;
  return t;
}

// In the time that a plain list takes, how much does this one take?
double share(UOp body, const char* actions, const char* of = "") {
  auto total = [&](const char* list) {
    UOp tuned = apply_all(body, parse_actions(list));
    REQUIRE(tuned);
    return cost(tuned, avx512()).total;
  };
  return total(actions) / total(of);
}

// out[i, j] = x[j, i], rows of x so many elements apart.
UOp turned(int64_t n, int64_t apart) {
  UOp i = range(0, index(n), Role::Loop), j = range(1, index(n), Role::Loop);
  return kernel(at(param(0, DType::f32, n * n), i * n + j),
                at(param(1, DType::f32, n * apart), j * apart + i), {i, j});
}

}  // namespace

TEST_SUITE("actions") {
  TEST_CASE("cost: lanes, tiles and blocks pay where they do on machines") {
    Arena arena;
    ArenaScope scope(arena);
    const UOp product = matmul_body(256, 256, 256);
    const char* tile = "split 0 6 upcast; split 1 16 vector; split 1 4 upcast";
    CHECK(share(product, "split 1 16 vector") < 0.5);
    CHECK(share(product, tile, "split 1 16 vector") < 0.5);
    CHECK(share(product, "split 0 16 vector", "split 1 16 vector") > 2);  // lanes lie apart
    // More sums than there are registers.
    CHECK(share(product, "split 0 16 upcast; split 1 16 vector; split 1 4 upcast", tile) > 1.3);
    // What no cache holds is read again for every few rows.
    const UOp large = matmul_body(2048, 2048, 2048);
    const char* blocked =
        "split 0 6 upcast; split 1 16 vector; split 1 4 upcast; split 2 128 reduce; accumulate 2; "
        "order 2 1 0; stage 2 6 5 4";
    CHECK(share(large, blocked, tile) < 0.8);
    CHECK(share(product, blocked, tile) > 0.9);
  }

  TEST_CASE("cost: a transposition in squares, and lines that crowd each other out") {
    Arena arena;
    ArenaScope scope(arena);
    const char* squares = "split 1 16 vector; split 0 16 upcast";
    CHECK(share(turned(1024, 1024), squares, "split 1 16 vector") < 0.6);
    auto total = [](UOp body) {
      return cost(apply_all(body, parse_actions("split 1 64 upcast")), avx512()).total;
    };
    CHECK(total(turned(1024, 1024)) > 1.2 * total(turned(1024, 1040)));
  }

  TEST_CASE("cost: it does not depend on how many threads there are") {
    Arena arena;
    ArenaScope scope(arena);
    Target many = avx512();
    many.threads = 16, many.cache_bytes *= 16;
    const UOp body = matmul_body(300, 500, 700);
    CHECK(cost(body, avx512()).total == cost(body, many).total);
  }

  TEST_CASE("cost: rounds, tiles and memory of a kernel") {
    Arena arena;
    ArenaScope scope(arena);
    const UOp body = matmul_body(8, 32, 64);
    const Spent plain = cost(body, avx512());
    CHECK(plain.steps == 8 * 32 + 8 * 32 * 64);
    CHECK(plain.tile == 1);
    const Spent staged = cost(apply_all(body, parse_actions("split 1 16 vector; stage 2 2 1 3")),
                              avx512());
    CHECK(staged.tile == 16);
    CHECK(staged.stages == 1);
    CHECK(staged.scratch_bytes == 32 * 64 * 4);
    CHECK(staged.steps == 8 * 2 + 8 * 2 * 64 + 2 * 64);
  }
}
