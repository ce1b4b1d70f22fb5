#include <doctest/doctest.h>
#include <mote/models.h>

using namespace mote;

TEST_CASE("models: U-Net keeps the size of its images, and every parameter has a gradient") {
  manual_seed(3);
  models::UNet net({
      .in_channels = 2, .out_channels = 3, .features = {4, 8},
              .groups = 2
  });
  Tensor images = randn({2, 2, 4, 6}).realize();
  Tensor out = net(images);
  CHECK(out.shape() == std::vector<int64_t>{2, 3, 4, 6});
  out.square().mean().backward();
  std::vector<NamedTensor> named = named_parameters(net);
  CHECK(named.front().name == "down.0.conv1.weight");
  std::vector<Tensor> sizes;
  for (const NamedTensor& n : named) sizes.push_back(n.tensor.grad().abs().sum());
  realize(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    CAPTURE(named[i].name);
    CHECK(sizes[i].item<float>() > 0);
  }
}

TEST_CASE("models: the levels of a U-Net see each other") {
  // A weight's derivative by differences, through pools, growth and both ways around the bottom.
  manual_seed(4);
  Options exact{DType::f64, {}};
  models::UNet net({
      .in_channels = 1, .features = {2, 4},
           .groups = 1, .options = exact
  });
  Tensor images = randn({1, 1, 2, 2}, exact).realize();
  auto loss = [&] { return net(images).square().sum(); };
  for (Tensor* weight :
       {&net.down[1].conv1.weight, &net.up[0].grow.weight, &net.down[0].conv2.weight}) {
    double slope = loss().gradient({*weight})[0].sum().item<double>();
    double step = 1e-5;
    double before = loss().item<double>();
    weight->detach().add_(step).realize();
    double after = loss().item<double>();
    weight->detach().sub_(step).realize();
    CHECK((after - before) / step == doctest::Approx(slope).epsilon(1e-3));
  }
}

TEST_CASE("models: what a U-Net cannot take is an error") {
  models::UNet net({
      .features = {8, 8, 8}
  });
  CHECK_THROWS_WITH(net(zeros({1, 3, 6, 8})), doctest::Contains("divide by 4, got (1, 3, 6, 8)"));
  CHECK_THROWS_WITH(models::UNet({.features = {12}}), doctest::Contains("12 features are not 8"));
}
