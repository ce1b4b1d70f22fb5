// Scans and sorts long enough to use every level; the golden cases hold the short ones.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

using namespace mote;

namespace {

Tensor from(const std::vector<int64_t>& v, const char* device = "INTERP") {
  return from_data(v, {static_cast<int64_t>(v.size())}, {DType::i64, device});
}

// Op by op, as INTERP does it, a running fold takes work in the square of its blocks.
std::vector<const char*> devices_for(int64_t n) {
  if (n > 5000) return {"CPU"};
  return {"CPU", "INTERP"};
}

// Small numbers in no order, with many ties.
std::vector<int64_t> scattered(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i * 7919 % 101 - 50);
  return out;
}

std::vector<int64_t> stable_order(const std::vector<int64_t>& in, bool descending) {
  std::vector<int64_t> order(in.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const int64_t x = in[static_cast<size_t>(a)], y = in[static_cast<size_t>(b)];
    return descending ? x > y : x < y;
  });
  return order;
}

}  // namespace

TEST_SUITE("tensor scan") {
  TEST_CASE("running sums of any length") {
    for (int64_t n : {1, 31, 32, 33, 513, 4096, 4097, 65537, 70003}) {
      std::vector<int64_t> in = scattered(n), want = in;
      for (size_t i = 1; i < want.size(); ++i) want[i] += want[i - 1];
      for (const char* device : devices_for(n))
        CHECK(from(in, device).cumsum(0).to_vector<int64_t>() == want);
    }
  }

  TEST_CASE("running maxima and where they were last seen") {
    for (int64_t n : {4500, 66000}) {
      std::vector<int64_t> in = scattered(n), want = in, at(in.size(), 0);
      for (size_t i = 1; i < want.size(); ++i) {
        bool rises = in[i] >= want[i - 1];
        at[i] = rises ? static_cast<int64_t>(i) : at[i - 1];
        want[i] = std::max(want[i - 1], in[i]);
      }
      for (const char* device : devices_for(n)) {
        ValuesIndices got = from(in, device).cummax(0);
        CHECK(got.values.to_vector<int64_t>() == want);
        CHECK(got.indices.to_vector<int64_t>() == at);
      }
    }
  }

  TEST_CASE("sorting is stable in both directions") {
    std::vector<int64_t> in = scattered(300);
    for (bool descending : {false, true}) {
      std::vector<int64_t> order = stable_order(in, descending);
      CHECK(from(in).argsort(0, descending).to_vector<int64_t>() == order);
      CHECK(from(in).to_float().argsort(0, descending).to_vector<int64_t>() == order);
    }
  }

  TEST_CASE("long axes are sorted by digits, stably, in several blocks, in every dtype") {
    for (int64_t n : {1024, 1025, 2049, 70003}) {
      CAPTURE(n);
      const std::vector<int64_t> in = scattered(n);
      const Tensor t = from_data(in, {n}, {DType::i64, "CPU"}) * (int64_t{1} << 20);
      for (bool descending : {false, true}) {
        const std::vector<int64_t> order = stable_order(in, descending);
        for (DType d : {DType::i64, DType::f64, DType::f32, DType::i32})
          CHECK(t.to(d).argsort(0, descending).to_vector<int64_t>() == order);
      }
    }
  }

  TEST_CASE("long rows are sorted each for itself, NaN last") {
    const int64_t rows = 3, n = 2000;
    std::vector<float> data;
    for (int64_t v : scattered(rows * n)) data.push_back(v == 7 ? NAN : static_cast<float>(v));
    const std::vector<float> got =
        from_data(data, {rows, n}, {DType::f32, "CPU"}).sort(1).values.to_vector<float>();
    for (int64_t r = 0; r < rows; ++r) {
      auto begin = data.begin() + r * n;
      auto nans = std::stable_partition(begin, begin + n, [](float x) { return !std::isnan(x); });
      std::sort(begin, nans);
    }
    for (size_t i = 0; i < data.size(); ++i)
      REQUIRE((got[i] == data[i] || (std::isnan(got[i]) && std::isnan(data[i]))));
  }

  TEST_CASE("the first few of an axis are those of a stable sort") {
    for (int64_t n : {255, 257, 1000, 5003})
      for (int64_t k : {1, 7, 16, 17, 100, 250}) {
        CAPTURE(n);
        CAPTURE(k);
        const std::vector<int64_t> in = scattered(n);
        const Tensor t = from_data(in, {n}, {DType::i64, "CPU"}).to(DType::f32);
        for (bool largest : {false, true}) {
          std::vector<int64_t> order = stable_order(in, largest);
          order.resize(static_cast<size_t>(k));
          CHECK(t.topk(k, 0, largest).indices.to_vector<int64_t>() == order);
          if (!largest)
            CHECK(t.kthvalue(k, 0).values.item<float>() ==
                  static_cast<float>(in[static_cast<size_t>(order.back())]));
        }
      }
    CHECK(from(scattered(400)).topk(0).values.numel() == 0);
  }
}
