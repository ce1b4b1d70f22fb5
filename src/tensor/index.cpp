// Indexing: numbers and slices give views, tensors copy. Setting writes through the view.
#include <algorithm>

#include "tensor/gather.h"
#include "tensor/movement.h"
#include "tensor/recorded.h"

namespace mote {

namespace {

// What is left of an index after its views were taken: tensors of positions and their axes.
struct Indexed {
  Tensor view;
  std::vector<int64_t> axes;
  std::vector<Tensor> positions;
};

int64_t axes_taken(const Index& i) {
  if (i.kind == Index::Dots || i.kind == Index::NewAxis) return 0;
  bool mask = i.kind == Index::Positions && i.positions.dtype() == DType::boolean;
  return mask ? i.positions.dim() : 1;
}

// Start and length of a slice of an axis of numeric size, as Python cuts them.
std::pair<int64_t, int64_t> slice_range(const Slice& s, int64_t size) {
  auto clamp = [&](const Slice::Bound& b, int64_t missing) {
    if (!b.given) return missing;
    int64_t at = b.at.value() < 0 ? b.at.value() + size : b.at.value();  // the signs differ
    return s.step > 0 ? std::clamp<int64_t>(at, 0, size) : std::clamp<int64_t>(at, -1, size - 1);
  };
  int64_t begin = clamp(s.start, s.step > 0 ? 0 : size - 1);
  int64_t end = clamp(s.stop, s.step > 0 ? size : -1);
  int64_t span = s.step > 0 ? end - begin : begin - end;
  if (span <= 0) return {begin, 0};
  return {begin, s.step > 0 ? (span - 1) / s.step + 1 : (1 - span) / s.step + 1};
}

Dim symbolic_bound(const Slice::Bound& b, const Dim& size, const Dim& missing) {
  if (!b.given) return missing;
  Dim at = to_dim(b.at);
  expect(!at.is_symbolic() || lies_within(at, 0, at), "the slice bound ", said(at),
         " is negative; only numbers count from the end");
  return !at.is_symbolic() && at.size < 0 ? at + size : at;
}

Tensor symbolic_slice(const Tensor& t, int64_t axis, const Slice& s, const Dim& size) {
  expect(s.step == 1, "a slice of symbolic sizes needs step 1, got ", s.step);
  Dim begin = larger(symbolic_bound(s.start, size, 0), 0);
  Dim end = smaller(symbolic_bound(s.stop, size, size), size), count = end - begin;
  expect(lies_within(begin, count, size), "a slice of symbolic sizes must not be empty, got ",
         said(count), " elements from ", said(begin));
  begin = smaller(begin, size - 1);
  prim::Extent part = kept_within(begin, end - begin, size);
  return cut(t, axis, part.begin, part.end);
}

Tensor apply_slice(const Tensor& t, int64_t axis, const Slice& s) {
  const Dim& size = dims_of(t)[static_cast<size_t>(axis)];
  expect(s.step != 0, "the step of a slice must not be 0");
  bool symbolic = size.is_symbolic() || (s.start.given && s.start.at.is_symbolic()) ||
                  (s.stop.given && s.stop.at.is_symbolic());
  if (symbolic) return symbolic_slice(t, axis, s, size);
  auto [begin, count] = slice_range(s, size.size);
  if (s.step == 1 || count <= 1) return cut(t, axis, count ? begin : 0, count ? begin + count : 0);
  return with_step(t, axis, begin, count, s.step);
}

// The positions of a mask's true elements, one tensor per axis. Runs the mask.
std::vector<Tensor> mask_positions(const Tensor& mask) {
  Tensor at = mask.nonzero();
  std::vector<Tensor> out;
  for (int64_t i = 0; i < mask.dim(); ++i) out.push_back(at.select(1, i));
  return out;
}

std::vector<Index> without_dots(const Tensor& t, const std::vector<Index>& indices) {
  int64_t taken = 0;
  for (const Index& i : indices) taken += axes_taken(i);
  expect(taken <= t.dim(), taken, " indices for a tensor of shape ", t);
  std::vector<Index> out;
  bool seen = false;
  for (const Index& i : indices) {
    if (i.kind != Index::Dots) {
      out.push_back(i);
      continue;
    }
    expect(!seen, "an index can have one Ellipsis");
    seen = true;
    for (int64_t k = taken; k < t.dim(); ++k) out.push_back(Slice());
  }
  return out;
}

void add_mask(Indexed& r, const Tensor& mask, int64_t& axis) {
  expect(mask.dim() > 0, "a bool tensor without axes cannot index");
  for (int64_t i = 0; i < mask.dim(); ++i)
    expect(dims_of(mask)[static_cast<size_t>(i)] == dims_of(r.view)[static_cast<size_t>(axis + i)],
           "a mask of shape ", mask, " does not fit shape ", r.view, " at axis ", axis);
  for (Tensor& at : mask_positions(mask)) {
    r.axes.push_back(axis++);
    r.positions.push_back(std::move(at));
  }
}

Indexed take_views(const Tensor& t, const std::vector<Index>& indices) {
  expect_defined(t);
  Indexed r{t, {}, {}};
  int64_t axis = 0, of = 0;  // of the view, of the tensor
  for (const Index& i : without_dots(t, indices)) {
    switch (i.kind) {
      case Index::Number: r.view = selected(r.view, axis, i.at, of); break;
      case Index::Range: r.view = apply_slice(r.view, axis++, i.range); break;
      case Index::NewAxis: r.view = r.view.unsqueeze(axis++); break;
      default:
        expect_defined(i.positions, "an index");
        common_device({&t, &i.positions});
        if (i.positions.dtype() == DType::boolean) {
          add_mask(r, i.positions, axis);
        } else {
          expect_index(i.positions);
          const Dim& size = dims_of(r.view)[static_cast<size_t>(axis)];
          r.positions.push_back(checked(i.positions, {Must::Index, size}));
          r.axes.push_back(axis++);
        }
    }
    of += axes_taken(i);
  }
  return r;
}

// The tensor with the indexed axes folded into one, last: (others, A). And positions on it.
struct Folded {
  Tensor x;                    // (others, A)
  Tensor at;                   // integers or positions, in the shape of the broadcast indices
  std::vector<int64_t> order;  // permutation to (others, indexed axes)
  std::vector<Dim> permuted;   // its shape
  size_t before;               // where the indices' axes stand among the others
};

// Where the indices' axes stand among the others: where the indices stand if they are neighbours,
// else first. An index without axes counts as a number: its axis is gone before.
size_t place_among_others(const Indexed& r) {
  std::vector<int64_t> real;
  int64_t gone = 0;
  for (size_t i = 0; i < r.axes.size(); ++i) {
    bool number = r.positions[i].dim() == 0;
    if (!number) real.push_back(r.axes[i] - gone);
    gone += number;
  }
  if (real.empty()) return 0;
  bool adjacent = real.back() - real[0] + 1 == static_cast<int64_t>(real.size());
  return adjacent ? static_cast<size_t>(real[0]) : 0;
}

Folded fold_axes(const Indexed& r) {
  Folded f;
  f.before = place_among_others(r);
  for (int64_t i = 0; i < r.view.dim(); ++i)
    if (!std::count(r.axes.begin(), r.axes.end(), i)) f.order.push_back(i);
  f.order.insert(f.order.end(), r.axes.begin(), r.axes.end());
  Tensor moved = r.view.permute(f.order);
  f.permuted = dims_of(moved);
  std::span<const Dim> folded = std::span(f.permuted).last(r.axes.size());
  Tensor inside;
  for (size_t i = 0; i < folded.size(); ++i) {
    if (folded.size() == 1) {
      f.at = r.positions[0];
      break;
    }
    Tensor p = as_positions(r.positions[i], folded[i]);
    Tensor size = make_value(index_node(folded[i]), p), valid = in_range(p, folded[i]);
    inside = inside.defined() ? inside & valid : valid;
    f.at = f.at.defined()
               ? elementwise(Op::Add, {elementwise(Op::Mul, {f.at, size}, DType::index), p},
                             DType::index)
               : p;
  }
  if (inside.defined()) f.at = where_tensor(inside, f.at, make_value(index_node(-1), f.at));
  std::vector<Dim> dims(f.permuted.begin(), f.permuted.end() - static_cast<long>(folded.size()));
  dims.push_back(product(folded));
  f.x = reshaped(moved, dims);
  return f;
}

// (before, 1 per axis of the indices, after, A)
Tensor spread_for(const Folded& f) {
  std::vector<Dim> dims = dims_of(f.x);
  dims.insert(dims.begin() + static_cast<long>(f.before), static_cast<size_t>(f.at.dim()), Dim(1));
  return reshaped(f.x, dims);
}

Tensor read_at(const Indexed& r) {
  Folded f = fold_axes(r);
  size_t after = dims_of(f.x).size() - 1 - f.before;
  std::vector<Dim> dims = dims_of(f.at);
  dims.insert(dims.end(), after + 1, Dim(1));
  return pick_last(spread_for(f), reshaped(f.at, dims));
}

// New contents of the view with values (shape of what reading gives) written at the positions.
Tensor written_at(const Indexed& r, const Tensor& values, bool accumulate) {
  Folded f = fold_axes(r);
  auto rank = f.at.dim();
  std::vector<Dim> result = dims_of(f.x);
  result.pop_back();
  result.insert(result.begin() + static_cast<long>(f.before), dims_of(f.at).begin(),
                dims_of(f.at).end());
  Tensor fitting = without_leading_ones(values, result.size());
  expect(can_expand(dims_of(fitting), result), "a value of shape ", values, " does not fit ",
         "an indexed part of shape ", result);
  Tensor v = broadcast_tensor(fitting, result);
  std::vector<int64_t> from, to;
  for (int64_t i = 0; i < rank; ++i) {
    from.push_back(static_cast<int64_t>(f.before) + i);
    to.push_back(v.dim() - rank + i);
  }
  v = rank ? v.movedim(from, to).flatten(v.dim() - rank, -1) : v.unsqueeze(-1);
  const Dim& size = dims_of(f.x).back();
  // (before, A, after, L): what is folded stands as it is to be in memory.
  const auto axis = static_cast<int64_t>(f.before);
  Tensor match = matches(as_positions(f.at.reshape(-1), size), size), old = f.x.movedim(-1, axis);
  for (int64_t i = axis + 1; i < f.x.dim(); ++i) match = match.unsqueeze(1);
  v = v.unsqueeze(axis);
  Tensor out;
  if (accumulate) {
    int64_t last = v.dim() - 1;
    DType wide = accumulator(v.dtype());
    Tensor sum = reduce_tensor(Op::Add, where(match, v, 0).to(wide), {&last, 1}, false);
    out = old + sum.to(v.dtype());
  } else {
    out = last_match(match, v, old);
  }
  out = out.movedim(axis, -1);
  std::vector<int64_t> inverse(f.order.size());
  for (size_t i = 0; i < f.order.size(); ++i)
    inverse[static_cast<size_t>(f.order[i])] = static_cast<int64_t>(i);
  return reshaped(out, f.permuted).permute(inverse);
}

// One mask and nothing else: no position is needed to write.
bool is_lone_mask(const std::vector<Index>& indices) {
  return indices.size() == 1 && indices[0].kind == Index::Positions &&
         indices[0].positions.defined() && indices[0].positions.dtype() == DType::boolean;
}

// Values in the order of the mask's true elements.
Tensor written_where(const Tensor& t, const Tensor& mask, const Tensor& values, bool accumulate) {
  expect(mask.dim() <= t.dim() &&
             std::equal(dims_of(mask).begin(), dims_of(mask).end(), dims_of(t).begin()),
         "a mask of shape ", mask, " does not fit shape ", t);
  int64_t rest = t.dim() - mask.dim();
  Tensor v = values, m = mask;
  for (int64_t i = 0; i < rest; ++i) m = m.unsqueeze(-1);
  bool one_for_all = values.dim() <= rest ||
                     dims_of(values)[static_cast<size_t>(values.dim() - rest - 1)] == Dim(1);
  if (!one_for_all) {
    expect(values.dim() == rest + 1, "a value of shape ", values, " does not fit a mask of shape ",
           mask);
    Tensor order = reshaped(mask.flatten().to_long().cumsum(0) - 1, dims_of(mask));
    const Condition one_for_each = {Must::Count, dims_of(values)[0]};
    if (!is_settled(mask, one_for_each))
      order = with_check(order, mask.to_long().sum(), one_for_each);
    v = read_at({values, {0}, {order}});
  } else if (values.dim() > rest) {
    v = values.squeeze(values.dim() - rest - 1);
  }
  return where(m, accumulate ? t + v : v, t);
}

}  // namespace

Tensor Tensor::index(const std::vector<Index>& indices, Loc where) const {
  ViewCall call("index", where);
  Indexed r = take_views(*this, indices);
  if (r.axes.empty()) return r.view;
  Call copy("index", where);
  return read_at(r);
}

Tensor Tensor::operator()(Index a) const { return index({a}, a.where); }
Tensor Tensor::operator()(Index a, Index b) const { return index({a, b}, a.where); }
Tensor Tensor::operator()(Index a, Index b, Index c) const { return index({a, b, c}, a.where); }
Tensor Tensor::operator()(Index a, Index b, Index c, Index d) const {
  return index({a, b, c, d}, a.where);
}
Tensor Tensor::operator()(Index a, Index b, Index c, Index d, Index e) const {
  return index({a, b, c, d, e}, a.where);
}
Tensor Tensor::operator[](Index a) const { return index({a}, a.where); }

Tensor& Tensor::set(const std::vector<Index>& indices, Operand value, Loc where) {
  OuterCall call("set", where);
  return index_put_(indices, value);
}

Tensor& Tensor::index_put_(const std::vector<Index>& indices, Operand value, bool accumulate,
                           Loc where) {
  OuterCall call("index_put_", where);
  expect_defined(*this);
  Tensor v = to_tensor(value, *this, dtype());
  if (is_lone_mask(indices))
    return assign(written_where(*this, indices[0].positions, v, accumulate));
  Indexed r = take_views(*this, indices);
  if (r.axes.empty())
    r.view.assign(without_leading_ones(accumulate ? r.view + v : v, dims_of(r.view).size()));
  else
    r.view.assign(written_at(r, v, accumulate));
  return *this;
}

Tensor Tensor::masked_fill(const Tensor& mask, Operand value, Loc where) const {
  Call call("masked_fill", where);
  expect_defined(mask, "the mask");
  expect(mask.dtype() == DType::boolean, "the mask must be bool, got ", mask.dtype());
  expect(!value.tensor || value.tensor->dim() == 0, "needs a number or a tensor without axes");
  return where_tensor(mask, to_tensor(value, *this, dtype()), *this);
}

// Small masks count what lies before each; large ones are sorted.
Tensor Tensor::nonzero(Loc where) const {
  Call call("nonzero", where);
  Tensor flat = to_bool().flatten();
  int64_t all = numeric(dims_of(flat)[0]), count = flat.sum().item<int64_t>();
  constexpr int64_t kSmall = 2048;
  Tensor at;
  if (count == 0) {
    at = zeros({0}, {DType::i64, device()});
  } else if (all <= kSmall) {
    Tensor rank = arange(Number(count), {DType::i64, device()}).unsqueeze(1);
    at = (flat.to_long().cumsum(0).unsqueeze(0) <= rank).sum(1);
  } else {
    at = flat.logical_not().to(DType::u8).argsort(0).narrow(0, 0, count);
  }
  std::vector<int64_t> dims = shape();
  std::vector<Tensor> columns(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    columns[i] = at % std::max<int64_t>(dims[i], 1);
    at = at.floor_divide(std::max<int64_t>(dims[i], 1));
  }
  return columns.empty() ? zeros({count, 0}, {DType::i64, device()}) : stack(columns, 1);
}

Tensor Tensor::argwhere(Loc where) const {
  Call call("argwhere", where);
  return nonzero();
}

Tensor Tensor::masked_select(const Tensor& mask, Loc where) const {
  Call call("masked_select", where);
  expect_defined(mask, "the mask");
  expect(mask.dtype() == DType::boolean, "the mask must be bool, got ", mask.dtype());
  std::vector<Dim> dims = broadcast_dims(dims_of(*this), dims_of(mask));
  Tensor at = broadcast_tensor(mask, dims).flatten().nonzero().select(1, 0);
  return pick_last(broadcast_tensor(*this, dims).flatten(), at.unsqueeze(-1));
}

Tensor Tensor::one_hot(int64_t num_classes, Loc where) const {
  Call call("one_hot", where);
  expect_index(*this);
  if (num_classes == -1) num_classes = size_add(amax().item<int64_t>(), 1);
  expect(num_classes > 0, "needs a number of classes > 0, got ", num_classes);
  Tensor given = checked(*this, {Must::Class, num_classes});
  Tensor at = make_value(prim::cast(node_of(given), DType::index), *this).unsqueeze(-1);
  Tensor classes = make_value(prim::iota(num_classes), *this);
  return elementwise(Op::Eq, {at, classes}, DType::index).to_long();
}

// The row padding_idx gets no gradient.
Tensor Tensor::embedding(const Tensor& weight, int64_t padding_idx, Loc where) const {
  Call call("embedding", where);
  expect_index(*this);
  expect_defined(weight, "the weight");
  expect(weight.dim() == 2, "needs a weight (rows, features), got shape ", weight);
  Tensor rows = weight;
  if (padding_idx >= 0) {
    expect(padding_idx < weight.size(0), "padding_idx ", padding_idx, " is out of range for ",
           weight.size(0), " rows");
    Tensor row = arange(Number(weight.size(0)), {DType::i64, device()}).unsqueeze(1);
    rows = mote::where(row.eq(padding_idx), weight.detach(), weight);
  }
  common_device({this, &weight});
  const Tensor y = read_at({rows, {0}, {checked(*this, {Must::Row, dims_of(weight)[0]})}});
  return recorded("index_select", y, {&weight, this}, [] { return std::vector<int64_t>{0}; });
}

}  // namespace mote
