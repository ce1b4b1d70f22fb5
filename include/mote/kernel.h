// Custom kernels: a tensor defined by an expression for one element, and functions in C.
//
//   // how far each row of x is from each row of y
//   Tensor d = custom_kernel("distance", {x.size(0), y.size(0)}, {x, y},
//                            [](const Indices& i, const Inputs& in) {
//     Tensor square = sum_over(in[0].size(1), [&](const Position& k) {
//       return (in[0](i[0], k) - in[1](i[1], k)).square();
//     });
//     return square.sqrt();
//   });
//
// An expression is compiled with what comes before and after it, runs on every device and has
// derivatives. See docs/custom_kernels.md.
#pragma once
#include <mote/tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace mote {

// A position on an axis: an index of the result or of a sum, an integer, an element of a tensor
// of integers, or what + - * / % make of these; / and % round down. Exact.
class Position {
 public:
  template <class T>
  requires std::is_integral_v<T> Position(T n) : Position(Whole{static_cast<int64_t>(n)}) {}
  Position(const Tensor& computed);
  // As a number to compute with.
  Tensor to(DType dtype) const;

  friend Position operator+(const Position& a, const Position& b);
  friend Position operator-(const Position& a, const Position& b);
  friend Position operator*(const Position& a, const Position& b);
  friend Position operator/(const Position& a, const Position& b);
  friend Position operator%(const Position& a, const Position& b);
  // Booleans, for where().
  friend Tensor operator<(const Position& a, const Position& b);
  friend Tensor operator<=(const Position& a, const Position& b);
  friend Tensor operator>(const Position& a, const Position& b);
  friend Tensor operator>=(const Position& a, const Position& b);
  friend Tensor operator==(const Position& a, const Position& b);
  friend Tensor operator!=(const Position& a, const Position& b);

 private:
  friend struct KernelScope;
  struct Whole {
    int64_t n;
  };
  explicit Position(Whole n);
  Tensor at_;  // of index dtype
  int64_t loop_ =
      -1;  // of an index plus a number: which loop, the innermost axis of the result is 0
  int64_t plus_ = 0;  // that number, also without a loop
  bool is_number_ = false;
  bool computed_ = false;  // an element of a tensor is in it
};
using Indices = std::vector<Position>;

// A tensor that an expression reads, one element at a time.
class Input {
 public:
  // The element there. A position that is read from a tensor is checked like an index of gather();
  // others must be inside whatever the indices are.
  template <class... I>
  Tensor operator()(const I&... at) const {
    return read({Position(at)...}, false);
  }
  // The same, and 0 outside of the tensor.
  template <class... I>
  Tensor or_zero(const I&... at) const {
    return read({Position(at)...}, true);
  }
  Tensor read(const Indices& at, bool or_zero) const;
  Size size(int64_t axis) const;
  int64_t dim() const;
  DType dtype() const;

 private:
  friend struct KernelScope;
  Tensor tensor_;
  size_t number_ = 0;
};
using Inputs = std::vector<Input>;

// The tensor of this shape whose element at the indices is f(indices, inputs). f is called once,
// with indices that stand for all of them: it computes with functions of single elements (exp,
// where, a * b, ...) and the folds below. `name` is part of errors.
using KernelExpression = std::function<Tensor(const Indices&, const Inputs&)>;
Tensor custom_kernel(const std::string& name, const Sizes& shape, const std::vector<Tensor>& inputs,
                     const KernelExpression& f, Loc = MOTE_HERE);

// In an expression: term(k) for k = 0 ... n - 1, folded.
using KernelTerm = std::function<Tensor(const Position& k)>;
Tensor sum_over(const Size& n, const KernelTerm& term);
Tensor prod_over(const Size& n, const KernelTerm& term);
Tensor max_over(const Size& n, const KernelTerm& term);
Tensor min_over(const Size& n, const KernelTerm& term);

// The tensor that a function in C fills:
//   void name(float* out, const float* a, const int64_t* b, int64_t n, ...)
// gets its memory, that of the inputs, and the numbers, all in row-major order. `text` defines it,
// and what it needs. CPU only; other devices say that they take no text. It is compiled in the
// call, runs when its tensor is asked for, and has the derivatives that custom_function (grad.h)
// gives it.
Tensor source_kernel(const std::string& name, const std::string& text, const Sizes& shape,
                     DType dtype, const std::vector<Tensor>& inputs,
                     const std::vector<int64_t>& numbers = {}, Loc = MOTE_HERE);

}  // namespace mote
