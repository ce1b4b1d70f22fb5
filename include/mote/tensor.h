// Tensor: a shared handle on a lazy array of numbers.
//
// Copies of a handle are the same tensor: after `b = a`, `b.assign(x)` is seen through `a`. Basic
// indexing and movement give views, as in PyTorch: writing through one writes the tensor under it,
// and a view taken earlier sees later writes. Everything else gives a new tensor, also where there
// is nothing to do (x.pow(1), x.pad({0, 0})); only the methods that say so give the tensor itself.
// Nothing runs until a value is asked for (realize, item, to_vector, printing).
// Names, defaults and results follow PyTorch. Every call takes the user's place as its last,
// defaulted argument; errors read "[method] what is wrong (file:line)". A method that is also a
// free function takes the tensor as its first argument there.
// One tensor may be used and destroyed by any thread; concurrent use of the same one needs a lock.
#pragma once
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
// One tensor in, one of the same shape out. Integers become f32 where the result is not whole.
#define MOTE_UNARY(F) \
  F(neg) F(positive) F(abs) F(sign) F(sgn) F(signbit) F(square) F(sqrt) F(rsqrt) F(reciprocal) \
  F(exp) F(exp2) F(expm1) F(log) F(log2) F(log10) F(log1p) \
  F(sin) F(cos) F(tan) F(asin) F(acos) F(atan) F(sinh) F(cosh) F(tanh) F(asinh) F(acosh) F(atanh) \
  F(erf) F(erfc) F(sinc) F(floor) F(ceil) F(trunc) F(round) F(frac) \
  F(isnan) F(isinf) F(isfinite) F(isposinf) F(isneginf) F(logical_not) F(bitwise_not) \
  F(deg2rad) F(rad2deg) F(lgamma) F(digamma) F(erfinv) F(i0) \
  F(sigmoid) F(logsigmoid) F(relu) F(relu6) F(silu) F(swish) F(mish) F(selu) \
  F(hardswish) F(hardsigmoid) F(softsign) F(tanhshrink)

// Two operands, broadcast against each other; dtypes promoted as in PyTorch.
#define MOTE_BINARY(F) \
  F(true_divide) F(floor_divide) F(remainder) F(fmod) F(pow) F(maximum) F(minimum) \
  F(fmax) F(fmin) F(atan2) F(hypot) F(copysign) F(logaddexp) F(logaddexp2) F(xlogy) \
  F(float_power) F(ldexp) F(nextafter) \
  F(heaviside) F(eq) F(ne) F(lt) F(le) F(gt) F(ge) F(logical_and) F(logical_or) F(logical_xor) \
  F(bitwise_and) F(bitwise_or) F(bitwise_xor) F(bitwise_left_shift) F(bitwise_right_shift) \
  F(gcd) F(lcm)

