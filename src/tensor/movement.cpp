// Movement: the same elements in another shape or order. Views but where PyTorch copies.
#include "tensor/movement.h"

#include <algorithm>
#include <optional>

namespace mote {

namespace {

using prim::Extent;

// PyTorch's rule: the strides of the same elements in the new shape, if there are any.
std::optional<std::vector<int64_t>> view_strides(const std::vector<int64_t>& old_shape,
                                                 const std::vector<int64_t>& old,
                                                 const std::vector<Dim>& dims) {
  std::vector<int64_t> out(dims.size(), 1);
  int64_t count = 1;
  for (int64_t n : old_shape) count *= n;
  if (count == 0) return row_major_strides(dims);
  if (old_shape.empty()) return out;
  auto at = static_cast<int64_t>(dims.size()) - 1;
  int64_t step = old.back(), old_run = 1, new_run = 1;
  for (size_t i = old_shape.size(); i-- > 0;) {
    old_run *= old_shape[i];
    bool continues = i > 0 && (old_shape[i - 1] == 1 || old[i - 1] == old_run * step);
    if (continues) continue;
    for (; at >= 0 && (new_run < old_run || dims[static_cast<size_t>(at)] == Dim(1)); --at) {
      out[static_cast<size_t>(at)] = new_run * step;
      new_run *= dims[static_cast<size_t>(at)].size;
    }
    if (new_run != old_run) return {};
    if (i > 0) step = old[i - 1];
    old_run = new_run = 1;
  }
  return at == -1 ? std::optional(out) : std::nullopt;
}

// The size that -1 stands for: what the source holds over what is named. Equal symbolic sizes
// cancel as they are.
Dim inferred_size(std::vector<Dim> have, const std::vector<Dim>& wanted, const Tensor& t) {
  int64_t named = 1;
  for (const Dim& d : wanted) {
    if (d == Dim(-1)) continue;
    auto same = d.is_symbolic() ? std::find(have.begin(), have.end(), d) : have.end();
    if (same != have.end())
      have.erase(same);
    else
      named = size_mul(named, numeric(d));
  }
  Dim rest = product(have);
  expect(named != 0, "-1 is ambiguous in the shape ", wanted, " for shape ", t);
  expect(rest.size % named == 0, "shape ", t, " does not fit ", wanted);
  return rest / Dim(named);
}

std::vector<Dim> new_shape(const Tensor& t, const Sizes& shape) {
  std::vector<Dim> dims = to_dims(shape);
  auto open = std::count(dims.begin(), dims.end(), Dim(-1));
  expect(open <= 1, "only one size may be -1, got ", dims);
  for (const Dim& d : dims) expect(d.is_symbolic() || d.size >= -1, "a size is negative in ", dims);
  if (open) *std::find(dims.begin(), dims.end(), Dim(-1)) = inferred_size(dims_of(t), dims, t);
  Dim have = product(dims_of(t)), wanted = product(dims);
  expect(have.size == wanted.size && value_of(have) == value_of(wanted), "shape ", t,
         " does not fit ", dims);
  if (note_extent && have != wanted && value_of(have))  // they may differ in a replay
    note_extent({wanted, 0, have, true});
  return dims;
}

std::optional<Tensor> try_view(const Tensor& t, const std::vector<Dim>& dims) {
  std::vector<int64_t> strides;
  bool symbolic = shape_of(t).symbolic;
  for (const Dim& d : dims) symbolic |= d.is_symbolic();
  if (!symbolic) {
    auto found = view_strides(shape_of(t).sizes(), strides_of(t), dims);
    if (!found) return {};
    strides = *found;
  }
  return make_view(t, prim::reshape(chain_of(t), dims), strides);
}

std::vector<int64_t> pick(const std::vector<int64_t>& from, const std::vector<int64_t>& at) {
  std::vector<int64_t> out;
  for (int64_t i : at) out.push_back(from[static_cast<size_t>(i)]);
  return out;
}

Tensor permuted(const Tensor& t, const std::vector<int64_t>& axes) {
  std::vector<int64_t> strides = strides_of(t);
  return make_view(t, prim::permute(chain_of(t), axes),
                   strides.empty() ? strides : pick(strides, axes));
}

Tensor expanded(const Tensor& t, const std::vector<Dim>& dims) {
  const std::vector<Dim>& from = dims_of(t);
  std::vector<int64_t> old = strides_of(t), strides(dims.size(), 0);
  for (size_t i = 1; i <= old.size(); ++i)
    if (from[from.size() - i] == dims[dims.size() - i])
      strides[dims.size() - i] = old[old.size() - i];
  return make_view(t, expand_to(chain_of(t), dims), strides);
}

}  // namespace

void (*note_extent)(const AxisPart&) = nullptr;

Tensor reshaped(const Tensor& t, std::span<const Dim> dims) {
  std::vector<Dim> wanted(dims.begin(), dims.end());
  if (auto v = try_view(t, wanted)) return *v;
  return make_value(prim::reshape(node_of(t), wanted), t);
}

Tensor shrunk(const Tensor& t, std::span<const Extent> bounds) {
  return make_view(t, prim::shrink(chain_of(t), bounds), strides_of(t));
}

std::vector<Extent> whole(std::span<const Dim> dims) {
  std::vector<Extent> out;
  for (const Dim& d : dims) out.push_back({0, d});
  return out;
}
std::vector<Extent> nothing(size_t rank) { return std::vector<Extent>(rank, Extent{0, 0}); }

static int64_t fewest(const AxisPart& p) { return p.length.is_symbolic() ? 1 : 0; }

std::optional<bool> fits_now(const AxisPart& p) {
  auto b = value_of(p.begin), n = value_of(p.length), s = value_of(p.size);
  if (!b || !n || !s) return {};
  if (p.is_reshape) return *b == *s;
  return *b >= 0 && *n >= fewest(p) && *b <= *s - *n;
}

std::string said_misfit(const AxisPart& p) {
  if (p.is_reshape)
    return text("a shape of ", said(p.size), " elements does not fit one of ", said(p.begin));
  return text("from ", said(p.begin), " there are no ", said(p.length),
              " elements on an axis of size ", said(p.size));
}

bool lies_within(const Dim& begin, const Dim& length, const Dim& size) {
  const AxisPart part = {begin, length, size};
  auto always = [&] {
    return least(begin) >= 0 && least(length) >= fewest(part) && least(size - begin - length) >= 0;
  };
  const std::optional<bool> now = fits_now(part);
  if (!now) return always();
  const bool symbolic = begin.is_symbolic() || length.is_symbolic() || size.is_symbolic();
  if (*now && symbolic && note_extent && !always()) note_extent(part);
  return *now;
}

Extent kept_within(const Dim& begin, const Dim& length, const Dim& size) {
  if (!begin.is_symbolic() && !length.is_symbolic()) return {begin, begin + length};
  Dim count = length.is_symbolic() ? larger(length, 1) : length;
  Dim first = smaller(larger(begin, 0), size - Dim(least(count)));
  return {first, first + smaller(count, size - first)};
}

Tensor cut(const Tensor& t, int64_t axis, const Dim& begin, const Dim& end) {
  std::vector<Extent> bounds = whole(dims_of(t));
  bounds[static_cast<size_t>(axis)] = {begin, end};
  return shrunk(t, bounds);
}

Ref every_nth(const Ref& r, int64_t axis, int64_t begin, int64_t count, int64_t step) {
  auto a = static_cast<size_t>(axis);
  std::vector<Extent> bounds = whole(r->shape->dims);
  bounds[a] = {begin, count == 0 ? begin : begin + (count - 1) * step + 1};
  Ref run = prim::shrink(r, bounds);
  if (count <= 1) return run;
  std::vector<Dim> dims = run->shape->dims;
  dims[a] = count;
  return prim::reshape(prim::window(run, axis, 1, step, 1), dims);
}

Tensor with_step(const Tensor& t, int64_t axis, int64_t begin, int64_t count, int64_t step) {
  std::vector<int64_t> strides = strides_of(t);
  if (!strides.empty()) strides[static_cast<size_t>(axis)] *= step;
  Ref chain = chain_of(t);
  if (step < 0) {
    chain = prim::flip(chain, {&axis, 1});
    begin = numeric(dims_of(t)[static_cast<size_t>(axis)]) - 1 - begin;
    step = -step;
  }
  return make_view(t, every_nth(chain, axis, begin, count, step), strides);
}

// Windows that touch but do not overlap, as a reshape, which is its own way back.
static Ref cut_in_windows(const Ref& r, int64_t axis, int64_t kernel) {
  auto a = static_cast<size_t>(axis);
  const int64_t count = r->shape->dims[a].size / kernel;
  std::vector<Extent> bounds = whole(r->shape->dims);
  bounds[a] = {0, count * kernel};
  Ref run = prim::shrink(r, bounds);
  std::vector<Dim> dims = run->shape->dims;
  dims[a] = count;
  dims.insert(dims.begin() + axis + 1, kernel);
  return prim::reshape(run, dims);
}

// (.., size, ..) to (.., windows, places in a window, ..).
Ref window_axis(const Ref& r, int64_t axis, int64_t kernel, int64_t stride, int64_t dilation) {
  if (kernel == stride && dilation == 1 && !r->shape->dims[static_cast<size_t>(axis)].is_symbolic())
    return cut_in_windows(r, axis, kernel);
  std::vector<int64_t> order = range_of(r->shape->rank());
  order.insert(order.begin() + axis + 1, r->shape->rank());
  return prim::permute(prim::window(r, axis, kernel, stride, dilation), order);
}

Ref windows(const Ref& r, std::span<const int64_t> kernel, std::span<const int64_t> stride,
            std::span<const int64_t> dilation) {
  auto spatial = static_cast<int64_t>(kernel.size());
  int64_t first = r->shape->rank() - spatial;
  Ref out = r;
  std::vector<int64_t> order = range_of(first);
  for (int64_t i = 0; i < spatial; ++i) {
    auto s = static_cast<size_t>(i);
    out = window_axis(out, first + 2 * i, kernel[s], stride[s], dilation[s]);
    order.push_back(first + 2 * i);
  }
  for (int64_t i = 0; i < spatial; ++i) order.push_back(first + 2 * i + 1);
  return prim::permute(out, order);
}

Tensor Tensor::reshape(const Sizes& shape, Loc where) const {
  ViewCall call("reshape", where);
  return reshaped(*this, new_shape(*this, shape));
}

Tensor Tensor::view(const Sizes& shape, Loc where) const {
  ViewCall call("view", where);
  std::vector<Dim> dims = new_shape(*this, shape);
  auto v = try_view(*this, dims);
  expect(v.has_value(), "shape ", *this, " with strides ", strides_of(*this), " cannot be seen as ",
         dims, " without a copy; use reshape()");
  return *v;
}

Tensor Tensor::view_as(const Tensor& other, Loc where) const { return view(other.sizes(), where); }

Tensor Tensor::permute(const Axes& axes, Loc where) const {
  ViewCall call("permute", where);
  std::vector<int64_t> order = to_axes(axes, dim());
  expect(static_cast<int64_t>(order.size()) == dim(), "needs all axes of shape ", *this, ", got ",
         axes.list);
  return permuted(*this, order);
}

Tensor Tensor::transpose(int64_t a, int64_t b, Loc where) const {
  ViewCall call("transpose", where);
  std::vector<int64_t> order = range_of(dim());
  int64_t x = to_axis(a, dim()), y = to_axis(b, dim());
  if (dim() == 0) return unchanged(*this);
  std::swap(order[static_cast<size_t>(x)], order[static_cast<size_t>(y)]);
  return permuted(*this, order);
}
Tensor Tensor::swapaxes(int64_t a, int64_t b, Loc where) const {
  ViewCall call("swapaxes", where);
  return transpose(a, b);
}

Tensor Tensor::movedim(const Axes& from, const Axes& to, Loc where) const {
  ViewCall call("movedim", where);
  std::vector<int64_t> source = to_axes(from, dim()), target = to_axes(to, dim());
  expect(source.size() == target.size(), "moves ", source.size(), " axes to ", target.size(),
         " places");
  if (dim() == 0) return unchanged(*this);
  std::vector<int64_t> order(static_cast<size_t>(dim()), -1);
  for (size_t i = 0; i < source.size(); ++i) order[static_cast<size_t>(target[i])] = source[i];
  int64_t next = 0;
  for (int64_t& axis : order) {
    if (axis >= 0) continue;
    while (std::count(source.begin(), source.end(), next)) ++next;
    axis = next++;
  }
  return permuted(*this, order);
}

Tensor Tensor::t(Loc where) const {
  ViewCall call("t", where);
  expect(dim() <= 2, "needs at most two axes, got shape ", *this);
  return dim() < 2 ? unchanged(*this) : transpose(0, 1);
}
Tensor Tensor::mT(Loc where) const {
  ViewCall call("mT", where);
  expect(dim() >= 2, "needs at least two axes, got shape ", *this);
  return transpose(-2, -1);
}

Tensor Tensor::expand(const Sizes& shape, Loc where) const {
  ViewCall call("expand", where);
  std::vector<Dim> dims = to_dims(shape);
  const std::vector<Dim>& from = dims_of(*this);
  expect(from.size() <= dims.size(), "shape ", *this, " has more axes than ", dims);
  size_t added = dims.size() - from.size();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim(-1) && i >= added) dims[i] = from[i - added];
    expect(dims[i].is_symbolic() || dims[i].size >= 0, "a new axis needs a size, got ", dims);
  }
  expect(can_expand(from, dims), "shape ", *this, " cannot be expanded to ", dims);
  return expanded(*this, dims);
}
Tensor Tensor::expand_as(const Tensor& other, Loc where) const {
  ViewCall call("expand_as", where);
  return expand(other.sizes());
}
Tensor Tensor::broadcast_to(const Sizes& shape, Loc where) const {
  ViewCall call("broadcast_to", where);
  return expand(shape);
}
Tensor broadcast_tensor(const Tensor& t, std::span<const Dim> dims) {
  return make_value(expand_to(node_of(t), dims), t);
}

