// Tensor: a shared handle on a lazy array of numbers.
//
// Copies of a handle are the same tensor: after `b = a`, `b.assign(x)` also changes `a`. Basic
// indexing and movement return views, as in PyTorch: writing through a view writes its base, and
// the view sees later writes to the base. Everything else returns a new tensor, even if there is
// nothing to do (x.pow(1), x.pad({0, 0})); the few methods that may return the tensor itself say
// so. Nothing runs until a value is needed (realize, item, to_vector, printing).
// Names, defaults and results follow PyTorch. The last argument of every call is the caller's file
// and line, by default; errors read "[method] what is wrong (file:line)". Most methods are also
// free functions whose first argument is the tensor.
// A tensor may be used and destroyed by any thread; concurrent use of the same handle needs a lock.
#pragma once
#include <mote/each_field.h>
#include <mote/types.h>

#include <iosfwd>

namespace mote {

struct TensorImpl;
struct ValuesIndices;
struct Extremes;
struct UniqueValues;
struct AttentionOptions;
struct CrossEntropyOptions;
struct Index;

// clang-format off
// Elementwise functions of one tensor. Integers become f32 unless the result is an integer.
#define MOTE_UNARY(F) \
  F(neg) F(positive) F(abs) F(sign) F(sgn) F(signbit) F(square) F(sqrt) F(rsqrt) F(reciprocal) \
  F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) \
  F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) \
  F(erf) F(erfc) F(sinc) F(floor) F(ceil) F(trunc) F(round) F(frac) \
  F(isnan) F(isinf) F(isfinite) F(isposinf) F(isneginf) F(logical_not) F(bitwise_not) \
  F(deg2rad) F(rad2deg) F(lgamma) F(digamma) F(erfinv) F(i0) \
  F(sigmoid) F(logsigmoid) F(relu) F(relu6) F(silu) F(swish) F(mish) F(selu) \
  F(hardswish) F(hardsigmoid) F(softsign) F(tanhshrink)

// Elementwise functions of two operands, which are broadcast; dtypes are promoted as in PyTorch.
#define MOTE_BINARY(F) \
  F(true_divide) F(floor_divide) F(remainder) F(fmod) F(pow) F(maximum) F(minimum) \
  F(fmax) F(fmin) F(atan2) F(hypot) F(copysign) F(logaddexp) F(logaddexp2) F(xlogy) \
  F(float_power) F(ldexp) F(nextafter) \
  F(heaviside) F(eq) F(ne) F(lt) F(le) F(gt) F(ge) F(logical_and) F(logical_or) F(logical_xor) \
  F(bitwise_and) F(bitwise_or) F(bitwise_xor) F(bitwise_left_shift) F(bitwise_right_shift) \
  F(gcd) F(lcm)

// Aliases that PyTorch has too.
#define MOTE_UNARY_ALIAS(F) \
  F(absolute, abs) F(negative, neg) F(fix, trunc) F(arcsin, asin) F(arccos, acos) \
  F(arctan, atan) F(arcsinh, asinh) F(arccosh, acosh) F(arctanh, atanh)
#define MOTE_BINARY_ALIAS(F) \
  F(multiply, mul) F(arctan2, atan2) F(greater, gt) F(greater_equal, ge) F(less, lt) \
  F(less_equal, le) F(not_equal, ne)
// clang-format on

class Tensor {
 public:
  Tensor() : impl_(nullptr) {}        // no tensor; defined() is false
  explicit Tensor(TensorImpl* impl) : impl_(impl) {}  // takes over a count already held
  Tensor(const Tensor& o);
  Tensor(Tensor&& o) noexcept : impl_(o.impl_) { o.impl_ = nullptr; }
  ~Tensor();
  Tensor& operator=(const Tensor& o) &;
  Tensor& operator=(Tensor&& o) & noexcept;
  void operator=(Operand value) &&;   // a(0, Slice(1, 3)) = x writes through the view

  // Properties.
  bool defined() const { return impl_ != nullptr; }
  TensorImpl* impl() const { return impl_; }
  DType dtype(Loc = MOTE_HERE) const;
  std::string device(Loc = MOTE_HERE) const;
  int64_t dim(Loc = MOTE_HERE) const;                 // the number of axes
  int64_t ndim(Loc where = MOTE_HERE) const { return dim(where); }
  std::vector<int64_t> shape(Loc = MOTE_HERE) const;  // an error if a size is symbolic
  Sizes sizes(Loc = MOTE_HERE) const;
  int64_t size(int64_t axis, Loc = MOTE_HERE) const;
  int64_t numel(Loc = MOTE_HERE) const;               // the upper bound when symbolic
  int64_t nbytes(Loc = MOTE_HERE) const;
  int64_t element_size(Loc = MOTE_HERE) const;        // in bytes
  std::vector<int64_t> stride(Loc = MOTE_HERE) const;
  bool is_signed(Loc = MOTE_HERE) const;
  bool is_same_size(const Tensor& other, Loc = MOTE_HERE) const;
  bool is_floating_point(Loc = MOTE_HERE) const;
  bool is_contiguous(Loc = MOTE_HERE) const;  // false: a view not in row-major order
  bool is_view() const;
  bool requires_grad() const;

