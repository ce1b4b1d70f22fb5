// Joining, padding, repeating: movement that makes a new tensor.
#include <algorithm>

#include "tensor/movement.h"
#include "tensor/recorded.h"

namespace mote {

namespace {

using prim::Extent;

// The positions along one axis, in a shape that broadcasts against rank axes. index dtype.
Ref positions(const Dim& size, int64_t axis, int64_t rank) {
  std::vector<Dim> dims(static_cast<size_t>(rank), Dim(1));
  dims[static_cast<size_t>(axis)] = size;
  return prim::reshape(prim::iota(size), dims);
}

struct Part {
  Ref node;
  Dim begin, end;  // its place on the joined axis
};

// Halves are chosen by position, so that the whole is a tree of depth log(parts).
Ref join(std::span<const Part> parts, int64_t axis) {
  if (parts.size() == 1) return parts[0].node;
  size_t half = parts.size() / 2;
  auto a = static_cast<size_t>(axis);
  Ref left = join(parts.first(half), axis), right = join(parts.subspan(half), axis);
  std::vector<Extent> after = nothing(left->shape->dims.size()), before = after;
  Dim middle = parts[half].begin - parts[0].begin;
  after[a].end = parts.back().end - parts[half].begin;
  before[a].begin = middle;
  left = prim::pad(left, after);
  right = prim::pad(right, before);
  const std::vector<Dim>& dims = left->shape->dims;
  Ref at = prim::expand(positions(dims[a], axis, left->shape->rank()), dims);
  return prim::where(prim::alu(Op::Lt, {at, index_node(middle)}), left, right);
}

// An element looks at every part of its group, so groups stay small and are stored.
constexpr size_t kGroup = 32;

Ref join_in_groups(std::vector<Part> parts, int64_t axis) {
  while (parts.size() > kGroup) {
    std::vector<Part> groups;
    for (size_t i = 0; i < parts.size(); i += kGroup) {
      std::span<const Part> group = std::span(parts).subspan(i, std::min(kGroup, parts.size() - i));
      groups.push_back({prim::contiguous(join(group, axis)), group[0].begin, group.back().end});
    }
    parts = std::move(groups);
  }
  return join(parts, axis);
}

void check_joinable(const Tensor& a, const Tensor& b, int64_t axis) {
  bool ok = a.dim() == b.dim();
  for (int64_t i = 0; ok && i < a.dim(); ++i)
    ok = i == axis || dims_of(a)[static_cast<size_t>(i)] == dims_of(b)[static_cast<size_t>(i)];
  expect(ok, "shapes ", a, " and ", b, " must agree on all axes but ", axis);
}

DType joined_dtype(const std::vector<Tensor>& tensors) {
  DType d = tensors[0].dtype();
  for (const Tensor& t : tensors) d = promote(d, t.dtype());
  return d;
}

// How many to add (> 0) or cut away (< 0) before and after each axis.
std::vector<std::pair<int64_t, int64_t>> pad_amounts(const Tensor& t, const Ints& pad) {
  expect(pad.list.size() % 2 == 0, "needs pairs of amounts, got ", pad.list);
  expect(static_cast<int64_t>(pad.list.size()) <= 2 * t.dim(), "pads ", pad.list.size() / 2,
         " axes of a tensor of shape ", t);
  std::vector<std::pair<int64_t, int64_t>> out(static_cast<size_t>(t.dim()), {0, 0});
  for (size_t i = 0; i < pad.list.size() / 2; ++i)
    out[out.size() - 1 - i] = {pad.list[2 * i], pad.list[2 * i + 1]};
  return out;
}

Tensor pad_constant(const Tensor& t, const std::vector<std::pair<int64_t, int64_t>>& amounts,
                    Number value) {
  std::vector<Extent> bounds = whole(dims_of(t)), added;
  for (size_t i = 0; i < amounts.size(); ++i) {
    auto [before, after] = amounts[i];
    bounds[i].begin = before < 0 ? size_mul(before, -1) : 0;
    bounds[i].end = bounds[i].end + Dim(std::min<int64_t>(after, 0));
    expect(bounds[i].end.is_symbolic() || bounds[i].end.size >= bounds[i].begin.size, "amounts ",
           before, " and ", after, " cut more than axis ", i, " of shape ", t, " has");
    added.push_back({std::max<int64_t>(before, 0), std::max<int64_t>(after, 0)});
  }
  Ref inner = prim::shrink(node_of(t), bounds), out = prim::pad(inner, added);
  bool zero = value.kind == Number::Float ? value.f == 0 : value.i == 0;
  if (zero || out == inner) return make_value(out, t);
  Ref inside = prim::full(inner->shape->dims, prim::constant(DType::boolean, int64_t{1}));
  inside = prim::pad(inside, added);
  return make_value(prim::where(inside, out, constant(t.dtype(), value)), t);
}

// Both sides of one axis, by copying elements of it.
Tensor pad_by_copy(const Tensor& t, int64_t axis, int64_t before, int64_t after,
                   const std::string& mode) {
  if (before == 0 && after == 0) return unchanged(t);
  int64_t n = t.size(axis), most = mode == "reflect" ? n - 1 : n;
  expect(before >= 0 && after >= 0, "mode ", mode, " needs amounts >= 0, got ", before, " and ",
         after);
  expect(n > 0 && (mode == "replicate" || (before <= most && after <= most)), "mode ", mode,
         " cannot add ", before, " and ", after, " to an axis of size ", n);
  Tensor left, right;
  if (mode == "reflect") {
    left = t.narrow(axis, 1, before).flip(axis);
    right = t.narrow(axis, n - 1 - after, after).flip(axis);
  } else if (mode == "circular") {
    left = t.narrow(axis, n - before, before);
    right = t.narrow(axis, 0, after);
  } else {
    std::vector<Dim> dims = dims_of(t);
    dims[static_cast<size_t>(axis)] = before;
    left = broadcast_tensor(t.narrow(axis, 0, 1), dims);
    dims[static_cast<size_t>(axis)] = after;
    right = broadcast_tensor(t.narrow(axis, n - 1, 1), dims);
  }
  return cat({left, t, right}, axis);
}

Tensor triangle(const Tensor& t, int64_t diagonal, bool lower) {
  expect(t.dim() >= 2, "needs at least two axes, got shape ", t);
  const std::vector<Dim>& dims = dims_of(t);
  diagonal = std::clamp(diagonal, -dims[dims.size() - 2].size - 1, dims.back().size + 1);
  Ref row = prim::expand(positions(dims[dims.size() - 2], t.dim() - 2, t.dim()), dims);
  Ref column = prim::expand(positions(dims.back(), t.dim() - 1, t.dim()), dims);
  Ref bound = prim::add(row, prim::constant(DType::index, diagonal + (lower ? 1 : 0)));
  Ref left = prim::alu(Op::Lt, {column, bound}), zero = prim::constant(t.dtype(), int64_t{0});
  Ref x = node_of(t);
  return make_value(lower ? prim::where(left, x, zero) : prim::where(left, zero, x), t);
}

}  // namespace

Tensor cat(const std::vector<Tensor>& tensors, int64_t dim, Loc where) {
  Call call("cat", where);
  expect(!tensors.empty(), "needs at least one tensor");
  for (const Tensor& t : tensors) {
    expect_defined(t, "a tensor of the list");
    expect(t.dim() > 0, "tensors without axes cannot be joined; use stack()");
    common_device({&tensors[0], &t});
  }
  // PyTorch ignores empty vectors among tensors of any rank.
  auto legacy = [](const Tensor& t) { return t.dim() == 1 && dims_of(t)[0] == Dim(0); };
  auto model = std::find_if_not(tensors.begin(), tensors.end(), legacy);
  if (model == tensors.end()) model = tensors.begin();
  int64_t axis = to_axis(dim, model->dim());
  DType dtype = joined_dtype(tensors);
  std::vector<Part> parts;
  std::vector<Ref> empty;
  Dim at = 0;
  for (const Tensor& t : tensors) {
    if (legacy(t) && model->dim() != 1) continue;
    check_joinable(*model, t, axis);
    const Dim& size = dims_of(t)[static_cast<size_t>(axis)];
    if (size == Dim(0)) {
      empty.push_back(node_of(t));
      continue;
    }
    parts.push_back({prim::cast(node_of(t), dtype), at, at + size});
    at = parts.back().end;
  }
  if (parts.empty()) return model->to(dtype).clone();
  Ref whole = join_in_groups(std::move(parts), axis);
  for (const Ref& none : empty) whole = prim::flat_in(none, whole);
  const Tensor y = make_value(whole, tensors[0]);
  if (!CallRecorder::current || !empty.empty()) return y;
  std::vector<const Tensor*> operands;
  for (const Tensor& t : tensors)
    if (!legacy(t) || model->dim() == 1) operands.push_back(&t);
  return note_call("cat", y, operands, {axis}, 0);
}

Tensor stack(const std::vector<Tensor>& tensors, int64_t dim, Loc where) {
  Call call("stack", where);
  expect(!tensors.empty(), "needs at least one tensor");
  expect_defined(tensors[0], "a tensor of the list");
  int64_t axis = to_axis(dim, tensors[0].dim() + 1);
  std::vector<Tensor> rows;
  for (const Tensor& t : tensors) {
    expect_defined(t, "a tensor of the list");
    expect(dims_of(t) == dims_of(tensors[0]), "shapes ", tensors[0], " and ", t, " differ");
    rows.push_back(t.unsqueeze(axis));
  }
  return cat(rows, axis);
}

Tensor hstack(const std::vector<Tensor>& tensors, Loc where) {
  Call call("hstack", where);
  std::vector<Tensor> rows;
  for (const Tensor& t : tensors) rows.push_back(t.dim() == 0 ? t.unsqueeze(0) : t);
  expect(!rows.empty(), "needs at least one tensor");
  return cat(rows, rows[0].dim() == 1 ? 0 : 1);
}
Tensor vstack(const std::vector<Tensor>& tensors, Loc where) {
  Call call("vstack", where);
  std::vector<Tensor> rows;
  for (const Tensor& t : tensors)
    rows.push_back(t.dim() == 0 ? t.reshape({1, 1}) : t.dim() == 1 ? t.unsqueeze(0) : t);
  return cat(rows, 0);
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, const char* indexing, Loc where) {
  Call call("meshgrid", where);
  std::string order = word(indexing, "indexing");
  bool xy = order == "xy";
  expect(xy || order == "ij", "indexing is ij or xy, got ", order);
  expect(!tensors.empty(), "needs at least one tensor");
  std::vector<Dim> dims;
  for (const Tensor& t : tensors) {
    expect(t.dim() <= 1, "needs vectors, got shape ", t);
    expect(t.dtype() == tensors[0].dtype(), "dtypes ", tensors[0].dtype(), " and ", t.dtype(),
           " differ");
    dims.push_back(product(dims_of(t)));
  }
  std::vector<Tensor> out;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::vector<Dim> axis(dims.size(), Dim(1));
    axis[i] = dims[i];
    Tensor grid = broadcast_tensor(reshaped(tensors[i], axis), dims);
    out.push_back(xy && dims.size() > 1 ? grid.transpose(0, 1) : grid);
  }
  return out;
}

