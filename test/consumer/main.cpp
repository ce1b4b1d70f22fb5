#include <mote/mote.h>

#include <cstdio>

int main() {
  mote::Tensor x = mote::arange(6).reshape({2, 3}).to_float();
  std::printf("sum %g\n", x.sum().item<double>());
  try {
    x.matmul(x);
  } catch (const mote::Error& error) {
    std::printf("%s\n", error.what());
  }
}