// PyTorch's second names for some of them.
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

  // What it is.
  bool defined() const { return impl_ != nullptr; }
  TensorImpl* impl() const { return impl_; }
  DType dtype(Loc = Loc::current()) const;
  std::string device(Loc = Loc::current()) const;
  int64_t dim(Loc = Loc::current()) const;                 // how many axes
  int64_t ndim(Loc where = Loc::current()) const { return dim(where); }
  std::vector<int64_t> shape(Loc = Loc::current()) const;  // an error if a size is symbolic
  Sizes sizes(Loc = Loc::current()) const;
  int64_t size(int64_t axis, Loc = Loc::current()) const;
  int64_t numel(Loc = Loc::current()) const;               // the upper bound when symbolic
  int64_t nbytes(Loc = Loc::current()) const;
  int64_t element_size(Loc = Loc::current()) const;        // in bytes
  std::vector<int64_t> stride(Loc = Loc::current()) const;
  bool is_signed(Loc = Loc::current()) const;
  bool is_same_size(const Tensor& other, Loc = Loc::current()) const;
  bool is_floating_point(Loc = Loc::current()) const;
  bool is_contiguous(Loc = Loc::current()) const;  // false: a view not in row-major order
  bool is_view() const;
  bool requires_grad() const;

  // Running (engine). Each of these but realize waits for the values. Of symbolic sizes whose
  // variables are bound there are as many values as these say.
  Tensor& realize(Loc = Loc::current());
  template <class T>
  T item(Loc = Loc::current()) const;                      // of a tensor with one element
  template <class T>
  std::vector<T> to_vector(Loc = Loc::current()) const;    // row-major, converted to T
  void copy_out(void* data, int64_t bytes, Loc = Loc::current()) const;
  std::string to_string(Loc = Loc::current()) const;       // as NumPy prints
  friend std::ostream& operator<<(std::ostream& out, const Tensor& t);

  // Gradients (grad).
  Tensor& requires_grad_(bool required = true, Loc = Loc::current());  // a view stops being one
  void backward(const Tensor& gradient = {}, Loc = Loc::current()) const;
  Tensor grad() const;                                     // undefined until backward
  void zero_grad();
  // Of targets marked or not; one that this tensor does not depend on is an error, or zeros. A
  // target is a value: equal expressions are one (docs/semantics.md).
  std::vector<Tensor> gradient(const std::vector<Tensor>& targets, const Tensor& gradient = {},
                               bool allow_unused = false, Loc = Loc::current()) const;
  Tensor detach(Loc = Loc::current()) const;               // shares the values, not the history

  // Writing. x is broadcast, cast and moved to this tensor's shape, dtype and device.
  Tensor& assign(Operand x, Loc = Loc::current());
  Tensor& copy_(Operand x, Loc = Loc::current());
  Tensor& fill_(Operand x, Loc = Loc::current());
  Tensor& zero_(Loc = Loc::current());
  Tensor& add_(Operand x, Loc = Loc::current());
  Tensor& sub_(Operand x, Loc = Loc::current());
  Tensor& mul_(Operand x, Loc = Loc::current());
  Tensor& div_(Operand x, Loc = Loc::current());
  Tensor& clamp_(Operand lo, Operand hi, Loc = Loc::current());
  Tensor& masked_fill_(const Tensor& mask, Operand value, Loc = Loc::current());
  Tensor& uniform_(double low = 0, double high = 1, Loc = Loc::current());
  Tensor& normal_(double mean = 0, double std = 1, Loc = Loc::current());
  Tensor& bernoulli_(double p = 0.5, Loc = Loc::current());
  Tensor& exponential_(double rate = 1, Loc = Loc::current());
  Tensor& geometric_(double p, Loc = Loc::current());
  Tensor& cauchy_(double median = 0, double sigma = 1, Loc = Loc::current());
  Tensor& log_normal_(double mean = 1, double std = 2, Loc = Loc::current());
  Tensor& random_(int64_t from, int64_t to, Loc = Loc::current());  // [from, to)
  Tensor& operator+=(Operand x) { return add_(x, x.where); }
  Tensor& operator-=(Operand x) { return sub_(x, x.where); }
  Tensor& operator*=(Operand x) { return mul_(x, x.where); }
  Tensor& operator/=(Operand x) { return div_(x, x.where); }

  // dtype and device. But for bitcast and clone: this tensor, where it is that already.
  Tensor to(DType dtype, Loc = Loc::current()) const;
  Tensor to(const std::string& device, Loc = Loc::current()) const;
  Tensor to(const char* device, Loc where = Loc::current()) const {
    return to(std::string(device), where);
  }
  Tensor cast(DType dtype, Loc = Loc::current()) const;
  // The same bits as another dtype, copied. As torch's view(dtype), the last axis becomes longer or
  // shorter where the sizes of the elements differ; the first bytes are the low ones.
  Tensor bitcast(DType dtype, Loc = Loc::current()) const;
  Tensor to_bool(Loc = Loc::current()) const;
  Tensor to_int(Loc = Loc::current()) const;
  Tensor to_long(Loc = Loc::current()) const;
  Tensor to_half(Loc = Loc::current()) const;
  Tensor to_bfloat16(Loc = Loc::current()) const;
  Tensor to_float(Loc = Loc::current()) const;
  Tensor to_double(Loc = Loc::current()) const;
  Tensor clone(Loc = Loc::current()) const;                // a new tensor with the same values
  Tensor contiguous(Loc = Loc::current()) const;           // this, or a stored row-major copy

  // Like this one in shape, dtype and device.
  Tensor zeros_like(DType = DType::none, Loc = Loc::current()) const;
  Tensor ones_like(DType = DType::none, Loc = Loc::current()) const;
  Tensor full_like(Number, DType = DType::none, Loc = Loc::current()) const;
  Tensor empty_like(DType = DType::none, Loc = Loc::current()) const;
  Tensor rand_like(DType = DType::none, Loc = Loc::current()) const;
  Tensor randn_like(DType = DType::none, Loc = Loc::current()) const;

  // Movement; views but where said.
  Tensor reshape(const Sizes& shape, Loc = Loc::current()) const;  // copies where it must
  Tensor view(const Sizes& shape, Loc = Loc::current()) const;     // an error where it must copy
  Tensor view_as(const Tensor& other, Loc = Loc::current()) const;
  Tensor permute(const Axes& axes, Loc = Loc::current()) const;
  Tensor transpose(int64_t a, int64_t b, Loc = Loc::current()) const;
  Tensor swapaxes(int64_t a, int64_t b, Loc = Loc::current()) const;
  Tensor swapdims(int64_t a, int64_t b, Loc w = Loc::current()) const { return swapaxes(a, b, w); }
  Tensor movedim(const Axes& from, const Axes& to, Loc = Loc::current()) const;
  Tensor moveaxis(const Axes& from, const Axes& to, Loc w = Loc::current()) const {
    return movedim(from, to, w);
  }
  Tensor t(Loc = Loc::current()) const;
  Tensor mT(Loc = Loc::current()) const;
  Tensor adjoint(Loc w = Loc::current()) const { return mT(w); }
  Tensor reshape_as(const Tensor& other, Loc = Loc::current()) const;
  // Steps through the memory of the tensor that this is or is a view of; offset < 0: as this one.
  Tensor as_strided(const Ints& size, const Ints& stride, int64_t offset = -1,
                    Loc = Loc::current()) const;
  Tensor expand(const Sizes& shape, Loc = Loc::current()) const;   // -1 keeps a size
  Tensor expand_as(const Tensor& other, Loc = Loc::current()) const;
  Tensor broadcast_to(const Sizes& shape, Loc = Loc::current()) const;
  Tensor shrink(const Sizes& begin, const Sizes& end, Loc = Loc::current()) const;
  Tensor narrow(int64_t dim, Size start, Size length, Loc = Loc::current()) const;
  Tensor select(int64_t dim, Size index, Loc = Loc::current()) const;
  Tensor squeeze(Loc = Loc::current()) const;
  Tensor squeeze(const Axes& axes, Loc = Loc::current()) const;
  Tensor unsqueeze(int64_t dim, Loc = Loc::current()) const;
  Tensor flatten(int64_t start_dim = 0, int64_t end_dim = -1, Loc = Loc::current()) const;
  Tensor ravel(Loc = Loc::current()) const;
  Tensor unflatten(int64_t dim, const Sizes& sizes, Loc = Loc::current()) const;
  std::vector<Tensor> split(const Ints& size, int64_t dim = 0, Loc = Loc::current()) const;
  std::vector<Tensor> chunk(int64_t chunks, int64_t dim = 0, Loc = Loc::current()) const;
  // Into so many parts that differ by at most one row, or (a list) before each of these rows.
  std::vector<Tensor> tensor_split(int64_t sections, int64_t dim = 0, Loc = Loc::current()) const;
  std::vector<Tensor> tensor_split(const Ints& before, int64_t dim = 0, Loc = Loc::current()) const;
  std::vector<Tensor> hsplit(const Ints& how, Loc = Loc::current()) const;  // one number: sections
  std::vector<Tensor> vsplit(const Ints& how, Loc = Loc::current()) const;
  std::vector<Tensor> dsplit(const Ints& how, Loc = Loc::current()) const;
  std::vector<Tensor> unbind(int64_t dim = 0, Loc = Loc::current()) const;
  Tensor unfold(int64_t dim, int64_t size, int64_t step, Loc = Loc::current()) const;
  Tensor diagonal(int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1,
                  Loc = Loc::current()) const;
  Tensor flip(const Axes& axes, Loc = Loc::current()) const;                 // copies from here on
  Tensor fliplr(Loc = Loc::current()) const;
  Tensor flipud(Loc = Loc::current()) const;
  // Pairs of amounts from the last axis on; constant, reflect, replicate or circular.
  Tensor pad(const Ints& pad, const char* mode = "constant", Number value = 0.0,
             Loc = Loc::current()) const;
  Tensor repeat(const Ints& repeats, Loc = Loc::current()) const;
  Tensor tile(const Ints& repeats, Loc = Loc::current()) const;
  Tensor repeat_interleave(int64_t repeats, Loc = Loc::current()) const;
  Tensor repeat_interleave(int64_t repeats, int64_t dim, Loc = Loc::current()) const;
  Tensor roll(const Ints& shifts, const Axes& dims = {}, Loc = Loc::current()) const;
  Tensor rot90(int64_t k = 1, const Axes& dims = {0, 1}, Loc = Loc::current()) const;
  Tensor tril(int64_t diagonal = 0, Loc = Loc::current()) const;
  Tensor triu(int64_t diagonal = 0, Loc = Loc::current()) const;
  Tensor diag(int64_t diagonal = 0, Loc = Loc::current()) const;
  Tensor diag_embed(int64_t offset = 0, Loc = Loc::current()) const;
  Tensor diagflat(int64_t offset = 0, Loc = Loc::current()) const;
  Tensor sum_to_size(const Sizes& shape, Loc = Loc::current()) const;
  // A copy in which the part that the method of that name shows is src.
  Tensor select_scatter(const Tensor& src, int64_t dim, int64_t index, Loc = Loc::current()) const;
  Tensor slice_scatter(const Tensor& src, int64_t dim = 0, const Slice& slice = {},
                       Loc = Loc::current()) const;
  Tensor diagonal_scatter(const Tensor& src, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1,
                          Loc = Loc::current()) const;

  // Indexing. Numbers, slices, Ellipsis and None give views; tensors of integers (negative ones
  // count from the end) or of bools copy. Reading by bools and masked_select realize how many are
  // true. Out of range is an error (docs/semantics.md says when). An expression of variables is
  // checked with their values; one that is not bound must fit whatever its value is.
  Tensor index(const std::vector<Index>& indices, Loc = Loc::current()) const;
  Tensor operator()(Index a) const;
  Tensor operator()(Index a, Index b) const;
  Tensor operator()(Index a, Index b, Index c) const;
  Tensor operator()(Index a, Index b, Index c, Index d) const;
  Tensor operator()(Index a, Index b, Index c, Index d, Index e) const;
  Tensor operator[](Index a) const;
  // Setting. Out of range is an error here too. Of several writes to one place the last one
  // counts; with accumulate they add.
  Tensor& set(const std::vector<Index>& indices, Operand value, Loc = Loc::current());
  Tensor& index_put_(const std::vector<Index>& indices, Operand value, bool accumulate = false,
                     Loc = Loc::current());
  Tensor gather(int64_t dim, const Tensor& index, Loc = Loc::current()) const;
  Tensor take_along_dim(const Tensor& index, int64_t dim, Loc = Loc::current()) const;
  Tensor index_select(int64_t dim, const Tensor& index, Loc = Loc::current()) const;
  Tensor take(const Tensor& index, Loc = Loc::current()) const;
  Tensor scatter(int64_t dim, const Tensor& index, Operand src, Loc = Loc::current()) const;
  Tensor scatter_add(int64_t dim, const Tensor& index, const Tensor& src,
                     Loc = Loc::current()) const;
  // reduce: sum, prod, mean, amax, amin
  Tensor scatter_reduce(int64_t dim, const Tensor& index, const Tensor& src, const char* reduce,
                        bool include_self = true, Loc = Loc::current()) const;
  Tensor index_add(int64_t dim, const Tensor& index, const Tensor& src, Number alpha = 1,
                   Loc = Loc::current()) const;
  Tensor index_copy(int64_t dim, const Tensor& index, const Tensor& src,
                    Loc = Loc::current()) const;
  Tensor index_fill(int64_t dim, const Tensor& index, Operand value, Loc = Loc::current()) const;
  Tensor& scatter_(int64_t dim, const Tensor& index, Operand src, Loc = Loc::current());
  Tensor& scatter_add_(int64_t dim, const Tensor& index, const Tensor& src, Loc = Loc::current());
  Tensor masked_fill(const Tensor& mask, Operand value, Loc = Loc::current()) const;
  Tensor masked_select(const Tensor& mask, Loc = Loc::current()) const;
  // The true places take the elements of src in order.
  Tensor masked_scatter(const Tensor& mask, const Tensor& src, Loc = Loc::current()) const;
  Tensor put(const Tensor& index, const Tensor& src, bool accumulate = false,
             Loc = Loc::current()) const;                  // of the flattened tensor
  Tensor index_put(const std::vector<Index>& indices, Operand value, bool accumulate = false,
                   Loc = Loc::current()) const;
  // reduce: prod, mean, amax, amin
  Tensor index_reduce(int64_t dim, const Tensor& index, const Tensor& src, const char* reduce,
                      bool include_self = true, Loc = Loc::current()) const;
  Tensor nonzero(Loc = Loc::current()) const;              // realizes how many are not zero
  Tensor argwhere(Loc = Loc::current()) const;             // the same
  Tensor where(const Tensor& condition, Operand other, Loc = Loc::current()) const;

  // Elementwise.
