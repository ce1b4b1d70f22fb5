// Who is told of the tensors that come, are read, are written and go on this thread, while a jit
// runs a function of them; and which tensors a thread has left pending.
#pragma once
#include <mote/tensor.h>

#include <atomic>
#include <map>
#include <vector>

#include "ir/graph.h"

namespace mote {

struct TensorImpl;
struct SwitchCell;

class HandleListener {
 public:
  virtual ~HandleListener() = default;
  virtual void made(const TensorImpl& t) = 0;
  virtual void read(const TensorImpl& t) = 0;  // its value became part of a graph
  virtual void gone(const TensorImpl& t) = 0;  // its last handle is
  virtual void writes(const Tensor& t) = 0;    // about to be written, after the value was read
  virtual void read(SwitchCell& cell) = 0;     // of a module
};
extern thread_local HandleListener* handle_listener;

// This thread wrote impl, or backward() made it a gradient: its elements may be pending.
void note_pending(TensorImpl& impl);
// Those that still live, oldest first. They are forgotten.
std::vector<Tensor> take_pending();

// The marked leaves there are, and their shapes, which are interned.
std::map<const TensorImpl*, const Shape*> live_leaves();

// A view that looked at `shown`, which was a tensor of its own for a while, looks through it at
// what that is a view of: `chain` over `base`, with these strides. Where its elements are not
// evenly spaced there, it becomes a copy.
void look_through(TensorImpl& view, const Tensor& base, const Ref& chain,
                  const std::vector<int64_t>& strides);

// Whether a module trains; shared by the module's Switch and those who remember it.
struct SwitchCell {
  std::atomic<uint32_t> refs{1};
  bool on;
};
void retain(SwitchCell* cell);
void release(SwitchCell* cell);
// What train() and eval() made of members that are plain bools: the same number where all of them
// are as they were.
uint64_t plain_switches();

}  // namespace mote
