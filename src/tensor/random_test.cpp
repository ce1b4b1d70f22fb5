#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace mote;

namespace {

const Options on_interp{DType::none, "INTERP"};

double mean_of(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x;
  return sum / static_cast<double>(v.size());
}

}  // namespace

TEST_SUITE("tensor random") {
  TEST_CASE("a seed gives the same numbers again, calls give different ones") {
    manual_seed(3);
    auto a = rand({10}, on_interp).to_vector<double>(),
         b = rand({10}, on_interp).to_vector<double>();
    manual_seed(3);
    Tensor first = rand({10}, on_interp), second = rand({10}, on_interp);
    CHECK(second.to_vector<double>() == b);
    CHECK(first.to_vector<double>() == a);
    CHECK(a != b);
    manual_seed(4);
    CHECK(rand({10}, on_interp).to_vector<double>() != a);
  }

  TEST_CASE("a state taken and assigned again continues where it was") {
    manual_seed(5);
    rand({3}, on_interp).realize();
    std::vector<Tensor> state = random_state("INTERP");
    const auto seed = state[0].item<uint64_t>(), counter = state[1].item<uint64_t>();
    auto next = rand({10}, on_interp).to_vector<double>();
    manual_seed(6);
    CHECK(rand({10}, on_interp).to_vector<double>() != next);
    state[0].assign(from_bytes(&seed, {}, DType::u64, "INTERP"));
    state[1].assign(from_bytes(&counter, {}, DType::u64, "INTERP"));
    CHECK(rand({10}, on_interp).to_vector<double>() == next);
  }

  TEST_CASE("moments") {
    manual_seed(0);
    auto u = rand({4000}, on_interp).to_vector<double>();
    CHECK(std::abs(mean_of(u) - 0.5) < 0.03);
    CHECK(*std::min_element(u.begin(), u.end()) >= 0);
    CHECK(*std::max_element(u.begin(), u.end()) < 1);
    Tensor z = randn({4000}, on_interp);
    CHECK(std::abs(z.mean().item<double>()) < 0.06);
    CHECK(std::abs(z.std().item<double>() - 1) < 0.06);
    Tensor n = randint(-2, 3, {2000}, on_interp);
    CHECK(n.dtype() == DType::i64);
    CHECK(n.amin().item<int64_t>() == -2);
    CHECK(n.amax().item<int64_t>() == 2);
  }

  TEST_CASE("permutations and draws") {
    manual_seed(1);
    std::vector<int64_t> p = randperm(20, on_interp).to_vector<int64_t>(), sorted = p, all;
    for (int64_t i = 0; i < 20; ++i) all.push_back(i);
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == all);
    CHECK(p != all);
    Tensor weights = tensor({0.0, 1.0, 0.0, 3.0}, on_interp);
    auto drawn = weights.multinomial(400, true).to_vector<int64_t>();
    auto threes = std::count(drawn.begin(), drawn.end(), 3);
    CHECK(threes + std::count(drawn.begin(), drawn.end(), 1) == 400);
    CHECK(std::abs(static_cast<double>(threes) - 300) < 45);
    auto both = weights.multinomial(2).to_vector<int64_t>();
    std::sort(both.begin(), both.end());
    CHECK(both == std::vector<int64_t>{1, 3});
  }

  TEST_CASE("dropout keeps the mean and is off when not training") {
    manual_seed(2);
    Tensor x = ones({4000}, on_interp), y = x.dropout(0.25);
    CHECK(std::abs(y.mean().item<double>() - 1) < 0.05);
    CHECK(std::abs(y.eq(0).to_float().mean().item<double>() - 0.25) < 0.03);
    CHECK(x.dropout(0.25, false).to_vector<float>() == x.to_vector<float>());
  }
}
