// Computing without gradients.
//
//   {
//     auto scope = no_grad();
//     Tensor shown = net(images);  // backward() through it is an error
//   }
//
// Inside the scope all results, views included, are as if detach() had been called on them. Leaves
// stay marked, requires_grad_() works, and so does backward() of a loss that was computed outside.
// A scope belongs to its thread. An inner scope replaces the outer one while it lives, so
// enable_grad() inside switches gradients on again. A jit that is called in another scope than that
// of its capture calls its function again.
#pragma once

namespace mote {

class NoGradScope {
 public:
  explicit NoGradScope(bool on);
  ~NoGradScope();
  NoGradScope(const NoGradScope&) = delete;
  NoGradScope& operator=(const NoGradScope&) = delete;

 private:
  bool before_;
};

// The scope ends with the variable that holds it.
[[nodiscard]] inline NoGradScope no_grad() { return NoGradScope(true); }
[[nodiscard]] inline NoGradScope enable_grad() { return NoGradScope(false); }
bool is_grad_enabled();

}  // namespace mote
