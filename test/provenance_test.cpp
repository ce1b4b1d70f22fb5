// The user's lines that went into a kernel: through fusion, gradients and library code.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "engine/realize.h"
#include "ir/provenance.h"

using namespace mote;

namespace {

std::string line(int n) { return std::string(__FILE__) + ":" + std::to_string(n); }

// All places of all kernels; every kernel must name some, and only this file's.
std::vector<std::string> places(const std::vector<Tensor>& tensors) {
  std::vector<std::string> all;
  for (const KernelReport& k : explain(tensors).kernels) {
    CHECK_MESSAGE(!k.places.empty(), k.name);
    for (const std::string& p : k.places) {
      CHECK_MESSAGE(p.starts_with(__FILE__ ":"), p);
      all.push_back(p);
    }
  }
  return all;
}

bool names(const std::vector<std::string>& all, int n) {
  return std::ranges::find(all, line(n)) != all.end();
}

Tensor data(int64_t n) {
  return from_data(std::vector<float>(static_cast<size_t>(n), 1.f), n);
}

}  // namespace

TEST_SUITE("provenance") {
  TEST_CASE("a fused kernel names every line that went into it") {
    Tensor a = data(100), b = data(100);
    const int first = __LINE__ + 1;
    Tensor c = a + b;
    Tensor d = c.exp();
    Tensor e = d * 3;
    ScheduleReport r = explain(std::vector<Tensor>{e});
    REQUIRE(r.kernels.size() == 1);
    for (int i = 0; i < 3; ++i) CHECK_MESSAGE(names(r.kernels[0].places, first + i), i);
  }

  TEST_CASE("equal kernels each name their own line") {
    Tensor a = data(100), b = data(100), c = data(100), d = data(100);
    const int first = __LINE__ + 1;
    Tensor e = a + b;
    Tensor f = c + d;
    ScheduleReport r = explain(std::vector<Tensor>{e, f});
    REQUIRE(r.kernels.size() == 2);
    CHECK(r.distinct == 1);
    for (const KernelReport& k : r.kernels) {
      CHECK(k.places.size() == 1);
      CHECK((names(k.places, first) || names(k.places, first + 1)));
    }
    CHECK(r.kernels[0].places != r.kernels[1].places);
  }

  TEST_CASE("inside the library the user's line is kept") {
    Tensor x = data(64).reshape({8, 8}), w = data(8);
    const int here = __LINE__ + 1;
    Tensor y = x.softmax(1).layer_norm({8}, w).scaled_dot_product_attention(x, x);
    std::vector<std::string> all = places({y});
    CHECK(std::ranges::all_of(all, [&](const std::string& p) { return p == line(here); }));
  }

  TEST_CASE("gradient kernels name the lines of the forward pass") {
    Tensor x = data(6).reshape({2, 3});
    Tensor w = (data(12) * 2).reshape({3, 4}).requires_grad_();
    w.realize();
    const int first = __LINE__ + 1;
    Tensor h = x.matmul(w);
    Tensor y = h.sigmoid();
    Tensor loss = y.square().mean();
    loss.backward();
    std::vector<std::string> all = places({w.grad()});
    for (int i = 0; i < 3; ++i) CHECK(names(all, first + i));
  }

  TEST_CASE("a write names its line") {
    Tensor w = data(10), g = data(10);
    const int here = __LINE__ + 1;
    w.sub_(g * 0.1);
    CHECK(names(places({w}), here));
  }

  TEST_CASE("each thread has its own line, and an error ends the call") {
    auto id_of = [](int n) {
      CallScope call("test", std::source_location::current());
      return n ? current_provenance() : 0;
    };
    uint32_t here = id_of(1), there = 0;
    std::thread([&] { there = id_of(1); }).join();
    CHECK(here == there);
    CHECK(provenance(here).method == std::string("test"));
    CHECK_THROWS_AS(data(3) + data(4), Error);
    CHECK(current_provenance() == 0);
    CHECK(current_method() == std::string());
  }
}
