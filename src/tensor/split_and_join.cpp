// Splitting by number or place, stacks, blocks, products of sets; copies with one part set.
#include <algorithm>

#include "tensor/checks.h"
#include "tensor/gather.h"
#include "tensor/movement.h"
#include "tensor/operators.h"

namespace mote {

namespace {

std::vector<Tensor> split_before(const Tensor& t, const std::vector<int64_t>& before,
                                 int64_t axis) {
  const int64_t n = t.size(axis);
  auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (size_t i = 0; i <= before.size(); ++i) {
    const int64_t end = i < before.size() ? place(before[i]) : n;
    parts.push_back(t.narrow(axis, begin, std::max<int64_t>(end - begin, 0)));
    begin = end;
  }
  return parts;
}

std::vector<Tensor> split_into(const Tensor& t, int64_t sections, int64_t axis) {
  expect(sections > 0, "needs a number of sections > 0, got ", sections);
  const int64_t n = t.size(axis);
  std::vector<int64_t> before;
  for (int64_t i = 1; i < sections; ++i)
    before.push_back(i * (n / sections) + std::min(i, n % sections));
  return split_before(t, before, axis);
}

// One number is how many equal parts there are to be.
std::vector<Tensor> split_evenly(const Tensor& t, const Ints& how, int64_t axis, int64_t rank) {
  expect(t.dim() >= rank, "needs at least ", rank, " axes, got shape ", t);
  if (how.list.size() != 1) return split_before(t, how.list, axis);
  const int64_t sections = how.list[0];
  expect(sections > 0 && t.size(axis) % sections == 0, "cannot split axis ", axis, " of shape ", t,
         " into ", sections, " equal parts");
  return split_into(t, sections, axis);
}

std::vector<Tensor> each(const std::vector<Tensor>& tensors, Tensor (*f)(const Tensor&)) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) {
    expect_defined(t, "a tensor of the list");
    out.push_back(f(t));
  }
  return out;
}

// At least so many axes. Of three the new ones stand around a vector and behind a matrix.
Tensor with_rank(const Tensor& x, int64_t rank) {
  Tensor t = x.dim() == 0 ? x.reshape({1}) : x;
  if (rank >= 2 && t.dim() == 1) t = t.unsqueeze(0);
  if (rank >= 3 && t.dim() == 2) t = t.unsqueeze(-1);
  return t;
}

// A copy of t with the part that `view` shows set to src. Called as a program would, for views.
template <class View>
Tensor with_part(const Tensor& t, const Tensor& src, View view) {
  expect_defined(src, "the source");
  Tensor out = t.clone(), part = view(out);
  expect(dims_of(part) == dims_of(src), "a source of shape ", src, " does not fit a part of shape ",
         part);
  part.assign(src);
  return out;
}

// Rows of positions 0 ... n - 1, r in each, in order; not below the one before (or above it).
void choose(int64_t n, int64_t r, bool again, std::vector<int64_t>& row,
            std::vector<int64_t>& out) {
  if (static_cast<int64_t>(row.size()) == r) {
    out.insert(out.end(), row.begin(), row.end());
    return;
  }
  for (int64_t i = row.empty() ? 0 : row.back() + (again ? 0 : 1); i < n; ++i) {
    row.push_back(i);
    choose(n, r, again, row, out);
    row.pop_back();
  }
}

Tensor triangle_indices(int64_t n, int64_t m, int64_t offset, bool lower, const Options& o) {
  expect(n >= 0 && m >= 0, "needs sizes >= 0, got ", n, " and ", m);
  std::vector<int64_t> rows, columns;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t edge = std::clamp<int64_t>(i + offset + (lower ? 1 : 0), 0, m);
    for (int64_t k = lower ? 0 : edge; k < (lower ? edge : m); ++k)
      rows.push_back(i), columns.push_back(k);
  }
  const auto count = static_cast<int64_t>(rows.size());
  rows.insert(rows.end(), columns.begin(), columns.end());
  const DType d = o.dtype == DType::none ? DType::i64 : o.dtype;
  return from_data(rows, {2, count}, {d, o.device});
}

}  // namespace

std::vector<Tensor> Tensor::tensor_split(int64_t sections, int64_t dim, Loc where) const {
  ViewCall call("tensor_split", where);
  return split_into(*this, sections, to_axis(dim, this->dim()));
}
std::vector<Tensor> Tensor::tensor_split(const Ints& before, int64_t dim, Loc where) const {
  ViewCall call("tensor_split", where);
  return split_before(*this, before.list, to_axis(dim, this->dim()));
}
std::vector<Tensor> Tensor::hsplit(const Ints& how, Loc where) const {
  ViewCall call("hsplit", where);
  return split_evenly(*this, how, dim() == 1 ? 0 : 1, 1);
}
std::vector<Tensor> Tensor::vsplit(const Ints& how, Loc where) const {
  ViewCall call("vsplit", where);
  return split_evenly(*this, how, 0, 2);
}
std::vector<Tensor> Tensor::dsplit(const Ints& how, Loc where) const {
  ViewCall call("dsplit", where);
  return split_evenly(*this, how, 2, 3);
}

