// Automatic mixed precision: inside an autocast scope, products run in a 16-bit float, and
// functions that need range or precision (exponentials, sums, norms, losses) in f32.
// docs/mixed_precision.md lists the methods.
//
//   Tensor loss;
//   {
//     auto scope = autocast();  // bf16
//     loss = net(images).cross_entropy(labels);
//   }
//   loss.backward();
//
// The casts are part of the graph. Gradients pass through them, so a gradient has its parameter's
// dtype, and backward() uses the dtypes that the forward calls chose, wherever it is called.
// Optimizers and backward() are not affected by a scope.
// A scope belongs to its thread. An inner scope replaces the outer one while it lives;
// autocast(DType::bf16, false) switches autocast off. A jit records the casts of its capture; in
// another scope it calls its function again.
#pragma once
#include <mote/types.h>

namespace mote {

class AutocastScope {
 public:
  explicit AutocastScope(DType dtype);  // none: off
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  DType before_;
};

// The scope ends with the variable that holds it. dtype: bf16 or f16; f16 needs a LossScaler.
[[nodiscard]] AutocastScope autocast(DType dtype = DType::bf16, bool enabled = true,
                                     Loc = MOTE_HERE);
// The dtype of this thread's scope; DType::none outside of one, or if it is switched off.
DType autocast_dtype();

}  // namespace mote