std::vector<int64_t> broadcast_shapes(const std::vector<std::vector<int64_t>>& shapes, Loc where) {
  Call call("broadcast_shapes", where);
  std::vector<Dim> out;
  for (const auto& s : shapes) out = broadcast_dims(out, std::vector<Dim>(s.begin(), s.end()));
  std::vector<int64_t> sizes;
  for (const Dim& d : out) sizes.push_back(d.size);
  return sizes;
}

Tensor Tensor::pad(const Ints& pad, const char* mode, Number value, Loc where) const {
  Call call("pad", where);
  auto amounts = pad_amounts(*this, pad);
  std::string how = word(mode, "the mode");
  if (how == "constant") return pad_constant(*this, amounts, value);
  expect(how == "reflect" || how == "replicate" || how == "circular",
         "the mode is constant, reflect, replicate or circular, got ", how);
  Tensor t = unchanged(*this);
  for (int64_t i = 0; i < dim(); ++i) {
    auto [before, after] = amounts[static_cast<size_t>(i)];
    t = pad_by_copy(t, i, before, after, how);
  }
  return t;
}

Tensor Tensor::flip(const Axes& axes, Loc where) const {
  Call call("flip", where);
  return make_value(prim::flip(node_of(*this), to_axes(axes, dim())), *this);
}

