// What a tensor is, its dtype and device, and writing to it.
#include <algorithm>

#include "tensor/impl.h"

namespace mote {

namespace {

int category(DType d) { return d == DType::boolean ? 0 : is_float(d) ? 2 : 1; }

// In place, the result keeps the tensor's dtype and shape; what would not fit is an error.
Tensor& update(Tensor& t, const Tensor& result) {
  expect(category(result.dtype()) <= category(t.dtype()), "a result of ", result.dtype(),
         " cannot be written in place to a tensor of ", t.dtype());
  expect(dims_of(result) == dims_of(t), "a result of shape ", result,
         " cannot be written in place to a tensor of shape ", t);
  write(t, prim::cast(node_of(result), t.dtype()));
  return t;
}

// For questions that are asked often: a call is opened only to say what went wrong.
void expect_asked(const Tensor& t, const char* question, const Loc& where) {
  if (t.defined()) [[likely]] return;
  Call call(question, where);
  expect_defined(t);
}

// Each word of the last axis as `parts` narrower ones, the low bits first.
Tensor cut_bits(const Tensor& words, int parts) {
  expect(words.dim() > 0, "a tensor without axes cannot become ", parts, " elements");
  int width = 8 * size_of(words.dtype()) / parts;
  Tensor at = iota_tensor(parts, words.dtype(), words.impl()->device) * width;
  return (words.unsqueeze(-1) >> at).to(bits_type(width)).flatten(-2);
}

// As many neighbours of the last axis as one wider word.
Tensor join_bits(const Tensor& words, int parts) {
  expect(words.dim() > 0 && numeric(dims_of(words).back()) % parts == 0, "shape ", words,
         " has no last axis that ", parts, " divides");
  int width = 8 * size_of(words.dtype());
  DType wide = bits_type(width * parts);
  Tensor at = iota_tensor(parts, wide, words.impl()->device) * width;
  return (words.unflatten(-1, {words.size(-1) / parts, parts}).to(wide) << at).sum(-1, false, wide);
}

// Does a handle other than this one see what is written to it?
bool is_shared(const Tensor& t) {
  return t.is_view() || t.impl()->refs.load(std::memory_order_relaxed) > 1;
}

}  // namespace

DType Tensor::dtype(Loc where) const {
  expect_asked(*this, "dtype", where);
  return impl_->dtype;
}
std::string Tensor::device(Loc where) const {
  expect_asked(*this, "device", where);
  return device_name(impl_->device);
}
int64_t Tensor::dim(Loc where) const {
  expect_asked(*this, "dim", where);
  return shape_of(*this).rank();
}
int64_t Tensor::numel(Loc where) const {
  expect_asked(*this, "numel", where);
  return shape_of(*this).count();
}
int64_t Tensor::nbytes(Loc where) const {
  Call call("nbytes", where);
  return size_bytes(numel(), dtype());
}
bool Tensor::is_floating_point(Loc where) const {
  expect_asked(*this, "is_floating_point", where);
  return is_float(dtype());
}
int64_t Tensor::element_size(Loc where) const {
  Call call("element_size", where);
  return size_of(dtype());
}
std::vector<int64_t> Tensor::stride(Loc where) const {
  Call call("stride", where);
  numeric_shape(*this);  // an error where a size is symbolic
  return strides_of(*this);
}
bool Tensor::is_signed(Loc where) const {
  Call call("is_signed", where);
  return mote::is_signed(dtype());
}
bool Tensor::is_same_size(const Tensor& other, Loc where) const {
  Call call("is_same_size", where);
  expect_defined(other, "the other tensor");
  return dims_of(*this) == dims_of(other);
}
bool Tensor::is_view() const { return defined() && impl_->base.defined(); }

std::vector<int64_t> Tensor::shape(Loc where) const {
  Call call("shape", where);
  return numeric_shape(*this);
}
Sizes Tensor::sizes(Loc where) const {
  expect_asked(*this, "sizes", where);
  std::vector<Size> out;
  for (const Dim& d : dims_of(*this)) out.push_back(to_size(d));
  return out;
}
int64_t Tensor::size(int64_t axis, Loc where) const {
  Call call("size", where);
  expect(dim() > 0, "a tensor without axes has no sizes");
  return numeric(shape_of(*this)[static_cast<int>(to_axis(axis, dim()))]);
}

bool Tensor::is_contiguous(Loc where) const {
  expect_asked(*this, "is_contiguous", where);
  const Shape& shape = shape_of(*this);
  if (!is_view()) return true;
  if (shape.symbolic) return false;
  std::vector<int64_t> wanted = row_major_strides(shape.dims);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (shape.dims[i].size > 1 && impl_->strides[i] != wanted[i]) return false;
  return true;
}

Tensor Tensor::detach(Loc where) const {
  ViewCall call("detach", where);
  return make_view(*this, prim::detach(chain_of(*this)), strides_of(*this));
}

Tensor& Tensor::assign(Operand x, Loc where) {
  Call call("assign", where);
  expect_defined(*this);
  Tensor value = x.tensor ? x.tensor->to(device()) : to_tensor(x, *this, dtype());
  expect(can_expand(dims_of(value), dims_of(*this)), "a value of shape ", value,
         " does not fit a tensor of shape ", *this);
  write(*this, prim::cast(node_of(value), dtype()));
  return *this;
}

void Tensor::operator=(Operand value) && {
  Call call("assign", value.where);
  expect_defined(*this);
  expect(is_shared(*this),
         "the left side is a temporary copy; to write at advanced indices use "
         "set() or index_put_()");
  if (!value.tensor) return void(assign(value));
  expect_defined(*value.tensor, "the value");
  assign(without_leading_ones(*value.tensor, dims_of(*this).size()));
}

Tensor without_leading_ones(const Tensor& value, size_t rank) {
  std::span<const Dim> dims = dims_of(value);
  while (dims.size() > rank && dims[0] == Dim(1)) dims = dims.subspan(1);
  return reshaped(value, dims);
}

Tensor& Tensor::copy_(Operand x, Loc where) { return assign(x, where); }
Tensor& Tensor::fill_(Operand x, Loc where) {
  Call call("fill_", where);
  expect(!x.tensor || x.tensor->dim() == 0, "needs a number or a tensor without axes");
  return assign(x);
}
Tensor& Tensor::zero_(Loc where) {
  Call call("zero_", where);
  return assign(0);
}
Tensor& Tensor::add_(Operand x, Loc where) {
  Call call("add_", where);
  return update(*this, add(x));
}
Tensor& Tensor::sub_(Operand x, Loc where) {
  Call call("sub_", where);
  return update(*this, sub(x));
}
Tensor& Tensor::mul_(Operand x, Loc where) {
  Call call("mul_", where);
  return update(*this, mul(x));
}
Tensor& Tensor::div_(Operand x, Loc where) {
  Call call("div_", where);
  return update(*this, div(x));
}
Tensor& Tensor::clamp_(Operand lo, Operand hi, Loc where) {
  Call call("clamp_", where);
  return update(*this, clamp(lo, hi));
}
Tensor& Tensor::masked_fill_(const Tensor& mask, Operand value, Loc where) {
  Call call("masked_fill_", where);
  return update(*this, masked_fill(mask, value));
}

Tensor Tensor::cast(DType to, Loc where) const {
  ViewCall call("cast", where);
  if (to == dtype()) return unchanged(*this);
  expect(to != DType::none && to != DType::index, "no tensor has the dtype ", to);
  return make_value(prim::cast(node_of(*this), to), *this);
}
Tensor Tensor::to(DType dtype, Loc where) const {
  ViewCall call("to", where);
  return cast(dtype);
}
Tensor Tensor::to(const std::string& name, Loc where) const {
  ViewCall call("to", where);
  expect_defined(*this);
  uint8_t target = device_from(name);
  if (target == impl_->device) return unchanged(*this);
  return make_value(copied_to(*this, target), target);
}
Tensor Tensor::bitcast(DType to, Loc where) const {
  Call call("bitcast", where);
  expect(
      to != DType::none && to != DType::index && to != DType::boolean && dtype() != DType::boolean,
      "bits of ", dtype(), " cannot be read as ", to);
  if (to == dtype()) return unchanged(*this);
  int from_size = size_of(dtype()), to_size = size_of(to);
  Tensor bits = make_value(prim::bitcast(node_of(*this), bits_type(8 * from_size)), *this);
  if (from_size > to_size) bits = cut_bits(bits, from_size / to_size);
  if (from_size < to_size) bits = join_bits(bits, to_size / from_size);
  return make_value(prim::bitcast(node_of(bits), to), *this);
}
Tensor Tensor::to_bool(Loc where) const { return to(DType::boolean, where); }
Tensor Tensor::to_int(Loc where) const { return to(DType::i32, where); }
Tensor Tensor::to_long(Loc where) const { return to(DType::i64, where); }
Tensor Tensor::to_half(Loc where) const { return to(DType::f16, where); }
Tensor Tensor::to_bfloat16(Loc where) const { return to(DType::bf16, where); }
Tensor Tensor::to_float(Loc where) const { return to(DType::f32, where); }
Tensor Tensor::to_double(Loc where) const { return to(DType::f64, where); }

Tensor Tensor::clone(Loc where) const {
  Call call("clone", where);
  return make_value(node_of(*this), *this);
}
Tensor Tensor::contiguous(Loc where) const {
  ViewCall call("contiguous", where);
  if (is_contiguous()) return unchanged(*this);
  return make_value(prim::contiguous(node_of(*this)), *this);
}

}  // namespace mote
