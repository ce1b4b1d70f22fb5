// Writing graphs as expressions, in the current arena. Index arithmetic reads like the maths;
// `==` on UOps stays identity, comparisons that build graph are lt, eq, ne, ge.
#pragma once
#include "ir/graph.h"

namespace mote {

UOp make(Op op, DType dtype, std::initializer_list<UOp> src, Arg arg = {});
UOp make(Op op, DType dtype, std::span<const UOp> src, Arg arg = {});

UOp constant(DType dtype, double v);
UOp constant(DType dtype, int64_t v);
inline UOp constant(DType dtype, int v) { return constant(dtype, static_cast<int64_t>(v)); }
inline UOp index(int64_t v) { return constant(DType::index, v); }
inline UOp truth(bool v) { return constant(DType::boolean, static_cast<int64_t>(v)); }
UOp zero_like(UOp u);             // 0 of the same dtype
UOp invalid();                    // index Invalid
UOp range(int slot, UOp extent, Role role);
// Sets of ranges are the bits of a word, so a kernel has at most kSlots of them.
constexpr int kSlots = 64;
int take_slot(uint64_t& used);  // the first that is free
UOp param(int slot, DType dtype, int64_t size, Space space = Space::Global, uint8_t device = 0);
UOp reduce_over(Op op, UOp value, std::span<const UOp> ranges);
UOp fold_identity(Op op, DType dtype);  // what folding nothing with an associative op gives

UOp unary(Op op, UOp a);
UOp binary(Op op, UOp a, UOp b);  // same dtype; comparisons give bool
UOp where(UOp c, UOp a, UOp b);
UOp mul_add(UOp a, UOp b, UOp c);  // rounded once
UOp where_rarely(UOp c, UOp a, UOp b);  // where c is hardly ever true: a is worth a branch
UOp cast(UOp a, DType dtype);
UOp lt(UOp a, UOp b);
UOp eq(UOp a, UOp b);
UOp ne(UOp a, UOp b);
UOp ge(UOp a, UOp b);             // not (a < b): only for integers
UOp logical_not(UOp a);

inline UOp operator+(UOp a, UOp b) { return binary(Op::Add, a, b); }
inline UOp operator*(UOp a, UOp b) { return binary(Op::Mul, a, b); }
UOp operator-(UOp a, UOp b);
UOp operator-(UOp a);
inline UOp operator&(UOp a, UOp b) { return binary(Op::And, a, b); }
inline UOp operator|(UOp a, UOp b) { return binary(Op::Or, a, b); }
// Floor division and modulo of indices, truncating ones of other integers, true division of floats.
UOp operator/(UOp a, UOp b);
UOp operator%(UOp a, UOp b);
inline UOp operator+(UOp a, int64_t b) { return a + constant(a->dtype, b); }
inline UOp operator*(UOp a, int64_t b) { return a * constant(a->dtype, b); }
inline UOp operator/(UOp a, int64_t b) { return a / constant(a->dtype, b); }
inline UOp operator%(UOp a, int64_t b) { return a % constant(a->dtype, b); }

// The same node with other sources.
UOp with_src(UOp node, std::span<Node* const> src);
// The ranges open in u, by slot.
std::vector<UOp> open_ranges(UOp u);
// The UOp of a Dim in the current arena.
UOp extent(const Dim& d);

}  // namespace mote