Tensor Tensor::repeat(const Ints& repeats, Loc where) const {
  Call call("repeat", where);
  const std::vector<int64_t>& times = repeats.list;
  std::vector<Dim> from = dims_of(*this), split, grown, out;
  expect(times.size() >= from.size(), "needs a number for each axis of shape ", *this, ", got ",
         times);
  from.insert(from.begin(), times.size() - from.size(), Dim(1));
  for (size_t i = 0; i < times.size(); ++i) {
    expect(times[i] >= 0, "needs numbers >= 0, got ", times);
    split.insert(split.end(), {Dim(1), from[i]});
    grown.insert(grown.end(), {Dim(times[i]), from[i]});
    out.push_back(from[i] * Dim(times[i]));
  }
  Ref r = prim::expand(prim::reshape(node_of(*this), split), grown);
  return make_value(prim::reshape(r, out), *this);
}

Tensor Tensor::tile(const Ints& repeats, Loc where) const {
  Call call("tile", where);
  std::vector<int64_t> times = repeats.list;
  while (static_cast<int64_t>(times.size()) < dim()) times.insert(times.begin(), 1);
  return repeat(times);
}

Tensor Tensor::repeat_interleave(int64_t repeats, Loc where) const {
  Call call("repeat_interleave", where);
  return flatten().repeat_interleave(repeats, 0);
}
Tensor Tensor::repeat_interleave(int64_t repeats, int64_t dim, Loc where) const {
  Call call("repeat_interleave", where);
  expect(repeats >= 0, "needs a number >= 0, got ", repeats);
  if (this->dim() == 0) return unsqueeze(0).repeat_interleave(repeats, 0);
  auto axis = static_cast<size_t>(to_axis(dim, this->dim()));
  std::vector<Dim> dims = dims_of(*this), out = dims;
  out[axis] = out[axis] * Dim(repeats);
  dims.insert(dims.begin() + static_cast<long>(axis) + 1, Dim(1));
  Ref r = prim::reshape(node_of(*this), dims);
  dims[axis + 1] = repeats;
  return make_value(prim::reshape(prim::expand(r, dims), out), *this);
}

