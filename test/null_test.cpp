// NULL stores nothing; arrays without elements run nothing. (Its kernels: test/ops_test.cpp.)
#include <doctest/doctest.h>

#include <mote/mote.h>

#include "engine/realize.h"

using namespace mote;

TEST_CASE("NULL: any size is free, and reading back is an error") {
  Tensor x = zeros({1 << 20, 1 << 24}, {.device = "NULL"}).contiguous();
  Tensor y = (x + 1).contiguous().sum(0);
  y.realize();
  CHECK(y.device() == "NULL");
  CHECK_THROWS_WITH_AS(y.sum().item<float>(),
                       doctest::Contains("the device NULL holds no data to read back"), Error);
}

TEST_CASE("empty arrays: nothing is launched for them") {
  Tensor none = zeros({0, 3}).contiguous();
  CHECK(explain(std::vector<Tensor>{none + 1}).kernels.empty());
  CHECK((none + 1).realize().numel() == 0);
  Tensor sums = none.sum(0);
  CHECK(explain(std::vector<Tensor>{sums}).kernels.size() == 1);
  CHECK(sums.to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(cat({none, ones({1, 3})}, 0).to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("empty arrays: a write to no element keeps the order of the others") {
  Tensor x = zeros({4}).contiguous();
  x.realize();
  x.add_(1);
  x.set({Slice(0, 0)}, zeros({0}));
  CHECK((x * 2).to_vector<float>() == std::vector<float>{2, 2, 2, 2});
}