Tensor Tensor::shrink(const Sizes& begin, const Sizes& end, Loc where) const {
  ViewCall call("shrink", where);
  std::vector<Dim> from = to_dims(begin), to = to_dims(end);
  const std::vector<Dim>& dims = dims_of(*this);
  expect(from.size() == dims.size() && to.size() == dims.size(),
         "needs a begin and an end per axis", " of shape ", *this, ", got ", from, " and ", to);
  std::vector<Extent> bounds;
  for (size_t i = 0; i < dims.size(); ++i) {
    bool numbers = !from[i].is_symbolic() && !to[i].is_symbolic() && !dims[i].is_symbolic();
    bool ordered = !numbers || (0 <= from[i].size && from[i].size <= to[i].size);
    expect(ordered && lies_within(from[i], to[i] - from[i], dims[i]), "cannot cut ", from, " to ",
           to, " out of shape ", *this);
    bounds.push_back(kept_within(from[i], to[i] - from[i], dims[i]));
  }
  return shrunk(*this, bounds);
}

Tensor Tensor::narrow(int64_t dim, Size start, Size length, Loc where) const {
  ViewCall call("narrow", where);
  expect(this->dim() > 0, "a tensor without axes cannot be narrowed");
  int64_t axis = to_axis(dim, this->dim());
  Dim size = dims_of(*this)[static_cast<size_t>(axis)], begin = to_dim(start), n = to_dim(length);
  if (!begin.is_symbolic() && begin.size < 0) begin = begin + size;
  if (!lies_within(begin, n, size)) expect(false, said_misfit({begin, n, size}));
  Extent part = kept_within(begin, n, size);
  return cut(*this, axis, part.begin, part.end);
}