#define MOTE_DECLARE(name) Tensor name(Loc = Loc::current()) const;
  MOTE_UNARY(MOTE_DECLARE)
#undef MOTE_DECLARE
#define MOTE_DECLARE(name) Tensor name(Operand other, Loc = Loc::current()) const;
  MOTE_BINARY(MOTE_DECLARE)
#undef MOTE_DECLARE
#define MOTE_DECLARE(alias, name) Tensor alias(Loc w = Loc::current()) const { return name(w); }
  MOTE_UNARY_ALIAS(MOTE_DECLARE)
#undef MOTE_DECLARE
#define MOTE_DECLARE(alias, name) \
  Tensor alias(Operand other, Loc w = Loc::current()) const { return name(other, w); }
  MOTE_BINARY_ALIAS(MOTE_DECLARE)
#undef MOTE_DECLARE
  Tensor add(Operand other, Number alpha = 1, Loc = Loc::current()) const;
  Tensor sub(Operand other, Number alpha = 1, Loc = Loc::current()) const;
  Tensor subtract(Operand other, Number alpha = 1, Loc w = Loc::current()) const {
    return sub(other, alpha, w);
  }
  Tensor mul(Operand other, Loc = Loc::current()) const;
  Tensor div(Operand other, const char* rounding_mode = nullptr, Loc = Loc::current()) const;
  Tensor divide(Operand other, const char* rounding_mode = nullptr,
                Loc w = Loc::current()) const {
    return div(other, rounding_mode, w);
  }
  Tensor round(int decimals, Loc = Loc::current()) const;
  Tensor clamp(Operand lo, Operand hi, Loc = Loc::current()) const;
  Tensor clip(Operand lo, Operand hi, Loc = Loc::current()) const;
  Tensor clamp_min(Operand lo, Loc = Loc::current()) const;
  Tensor clamp_max(Operand hi, Loc = Loc::current()) const;
  Tensor lerp(const Tensor& end, Operand weight, Loc = Loc::current()) const;
  Tensor addcmul(const Tensor& a, const Tensor& b, Number value = 1, Loc = Loc::current()) const;
  Tensor addcdiv(const Tensor& a, const Tensor& b, Number value = 1, Loc = Loc::current()) const;
  Tensor nan_to_num(double nan = 0, Loc = Loc::current()) const;   // infinities to the largest
  Tensor logit(double eps = -1, Loc = Loc::current()) const;
  Tensor isclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                 bool equal_nan = false, Loc = Loc::current()) const;
  bool allclose(const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                bool equal_nan = false, Loc = Loc::current()) const;  // realizes; so does equal
  bool equal(const Tensor& other, Loc = Loc::current()) const;
  Tensor polygamma(int64_t n, Loc = Loc::current()) const;
  Tensor mvlgamma(int64_t p, Loc = Loc::current()) const;
  Tensor gelu(const char* approximate = "none", Loc = Loc::current()) const;  // or "tanh"
  Tensor elu(double alpha = 1, Loc = Loc::current()) const;
  Tensor celu(double alpha = 1, Loc = Loc::current()) const;
  Tensor leaky_relu(double negative_slope = 0.01, Loc = Loc::current()) const;
  Tensor prelu(const Tensor& weight, Loc = Loc::current()) const;
  Tensor hardtanh(double min_val = -1, double max_val = 1, Loc = Loc::current()) const;
  Tensor hardshrink(double lambd = 0.5, Loc = Loc::current()) const;
  Tensor softshrink(double lambd = 0.5, Loc = Loc::current()) const;
  Tensor threshold(double threshold, double value, Loc = Loc::current()) const;
  Tensor softplus(double beta = 1, double threshold = 20, Loc = Loc::current()) const;
  Tensor glu(int64_t dim = -1, Loc = Loc::current()) const;
  Tensor softmax(int64_t dim, DType = DType::none, Loc = Loc::current()) const;
  Tensor log_softmax(int64_t dim, DType = DType::none, Loc = Loc::current()) const;
  Tensor softmin(int64_t dim, Loc = Loc::current()) const;

  // Reductions; no axes means all. Sums and means of 16-bit floats accumulate in f32.
  Tensor sum(const Axes& axes = {}, bool keepdim = false, DType = DType::none,
             Loc = Loc::current()) const;
  Tensor nansum(const Axes& axes = {}, bool keepdim = false, Loc = Loc::current()) const;
  Tensor prod(const Axes& axes = {}, bool keepdim = false, DType = DType::none,
              Loc = Loc::current()) const;
  Tensor mean(const Axes& axes = {}, bool keepdim = false, DType = DType::none,
              Loc = Loc::current()) const;
  Tensor nanmean(const Axes& axes = {}, bool keepdim = false, Loc = Loc::current()) const;
  Tensor var(const Axes& axes = {}, double correction = 1, bool keepdim = false,
             Loc = Loc::current()) const;
  Tensor std(const Axes& axes = {}, double correction = 1, bool keepdim = false,
             Loc = Loc::current()) const;
  Tensor amax(const Axes& axes = {}, bool keepdim = false, Loc = Loc::current()) const;
  Tensor amin(const Axes& axes = {}, bool keepdim = false, Loc = Loc::current()) const;
  Tensor max(Loc = Loc::current()) const;
  Tensor min(Loc = Loc::current()) const;
  ValuesIndices max(int64_t dim, bool keepdim = false, Loc = Loc::current()) const;
  ValuesIndices min(int64_t dim, bool keepdim = false, Loc = Loc::current()) const;
  Tensor argmax(Loc = Loc::current()) const;               // of the flattened tensor; first of ties
  Tensor argmin(Loc = Loc::current()) const;
  Tensor argmax(int64_t dim, bool keepdim = false, Loc = Loc::current()) const;
  Tensor argmin(int64_t dim, bool keepdim = false, Loc = Loc::current()) const;
  Tensor any(const Axes& axes = {}, bool keepdim = false, Loc = Loc::current()) const;
  Tensor all(const Axes& axes = {}, bool keepdim = false, Loc = Loc::current()) const;
  Tensor count_nonzero(const Axes& axes = {}, Loc = Loc::current()) const;
  Tensor logsumexp(const Axes& axes = {}, bool keepdim = false, Loc = Loc::current()) const;
  Tensor norm(double p = 2, const Axes& axes = {}, bool keepdim = false,
              Loc = Loc::current()) const;
  Tensor normalize(double p = 2, int64_t dim = 1, double eps = 1e-12, Loc = Loc::current()) const;
  Tensor dist(const Tensor& other, double p = 2, Loc = Loc::current()) const;
  // Each part along dim whose p-norm is above maxnorm is scaled down to it.
  Tensor renorm(double p, int64_t dim, double maxnorm, Loc = Loc::current()) const;
  Tensor trace(Loc = Loc::current()) const;
  Extremes aminmax(const Axes& axes = {}, bool keepdim = false, Loc = Loc::current()) const;
  Tensor cov(double correction = 1, Loc = Loc::current()) const;  // of rows of observations
  Tensor corrcoef(Loc = Loc::current()) const;

  // Scans and order.
  Tensor cumsum(int64_t dim, DType = DType::none, Loc = Loc::current()) const;
  Tensor cumprod(int64_t dim, DType = DType::none, Loc = Loc::current()) const;
  ValuesIndices cummax(int64_t dim, Loc = Loc::current()) const;
  ValuesIndices cummin(int64_t dim, Loc = Loc::current()) const;
  Tensor logcumsumexp(int64_t dim, Loc = Loc::current()) const;
  ValuesIndices sort(int64_t dim = -1, bool descending = false, Loc = Loc::current()) const;
  Tensor argsort(int64_t dim = -1, bool descending = false, Loc = Loc::current()) const;
  ValuesIndices topk(int64_t k, int64_t dim = -1, bool largest = true, bool sorted = true,
                     Loc = Loc::current()) const;
  ValuesIndices kthvalue(int64_t k, int64_t dim = -1, bool keepdim = false,
                         Loc = Loc::current()) const;
  ValuesIndices median(int64_t dim, bool keepdim = false, Loc = Loc::current()) const;
  Tensor median(Loc = Loc::current()) const;
  ValuesIndices nanmedian(int64_t dim, bool keepdim = false, Loc = Loc::current()) const;
  Tensor nanmedian(Loc = Loc::current()) const;
  // The smallest of the most frequent, and where it stands last.
  ValuesIndices mode(int64_t dim = -1, bool keepdim = false, Loc = Loc::current()) const;
  // One axis or all; of several q a new first axis. interpolation: linear, lower, higher, nearest
  // or midpoint.
  Tensor quantile(Operand q, const Axes& axes = {}, bool keepdim = false,
                  const char* interpolation = "linear", Loc = Loc::current()) const;
  Tensor nanquantile(Operand q, const Axes& axes = {}, bool keepdim = false,
                     const char* interpolation = "linear", Loc = Loc::current()) const;
  Tensor msort(Loc = Loc::current()) const;
  Tensor diff(int64_t n = 1, int64_t dim = -1, const Tensor& prepend = {},
              const Tensor& append = {}, Loc = Loc::current()) const;
  // Counts. Bins of equal width from min to max, of the smallest to the largest where these are
  // equal. bincount realizes the largest number.
  Tensor histc(int64_t bins = 100, Number min = 0, Number max = 0, Loc = Loc::current()) const;
  Tensor bincount(const Tensor& weights = {}, int64_t minlength = 0, Loc = Loc::current()) const;
  // Distinct elements, or parts along one axis: sorted, or only without repetitions of the one
  // before. Both realize how many there are; what is not used of the result is not computed.
  UniqueValues unique(const Axes& axis = {}, Loc = Loc::current()) const;
  UniqueValues unique_consecutive(const Axes& axis = {}, Loc = Loc::current()) const;
  // A class whose weight is not above 0 is drawn only once no others are left. With CHECK=2 that
  // is an error, and so are weights that are negative or not finite.
  Tensor multinomial(int64_t num_samples, bool replacement = false, Loc = Loc::current()) const;
  Tensor bernoulli(Loc = Loc::current()) const;            // 1 with the probability given by each

  // Products.
  Tensor matmul(const Tensor& other, Loc = Loc::current()) const;
  Tensor mm(const Tensor& other, Loc = Loc::current()) const;
  Tensor bmm(const Tensor& other, Loc = Loc::current()) const;
  Tensor mv(const Tensor& vec, Loc = Loc::current()) const;
  Tensor dot(const Tensor& other, Loc = Loc::current()) const;
  Tensor outer(const Tensor& other, Loc = Loc::current()) const;
  Tensor addmm(const Tensor& a, const Tensor& b, Number beta = 1, Number alpha = 1,
               Loc = Loc::current()) const;
  Tensor addbmm(const Tensor& a, const Tensor& b, Number beta = 1, Number alpha = 1,
                Loc = Loc::current()) const;
  Tensor baddbmm(const Tensor& a, const Tensor& b, Number beta = 1, Number alpha = 1,
                 Loc = Loc::current()) const;
  Tensor addmv(const Tensor& a, const Tensor& vec, Number beta = 1, Number alpha = 1,
               Loc = Loc::current()) const;
  Tensor addr(const Tensor& a, const Tensor& b, Number beta = 1, Number alpha = 1,
              Loc = Loc::current()) const;
  Tensor vdot(const Tensor& other, Loc w = Loc::current()) const { return dot(other, w); }
  Tensor inner(const Tensor& other, Loc = Loc::current()) const;
  Tensor ger(const Tensor& other, Loc w = Loc::current()) const { return outer(other, w); }
  Tensor cross(const Tensor& other, int64_t dim = -1, Loc = Loc::current()) const;
  Tensor linear(const Tensor& weight, const Tensor& bias = {}, Loc = Loc::current()) const;
  Tensor tensordot(const Tensor& other, int64_t dims = 2, Loc = Loc::current()) const;
  Tensor tensordot(const Tensor& other, const Axes& axes, const Axes& others,
                   Loc = Loc::current()) const;
  Tensor kron(const Tensor& other, Loc = Loc::current()) const;
  Tensor cosine_similarity(const Tensor& other, int64_t dim = 1, double eps = 1e-8,
                           Loc = Loc::current()) const;

  // Windows: (N, C, spatial...) or without N.
  Tensor conv1d(const Tensor& weight, const Tensor& bias = {}, const ConvOptions& = {},
                Loc = Loc::current()) const;
  Tensor conv2d(const Tensor& weight, const Tensor& bias = {}, const ConvOptions& = {},
                Loc = Loc::current()) const;
  Tensor conv3d(const Tensor& weight, const Tensor& bias = {}, const ConvOptions& = {},
                Loc = Loc::current()) const;
  Tensor conv_transpose1d(const Tensor& weight, const Tensor& bias = {},
                          const ConvTransposeOptions& = {}, Loc = Loc::current()) const;
  Tensor conv_transpose2d(const Tensor& weight, const Tensor& bias = {},
                          const ConvTransposeOptions& = {}, Loc = Loc::current()) const;
  Tensor conv_transpose3d(const Tensor& weight, const Tensor& bias = {},
                          const ConvTransposeOptions& = {}, Loc = Loc::current()) const;
  Tensor max_pool1d(const Ints& kernel, const MaxPoolOptions& = {}, Loc = Loc::current()) const;
  Tensor max_pool2d(const Ints& kernel, const MaxPoolOptions& = {}, Loc = Loc::current()) const;
  Tensor max_pool3d(const Ints& kernel, const MaxPoolOptions& = {}, Loc = Loc::current()) const;
  // The indices count within each spatial plane of the input, as in PyTorch.
  ValuesIndices max_pool1d_with_indices(const Ints& kernel, const MaxPoolOptions& = {},
                                        Loc = Loc::current()) const;
  ValuesIndices max_pool2d_with_indices(const Ints& kernel, const MaxPoolOptions& = {},
                                        Loc = Loc::current()) const;
  ValuesIndices max_pool3d_with_indices(const Ints& kernel, const MaxPoolOptions& = {},
                                        Loc = Loc::current()) const;
  Tensor avg_pool1d(const Ints& kernel, const AvgPoolOptions& = {}, Loc = Loc::current()) const;
  Tensor avg_pool2d(const Ints& kernel, const AvgPoolOptions& = {}, Loc = Loc::current()) const;
  Tensor avg_pool3d(const Ints& kernel, const AvgPoolOptions& = {}, Loc = Loc::current()) const;
  Tensor adaptive_avg_pool1d(const Ints& output, Loc = Loc::current()) const;
  Tensor adaptive_avg_pool2d(const Ints& output, Loc = Loc::current()) const;
  Tensor adaptive_avg_pool3d(const Ints& output, Loc = Loc::current()) const;
  Tensor adaptive_max_pool1d(const Ints& output, Loc = Loc::current()) const;
  Tensor adaptive_max_pool2d(const Ints& output, Loc = Loc::current()) const;
  Tensor interpolate(const InterpolateOptions&, Loc = Loc::current()) const;
  Tensor pixel_shuffle(int64_t upscale_factor, Loc = Loc::current()) const;
  Tensor pixel_unshuffle(int64_t downscale_factor, Loc = Loc::current()) const;

  // Normalisation, dropout, attention, embedding. An undefined weight or bias is left out.
  Tensor layer_norm(const Ints& normalized_shape, const Tensor& weight = {},
                    const Tensor& bias = {}, double eps = 1e-5, Loc = Loc::current()) const;
  Tensor rms_norm(const Ints& normalized_shape, const Tensor& weight = {}, double eps = -1,
                  Loc = Loc::current()) const;     // eps < 0: the dtype's epsilon
  // running_mean and running_var are written when training and defined.
  Tensor batch_norm(const Tensor& running_mean, const Tensor& running_var,
                    const Tensor& weight = {}, const Tensor& bias = {},
                    const BatchNormOptions& = {}, Loc = Loc::current()) const;
  Tensor group_norm(int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                    double eps = 1e-5, Loc = Loc::current()) const;
  Tensor instance_norm(const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                       Loc = Loc::current()) const;
  Tensor dropout(double p = 0.5, bool training = true, Loc = Loc::current()) const;
  Tensor scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                      const AttentionOptions&, Loc = Loc::current()) const;
  Tensor scaled_dot_product_attention(const Tensor& key, const Tensor& value,
                                      Loc = Loc::current()) const;
  Tensor one_hot(int64_t num_classes = -1, Loc = Loc::current()) const;  // -1: realizes the largest
  Tensor embedding(const Tensor& weight, int64_t padding_idx = -1, Loc = Loc::current()) const;

  // Losses.
  Tensor cross_entropy(const Tensor& target, const CrossEntropyOptions&,
                       Loc = Loc::current()) const;
  Tensor cross_entropy(const Tensor& target, Loc = Loc::current()) const;
  Tensor nll_loss(const Tensor& target, const CrossEntropyOptions&, Loc = Loc::current()) const;
  Tensor nll_loss(const Tensor& target, Loc = Loc::current()) const;
  Tensor binary_cross_entropy(const Tensor& target, const Tensor& weight = {},
                              Reduction = Reduction::mean, Loc = Loc::current()) const;
  Tensor binary_cross_entropy_with_logits(const Tensor& target, const Tensor& weight = {},
                                          const Tensor& pos_weight = {},
                                          Reduction = Reduction::mean,
                                          Loc = Loc::current()) const;
  Tensor mse_loss(const Tensor& target, Reduction = Reduction::mean, Loc = Loc::current()) const;
  Tensor l1_loss(const Tensor& target, Reduction = Reduction::mean, Loc = Loc::current()) const;
  Tensor smooth_l1_loss(const Tensor& target, double beta = 1, Reduction = Reduction::mean,
                        Loc = Loc::current()) const;
  Tensor huber_loss(const Tensor& target, double delta = 1, Reduction = Reduction::mean,
                    Loc = Loc::current()) const;
  // Reduction::mean divides by every element; batch_mean by the size of the first axis.
  Tensor kl_div(const Tensor& target, Reduction = Reduction::mean, bool log_target = false,
                bool batch_mean = false, Loc = Loc::current()) const;

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
};
struct Extremes {
  Tensor min, max;
};
struct UniqueValues {
  Tensor values;
  Tensor inverse;  // of each element its place among the values
  Tensor counts;   // of each value
};

