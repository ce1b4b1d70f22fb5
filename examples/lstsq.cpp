// Linear regression in one call: least squares, and how sure its answer is.
#include <mote/linalg.h>
#include <mote/mote.h>

#include <cstdio>

using namespace mote;

int main() {
  manual_seed(2);
  const int64_t count = 500;
  const Tensor truth = tensor({2.0, -1.0, 0.5, 3.0});  // three slopes and an intercept
  Tensor features = randn({count, 3});
  Tensor x = cat({features, ones({count, 1})}, 1);  // a column of ones for the intercept
  Tensor y = x.mv(truth) + randn({count}) * 0.2;
  realize({x, y});  // otherwise they would be drawn again for each use

  linalg::LeastSquares fit = linalg::lstsq(x, y.unsqueeze(1));
  Tensor weights = fit.solution.squeeze(1);

  // The spread of the errors, and from it that of each weight.
  Tensor error = y - x.mv(weights);
  Tensor variance = error.square().sum() / (count - x.size(1));
  Tensor deviation = (linalg::inv(x.t().matmul(x)).diagonal() * variance).sqrt();
  Tensor r2 = 1 - error.square().sum() / (y - y.mean()).square().sum();

  realize({weights, deviation, r2});
  for (int64_t i = 0; i < 4; ++i)
    std::printf("weight %d: %6.3f +- %.3f  (true %4.1f)\n", static_cast<int>(i),
                weights[i].item<double>(), deviation[i].item<double>(), truth[i].item<double>());
  std::printf("R^2 %.4f, rank %d\n", r2.item<double>(), fit.rank.item<int>());
}