Tensor selected(const Tensor& t, int64_t axis, const Size& index, int64_t said_axis) {
  Dim size = dims_of(t)[static_cast<size_t>(axis)], at = to_dim(index);
  Dim from_front = !at.is_symbolic() && at.size < 0 ? at + size : at;
  expect(lies_within(from_front, 1, size), "index ", said(at), " is out of range for axis ",
         said_axis, " of size ", said(size));
  Extent part = kept_within(from_front, 1, size);
  return cut(t, axis, part.begin, part.end).squeeze(axis);
}

Tensor Tensor::select(int64_t dim, Size index, Loc where) const {
  ViewCall call("select", where);
  expect(this->dim() > 0, "a tensor without axes cannot be indexed");
  int64_t axis = to_axis(dim, this->dim());
  return selected(*this, axis, index, axis);
}

Tensor Tensor::squeeze(Loc where) const {
  ViewCall call("squeeze", where);
  return squeeze(Axes(range_of(dim())));
}
Tensor Tensor::squeeze(const Axes& axes, Loc where) const {
  ViewCall call("squeeze", where);
  std::vector<int64_t> drop = to_axes(axes, dim());
  std::vector<Dim> dims;
  for (int64_t i = 0; i < dim(); ++i) {
    const Dim& d = dims_of(*this)[static_cast<size_t>(i)];
    if (d != Dim(1) || !std::count(drop.begin(), drop.end(), i)) dims.push_back(d);
  }
  return reshaped(*this, dims);
}

