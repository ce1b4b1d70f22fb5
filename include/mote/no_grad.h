// Results that carry no history.
//
//   {
//     auto scope = no_grad();
//     Tensor shown = net(images);  // backward() through it is an error
//   }
//
// Inside the scope nothing depends on marked leaves: views and other results are as if detach() had
// been called on them. Leaves stay marked, requires_grad_() works, and backward() of a loss that
// was made outside does, too. A scope belongs to its thread; an inner one replaces the outer one
// while it lives, so that enable_grad() inside switches histories on again. A jit that is called in
// another scope calls its function again.
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

// Scopes that end with the variable they are given to.
[[nodiscard]] inline NoGradScope no_grad() { return NoGradScope(true); }
[[nodiscard]] inline NoGradScope enable_grad() { return NoGradScope(false); }
bool is_grad_enabled();

}  // namespace mote
