// Distributions by their moments and quantiles, over enough numbers that five deviations tell.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cmath>

using namespace mote;

namespace {

constexpr int64_t kCount = 40000;

Tensor drawn(DType d = DType::f64) { return zeros({kCount}, d); }
double average(const Tensor& t) { return t.to_double().mean().item<double>(); }
// Of numbers with this deviation.
void check_mean(const char* what, const Tensor& t, double want, double deviation) {
  const double most = 5 * deviation / std::sqrt(static_cast<double>(t.numel()));
  CHECK_MESSAGE(std::fabs(average(t) - want) <= most, std::string(what), ": ", average(t), " of ",
                want);
}
// The share of numbers below `at`.
void check_share(const char* what, const Tensor& t, double at, double want) {
  check_mean(what, (t < at).to_double(), want, std::sqrt(want * (1 - want)));
}

TEST_CASE("noise: distributions have their moments and quantiles") {
  manual_seed(11);
  Tensor x = drawn();
  check_mean("bernoulli", x.bernoulli_(0.3), 0.3, 0.46);
  check_mean("exponential", x.exponential_(2), 0.5, 0.5);
  check_share("exponential", x, std::log(2.0) / 2, 0.5);
  CHECK((x > -1e-300).all().item<bool>());
  check_mean("geometric", x.geometric_(0.25), 4, std::sqrt(12.0));
  check_share("geometric", x, 1.5, 0.25);
  CHECK((x.eq(x.round()) & (x >= 1)).all().item<bool>());
  x.cauchy_(1, 2);
  check_share("cauchy", x, 1, 0.5);
  check_share("cauchy", x, 3, 0.75);
  x.log_normal_(0.5, 0.25);
  check_share("log_normal", x, std::exp(0.5), 0.5);
  check_mean("log_normal", x.log(), 0.5, 0.25);
  Tensor whole = drawn(DType::i32).random_(-3, 5);
  CHECK(whole.min().item<int>() == -3);
  CHECK(whole.max().item<int>() == 4);
  check_mean("random", whole, 0.5, std::sqrt(63.0 / 12));
  CHECK(randint_like(x, 2, 4).dtype() == DType::f64);
  for (double rate : {0.0, 0.7, 30.0}) {
    Tensor counts = poisson(full({4000}, rate, DType::f64));
    check_mean("poisson", counts, rate, std::sqrt(rate) + 1e-12);
    check_mean("poisson's variance", (counts - rate).square(), rate,
               std::sqrt(2 * rate * rate + rate));
  }
  Tensor z = normal(full({kCount}, 3.0, DType::f64), full({kCount}, 0.5, DType::f64));
  check_mean("normal", z, 3, 0.5);
  check_share("normal", z, 3.5, 0.8413447);
}

TEST_CASE("noise: activations that draw keep what they promise") {
  manual_seed(12);
  Tensor x = randn({kCount}, {DType::f64, {}}).realize();
  Tensor dropped = alpha_dropout(x, 0.3, true);
  check_mean("alpha_dropout", dropped, 0, 1);
  check_mean("alpha_dropout's variance", dropped.square(), 1, 1.6);
  CHECK(alpha_dropout(x, 0.3, false).equal(x));
  Tensor slopes = rrelu(-ones({kCount}, DType::f64), 0.1, 0.3, true);
  check_mean("rrelu", slopes, -0.2, 0.2 / std::sqrt(12.0));
  CHECK(rrelu(tensor({-2.f, 3.f}), 0.1, 0.3).to_vector<float>()[0] == doctest::Approx(-0.4));
  Tensor logits = tensor({0.f, std::log(3.f)}).expand({kCount, 2}),
         hard = gumbel_softmax(logits, 0.5, true);
  check_mean("gumbel_softmax", hard.select(1, 1), 0.75, 0.44);
  CHECK((hard.sum(1) - 1).abs().max().item<float>() < 1e-6);
  Tensor channels = dropout2d(ones({200, 20, 3, 4}), 0.25, true);
  Tensor kept = channels.amax(Axes{2, 3}), all = channels.amin(Axes{2, 3});
  CHECK(kept.equal(all));  // whole channels
  check_mean("dropout2d", kept, 1, 0.58);
  Tensor features = feature_alpha_dropout(ones({200, 20, 3}), 0.25, true);
  CHECK(features.amax(2).equal(features.amin(2)));
}

}  // namespace