Tensor Tensor::unsqueeze(int64_t dim, Loc where) const {
  ViewCall call("unsqueeze", where);
  int64_t rank = this->dim();
  expect(dim >= -rank - 1 && dim <= rank, "a new axis of shape ", *this, " can be ", -rank - 1,
         " to ", rank, ", got ", dim);
  int64_t axis = to_axis(dim, rank + 1);
  std::vector<Dim> dims = dims_of(*this);
  dims.insert(dims.begin() + static_cast<long>(axis), Dim(1));
  return reshaped(*this, dims);
}

Tensor Tensor::flatten(int64_t start_dim, int64_t end_dim, Loc where) const {
  ViewCall call("flatten", where);
  auto first = static_cast<size_t>(to_axis(start_dim, dim()));
  auto last = static_cast<size_t>(to_axis(end_dim, dim()));
  expect(first <= last, "the first axis ", start_dim, " comes after the last, ", end_dim);
  if (dim() == 0) return unsqueeze(0);
  const std::vector<Dim>& from = dims_of(*this);
  std::vector<Dim> dims(from.begin(), from.begin() + static_cast<long>(first));
  dims.push_back(product(std::span(from).subspan(first, last - first + 1)));
  dims.insert(dims.end(), from.begin() + static_cast<long>(last) + 1, from.end());
  return reshaped(*this, dims);
}
Tensor Tensor::ravel(Loc where) const {
  ViewCall call("ravel", where);
  return flatten();
}

