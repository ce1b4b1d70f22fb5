// Functions whose derivatives are given. Going backwards through what computes a value is wrong or
// inexact where its parts meet 0 * inf, cancel, or are cut from several ranges; these functions
// have a row that says what their operands get instead (given.cpp). A row is made of tensor
// functions, which may be given ones too, so every order of derivative works.
#pragma once
#include <span>

#include "ir/storage.h"
#include "tensor/impl.h"

namespace mote {

enum class Given : int64_t {
#define GIVEN(name, row) name,
#include "tensor/given.def"
#undef GIVEN
};

// value, as the function `which` of the operands. Operands of elementwise functions are broadcast
// to value's shape; EqualShare, Euclidean, FirstMax and Logsumexp fold the axes of their operand
// where value has size 1. The row is told the numbers.
Tensor given(Given which, const Tensor& value, std::initializer_list<Tensor> operands,
             std::span<const int64_t> numbers = {});

// A rule of the program's own, for Given::Custom. It lives as long as graphs name it: they hold it
// as the storage, of no elements, of their last operand.
struct GivenRule : Storage {
  // What each operand x of y gets when y gets g; undefined: nothing. y is the function's value as
  // it was made: its first source is what computes it.
  virtual std::vector<Tensor> gradients(const Tensor& y, std::span<const Tensor> x,
                                        const Tensor& g) = 0;
};
// The operand that holds a rule; takes it over.
Ref rule_operand(GivenRule* rule, uint8_t device);
Tensor given(Ref rule, const Tensor& value, std::span<const Tensor> operands);

// While one lives, a rule of this thread is asked once for what all its operands get.
class GivenOnce {
 public:
  GivenOnce();
  ~GivenOnce();
  GivenOnce(const GivenOnce&) = delete;
  std::vector<Tensor> found;

 private:
  GivenOnce* before_;
};

// What source i (> 0) of a Given node gets when the node gets g.
Ref given_derivative(UOp node, const Ref& g, uint32_t i);

}  // namespace mote