Tensor atleast_1d(const Tensor& x, Loc where) {
  ViewCall call("atleast_1d", where);
  return with_rank(x, 1);
}
Tensor atleast_2d(const Tensor& x, Loc where) {
  ViewCall call("atleast_2d", where);
  return with_rank(x, 2);
}
Tensor atleast_3d(const Tensor& x, Loc where) {
  ViewCall call("atleast_3d", where);
  return with_rank(x, 3);
}

std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, Loc where) {
  ViewCall call("broadcast_tensors", where);
  std::vector<Dim> dims;
  for (const Tensor& t : tensors) dims = broadcast_dims(dims, dims_of(t));
  std::vector<Size> sizes;
  for (const Dim& d : dims) sizes.push_back(to_size(d));
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.expand(sizes));
  return out;
}

Tensor dstack(const std::vector<Tensor>& tensors, Loc where) {
  Call call("dstack", where);
  return cat(each(tensors, [](const Tensor& t) { return with_rank(t, 3); }), 2);
}
Tensor column_stack(const std::vector<Tensor>& tensors, Loc where) {
  Call call("column_stack", where);
  return cat(each(tensors,
                  [](const Tensor& t) {
                    return t.dim() <= 1 ? t.reshape({t.numel(), 1}) : t;
                  }),
             1);
}

Tensor block_diag(const std::vector<Tensor>& tensors, Loc where) {
  Call call("block_diag", where);
  std::vector<Tensor> blocks = each(tensors, [](const Tensor& t) { return with_rank(t, 2); });
  expect(!blocks.empty(), "needs at least one tensor");
  int64_t columns = 0, at = 0;
  for (const Tensor& t : blocks) {
    expect(t.dim() == 2, "needs at most two axes, got shape ", t);
    columns += t.size(1);
  }
  for (Tensor& t : blocks) {
    const int64_t own = t.size(1);
    t = t.pad({at, columns - at - own});
    at += own;
  }
  return cat(blocks, 0);
}

Tensor cartesian_prod(const std::vector<Tensor>& tensors, Loc where) {
  Call call("cartesian_prod", where);
  for (const Tensor& t : tensors) expect(t.dim() == 1, "needs vectors, got shape ", t);
  if (tensors.size() == 1) return tensors[0].clone();
  std::vector<Tensor> columns = meshgrid(tensors);
  for (Tensor& t : columns) t = t.flatten();
  return stack(columns, 1);
}

Tensor combinations(const Tensor& x, int64_t r, bool with_replacement, Loc where) {
  Call call("combinations", where);
  expect(x.dim() == 1, "needs a vector, got shape ", x);
  expect(r >= 0, "needs a size >= 0, got ", r);
  if (r == 0) return x.narrow(0, 0, 0).clone();
  std::vector<int64_t> row, rows;
  choose(x.size(0), r, with_replacement, row, rows);
  const auto count = static_cast<int64_t>(rows.size()) / r;
  return select_at(x, 0, from_data(rows, {rows.size()}, {DType::i64, x.device()}))
      .reshape({count, r});
}

Tensor vander(const Tensor& x, int64_t n, bool increasing, Loc where) {
  Call call("vander", where);
  expect(x.dim() >= 1, "needs a tensor with axes");
  const int64_t count = n < 0 ? x.size(-1) : n;
  std::vector<Tensor> powers;
  for (int64_t k = 0; k < count; ++k) powers.push_back(k ? powers.back() * x : x.ones_like());
  if (!increasing) std::reverse(powers.begin(), powers.end());
  return powers.empty() ? x.unsqueeze(-1).narrow(-1, 0, 0).clone() : stack(powers, -1);
}

Tensor tril_indices(int64_t n, int64_t m, int64_t offset, const Options& o, Loc where) {
  Call call("tril_indices", where);
  return triangle_indices(n, m, offset, true, o);
}
Tensor triu_indices(int64_t n, int64_t m, int64_t offset, const Options& o, Loc where) {
  Call call("triu_indices", where);
  return triangle_indices(n, m, offset, false, o);
}

Tensor Tensor::fliplr(Loc where) const {
  Call call("fliplr", where);
  expect(dim() >= 2, "needs at least two axes, got shape ", *this);
  return flip(1);
}
Tensor Tensor::flipud(Loc where) const {
  Call call("flipud", where);
  expect(dim() >= 1, "needs a tensor with axes");
  return flip(0);
}
Tensor Tensor::diagflat(int64_t offset, Loc where) const {
  Call call("diagflat", where);
  return flatten().diag(offset);
}
Tensor Tensor::reshape_as(const Tensor& other, Loc where) const {
  return reshape(other.sizes(), where);
}