  // Running. All of these but realize wait for the values. A symbolic size counts with the value
  // that its variable is bound to.
  Tensor& realize(Loc = MOTE_HERE);
  template <class T>
  T item(Loc = MOTE_HERE) const;                      // of a tensor with one element
  template <class T>
  std::vector<T> to_vector(Loc = MOTE_HERE) const;    // row-major, converted to T
  void copy_out(void* data, int64_t bytes, Loc = MOTE_HERE) const;
  std::string to_string(Loc = MOTE_HERE) const;       // as NumPy prints
  friend std::ostream& operator<<(std::ostream& out, const Tensor& t);

  // Gradients.
  Tensor& requires_grad_(bool required = true, Loc = MOTE_HERE);  // a view stops being one
  void backward(const Tensor& gradient = {}, Loc = MOTE_HERE) const;
  Tensor grad() const;                                     // undefined until backward
  void zero_grad();
  // The gradients with respect to the targets, which need not be marked. A target that this tensor
  // does not depend on is an error, or zeros with allow_unused. A target is a value, so equal
  // expressions are one target (docs/semantics.md).
  std::vector<Tensor> gradient(const std::vector<Tensor>& targets, const Tensor& gradient = {},
                               bool allow_unused = false, Loc = MOTE_HERE) const;
  Tensor detach(Loc = MOTE_HERE) const;               // shares the values, not the history

  // Writing. x is broadcast, cast and moved to this tensor's shape, dtype and device.
  Tensor& assign(Operand x, Loc = MOTE_HERE);
  Tensor& copy_(Operand x, Loc = MOTE_HERE);
  Tensor& fill_(Operand x, Loc = MOTE_HERE);
  Tensor& zero_(Loc = MOTE_HERE);
  Tensor& add_(Operand x, Loc = MOTE_HERE);
  Tensor& sub_(Operand x, Loc = MOTE_HERE);
  Tensor& mul_(Operand x, Loc = MOTE_HERE);
  Tensor& div_(Operand x, Loc = MOTE_HERE);
  Tensor& clamp_(Operand lo, Operand hi, Loc = MOTE_HERE);
  Tensor& masked_fill_(const Tensor& mask, Operand value, Loc = MOTE_HERE);
  Tensor& uniform_(double low = 0, double high = 1, Loc = MOTE_HERE);
  Tensor& normal_(double mean = 0, double std = 1, Loc = MOTE_HERE);
  Tensor& bernoulli_(double p = 0.5, Loc = MOTE_HERE);
  Tensor& exponential_(double rate = 1, Loc = MOTE_HERE);
  Tensor& geometric_(double p, Loc = MOTE_HERE);
  Tensor& cauchy_(double median = 0, double sigma = 1, Loc = MOTE_HERE);
  Tensor& log_normal_(double mean = 1, double std = 2, Loc = MOTE_HERE);
  Tensor& random_(int64_t from, int64_t to, Loc = MOTE_HERE);  // [from, to)
  Tensor& operator+=(Operand x) { return add_(x, x.where); }
  Tensor& operator-=(Operand x) { return sub_(x, x.where); }
  Tensor& operator*=(Operand x) { return mul_(x, x.where); }
  Tensor& operator/=(Operand x) { return div_(x, x.where); }

  // Dtype and device. All but bitcast and clone return this tensor if nothing has to change.
  Tensor to(DType dtype, Loc = MOTE_HERE) const;
  Tensor to(const std::string& device, Loc = MOTE_HERE) const;
  Tensor to(const char* device, Loc where = MOTE_HERE) const {
    return to(std::string(device), where);
  }
  Tensor cast(DType dtype, Loc = MOTE_HERE) const;
  // A copy with the same bits in another dtype. As with torch's view(dtype), the last axis becomes
  // longer or shorter if the element sizes differ; the first bytes are the low ones.
  Tensor bitcast(DType dtype, Loc = MOTE_HERE) const;
  Tensor to_bool(Loc = MOTE_HERE) const;
  Tensor to_int(Loc = MOTE_HERE) const;
  Tensor to_long(Loc = MOTE_HERE) const;
  Tensor to_half(Loc = MOTE_HERE) const;
  Tensor to_bfloat16(Loc = MOTE_HERE) const;
  Tensor to_float(Loc = MOTE_HERE) const;
  Tensor to_double(Loc = MOTE_HERE) const;
  Tensor clone(Loc = MOTE_HERE) const;                // a new tensor with the same values
  Tensor contiguous(Loc = MOTE_HERE) const;           // this, or a stored row-major copy

  // New tensors with the shape, dtype and device of this one.
  Tensor zeros_like(DType = DType::none, Loc = MOTE_HERE) const;
  Tensor ones_like(DType = DType::none, Loc = MOTE_HERE) const;
  Tensor full_like(Number, DType = DType::none, Loc = MOTE_HERE) const;
  Tensor empty_like(DType = DType::none, Loc = MOTE_HERE) const;
  Tensor rand_like(DType = DType::none, Loc = MOTE_HERE) const;
  Tensor randn_like(DType = DType::none, Loc = MOTE_HERE) const;

