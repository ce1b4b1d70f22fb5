// Positions pushed through movement ops: views never exist, merging them is simplification.
#include "algebra/algebra.h"
#include "schedule/ranges.h"

namespace mote {

void Positions::remember(std::span<const Dim> dims) {
  for (const Dim& d : dims) {
    words_.push_back(static_cast<uint64_t>(d.size));
    words_.push_back(word(d.symbol));
  }
}

UOp Positions::flatten(std::span<const UOp> position, std::span<const Dim> dims) {
  words_.clear();
  for (UOp p : position) words_.push_back(word(p));
  remember(dims);
  auto [flat, fresh] = flattened_(words_);
  if (!fresh) return flat;
  flat = index(0);
  for (size_t i = 0; i < position.size(); ++i) flat = flat * extent(dims[i]) + position[i];
  return flat = simplify(flat);
}

UOp Positions::place(std::span<const UOp> position, const Shape& shape) {
  if (!shape.symbolic) return flatten(position, shape.dims);
  std::vector<Dim> most;
  for (const Dim& d : shape.dims) most.emplace_back(d.size);
  return flatten(position, most);
}

std::vector<UOp> Positions::unflatten(UOp flat, std::span<const Dim> dims) {
  words_.assign(1, word(flat));
  remember(dims);
  auto [out, fresh] = unflattened_(words_);
  if (!fresh) return out;
  out.resize(dims.size());
  UOp rest = flat;
  for (size_t i = out.size(); i-- > 0;) {
    UOp size = extent(dims[i]);
    out[i] = simplify(i == 0 ? rest : rest % size);
    if (i) rest = simplify(rest / size);
  }
  return out;
}

std::vector<UOp> Positions::through_reshape(UOp n, std::span<const UOp> position) {
  std::span<const Dim> from = n->src(0)->shape->dims, to = n->shape->dims;
  // Axes that stay as they are at the front need no division.
  size_t same = 0;
  while (same < from.size() && same < to.size() && from[same] == to[same]) ++same;
  std::vector<UOp> out(position.begin(), position.begin() + static_cast<long>(same));
  UOp flat = flatten(position.subspan(same), to.subspan(same));
  for (UOp p : unflatten(flat, from.subspan(same))) out.push_back(p);
  return out;
}

std::vector<UOp> Positions::through(UOp n, std::span<const UOp> position, UOp* valid) {
  const Shape& from = *n->src(0)->shape;
  std::vector<UOp> out(position.begin(), position.end());
  switch (n->op) {
    case Op::Reshape: return through_reshape(n, position);
    case Op::Permute:
      out.resize(from.dims.size());
      for (size_t i = 0; i < position.size(); ++i)
        out[static_cast<size_t>(n->ints(i))] = position[i];
      return out;
    case Op::Expand:
      if (from.dims.empty()) return {};
      for (size_t i = 0; i < out.size(); ++i)
        if (from.dims[i] == Dim(1)) out[i] = index(0);
      return out;
    case Op::Flip:
      for (int64_t axis : n->ints()) {
        auto i = static_cast<size_t>(axis);
        out[i] = simplify(extent(from.dims[i]) + index(-1) - out[i]);
      }
      return out;
    case Op::Window: {
      auto axis = static_cast<size_t>(n->ints(0));
      out.pop_back();
      out[axis] = simplify(position[axis] * n->ints(2) + position.back() * n->ints(3));
      return out;
    }
    case Op::Shrink: {
      std::vector<Dim> list = list_dims(n);
      for (size_t i = 0; i < out.size(); ++i) out[i] = simplify(out[i] + extent(list[2 * i]));
      return out;
    }
    case Op::Pad: {
      std::vector<Dim> list = list_dims(n);
      for (size_t i = 0; i < out.size(); ++i) {
        UOp before = extent(list[2 * i]), size = extent(from.dims[i]);
        out[i] = simplify(out[i] - before);
        *valid = *valid & ge(out[i], index(0)) & lt(out[i], size);
      }
      *valid = simplify(*valid);
      return out;
    }
    default: fail(ErrorKind::Internal, text("not a movement op: ", name(n->op)));
  }
}

UOp under_movement(UOp n) {
  while (has(n->op, Movement)) n = n->src(0);
  return n;
}

Under under(UOp n) {
  bool whole = true;
  while (has(n->op, Movement)) {
    whole &= n->is(Op::Reshape);
    n = n->src(0);
  }
  if (!n->is(Op::Param) && !n->is(Op::After)) return {};
  return {n, whole};
}

}  // namespace mote