Tensor Tensor::unflatten(int64_t dim, const Sizes& sizes, Loc where) const {
  ViewCall call("unflatten", where);
  auto axis = static_cast<size_t>(to_axis(dim, this->dim()));
  std::vector<Dim> parts = to_dims(sizes), dims = dims_of(*this);
  expect(!dims.empty() && !parts.empty(), "needs an axis and sizes for it");
  Dim whole_size = dims[axis];
  auto open = std::find(parts.begin(), parts.end(), Dim(-1));
  if (open != parts.end()) *open = inferred_size({whole_size}, parts, *this);
  expect(product(parts).size == whole_size.size, "an axis of size ", whole_size, " does not fit ",
         parts);
  dims.erase(dims.begin() + static_cast<long>(axis));
  dims.insert(dims.begin() + static_cast<long>(axis), parts.begin(), parts.end());
  return reshaped(*this, dims);
}

std::vector<Tensor> Tensor::split(const Ints& size, int64_t dim, Loc where) const {
  ViewCall call("split", where);
  expect(this->dim() > 0, "a tensor without axes cannot be split");
  int64_t axis = to_axis(dim, this->dim());
  int64_t total = numeric(dims_of(*this)[static_cast<size_t>(axis)]);
  std::vector<int64_t> parts = size.list;
  if (parts.size() == 1 && parts[0] != total) {
    int64_t each = parts[0];
    expect(each > 0, "needs a part size > 0, got ", each);
    parts.assign(static_cast<size_t>(total / each), each);
    if (total % each || parts.empty()) parts.push_back(total % each);
  }
  int64_t sum = 0;
  for (int64_t n : parts) expect(n >= 0, "a part is negative in ", parts), sum = size_add(sum, n);
  expect(sum == total, "the parts ", parts, " do not add up to the size ", total, " of axis ",
         axis);
  std::vector<Tensor> out;
  int64_t at = 0;
  for (int64_t n : parts) out.push_back(cut(*this, axis, at, at + n)), at += n;
  return out;
}

