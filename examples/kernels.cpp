// Custom kernels: as expressions over indices, with derivatives, and as a function in C.
#include <mote/grad.h>
#include <mote/kernel.h>
#include <mote/mote.h>

#include <iostream>

using namespace mote;

// How far each row of x is from each row of y.
Tensor distances(const Tensor& x, const Tensor& y) {
  return custom_kernel("distances", {x.size(0), y.size(0)}, {x, y},
                       [](const Indices& i, const Inputs& in) {
                         Tensor squares = sum_over(in[0].size(1), [&](const Position& k) {
                           return (in[0](i[0], k) - in[1](i[1], k)).square();
                         });
                         return squares.sqrt();
                       });
}

// The weighted mean of each element and its neighbours; there are zeros around.
Tensor blur(const Tensor& x) {
  return custom_kernel("blur", {x.size(0)}, {x}, [](const Indices& i, const Inputs& in) {
    return (in[0].or_zero(i[0] - 1) + 2 * in[0](i[0]) + in[0].or_zero(i[0] + 1)) / 4;
  });
}

// Rows of a table, each scaled by how often it stands in the list before.
Tensor rows(const Tensor& table, const Tensor& list) {
  return custom_kernel("rows", {list.size(0), table.size(1)}, {table, list},
                       [](const Indices& i, const Inputs& in) {
                         Tensor before = sum_over(in[1].size(0), [&](const Position& k) {
                           Tensor same = in[1](k).eq(in[1](i[0]));
                           return (same & (k < i[0])).to_float();
                         });
                         return in[0](in[1](i[0]), i[1]) / (1 + before);
                       });
}

const char* running_source = R"(
void running(float* out, const float* x, const float* decay, int64_t n) {
  float mean = 0;
  for (int64_t i = 0; i < n; ++i) out[i] = mean = decay[0] * mean + (1 - decay[0]) * x[i];
}
)";

// A running mean: each element depends on the previous one, so no expression can compute it.
Tensor running(const Tensor& x, const Tensor& decay) {
  const int64_t n = x.size(0);
  return source_kernel("running", running_source, {n}, DType::f32, {x, decay}, {n});
}

// With a derivative: the same backwards.
Tensor running_mean(const Tensor& x, const Tensor& decay) {
  return custom_function(
      {x, decay}, [](auto& in) { return running(in[0], in[1]); },
      [](const BackwardCall& b) {
        Tensor back = running(b.gradient.flip(0), b.inputs[1]).flip(0);
        return std::vector<Tensor>{back, {}};
      });
}

int main() {
  manual_seed(1);
  Tensor x = randn({4, 3}).requires_grad_(), y = randn({5, 3});
  auto step = jit([](const Tensor& a, const Tensor& b) { return distances(a, b).exp().sum(); });
  std::cout << "distances: " << step(x.detach(), y).item<float>() << "\n";
  distances(x, y).sum().backward();
  std::cout << "their derivative: " << x.grad().abs().sum().item<float>() << "\n";
  std::cout << "blurred: " << blur(tensor({0.f, 4.f, 0.f, 8.f})) << "\n";
  std::cout << "rows: "
            << rows(tensor({
                        {1.f, 2.f},
                        {3.f, 4.f}
  }),
                    tensor({1, 0, 1, 1}))
            << "\n";
  Tensor signal = arange(5).to_float().requires_grad_();
  Tensor mean = running_mean(signal, tensor({0.5f}));
  mean.sum().backward();
  std::cout << "running mean: " << mean << "\nits derivative: " << signal.grad() << "\n";
}
