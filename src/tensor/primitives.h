// The primitive operations of the tensor graph, on nodes. Everything in tensor/ and grad/ is
// composed from these. Shapes must already agree (no broadcasting but of rank-0 nodes), dtypes too.
// Axes are non-negative. Movement that changes nothing returns its source.
#pragma once
#include <span>

#include "ir/graph.h"

namespace mote {

class Tensor;

// Told what this thread's calls do to memory, while one is set (the jit looks for the state of a
// function).
class EffectListener {
 public:
  virtual ~EffectListener() = default;
  virtual void wrote(UOp version) = 0;  // a pending write: an After
  // The gradient of a marked leaf is about to be read, added to by backward, or dropped.
  enum Use { Read, Add, Drop };
  virtual void gradient(const Tensor& leaf, Use use) = 0;
};
extern thread_local EffectListener* effect_listener;

}  // namespace mote

namespace mote::prim {

using Axes = std::span<const int64_t>;
using Dims = std::span<const Dim>;
struct Extent {
  Dim begin, end;
};  // of shrink (begin, end) and pad (before, after)

Ref constant(DType dtype, double v);
Ref constant(DType dtype, int64_t v);
Ref full(Dims shape, const Ref& scalar);  // Expand of a rank-0 node
Ref iota(const Dim& length);              // index dtype, shape (length)
Ref variable(std::string_view name, int64_t lo, int64_t hi);
Ref bind(const Ref& variable, int64_t value);

Ref alu(Op op, std::initializer_list<Ref> src);  // dtype from the sources; comparisons give bool
Ref cast(const Ref& a, DType dtype);             // itself when nothing changes
Ref bitcast(const Ref& a, DType dtype);          // same size
Ref where(const Ref& c, const Ref& a, const Ref& b);
Ref neg(const Ref& a);
Ref add(const Ref& a, const Ref& b);
Ref sub(const Ref& a, const Ref& b);
Ref mul(const Ref& a, const Ref& b);
Ref logical_not(const Ref& a);  // of bool

Ref reshape(const Ref& a, Dims shape);  // merges with a reshape below
Ref permute(const Ref& a, Axes axes);
Ref expand(const Ref& a, Dims shape);
Ref pad(const Ref& a, std::span<const Extent> amounts);
Ref shrink(const Ref& a, std::span<const Extent> bounds);
Ref flip(const Ref& a, Axes axes);
// result[.., o, .., k] = a[.., o * step + k * dilation, ..]: k becomes the last axis.
Ref window(const Ref& a, int64_t axis, int64_t size, int64_t step, int64_t dilation);
Ref reduce(Op op, const Ref& a, Axes axes);  // axes stay with size 1; sums of 16-bit floats
                                             // must be cast up by the caller
// value, which is the same whatever `source` holds but was made from it: its derivative with
// respect to source is 0, not missing.
Ref flat_in(const Ref& source, const Ref& value);
Ref contiguous(const Ref& a);
// a, or where it is a long chain of movement, a stored: what a chain costs to read grows with its
// length, so that of n movement ops would grow with n * n.
constexpr int kLongChain = 64;
Ref cut_long_chain(const Ref& a);
Ref detach(const Ref& a);
Ref copy_to(const Ref& a, uint8_t device);         // itself if it is there
Ref buffer(uint8_t device, DType dtype, int64_t count);  // fresh storage, nothing allocated yet
// STORE(target, value) then AFTER(base, store): the next version of the buffer under target.
// target is movement over a Buffer or an After.
Ref assign(const Ref& target, const Ref& value);
UOp base_of(UOp node);  // through movement and After to the Buffer, or {}

}  // namespace mote::prim