  // Movement. These are views unless noted otherwise.
  Tensor reshape(const Sizes& shape, Loc = MOTE_HERE) const;  // copies if it has to
  Tensor view(const Sizes& shape, Loc = MOTE_HERE) const;     // an error if it would have to copy
  Tensor view_as(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor permute(const Axes& axes, Loc = MOTE_HERE) const;
  Tensor transpose(int64_t a, int64_t b, Loc = MOTE_HERE) const;
  Tensor swapaxes(int64_t a, int64_t b, Loc = MOTE_HERE) const;
  Tensor swapdims(int64_t a, int64_t b, Loc w = MOTE_HERE) const { return swapaxes(a, b, w); }
  Tensor movedim(const Axes& from, const Axes& to, Loc = MOTE_HERE) const;
  Tensor moveaxis(const Axes& from, const Axes& to, Loc w = MOTE_HERE) const {
    return movedim(from, to, w);
  }
  Tensor t(Loc = MOTE_HERE) const;
  Tensor mT(Loc = MOTE_HERE) const;
  Tensor adjoint(Loc w = MOTE_HERE) const { return mT(w); }
  Tensor reshape_as(const Tensor& other, Loc = MOTE_HERE) const;
  // Strides in the memory of this tensor or its base; offset < 0: that of this tensor.
  Tensor as_strided(const Ints& size, const Ints& stride, int64_t offset = -1,
                    Loc = MOTE_HERE) const;
  Tensor expand(const Sizes& shape, Loc = MOTE_HERE) const;   // -1 keeps a size
  Tensor expand_as(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor broadcast_to(const Sizes& shape, Loc = MOTE_HERE) const;
  Tensor shrink(const Sizes& begin, const Sizes& end, Loc = MOTE_HERE) const;
  Tensor narrow(int64_t dim, Size start, Size length, Loc = MOTE_HERE) const;
  Tensor select(int64_t dim, Size index, Loc = MOTE_HERE) const;
  Tensor squeeze(Loc = MOTE_HERE) const;
  Tensor squeeze(const Axes& axes, Loc = MOTE_HERE) const;
  Tensor unsqueeze(int64_t dim, Loc = MOTE_HERE) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1, Loc = MOTE_HERE) const;
  Tensor ravel(Loc = MOTE_HERE) const;
  Tensor unflatten(int64_t dim, const Sizes& sizes, Loc = MOTE_HERE) const;
  std::vector<Tensor> split(const Ints& size, int64_t dim = 0, Loc = MOTE_HERE) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0, Loc = MOTE_HERE) const;
  // Into that many parts, whose sizes differ by at most one; or, given a list, before these rows.
  std::vector<Tensor> tensor_split(int64_t sections, int64_t dim = 0, Loc = MOTE_HERE) const;
  std::vector<Tensor> tensor_split(const Ints& before, int64_t dim = 0, Loc = MOTE_HERE) const;
  std::vector<Tensor> hsplit(const Ints& how, Loc = MOTE_HERE) const;  // one number: sections
  std::vector<Tensor> vsplit(const Ints& how, Loc = MOTE_HERE) const;
  std::vector<Tensor> dsplit(const Ints& how, Loc = MOTE_HERE) const;
  std::vector<Tensor> unbind(int64_t dim = 0, Loc = MOTE_HERE) const;
  Tensor unfold(int64_t dim, int64_t size, int64_t step, Loc = MOTE_HERE) const;
  Tensor diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1,
                  Loc = MOTE_HERE) const;
  Tensor flip(const Axes& axes, Loc = MOTE_HERE) const;  // flip to rot90 copy
  Tensor fliplr(Loc = MOTE_HERE) const;
  Tensor flipud(Loc = MOTE_HERE) const;
  // Pairs of amounts, beginning with the last axis. mode: constant, reflect, replicate, circular.
  Tensor pad(const Ints& pad, const char* mode = "constant", Number value = 0.0,
             Loc = MOTE_HERE) const;
  Tensor repeat(const Ints& repeats, Loc = MOTE_HERE) const;
  Tensor tile(const Ints& repeats, Loc = MOTE_HERE) const;
  Tensor repeat_interleave(int64_t repeats, Loc = MOTE_HERE) const;
  Tensor repeat_interleave(int64_t repeats, int64_t dim, Loc = MOTE_HERE) const;
  Tensor roll(const Ints& shifts, const Axes& dims = {}, Loc = MOTE_HERE) const;
  Tensor rot90(int64_t k = 1, const Axes& dims = {0, 1}, Loc = MOTE_HERE) const;
  Tensor tril(int64_t diagonal = 0, Loc = MOTE_HERE) const;
  Tensor triu(int64_t diagonal = 0, Loc = MOTE_HERE) const;
  Tensor diag(int64_t diagonal = 0, Loc = MOTE_HERE) const;
  Tensor diag_embed(int64_t offset = 0, Loc = MOTE_HERE) const;
  Tensor diagflat(int64_t offset = 0, Loc = MOTE_HERE) const;
  Tensor sum_to_size(const Sizes& shape, Loc = MOTE_HERE) const;
  // A copy in which the part that select (slice, diagonal) would return is replaced by src.
  Tensor select_scatter(const Tensor& src, int64_t dim, int64_t index, Loc = MOTE_HERE) const;
  Tensor slice_scatter(const Tensor& src, int64_t dim = 0, const Slice& slice = {},
                       Loc = MOTE_HERE) const;
  Tensor diagonal_scatter(const Tensor& src, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1,
                          Loc = MOTE_HERE) const;

  // Indexing. Numbers, slices, Ellipsis and None return views; tensors of integers (negative ones
  // count from the end) or of bools copy. Reading with bools, like masked_select, runs the pending
  // work to count them. An index out of range is an error (docs/semantics.md says when).
  // Expressions of bound variables are checked with their values; unbound ones must be in range for
  // every value.
  Tensor index(const std::vector<Index>& indices, Loc = MOTE_HERE) const;
  Tensor operator()(Index a) const;
  Tensor operator()(Index a, Index b) const;
  Tensor operator()(Index a, Index b, Index c) const;
  Tensor operator()(Index a, Index b, Index c, Index d) const;
  Tensor operator()(Index a, Index b, Index c, Index d, Index e) const;
  Tensor operator[](Index a) const;
  // Writing at indices. If one place is named several times, the last value wins; with accumulate
  // the values are added.
  Tensor& set(const std::vector<Index>& indices, Operand value, Loc = MOTE_HERE);
  Tensor& index_put_(const std::vector<Index>& indices, Operand value, bool accumulate = false,
                     Loc = MOTE_HERE);
  Tensor gather(int64_t dim, const Tensor& index, Loc = MOTE_HERE) const;
  Tensor take_along_dim(const Tensor& index, int64_t dim, Loc = MOTE_HERE) const;
  Tensor index_select(int64_t dim, const Tensor& index, Loc = MOTE_HERE) const;
  Tensor take(const Tensor& index, Loc = MOTE_HERE) const;
  Tensor scatter(int64_t dim, const Tensor& index, Operand src, Loc = MOTE_HERE) const;
  Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& src,
                     Loc = MOTE_HERE) const;
  // reduce: sum, prod, mean, amax, amin
  Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src, const char* reduce,
                        bool include_self = true, Loc = MOTE_HERE) const;
  Tensor index_add(int64_t dim, const Tensor& index, const Tensor& src, Number alpha = 1,
                   Loc = MOTE_HERE) const;
  Tensor index_copy(int64_t dim, const Tensor& index, const Tensor& src,
                    Loc = MOTE_HERE) const;
  Tensor index_fill(int64_t dim, const Tensor& index, Operand value, Loc = MOTE_HERE) const;
  Tensor& scatter_(int64_t dim, const Tensor& index, Operand src, Loc = MOTE_HERE);
  Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& src, Loc = MOTE_HERE);
  Tensor masked_fill(const Tensor& mask, Operand value, Loc = MOTE_HERE) const;
  Tensor masked_select(const Tensor& mask, Loc = MOTE_HERE) const;
  // Places where the mask is true take the elements of src in order.
  Tensor masked_scatter(const Tensor& mask, const Tensor& src, Loc = MOTE_HERE) const;
  Tensor put(const Tensor& index, const Tensor& src, bool accumulate = false,
             Loc = MOTE_HERE) const;                  // of the flattened tensor
  Tensor index_put(const std::vector<Index>& indices, Operand value, bool accumulate = false,
                   Loc = MOTE_HERE) const;
  // reduce: prod, mean, amax, amin
  Tensor index_reduce(int64_t dim, const Tensor& index, const Tensor& src, const char* reduce,
                      bool include_self = true, Loc = MOTE_HERE) const;
  Tensor nonzero(Loc = MOTE_HERE) const;              // runs pending work to count them
  Tensor argwhere(Loc = MOTE_HERE) const;             // the same as nonzero
  Tensor where(const Tensor& condition, Operand other, Loc = MOTE_HERE) const;

  // Elementwise.
