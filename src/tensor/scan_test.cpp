// Scans and sorts long enough to use every level; the golden cases hold the short ones.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <vector>

using namespace mote;

namespace {

const Options on_interp{DType::i64, "INTERP"};

Tensor from(const std::vector<int64_t>& v) {
  return from_data(v, {static_cast<int64_t>(v.size())}, on_interp);
}

// Small numbers in no order, with many ties.
std::vector<int64_t> scattered(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i * 7919 % 101 - 50);
  return out;
}

}  // namespace

TEST_SUITE("tensor scan") {
  TEST_CASE("running sums of any length") {
    for (int64_t n : {1, 31, 32, 33, 513, 65537, 70003}) {
      std::vector<int64_t> in = scattered(n), want = in;
      for (size_t i = 1; i < want.size(); ++i) want[i] += want[i - 1];
      CHECK(from(in).cumsum(0).to_vector<int64_t>() == want);
    }
  }

  TEST_CASE("running maxima and where they were last seen") {
    std::vector<int64_t> in = scattered(66000), want = in, at(in.size(), 0);
    for (size_t i = 1; i < want.size(); ++i) {
      bool rises = in[i] >= want[i - 1];
      at[i] = rises ? static_cast<int64_t>(i) : at[i - 1];
      want[i] = std::max(want[i - 1], in[i]);
    }
    ValuesIndices got = from(in).cummax(0);
    CHECK(got.values.to_vector<int64_t>() == want);
    CHECK(got.indices.to_vector<int64_t>() == at);
  }

  TEST_CASE("sorting is stable in both directions") {
    std::vector<int64_t> in = scattered(300);
    for (bool descending : {false, true}) {
      std::vector<int64_t> order;
      for (int64_t i = 0; i < 300; ++i) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        int64_t x = in[static_cast<size_t>(a)], y = in[static_cast<size_t>(b)];
        return descending ? x > y : x < y;
      });
      CHECK(from(in).argsort(0, descending).to_vector<int64_t>() == order);
      CHECK(from(in).to_float().argsort(0, descending).to_vector<int64_t>() == order);
    }
  }
}
