// Lazy tensors: what a value is, when it is computed, and what shares memory.
#include <mote/mote.h>

#include <iostream>

using namespace mote;

int main() {
  Tensor a = arange(6, {.dtype = DType::f32}).reshape({2, 3});
  Tensor b = (a * 2 + 1).relu();  // nothing has run yet
  std::cout << b << "\n";         // printing, item(), to_vector() and realize() run what they need

  Tensor row = a[1];  // a view: writing through it writes a
  row.assign(7);
  std::cout << "after writing row 1:\n" << a << "\n";
  a(Slice(), 0) = -1;
  std::cout << "after writing column 0:\n" << a << "\n";

  Tensor columns = a.sum(0), largest = a.amax();
  realize({columns, largest});  // both at once, sharing what they can
  std::cout << "sums of columns " << columns << ", largest " << largest.item<float>() << "\n";

  Tensor x = randn({64, 32}), w = randn({32, 16});
  std::cout << "shape of x w: " << x.matmul(w).size(0) << " x " << x.matmul(w).size(1) << "\n";

  try {
    x.matmul(a).realize();
  } catch (const Error& error) {
    std::cout << "an error names the call and its place:\n" << error.what() << "\n";
  }
}
