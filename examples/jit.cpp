// When things run: laziness, realize, and a function that is captured and replayed.
#include <mote/mote.h>

#include <cstdio>

using namespace mote;

int main() {
  // Lazy: three calls, nothing runs until the sum is asked for, and then it is one kernel.
  Tensor x = arange(8, {.dtype = DType::f32});
  Tensor y = (x * 2 + 1).square();
  std::printf("sum %g\n", y.sum().item<float>());

  // A write is lazy too. What read the tensor before still means the old values.
  Tensor w = ones({8}).contiguous();
  Tensor before = w * 10;
  w.add_(1);
  realize({w, before});
  std::printf("before %g, after %g\n", before[0].item<float>(), w[0].item<float>());

  // A moving average, captured. The mean is state: it is read and written where it is.
  int calls = 0;
  Tensor mean = zeros({8}).contiguous(), rate = tensor(0.5f);
  auto update = jit([&](const Tensor& seen) {
    ++calls;
    mean.assign(mean + (seen - mean) * rate);
    return (seen - mean).abs().amax();
  });
  std::vector<Tensor> errors;  // results may be kept
  for (int i = 0; i < 10; ++i) {
    if (i == 5) rate.assign(0.25f);  // state may be changed between calls
    errors.push_back(update(x + i));
  }
  std::printf("%d calls of the function, errors from %.3f to %.3f\n", calls,
              errors.front().item<float>(), errors.back().item<float>());
  for (const JitState& s : update.state({
           {"mean", mean},
           {"rate", rate}
  }))
    std::printf("%s is read%s\n", s.name.c_str(), s.written ? " and written" : "");

  // Sizes that change are variables: one capture serves all of them.
  Variable length("length", 1, 8);
  auto head = jit([&](const Tensor& all, const Sym& n) { return all(Slice(0, n)).sum(); });
  for (int64_t n = 1; n <= 8; n += 2)
    std::printf("first %lld: %g\n", static_cast<long long>(n),
                head(x, length.bind(n)).item<float>());

  // What does not fit the capture is an error that says what and where.
  try {
    update(arange(4, {.dtype = DType::f32}));
  } catch (const Error& e) { std::printf("%s\n", e.what()); }
}