// One entry of an index, and where it was written.
struct Index {
  enum Kind : uint8_t { Number, Range, Dots, NewAxis, Positions } kind;
  Size at;
  Slice range;
  Tensor positions;
  Loc where;
  template <class T>
    requires std::is_integral_v<T>
  Index(T n, Loc w = Loc::current()) : kind(Number), at(n), where(w) {}
  Index(Sym s, Loc w = Loc::current()) : kind(Number), at(std::move(s)), where(w) {}
  Index(Size s, Loc w = Loc::current()) : kind(Number), at(std::move(s)), where(w) {}
  Index(Slice s, Loc w = Loc::current()) : kind(Range), range(std::move(s)), where(w) {}
  Index(EllipsisType, Loc w = Loc::current()) : kind(Dots), where(w) {}
  Index(NoneType, Loc w = Loc::current()) : kind(NewAxis), where(w) {}
  Index(Tensor t, Loc w = Loc::current()) : kind(Positions), positions(std::move(t)), where(w) {}
};

struct SearchOptions {
  bool right = false;      // behind equal ones
  bool out_int32 = false;  // positions as i32, not i64
  Tensor sorter = {};      // positions that sort the sequence
};
struct AttentionOptions {
  Tensor attn_mask = {};        // bool: true takes part; float: added to the scores
  double dropout_p = 0;
  bool is_causal = false;
  double scale = 0;             // 0: 1 / sqrt(size of the last axis)
  bool enable_gqa = false;      // repeat key and value heads to the query's number
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