#define MOTE_DECLARE(name) Tensor name(Loc = MOTE_HERE) const;
  MOTE_UNARY(MOTE_DECLARE)
#undef MOTE_DECLARE
#define MOTE_DECLARE(name) Tensor name(Operand other, Loc = MOTE_HERE) const;
  MOTE_BINARY(MOTE_DECLARE)
#undef MOTE_DECLARE
#define MOTE_DECLARE(alias, name) Tensor alias(Loc w = MOTE_HERE) const { return name(w); }
  MOTE_UNARY_ALIAS(MOTE_DECLARE)
#undef MOTE_DECLARE
#define MOTE_DECLARE(alias, name) \
  Tensor alias(Operand other, Loc w = MOTE_HERE) const { return name(other, w); }
  MOTE_BINARY_ALIAS(MOTE_DECLARE)
#undef MOTE_DECLARE
  Tensor add(Operand other, Number alpha = 1, Loc = MOTE_HERE) const;
  Tensor sub(Operand other, Number alpha = 1, Loc = MOTE_HERE) const;
  Tensor subtract(Operand other, Number alpha = 1, Loc w = MOTE_HERE) const {
    return sub(other, alpha, w);
  }
  Tensor mul(Operand other, Loc = MOTE_HERE) const;
  Tensor div(Operand other, const char* rounding_mode = nullptr, Loc = MOTE_HERE) const;
  Tensor divide(Operand other, const char* rounding_mode = nullptr,
                Loc w = MOTE_HERE) const {
    return div(other, rounding_mode, w);
  }
  Tensor round(int decimals, Loc = MOTE_HERE) const;
  Tensor clamp(Operand lo, Operand hi, Loc = MOTE_HERE) const;
  Tensor clip(Operand lo, Operand hi, Loc = MOTE_HERE) const;
  Tensor clamp_min(Operand lo, Loc = MOTE_HERE) const;
  Tensor clamp_max(Operand hi, Loc = MOTE_HERE) const;
  Tensor lerp(const Tensor& end, Operand weight, Loc = MOTE_HERE) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, Number value = 1, Loc = MOTE_HERE) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, Number value = 1, Loc = MOTE_HERE) const;
  Tensor nan_to_num(double nan = 0, Loc = MOTE_HERE) const;   // infinities become the largest
  Tensor logit(double eps = -1, Loc = MOTE_HERE) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                 bool equal_nan = false, Loc = MOTE_HERE) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false, Loc = MOTE_HERE) const;  // runs at once, as does equal
  bool equal(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor polygamma(int64_t n, Loc = MOTE_HERE) const;
  Tensor mvlgamma(int64_t p, Loc = MOTE_HERE) const;
  Tensor gelu(const char* approximate = "none", Loc = MOTE_HERE) const;  // or "tanh"
  Tensor elu(double alpha = 1, Loc = MOTE_HERE) const;
  Tensor celu(double alpha = 1, Loc = MOTE_HERE) const;
  Tensor leaky_relu(double negative_slope = 0.01, Loc = MOTE_HERE) const;
  Tensor prelu(const Tensor& weight, Loc = MOTE_HERE) const;
  Tensor hardtanh(double min_val = -1, double max_val = 1, Loc = MOTE_HERE) const;
  Tensor hardshrink(double lambd = 0.5, Loc = MOTE_HERE) const;
  Tensor softshrink(double lambd = 0.5, Loc = MOTE_HERE) const;
  Tensor threshold(double threshold, double value, Loc = MOTE_HERE) const;
  Tensor softplus(double beta = 1, double threshold = 20, Loc = MOTE_HERE) const;
  Tensor glu(int64_t dim = -1, Loc = MOTE_HERE) const;
  Tensor softmax(int64_t dim, DType = DType::none, Loc = MOTE_HERE) const;
  Tensor log_softmax(int64_t dim, DType = DType::none, Loc = MOTE_HERE) const;
  Tensor softmin(int64_t dim, Loc = MOTE_HERE) const;

  // Reductions, over all axes if none are given. Sums and means of 16-bit floats accumulate in f32.
  Tensor sum(const Axes& axes = {}, bool keepdim = false, DType = DType::none,
             Loc = MOTE_HERE) const;
  Tensor nansum(const Axes& axes = {}, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor prod(const Axes& axes = {}, bool keepdim = false, DType = DType::none,
              Loc = MOTE_HERE) const;
  Tensor mean(const Axes& axes = {}, bool keepdim = false, DType = DType::none,
              Loc = MOTE_HERE) const;
  Tensor nanmean(const Axes& axes = {}, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor var(const Axes& axes = {}, double correction = 1, bool keepdim = false,
             Loc = MOTE_HERE) const;
  Tensor std(const Axes& axes = {}, double correction = 1, bool keepdim = false,
             Loc = MOTE_HERE) const;
  Tensor amax(const Axes& axes = {}, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor amin(const Axes& axes = {}, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor max(Loc = MOTE_HERE) const;
  Tensor min(Loc = MOTE_HERE) const;
  ValuesIndices max(int64_t dim, bool keepdim = false, Loc = MOTE_HERE) const;
  ValuesIndices min(int64_t dim, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor argmax(Loc = MOTE_HERE) const;               // of the flattened tensor; first of ties
  Tensor argmin(Loc = MOTE_HERE) const;
  Tensor argmax(int64_t dim, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor argmin(int64_t dim, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor any(const Axes& axes = {}, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor all(const Axes& axes = {}, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor count_nonzero(const Axes& axes = {}, Loc = MOTE_HERE) const;
  Tensor logsumexp(const Axes& axes = {}, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor norm(double p = 2, const Axes& axes = {}, bool keepdim = false,
              Loc = MOTE_HERE) const;
  Tensor normalize(double p = 2, int64_t dim = 1, double eps = 1e-12, Loc = MOTE_HERE) const;
  Tensor dist(const Tensor& other, double p = 2, Loc = MOTE_HERE) const;
  // Slices along dim whose p-norm exceeds maxnorm are scaled down to it.
  Tensor renorm(double p, int64_t dim, double maxnorm, Loc = MOTE_HERE) const;
  Tensor trace(Loc = MOTE_HERE) const;
  Extremes aminmax(const Axes& axes = {}, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor cov(double correction = 1, Loc = MOTE_HERE) const;  // one row per variable
  Tensor corrcoef(Loc = MOTE_HERE) const;

  // Scans and sorting.
  Tensor cumsum(int64_t dim, DType = DType::none, Loc = MOTE_HERE) const;
  Tensor cumprod(int64_t dim, DType = DType::none, Loc = MOTE_HERE) const;
  ValuesIndices cummax(int64_t dim, Loc = MOTE_HERE) const;
  ValuesIndices cummin(int64_t dim, Loc = MOTE_HERE) const;
  Tensor logcumsumexp(int64_t dim, Loc = MOTE_HERE) const;
  ValuesIndices sort(int64_t dim = -1, bool descending = false, Loc = MOTE_HERE) const;
  Tensor argsort(int64_t dim = -1, bool descending = false, Loc = MOTE_HERE) const;
  ValuesIndices topk(int64_t k, int64_t dim = -1, bool largest = true, bool sorted = true,
                     Loc = MOTE_HERE) const;
  ValuesIndices kthvalue(int64_t k, int64_t dim = -1, bool keepdim = false,
                         Loc = MOTE_HERE) const;
  ValuesIndices median(int64_t dim, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor median(Loc = MOTE_HERE) const;
  ValuesIndices nanmedian(int64_t dim, bool keepdim = false, Loc = MOTE_HERE) const;
  Tensor nanmedian(Loc = MOTE_HERE) const;
  // The smallest of the most frequent values, and the last index of it.
  ValuesIndices mode(int64_t dim = -1, bool keepdim = false, Loc = MOTE_HERE) const;
  // Over one axis or all of them; several q give a new first axis. interpolation: linear, lower,
  // higher, nearest, midpoint.
  Tensor quantile(Operand q, const Axes& axes = {}, bool keepdim = false,
                  const char* interpolation = "linear", Loc = MOTE_HERE) const;
  Tensor nanquantile(Operand q, const Axes& axes = {}, bool keepdim = false,
                     const char* interpolation = "linear", Loc = MOTE_HERE) const;
  Tensor msort(Loc = MOTE_HERE) const;
  Tensor diff(int64_t n = 1, int64_t dim = -1, const Tensor& prepend = {},
              const Tensor& append = {}, Loc = MOTE_HERE) const;
  // Counts. The bins of histc have equal width and go from min to max, or from the smallest to the
  // largest element if min equals max. bincount runs the pending work to find the largest number.
  Tensor histc(int64_t bins = 100, Number min = 0, Number max = 0, Loc = MOTE_HERE) const;
  Tensor bincount(const Tensor& weights = {}, int64_t minlength = 0, Loc = MOTE_HERE) const;
  // Distinct elements, or distinct slices along one axis: sorted, or with only adjacent repetitions
  // removed. Both run the pending work to count them. Unused parts of the result are not computed.
  UniqueValues unique(const Axes& axis = {}, Loc = MOTE_HERE) const;
  UniqueValues unique_consecutive(const Axes& axis = {}, Loc = MOTE_HERE) const;
  // A class with weight 0 or less is drawn only if no other classes are left. With CHECK=2 that is
  // an error, and so is a weight that is negative or not finite.
  Tensor multinomial(int64_t num_samples, bool replacement = false, Loc = MOTE_HERE) const;
  Tensor bernoulli(Loc = MOTE_HERE) const;            // elements are probabilities

  // Products.
  Tensor matmul(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor mm(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor bmm(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor mv(const Tensor& vec, Loc = MOTE_HERE) const;
  Tensor dot(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor outer(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor addmm(const Tensor& a, const Tensor& b, Number beta = 1, Number alpha = 1,
               Loc = MOTE_HERE) const;
  Tensor addbmm(const Tensor& a, const Tensor& b, Number beta = 1, Number alpha = 1,
                Loc = MOTE_HERE) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b, Number beta = 1, Number alpha = 1,
                 Loc = MOTE_HERE) const;
  Tensor addmv(const Tensor& a, const Tensor& vec, Number beta = 1, Number alpha = 1,
               Loc = MOTE_HERE) const;
  Tensor addr(const Tensor& a, const Tensor& b, Number beta = 1, Number alpha = 1,
              Loc = MOTE_HERE) const;
  Tensor vdot(const Tensor& other, Loc w = MOTE_HERE) const { return dot(other, w); }
  Tensor inner(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor ger(const Tensor& other, Loc w = MOTE_HERE) const { return outer(other, w); }
  Tensor cross(const Tensor& other, int64_t dim = -1, Loc = MOTE_HERE) const;
  Tensor linear(const Tensor& weight, const Tensor& bias = {}, Loc = MOTE_HERE) const;
  Tensor tensordot(const Tensor& other, int64_t dims = 2, Loc = MOTE_HERE) const;
  Tensor tensordot(const Tensor& other, const Axes& axes, const Axes& others,
                   Loc = MOTE_HERE) const;
  Tensor kron(const Tensor& other, Loc = MOTE_HERE) const;
  Tensor cosine_similarity(const Tensor& other, int64_t dim = 1, double eps = 1e-8,
                           Loc = MOTE_HERE) const;

  // Convolution and pooling of (N, C, spatial...), or without N.
  Tensor conv1d(const Tensor& weight, const Tensor& bias = {}, const ConvOptions& = {},
                Loc = MOTE_HERE) const;
  Tensor conv2d(const Tensor& weight, const Tensor& bias = {}, const ConvOptions& = {},
                Loc = MOTE_HERE) const;
  Tensor conv3d(const Tensor& weight, const Tensor& bias = {}, const ConvOptions& = {},
                Loc = MOTE_HERE) const;
  Tensor conv_transpose1d(const Tensor& weight, const Tensor& bias = {},
                          const ConvTransposeOptions& = {}, Loc = MOTE_HERE) const;
  Tensor conv_transpose2d(const Tensor& weight, const Tensor& bias = {},
                          const ConvTransposeOptions& = {}, Loc = MOTE_HERE) const;
  Tensor conv_transpose3d(const Tensor& weight, const Tensor& bias = {},
                          const ConvTransposeOptions& = {}, Loc = MOTE_HERE) const;
  Tensor max_pool1d(const Ints& kernel, const MaxPoolOptions& = {}, Loc = MOTE_HERE) const;
  Tensor max_pool2d(const Ints& kernel, const MaxPoolOptions& = {}, Loc = MOTE_HERE) const;
  Tensor max_pool3d(const Ints& kernel, const MaxPoolOptions& = {}, Loc = MOTE_HERE) const;
  // The indices count within each spatial plane of the input, as in PyTorch.
  ValuesIndices max_pool1d_with_indices(const Ints& kernel, const MaxPoolOptions& = {},
                                        Loc = MOTE_HERE) const;
  ValuesIndices max_pool2d_with_indices(const Ints& kernel, const MaxPoolOptions& = {},
                                        Loc = MOTE_HERE) const;
  ValuesIndices max_pool3d_with_indices(const Ints& kernel, const MaxPoolOptions& = {},
                                        Loc = MOTE_HERE) const;
  Tensor avg_pool1d(const Ints& kernel, const AvgPoolOptions& = {}, Loc = MOTE_HERE) const;
  Tensor avg_pool2d(const Ints& kernel, const AvgPoolOptions& = {}, Loc = MOTE_HERE) const;
  Tensor avg_pool3d(const Ints& kernel, const AvgPoolOptions& = {}, Loc = MOTE_HERE) const;
  Tensor adaptive_avg_pool1d(const Ints& output, Loc = MOTE_HERE) const;
  Tensor adaptive_avg_pool2d(const Ints& output, Loc = MOTE_HERE) const;
  Tensor adaptive_avg_pool3d(const Ints& output, Loc = MOTE_HERE) const;
  Tensor adaptive_max_pool1d(const Ints& output, Loc = MOTE_HERE) const;
  Tensor adaptive_max_pool2d(const Ints& output, Loc = MOTE_HERE) const;
  Tensor interpolate(const InterpolateOptions&, Loc = MOTE_HERE) const;
  Tensor pixel_shuffle(int64_t upscale_factor, Loc = MOTE_HERE) const;
  Tensor pixel_unshuffle(int64_t downscale_factor, Loc = MOTE_HERE) const;

  // Normalisation, dropout, attention, embedding. An undefined weight or bias is not applied.
  Tensor layer_norm(const Ints& normalized_shape, const Tensor& weight = {},
                    const Tensor& bias = {}, double eps = 1e-5, Loc = MOTE_HERE) const;
  Tensor rms_norm(const Ints& normalized_shape, const Tensor& weight = {}, double eps = -1,
                  Loc = MOTE_HERE) const;     // eps < 0: the dtype's epsilon
  // When training, running_mean and running_var are updated if they are defined.
  Tensor batch_norm(const Tensor& running_mean, const Tensor& running_var,
                    const Tensor& weight = {}, const Tensor& bias = {},
                    const BatchNormOptions& = {}, Loc = MOTE_HERE) const;
  Tensor group_norm(int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                    double eps = 1e-5, Loc = MOTE_HERE) const;
  Tensor instance_norm(const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                       Loc = MOTE_HERE) const;
  Tensor dropout(double p = 0.5, bool training = true, Loc = MOTE_HERE) const;
  Tensor scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                      const AttentionOptions&, Loc = MOTE_HERE) const;
  Tensor scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                      Loc = MOTE_HERE) const;
  Tensor one_hot(int64_t num_classes = -1, Loc = MOTE_HERE) const;  // -1: realizes
  Tensor embedding(const Tensor& weight, int64_t padding_idx = -1, Loc = MOTE_HERE) const;

  // Losses.
  Tensor cross_entropy(const Tensor& target, const CrossEntropyOptions&,
                       Loc = MOTE_HERE) const;
  Tensor cross_entropy(const Tensor& target, Loc = MOTE_HERE) const;
  Tensor nll_loss(const Tensor& target, const CrossEntropyOptions&, Loc = MOTE_HERE) const;
  Tensor nll_loss(const Tensor& target, Loc = MOTE_HERE) const;
  Tensor binary_cross_entropy(const Tensor& target, const Tensor& weight = {},
                              Reduction = Reduction::mean, Loc = MOTE_HERE) const;
  Tensor binary_cross_entropy_with_logits(const Tensor& target, const Tensor& weight = {},
                                          const Tensor& pos_weight = {},
                                          Reduction = Reduction::mean,
                                          Loc = MOTE_HERE) const;
  Tensor mse_loss(const Tensor& target, Reduction = Reduction::mean, Loc = MOTE_HERE) const;
  Tensor l1_loss(const Tensor& target, Reduction = Reduction::mean, Loc = MOTE_HERE) const;
  Tensor smooth_l1_loss(const Tensor& target, double beta = 1, Reduction = Reduction::mean,
                        Loc = MOTE_HERE) const;
  Tensor huber_loss(const Tensor& target, double delta = 1, Reduction = Reduction::mean,
                    Loc = MOTE_HERE) const;
  // Reduction::mean divides by the number of elements, batch_mean by the size of the first axis.
  Tensor kl_div(const Tensor& target, Reduction = Reduction::mean, bool log_target = false,
                bool batch_mean = false, Loc = MOTE_HERE) const;

  friend Tensor operator+(Operand a, Operand b);
  friend Tensor operator-(Operand a, Operand b);
  friend Tensor operator*(Operand a, Operand b);
  friend Tensor operator/(Operand a, Operand b);
  friend Tensor operator%(Operand a, Operand b);
  friend Tensor operator==(Operand a, Operand b);
  friend Tensor operator!=(Operand a, Operand b);
  friend Tensor operator<(Operand a, Operand b);
  friend Tensor operator<=(Operand a, Operand b);
  friend Tensor operator>(Operand a, Operand b);
  friend Tensor operator>=(Operand a, Operand b);
  friend Tensor operator&(Operand a, Operand b);
  friend Tensor operator|(Operand a, Operand b);
  friend Tensor operator^(Operand a, Operand b);
  friend Tensor operator<<(Operand a, Operand b);
  friend Tensor operator>>(Operand a, Operand b);
  friend Tensor operator-(Operand a);
  friend Tensor operator!(Operand a);
  friend Tensor operator~(Operand a);

 private:
  TensorImpl* impl_;
};

struct ValuesIndices {
  Tensor values, indices;
  MOTE_FIELDS(values, indices)
};
struct Extremes {
  Tensor min, max;
  MOTE_FIELDS(min, max)
};
struct UniqueValues {
  Tensor values;
  Tensor inverse;  // for each element its index in values
  Tensor counts;   // for each value
  MOTE_FIELDS(values, inverse, counts)
};

// One entry of an index, with the file and line it was written at.
struct Index {
  enum Kind : uint8_t { Number, Range, Dots, NewAxis, Positions } kind;
  Size at;
  Slice range;
  Tensor positions;
  Loc where;
  template <class T>
    requires std::is_integral_v<T>
  Index(T n, Loc w = MOTE_HERE) : kind(Number), at(n), where(w) {}
  Index(Sym s, Loc w = MOTE_HERE) : kind(Number), at(std::move(s)), where(w) {}
  Index(Size s, Loc w = MOTE_HERE) : kind(Number), at(std::move(s)), where(w) {}
  Index(Slice s, Loc w = MOTE_HERE) : kind(Range), range(std::move(s)), where(w) {}
  Index(EllipsisType, Loc w = MOTE_HERE) : kind(Dots), where(w) {}
  Index(NoneType, Loc w = MOTE_HERE) : kind(NewAxis), where(w) {}
  Index(Tensor t, Loc w = MOTE_HERE) : kind(Positions), positions(std::move(t)), where(w) {}
};

struct SearchOptions {
  bool right = false;      // insert after equal values
  bool out_int32 = false;  // positions as i32, not i64
  Tensor sorter = {};      // indices that sort the sequence
};
struct AttentionOptions {
  Tensor attn_mask = {};        // bool: true means attend; float: added to the scores
  double dropout_p = 0;
  bool is_causal = false;
  double scale = 0;             // 0: 1 / sqrt(size of the last axis)
  bool enable_gqa = false;      // repeat key and value heads to match the query's
};
struct CrossEntropyOptions {
  Tensor weight = {};           // one per class
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;
};

}  // namespace mote

#include <mote/functional.h>
#include <mote/functions.h>

