#include <doctest/doctest.h>
#include <mote/models.h>

using namespace mote;

TEST_CASE("models: U-Net keeps the size of its images, and every parameter has its gradient") {
  manual_seed(3);
  Options exact{DType::f64, {}};
  models::UNet net({
      .in_channels = 2, .out_channels = 3, .features = {2, 4},
              .groups = 2, .options = exact
  });
  Tensor images = randn({2, 2, 2, 4}, exact).realize();
  Tensor out = net(images);
  CHECK(out.shape() == std::vector<int64_t>{2, 3, 2, 4});
  out.square().sum().backward();
  std::vector<NamedTensor> named = named_parameters(net);
  CHECK(named.front().name == "down.0.conv1.weight");
  std::vector<Tensor> gradients;
  for (const NamedTensor& n : named) gradients.push_back(n.tensor.grad().abs().sum());
  for (Tensor* t : {&net.down[1].conv1.weight, &net.up[0].grow.weight, &net.down[0].conv2.weight})
    gradients.push_back(t->grad().sum());
  realize(gradients);
  for (size_t i = 0; i < named.size(); ++i) {
    CAPTURE(named[i].name);
    CHECK(gradients[i].item<double>() > 0);
  }
  // By differences: through pools, growth and what passes around the bottom.
  auto loss = [&] { return net(images).square().sum().item<double>(); };
  double before = loss(), step = 1e-6;
  size_t i = named.size();
  for (Tensor* t : {&net.down[1].conv1.weight, &net.up[0].grow.weight, &net.down[0].conv2.weight}) {
    t->detach().add_(step).realize();
    CHECK((loss() - before) / step == doctest::Approx(gradients[i++].item<double>()).epsilon(1e-3));
    t->detach().sub_(step).realize();
  }
}

TEST_CASE("models: what a U-Net cannot take is an error") {
  models::UNet net({
      .features = {8, 8, 8}
  });
  CHECK_THROWS_WITH(net(zeros({1, 3, 6, 8})), doctest::Contains("divisible by 4, got (1, 3, 6, 8)"));
  CHECK_THROWS_WITH(models::UNet({.features = {12}}), doctest::Contains("12 features are not 8"));
}