Tensor Tensor::sum_to_size(const Sizes& shape, Loc where) const {
  Call call("sum_to_size", where);
  std::vector<Dim> to = to_dims(shape);
  expect(can_expand(to, dims_of(*this)), "shape ", *this, " is no broadcast of ", to);
  std::vector<int64_t> over;
  const size_t added = dims_of(*this).size() - to.size();
  for (size_t i = 0; i < dims_of(*this).size(); ++i)
    if (i < added || to[i - added] != dims_of(*this)[i]) over.push_back(static_cast<int64_t>(i));
  if (over.empty()) return unchanged(*this);
  return reshaped(sum(over, true, dtype()), to);
}

Tensor Tensor::select_scatter(const Tensor& src, int64_t dim, int64_t index, Loc where) const {
  OuterCall call("select_scatter", where);
  return with_part(*this, src, [&](const Tensor& t) { return t.select(dim, index); });
}
Tensor Tensor::slice_scatter(const Tensor& src, int64_t dim, const Slice& slice, Loc where) const {
  OuterCall call("slice_scatter", where);
  std::vector<Index> indices;
  for (int64_t i = to_axis(dim, this->dim()); i > 0; --i) indices.emplace_back(Slice());
  indices.emplace_back(slice);
  return with_part(*this, src, [&](const Tensor& t) { return t.index(indices); });
}
Tensor Tensor::diagonal_scatter(const Tensor& src, int64_t offset, int64_t dim1, int64_t dim2,
                                Loc where) const {
  OuterCall call("diagonal_scatter", where);
  return with_part(*this, src, [&](const Tensor& t) { return t.diagonal(offset, dim1, dim2); });
}

// The n-th true place takes the n-th element.
Tensor Tensor::masked_scatter(const Tensor& mask, const Tensor& src, Loc where) const {
  Call call("masked_scatter", where);
  expect_defined(mask, "the mask");
  expect_defined(src, "the source");
  expect(mask.dtype() == DType::boolean, "needs a mask of bools, got ", mask.dtype());
  expect(src.dtype() == dtype(), "a source of ", src.dtype(), " does not fit ", dtype());
  common_device({this, &mask, &src});
  const std::vector<Dim> dims = broadcast_dims(dims_of(*this), dims_of(mask));
  Tensor taken = broadcast_tensor(mask, dims), own = broadcast_tensor(*this, dims);
  if (own.numel() == 0) return own;
  if (src.numel() == 0) return mote::where(checked(taken, {Must::Count, 0}), 0, own);
  Tensor place = taken.flatten().to_long().cumsum(0) - 1;
  place = mote::where(taken.flatten(), place, 0);
  place = checked_index(place, product(dims_of(src)));
  Tensor values = gather_at(src.flatten(), 0, place);
  return mote::where(taken, reshaped(values, dims), own);
}

Tensor Tensor::put(const Tensor& index, const Tensor& src, bool accumulate, Loc where) const {
  Call call("put", where);
  expect_defined(index, "the index");
  expect_defined(src, "the source");
  expect(index.numel() == src.numel(), "an index of shape ", index, " needs as many values, got ",
         src);
  Tensor out = flatten().clone();
  out.index_put_({index.flatten()}, src.flatten(), accumulate);
  return out.reshape(sizes());
}
Tensor Tensor::index_put(const std::vector<Index>& indices, Operand value, bool accumulate,
                         Loc where) const {
  Call call("index_put", where);
  Tensor out = clone();
  return out.index_put_(indices, value, accumulate);
}

Tensor Tensor::index_reduce(int64_t dim, const Tensor& index, const Tensor& src, const char* reduce,
                            bool include_self, Loc where) const {
  Call call("index_reduce", where);
  expect_defined(index, "the index");
  expect_defined(src, "the source");
  const std::string how = word(reduce, "reduce");
  expect(how == "prod" || how == "mean" || how == "amax" || how == "amin",
         "reduce is prod, mean, amax or amin, got ", how);
  const int64_t axis = to_axis(dim, this->dim());
  expect(index.dim() == 1 && src.dim() == this->dim() && index.size(0) == src.size(axis),
         "needs one index for each row of the source, got shapes ", index, " and ", src);
  std::vector<Dim> along(dims_of(src).size(), Dim(1));
  along[static_cast<size_t>(axis)] = dims_of(index)[0];
  Tensor all = broadcast_tensor(reshaped(index, along), dims_of(src));
  return scatter_reduce(axis, all, src, reduce, include_self);
}

}  // namespace mote