// Twice the axis, cut at the shift.
Tensor Tensor::roll(const Ints& shifts, const Axes& dims, Loc where) const {
  Call call("roll", where);
  if (dims.empty()) {
    expect(shifts.list.size() == 1, "without axes there is one shift, got ", shifts.list);
    return reshaped(flatten().roll(shifts, 0), dims_of(*this));
  }
  expect(shifts.list.size() == dims.list.size(), "needs a shift per axis, got ", shifts.list,
         " and ", dims.list);
  Tensor t = *this;
  for (size_t i = 0; i < dims.list.size(); ++i) {
    const int64_t axis = to_axis(dims.list[i], dim());
    expect(dim() > 0, "a tensor without axes has no axis ", axis);
    const Dim n = dims_of(t)[static_cast<size_t>(axis)];
    if (n == Dim(0)) continue;
    const Dim shift = Dim(shifts.list[i]) % n;
    if (shift == Dim(0)) continue;
    std::vector<Dim> wide = dims_of(t), joined = wide;
    wide.insert(wide.begin() + axis, Dim(2));
    joined[static_cast<size_t>(axis)] = n * 2;
    const Tensor twice = reshaped(broadcast_tensor(t.unsqueeze(axis), wide), joined);
    t = twice.narrow(axis, to_size(n - shift), to_size(n));
  }
  return t.clone();
}

Tensor Tensor::rot90(int64_t k, const Axes& dims, Loc where) const {
  Call call("rot90", where);
  std::vector<int64_t> axes = to_axes(dims, dim());
  expect(axes.size() == 2, "needs two axes, got ", dims.list);
  switch ((k % 4 + 4) % 4) {
    case 1: return flip(axes[1]).transpose(axes[0], axes[1]).clone();
    case 2: return flip(axes);
    case 3: return flip(axes[0]).transpose(axes[0], axes[1]).clone();
    default: return clone();
  }
}

Tensor Tensor::tril(int64_t diagonal, Loc where) const {
  Call call("tril", where);
  return triangle(*this, diagonal, true);
}
Tensor Tensor::triu(int64_t diagonal, Loc where) const {
  Call call("triu", where);
  return triangle(*this, diagonal, false);
}

Tensor Tensor::diag_embed(int64_t offset, Loc where) const {
  Call call("diag_embed", where);
  expect(dim() >= 1, "needs at least one axis");
  int64_t above = std::max<int64_t>(offset, 0), below = offset < 0 ? size_mul(offset, -1) : 0;
  Tensor on = eye(size(-1), size(-1), {DType::boolean, device()});
  return where_tensor(on, unsqueeze(-1), zeros({}, {dtype(), device()}))
      .pad({above, below, below, above});
}

Tensor Tensor::diag(int64_t diagonal, Loc where) const {
  Call call("diag", where);
  expect(dim() == 1 || dim() == 2, "needs a vector or a matrix, got shape ", *this);
  return dim() == 1 ? diag_embed(diagonal) : this->diagonal(diagonal).clone();
}

}  // namespace mote