std::vector<Tensor> Tensor::chunk(int64_t chunks, int64_t dim, Loc where) const {
  ViewCall call("chunk", where);
  expect(chunks > 0, "needs a number of chunks > 0, got ", chunks);
  expect(this->dim() > 0, "a tensor without axes cannot be split");
  int64_t total = numeric(dims_of(*this)[static_cast<size_t>(to_axis(dim, this->dim()))]);
  return split(std::max<int64_t>(total / chunks + (total % chunks != 0), 1), dim);
}

std::vector<Tensor> Tensor::unbind(int64_t dim, Loc where) const {
  ViewCall call("unbind", where);
  expect(this->dim() > 0, "a tensor without axes cannot be split");
  std::vector<Tensor> out;
  for (int64_t i = 0; i < size(dim); ++i) out.push_back(select(dim, i));
  return out;
}

Tensor Tensor::unfold(int64_t dim, int64_t size, int64_t step, Loc where) const {
  ViewCall call("unfold", where);
  if (this->dim() == 0) return unsqueeze(0).unfold(0, size, step).squeeze(0);
  int64_t axis = to_axis(dim, this->dim());
  const Dim length = dims_of(*this)[static_cast<size_t>(axis)];
  expect(size > 0 && step > 0, "needs a size and a step > 0, got ", size, " and ", step);
  expect(lies_within(0, size, length), "windows of size ", size, " do not fit axis ", axis,
         " of size ", said(length));
  Ref chain = window_axis(chain_of(*this), axis, size, step, 1);
  std::vector<int64_t> order = range_of(this->dim() + 1), strides = strides_of(*this);
  order.erase(order.begin() + axis + 1);
  order.push_back(axis + 1);
  if (!strides.empty()) {
    strides.push_back(strides[static_cast<size_t>(axis)]);
    if (step <= least(length) - size)
      strides[static_cast<size_t>(axis)] *= step;  // there is a second one
  }
  return make_view(*this, prim::permute(chain, order), strides);
}

Tensor Tensor::as_strided(const Ints& size, const Ints& stride, int64_t offset, Loc where) const {
  ViewCall call("as_strided", where);
  expect(size.list.size() == stride.list.size(), "needs a stride for each size, got ", size.list,
         " and ", stride.list);
  auto negative = [](int64_t n) { return n < 0; };
  expect(std::ranges::none_of(size.list, negative) && std::ranges::none_of(stride.list, negative),
         "needs sizes and strides >= 0, got ", size.list, " and ", stride.list);
  return strided_view(*this, size.list, stride.list, offset);
}

// The diagonal of a square is every (d+1)-th of its d * d elements.
Tensor Tensor::diagonal(int64_t offset, int64_t dim1, int64_t dim2, Loc where) const {
  ViewCall call("diagonal", where);
  expect(dim() >= 2, "needs at least two axes, got shape ", *this);
  int64_t a = to_axis(dim1, dim()), b = to_axis(dim2, dim());
  expect(a != b, "the two axes are the same, ", dim1);
  Tensor m = movedim({a, b}, {-2, -1});
  int64_t rows = m.size(-2), columns = m.size(-1);
  offset = std::clamp(offset, -rows, columns);
  int64_t down = std::max<int64_t>(-offset, 0), right = std::max<int64_t>(offset, 0);
  int64_t d = std::max<int64_t>(std::min(rows - down, columns - right), 0);
  if (d == 0) down = right = 0;
  Tensor square = m.narrow(-2, down, d).narrow(-1, right, d);
  std::vector<int64_t> strides = strides_of(square);
  std::vector<Dim> dims = dims_of(square);
  int64_t last = strides.back();
  strides.pop_back();
  strides.back() += last;
  dims.pop_back();
  dims.back() = d * d;
  Ref flat = prim::reshape(chain_of(square), dims);
  return make_view(square, every_nth(flat, dim() - 2, 0, d, d + 1), strides);
}

}  // namespace mote
