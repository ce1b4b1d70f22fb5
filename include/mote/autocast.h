// Automatic mixed precision: inside an autocast scope products run in a 16-bit float, and what
// needs range or digits (exponentials, sums, norms, losses) in f32. docs/mixed_precision.md lists
// the methods.
//
//   Tensor loss;
//   {
//     auto scope = autocast();  // bf16
//     loss = net(images).cross_entropy(labels);
//   }
//   loss.backward();
//
// The casts are part of the graph: gradients pass through them, so that a gradient has its
// parameter's dtype, and backward() uses the dtypes that the forward calls chose, wherever it is
// called. Optimizers and backward() are not affected by a scope.
// A scope belongs to its thread. An inner one replaces the outer one while it lives, and switches
// it off with autocast(DType::bf16, false). A jit records the casts of its capture; a call in
// another scope calls its function again.
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

// A scope that ends with the variable it is given to. dtype: bf16 or f16; see LossScaler for f16.
[[nodiscard]] AutocastScope autocast(DType dtype = DType::bf16, bool enabled = true,
                                     Loc = MOTE_HERE);
// The dtype of this thread's scope; none where there is none, or it is switched off.
DType autocast_dtype();

}  // namespace mote
