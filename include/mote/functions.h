// Functions that are not methods (creation, random numbers, joining), followed by the methods as
// free functions, whose first argument is the tensor. Those for networks are in functional.h.
#pragma once
#include <mote/tensor.h>

namespace mote {

// The device on which tensors are made if none is named; "CPU" by default. "CPU:1" is a second one.
std::string default_device();
void set_default_device(const std::string& name, Loc = MOTE_HERE);
// Restarts the random numbers of all devices from this seed.
void manual_seed(uint64_t seed);
// The state of a device's random numbers, seed and counter, a u64 each. Save it, or assign to it.
std::vector<Tensor> random_state(const std::string& device = {}, Loc = MOTE_HERE);

// Creation.
Tensor full(const Sizes& shape, Number value, const Options& = {}, Loc = MOTE_HERE);
Tensor zeros(const Sizes& shape, const Options& = {}, Loc = MOTE_HERE);
Tensor ones(const Sizes& shape, const Options& = {}, Loc = MOTE_HERE);
Tensor empty(const Sizes& shape, const Options& = {}, Loc = MOTE_HERE);
Tensor arange(Number start, Number end, Number step = 1, const Options& = {}, Loc = MOTE_HERE);
Tensor arange(Number end, const Options& = {}, Loc = MOTE_HERE);
Tensor arange(const Sym& end, const Options& = {}, Loc = MOTE_HERE);
Tensor linspace(Number start, Number end, int64_t steps, const Options& = {}, Loc = MOTE_HERE);
Tensor eye(int64_t n, int64_t m = -1, const Options& = {}, Loc = MOTE_HERE);
Tensor logspace(Number start, Number end, int64_t steps, double base = 10, const Options& = {},
                Loc = MOTE_HERE);
// The row and column indices of a triangle of an n x m matrix: (2, count), i64.
Tensor tril_indices(int64_t n, int64_t m, int64_t offset = 0, const Options& = {},
                    Loc = MOTE_HERE);
Tensor triu_indices(int64_t n, int64_t m, int64_t offset = 0, const Options& = {},
                    Loc = MOTE_HERE);
// Window functions; a periodic one is the symmetric one of n + 1 points without the last.
Tensor hann_window(int64_t n, bool periodic = true, const Options& = {}, Loc = MOTE_HERE);
Tensor hamming_window(int64_t n, bool periodic = true, double alpha = 0.54, double beta = 0.46,
                      const Options& = {}, Loc = MOTE_HERE);
Tensor blackman_window(int64_t n, bool periodic = true, const Options& = {}, Loc = MOTE_HERE);
Tensor bartlett_window(int64_t n, bool periodic = true, const Options& = {}, Loc = MOTE_HERE);
Tensor kaiser_window(int64_t n, bool periodic = true, double beta = 12, const Options& = {},
                     Loc = MOTE_HERE);
inline Tensor full(const Sizes& s, Number v, DType d, Loc w = MOTE_HERE) {
  return full(s, v, Options{d, {}}, w);
}
inline Tensor zeros(const Sizes& s, DType d, Loc w = MOTE_HERE) {
  return zeros(s, Options{d, {}}, w);
}
inline Tensor ones(const Sizes& s, DType d, Loc w = MOTE_HERE) {
  return ones(s, Options{d, {}}, w);
}
inline Tensor empty(const Sizes& s, DType d, Loc w = MOTE_HERE) {
  return empty(s, Options{d, {}}, w);
}

// From values. The bytes are copied at once.
Tensor from_bytes(const void* bytes, const Sizes& shape, DType dtype,
                  const std::string& device = {}, Loc = MOTE_HERE);
// Uses the caller's memory in place; deleter(context) is called when it is no longer used.
Tensor from_blob(void* data, const Sizes& shape, DType dtype, void (*deleter)(void*) = nullptr,
                 void* context = nullptr, const std::string& device = {}, Loc = MOTE_HERE);
// As many values as the shape has elements, converted if a dtype is given.
Tensor from_values(const void* values, size_t count, DType dtype, const Sizes& shape,
                   const Options& = {}, Loc = MOTE_HERE);
template <class T>
Tensor from_data(const std::vector<T>& values, const Sizes& shape, const Options& o = {},
                 Loc where = MOTE_HERE);
template <class T>
Tensor tensor(const std::vector<T>& values, const Options& o = {}, Loc where = MOTE_HERE) {
  return from_data(values, {values.size()}, o, where);
}
// Literals, as in PyTorch: integers give i64 (u64 if one does not fit), other numbers f32, unless a
// dtype is given.
Tensor tensor(Number value, const Options& = {}, Loc = MOTE_HERE);
Tensor tensor(std::initializer_list<Literal> values, const Options& = {}, Loc = MOTE_HERE);
Tensor scalar(const Sym& value, Loc = MOTE_HERE);  // the value of a variable, i64

// Random numbers (Threefry). The state is a buffer on the device; every draw advances it.
Tensor rand(const Sizes& shape, const Options& = {}, Loc = MOTE_HERE);  // [0, 1)
Tensor randn(const Sizes& shape, const Options& = {}, Loc = MOTE_HERE);
Tensor randint(int64_t low, int64_t high, const Sizes& shape, const Options& = {},
               Loc = MOTE_HERE);  // [low, high)
Tensor uniform(const Sizes& shape, double low = 0, double high = 1, const Options& = {},
               Loc = MOTE_HERE);
Tensor normal(const Sizes& shape, double mean = 0, double std = 1, const Options& = {},
              Loc = MOTE_HERE);
Tensor randperm(int64_t n, const Options& = {}, Loc = MOTE_HERE);
Tensor randint_like(const Tensor& x, int64_t low, int64_t high, Loc = MOTE_HERE);
Tensor normal(const Tensor& mean, const Tensor& std, Loc = MOTE_HERE);  // one for each pair
Tensor poisson(const Tensor& rate, Loc = MOTE_HERE);                    // rate <= 1e6
// Initial weights, with the fans of a shape (out, in, kernel...).
Tensor kaiming_uniform(const Sizes& shape, double a = 0.01, const Options& = {},
                       Loc = MOTE_HERE);
Tensor kaiming_normal(const Sizes& shape, double a = 0.01, const Options& = {},
                      Loc = MOTE_HERE);
Tensor glorot_uniform(const Sizes& shape, double gain = 1, const Options& = {},
                      Loc = MOTE_HERE);
Tensor glorot_normal(const Sizes& shape, double gain = 1, const Options& = {},
                     Loc = MOTE_HERE);

// Joining.
Tensor cat(const std::vector<Tensor>& tensors, int64_t dim = 0, Loc = MOTE_HERE);
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0, Loc = MOTE_HERE);
Tensor hstack(const std::vector<Tensor>& tensors, Loc = MOTE_HERE);
Tensor vstack(const std::vector<Tensor>& tensors, Loc = MOTE_HERE);
Tensor dstack(const std::vector<Tensor>& tensors, Loc = MOTE_HERE);
Tensor column_stack(const std::vector<Tensor>& tensors, Loc = MOTE_HERE);
inline Tensor row_stack(const std::vector<Tensor>& tensors, Loc w = MOTE_HERE) {
  return vstack(tensors, w);
}
inline Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0, Loc w = MOTE_HERE) {
  return cat(tensors, dim, w);
}
inline Tensor concatenate(const std::vector<Tensor>& tensors, int64_t dim = 0,
                          Loc w = MOTE_HERE) {
  return cat(tensors, dim, w);
}
Tensor block_diag(const std::vector<Tensor>& tensors, Loc = MOTE_HERE);
Tensor cartesian_prod(const std::vector<Tensor>& tensors, Loc = MOTE_HERE);
Tensor combinations(const Tensor& x, int64_t r = 2, bool with_replacement = false,
                    Loc = MOTE_HERE);
Tensor atleast_1d(const Tensor& x, Loc = MOTE_HERE);
Tensor atleast_2d(const Tensor& x, Loc = MOTE_HERE);
Tensor atleast_3d(const Tensor& x, Loc = MOTE_HERE);
std::vector<Tensor> broadcast_tensors(const std::vector<Tensor>& tensors, Loc = MOTE_HERE);
Tensor vander(const Tensor& x, int64_t n = -1, bool increasing = false, Loc = MOTE_HERE);
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, const char* indexing = "ij",
                             Loc = MOTE_HERE);
Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands,
              Loc = MOTE_HERE);
Tensor where(const Tensor& condition, Operand a, Operand b, Loc = MOTE_HERE);
std::vector<int64_t> broadcast_shapes(const std::vector<std::vector<int64_t>>& shapes,
                                      Loc = MOTE_HERE);
DType result_type(Operand a, Operand b);

// Statistics, integrals and distances.
std::pair<Tensor, Tensor> std_mean(const Tensor& x, const Axes& axes = {}, double correction = 1,
                                   bool keepdim = false, Loc = MOTE_HERE);
std::pair<Tensor, Tensor> var_mean(const Tensor& x, const Axes& axes = {}, double correction = 1,
                                   bool keepdim = false, Loc = MOTE_HERE);
Tensor trapezoid(const Tensor& y, double dx = 1, int64_t dim = -1, Loc = MOTE_HERE);
Tensor trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1, Loc = MOTE_HERE);
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, int64_t dim = -1,
                            Loc = MOTE_HERE);
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int64_t dim = -1,
                            Loc = MOTE_HERE);
// p-norms of differences: between all rows of x and y; between all pairs of rows of x, in order.
Tensor cdist(const Tensor& x, const Tensor& y, double p = 2, Loc = MOTE_HERE);
Tensor pdist(const Tensor& x, double p = 2, Loc = MOTE_HERE);
// The matrix product, in the order that needs the fewest multiplications.
Tensor chain_matmul(const std::vector<Tensor>& matrices, Loc = MOTE_HERE);
// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1; exponents are i32.
std::pair<Tensor, Tensor> frexp(const Tensor& x, Loc = MOTE_HERE);

// Runs all of these at once, sharing work.
void realize(const std::vector<Tensor>& tensors, Loc = MOTE_HERE);

// The methods as free functions.
#define MOTE_DECLARE(name) \
  inline Tensor name(const Tensor& x, Loc w = MOTE_HERE) { return x.name(w); }
MOTE_UNARY(MOTE_DECLARE)
#undef MOTE_DECLARE
#define MOTE_DECLARE(name) Tensor name(Operand a, Operand b, Loc = MOTE_HERE);
MOTE_BINARY(MOTE_DECLARE)
MOTE_DECLARE(mul)
#undef MOTE_DECLARE
Tensor add(Operand a, Operand b, Number alpha = 1, Loc = MOTE_HERE);
Tensor sub(Operand a, Operand b, Number alpha = 1, Loc = MOTE_HERE);
Tensor div(Operand a, Operand b, const char* rounding_mode = nullptr, Loc = MOTE_HERE);
inline Tensor zeros_like(const Tensor& x, DType dtype = DType::none, Loc w = MOTE_HERE) {
  return x.zeros_like(dtype, w);
}
inline Tensor ones_like(const Tensor& x, DType dtype = DType::none, Loc w = MOTE_HERE) {
  return x.ones_like(dtype, w);
}
inline Tensor full_like(const Tensor& x, Number value, DType dtype = DType::none,
                        Loc w = MOTE_HERE) {
  return x.full_like(value, dtype, w);
}
inline Tensor empty_like(const Tensor& x, DType dtype = DType::none, Loc w = MOTE_HERE) {
  return x.empty_like(dtype, w);
}
inline Tensor rand_like(const Tensor& x, DType dtype = DType::none, Loc w = MOTE_HERE) {
  return x.rand_like(dtype, w);
}
inline Tensor randn_like(const Tensor& x, DType dtype = DType::none, Loc w = MOTE_HERE) {
  return x.randn_like(dtype, w);
}
inline Tensor reshape(const Tensor& x, const Sizes& shape, Loc w = MOTE_HERE) {
  return x.reshape(shape, w);
}
inline Tensor view(const Tensor& x, const Sizes& shape, Loc w = MOTE_HERE) {
  return x.view(shape, w);
}
inline Tensor view_as(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.view_as(other, w);
}
inline Tensor permute(const Tensor& x, const Axes& axes, Loc w = MOTE_HERE) {
  return x.permute(axes, w);
}
inline Tensor transpose(const Tensor& x, int64_t a, int64_t b, Loc w = MOTE_HERE) {
  return x.transpose(a, b, w);
}
inline Tensor swapaxes(const Tensor& x, int64_t a, int64_t b, Loc w = MOTE_HERE) {
  return x.swapaxes(a, b, w);
}
inline Tensor movedim(const Tensor& x, const Axes& from, const Axes& to, Loc w = MOTE_HERE) {
  return x.movedim(from, to, w);
}
inline Tensor t(const Tensor& x, Loc w = MOTE_HERE) { return x.t(w); }
inline Tensor mT(const Tensor& x, Loc w = MOTE_HERE) { return x.mT(w); }
inline Tensor expand(const Tensor& x, const Sizes& shape, Loc w = MOTE_HERE) {
  return x.expand(shape, w);
}
inline Tensor expand_as(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.expand_as(other, w);
}
inline Tensor broadcast_to(const Tensor& x, const Sizes& shape, Loc w = MOTE_HERE) {
  return x.broadcast_to(shape, w);
}
inline Tensor shrink(const Tensor& x, const Sizes& begin, const Sizes& end,
                     Loc w = MOTE_HERE) {
  return x.shrink(begin, end, w);
}
inline Tensor narrow(const Tensor& x, int64_t dim, Size start, Size length,
                     Loc w = MOTE_HERE) {
  return x.narrow(dim, start, length, w);
}
inline Tensor select(const Tensor& x, int64_t dim, Size index, Loc w = MOTE_HERE) {
  return x.select(dim, index, w);
}
inline Tensor squeeze(const Tensor& x, Loc w = MOTE_HERE) { return x.squeeze(w); }
inline Tensor squeeze(const Tensor& x, const Axes& axes, Loc w = MOTE_HERE) {
  return x.squeeze(axes, w);
}
inline Tensor unsqueeze(const Tensor& x, int64_t dim, Loc w = MOTE_HERE) {
  return x.unsqueeze(dim, w);
}
inline Tensor flatten(const Tensor& x, int64_t start_dim = 0, int64_t end_dim = -1,
                      Loc w = MOTE_HERE) {
  return x.flatten(start_dim, end_dim, w);
}
inline Tensor ravel(const Tensor& x, Loc w = MOTE_HERE) { return x.ravel(w); }
inline Tensor unflatten(const Tensor& x, int64_t dim, const Sizes& sizes, Loc w = MOTE_HERE) {
  return x.unflatten(dim, sizes, w);
}
inline std::vector<Tensor> split(const Tensor& x, const Ints& size, int64_t dim = 0,
                                 Loc w = MOTE_HERE) {
  return x.split(size, dim, w);
}
inline std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int64_t dim = 0,
                                 Loc w = MOTE_HERE) {
  return x.chunk(chunks, dim, w);
}
inline std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0, Loc w = MOTE_HERE) {
  return x.unbind(dim, w);
}
inline Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step,
                     Loc w = MOTE_HERE) {
  return x.unfold(dim, size, step, w);
}
inline Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1,
                       Loc w = MOTE_HERE) {
  return x.diagonal(offset, dim1, dim2, w);
}
inline Tensor flip(const Tensor& x, const Axes& axes, Loc w = MOTE_HERE) {
  return x.flip(axes, w);
}
inline Tensor pad(const Tensor& x, const Ints& pad, const char* mode = "constant",
                  Number value = 0.0, Loc w = MOTE_HERE) {
  return x.pad(pad, mode, value, w);
}
inline Tensor repeat(const Tensor& x, const Ints& repeats, Loc w = MOTE_HERE) {
  return x.repeat(repeats, w);
}
inline Tensor tile(const Tensor& x, const Ints& repeats, Loc w = MOTE_HERE) {
  return x.tile(repeats, w);
}
inline Tensor repeat_interleave(const Tensor& x, int64_t repeats, Loc w = MOTE_HERE) {
  return x.repeat_interleave(repeats, w);
}
inline Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t dim,
                                Loc w = MOTE_HERE) {
  return x.repeat_interleave(repeats, dim, w);
}
inline Tensor roll(const Tensor& x, const Ints& shifts, const Axes& dims = {},
                   Loc w = MOTE_HERE) {
  return x.roll(shifts, dims, w);
}
inline Tensor rot90(const Tensor& x, int64_t k = 1, const Axes& dims = {0, 1},
                    Loc w = MOTE_HERE) {
  return x.rot90(k, dims, w);
}
inline Tensor tril(const Tensor& x, int64_t diagonal = 0, Loc w = MOTE_HERE) {
  return x.tril(diagonal, w);
}
inline Tensor triu(const Tensor& x, int64_t diagonal = 0, Loc w = MOTE_HERE) {
  return x.triu(diagonal, w);
}
inline Tensor diag(const Tensor& x, int64_t diagonal = 0, Loc w = MOTE_HERE) {
  return x.diag(diagonal, w);
}
inline Tensor diag_embed(const Tensor& x, int64_t offset = 0, Loc w = MOTE_HERE) {
  return x.diag_embed(offset, w);
}
inline Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, Loc w = MOTE_HERE) {
  return x.gather(dim, index, w);
}
inline Tensor take_along_dim(const Tensor& x, const Tensor& index, int64_t dim,
                             Loc w = MOTE_HERE) {
  return x.take_along_dim(index, dim, w);
}
inline Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index,
                           Loc w = MOTE_HERE) {
  return x.index_select(dim, index, w);
}
inline Tensor take(const Tensor& x, const Tensor& index, Loc w = MOTE_HERE) {
  return x.take(index, w);
}
inline Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Operand src,
                      Loc w = MOTE_HERE) {
  return x.scatter(dim, index, src, w);
}
inline Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                          Loc w = MOTE_HERE) {
  return x.scatter_add(dim, index, src, w);
}
inline Tensor scatter_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                             const char* reduce, bool include_self = true, Loc w = MOTE_HERE) {
  return x.scatter_reduce(dim, index, src, reduce, include_self, w);
}
inline Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                        Number alpha = 1, Loc w = MOTE_HERE) {
  return x.index_add(dim, index, src, alpha, w);
}
inline Tensor index_copy(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                         Loc w = MOTE_HERE) {
  return x.index_copy(dim, index, src, w);
}
inline Tensor index_fill(const Tensor& x, int64_t dim, const Tensor& index, Operand value,
                         Loc w = MOTE_HERE) {
  return x.index_fill(dim, index, value, w);
}
inline Tensor masked_fill(const Tensor& x, const Tensor& mask, Operand value,
                          Loc w = MOTE_HERE) {
  return x.masked_fill(mask, value, w);
}
inline Tensor masked_select(const Tensor& x, const Tensor& mask, Loc w = MOTE_HERE) {
  return x.masked_select(mask, w);
}
inline Tensor nonzero(const Tensor& x, Loc w = MOTE_HERE) { return x.nonzero(w); }
inline Tensor argwhere(const Tensor& x, Loc w = MOTE_HERE) { return x.argwhere(w); }
inline Tensor round(const Tensor& x, int decimals, Loc w = MOTE_HERE) {
  return x.round(decimals, w);
}
inline Tensor clamp(const Tensor& x, Operand lo, Operand hi, Loc w = MOTE_HERE) {
  return x.clamp(lo, hi, w);
}
inline Tensor clip(const Tensor& x, Operand lo, Operand hi, Loc w = MOTE_HERE) {
  return x.clip(lo, hi, w);
}
inline Tensor clamp_min(const Tensor& x, Operand lo, Loc w = MOTE_HERE) {
  return x.clamp_min(lo, w);
}
inline Tensor clamp_max(const Tensor& x, Operand hi, Loc w = MOTE_HERE) {
  return x.clamp_max(hi, w);
}
inline Tensor lerp(const Tensor& x, const Tensor& end, Operand weight, Loc w = MOTE_HERE) {
  return x.lerp(end, weight, w);
}
inline Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Number value = 1,
                      Loc w = MOTE_HERE) {
  return x.addcmul(a, b, value, w);
}
inline Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Number value = 1,
                      Loc w = MOTE_HERE) {
  return x.addcdiv(a, b, value, w);
}
inline Tensor nan_to_num(const Tensor& x, double nan = 0, Loc w = MOTE_HERE) {
  return x.nan_to_num(nan, w);
}
inline Tensor logit(const Tensor& x, double eps = -1, Loc w = MOTE_HERE) {
  return x.logit(eps, w);
}
inline Tensor isclose(const Tensor& x, const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                      bool equal_nan = false, Loc w = MOTE_HERE) {
  return x.isclose(other, rtol, atol, equal_nan, w);
}
inline Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                  DType dtype = DType::none, Loc w = MOTE_HERE) {
  return x.sum(axes, keepdim, dtype, w);
}
inline Tensor nansum(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                     Loc w = MOTE_HERE) {
  return x.nansum(axes, keepdim, w);
}
inline Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                   DType dtype = DType::none, Loc w = MOTE_HERE) {
  return x.prod(axes, keepdim, dtype, w);
}
inline Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                   DType dtype = DType::none, Loc w = MOTE_HERE) {
  return x.mean(axes, keepdim, dtype, w);
}
inline Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1,
                  bool keepdim = false, Loc w = MOTE_HERE) {
  return x.var(axes, correction, keepdim, w);
}
inline Tensor amax(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                   Loc w = MOTE_HERE) {
  return x.amax(axes, keepdim, w);
}
inline Tensor amin(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                   Loc w = MOTE_HERE) {
  return x.amin(axes, keepdim, w);
}
inline Tensor max(const Tensor& x, Loc w = MOTE_HERE) { return x.max(w); }
inline Tensor min(const Tensor& x, Loc w = MOTE_HERE) { return x.min(w); }
inline ValuesIndices max(const Tensor& x, int64_t dim, bool keepdim = false,
                         Loc w = MOTE_HERE) {
  return x.max(dim, keepdim, w);
}
inline ValuesIndices min(const Tensor& x, int64_t dim, bool keepdim = false,
                         Loc w = MOTE_HERE) {
  return x.min(dim, keepdim, w);
}
inline Tensor argmax(const Tensor& x, Loc w = MOTE_HERE) { return x.argmax(w); }
inline Tensor argmin(const Tensor& x, Loc w = MOTE_HERE) { return x.argmin(w); }
inline Tensor argmax(const Tensor& x, int64_t dim, bool keepdim = false, Loc w = MOTE_HERE) {
  return x.argmax(dim, keepdim, w);
}
inline Tensor argmin(const Tensor& x, int64_t dim, bool keepdim = false, Loc w = MOTE_HERE) {
  return x.argmin(dim, keepdim, w);
}
inline Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                  Loc w = MOTE_HERE) {
  return x.any(axes, keepdim, w);
}
inline Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                  Loc w = MOTE_HERE) {
  return x.all(axes, keepdim, w);
}
inline Tensor count_nonzero(const Tensor& x, const Axes& axes = {}, Loc w = MOTE_HERE) {
  return x.count_nonzero(axes, w);
}
inline Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                        Loc w = MOTE_HERE) {
  return x.logsumexp(axes, keepdim, w);
}
inline Tensor norm(const Tensor& x, double p = 2, const Axes& axes = {}, bool keepdim = false,
                   Loc w = MOTE_HERE) {
  return x.norm(p, axes, keepdim, w);
}
inline Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12,
                        Loc w = MOTE_HERE) {
  return x.normalize(p, dim, eps, w);
}
inline Tensor trace(const Tensor& x, Loc w = MOTE_HERE) { return x.trace(w); }
inline Extremes aminmax(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                        Loc w = MOTE_HERE) {
  return x.aminmax(axes, keepdim, w);
}
inline Tensor cumsum(const Tensor& x, int64_t dim, DType dtype = DType::none,
                     Loc w = MOTE_HERE) {
  return x.cumsum(dim, dtype, w);
}
inline Tensor cumprod(const Tensor& x, int64_t dim, DType dtype = DType::none,
                      Loc w = MOTE_HERE) {
  return x.cumprod(dim, dtype, w);
}
inline ValuesIndices cummax(const Tensor& x, int64_t dim, Loc w = MOTE_HERE) {
  return x.cummax(dim, w);
}
inline ValuesIndices cummin(const Tensor& x, int64_t dim, Loc w = MOTE_HERE) {
  return x.cummin(dim, w);
}
inline Tensor logcumsumexp(const Tensor& x, int64_t dim, Loc w = MOTE_HERE) {
  return x.logcumsumexp(dim, w);
}
inline ValuesIndices sort(const Tensor& x, int64_t dim = -1, bool descending = false,
                          Loc w = MOTE_HERE) {
  return x.sort(dim, descending, w);
}
inline Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false,
                      Loc w = MOTE_HERE) {
  return x.argsort(dim, descending, w);
}
inline ValuesIndices topk(const Tensor& x, int64_t k, int64_t dim = -1, bool largest = true,
                          bool sorted = true, Loc w = MOTE_HERE) {
  return x.topk(k, dim, largest, sorted, w);
}
inline ValuesIndices kthvalue(const Tensor& x, int64_t k, int64_t dim = -1, bool keepdim = false,
                              Loc w = MOTE_HERE) {
  return x.kthvalue(k, dim, keepdim, w);
}
inline ValuesIndices median(const Tensor& x, int64_t dim, bool keepdim = false,
                            Loc w = MOTE_HERE) {
  return x.median(dim, keepdim, w);
}
inline Tensor median(const Tensor& x, Loc w = MOTE_HERE) { return x.median(w); }
inline ValuesIndices nanmedian(const Tensor& x, int64_t dim, bool keepdim = false,
                               Loc w = MOTE_HERE) {
  return x.nanmedian(dim, keepdim, w);
}
inline Tensor nanmedian(const Tensor& x, Loc w = MOTE_HERE) { return x.nanmedian(w); }
inline ValuesIndices mode(const Tensor& x, int64_t dim = -1, bool keepdim = false,
                          Loc w = MOTE_HERE) {
  return x.mode(dim, keepdim, w);
}
inline Tensor quantile(const Tensor& x, Operand q, const Axes& axes = {}, bool keepdim = false,
                       const char* interpolation = "linear", Loc w = MOTE_HERE) {
  return x.quantile(q, axes, keepdim, interpolation, w);
}
inline Tensor nanquantile(const Tensor& x, Operand q, const Axes& axes = {}, bool keepdim = false,
                          const char* interpolation = "linear", Loc w = MOTE_HERE) {
  return x.nanquantile(q, axes, keepdim, interpolation, w);
}
inline Tensor msort(const Tensor& x, Loc w = MOTE_HERE) { return x.msort(w); }
inline Tensor diff(const Tensor& x, int64_t n = 1, int64_t dim = -1, const Tensor& prepend = {},
                   const Tensor& append = {}, Loc w = MOTE_HERE) {
  return x.diff(n, dim, prepend, append, w);
}
inline Tensor histc(const Tensor& x, int64_t bins = 100, Number min = 0, Number max = 0,
                    Loc w = MOTE_HERE) {
  return x.histc(bins, min, max, w);
}
inline Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0,
                       Loc w = MOTE_HERE) {
  return x.bincount(weights, minlength, w);
}
inline UniqueValues unique(const Tensor& x, const Axes& axis = {}, Loc w = MOTE_HERE) {
  return x.unique(axis, w);
}
inline UniqueValues unique_consecutive(const Tensor& x, const Axes& axis = {},
                                       Loc w = MOTE_HERE) {
  return x.unique_consecutive(axis, w);
}
// The index at which each value would be inserted into the sorted last axis of a sequence. The
// other axes of the sequence are those of the values, or it has none. bucketize: the same with
// boundaries.
Tensor searchsorted(const Tensor& sorted_sequence, Operand values, const SearchOptions& = {},
                    Loc = MOTE_HERE);
inline Tensor bucketize(Operand x, const Tensor& boundaries, const SearchOptions& options = {},
                        Loc w = MOTE_HERE) {
  return searchsorted(boundaries, x, options, w);
}
// Whether each element is one of the others.
Tensor isin(Operand elements, Operand test_elements, bool assume_unique = false,
            bool invert = false, Loc = MOTE_HERE);
inline Tensor multinomial(const Tensor& x, int64_t num_samples, bool replacement = false,
                          Loc w = MOTE_HERE) {
  return x.multinomial(num_samples, replacement, w);
}
inline Tensor bernoulli(const Tensor& x, Loc w = MOTE_HERE) { return x.bernoulli(w); }
inline Tensor matmul(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.matmul(other, w);
}
inline Tensor mm(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.mm(other, w);
}
inline Tensor bmm(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.bmm(other, w);
}
inline Tensor mv(const Tensor& x, const Tensor& vec, Loc w = MOTE_HERE) {
  return x.mv(vec, w);
}
inline Tensor dot(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.dot(other, w);
}
inline Tensor outer(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.outer(other, w);
}
inline Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, Number beta = 1,
                    Number alpha = 1, Loc w = MOTE_HERE) {
  return x.addmm(a, b, beta, alpha, w);
}
inline Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     Loc w = MOTE_HERE) {
  return x.linear(weight, bias, w);
}
inline Tensor tensordot(const Tensor& x, const Tensor& other, int64_t dims = 2,
                        Loc w = MOTE_HERE) {
  return x.tensordot(other, dims, w);
}
inline Tensor kron(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.kron(other, w);
}

inline Tensor polygamma(int64_t n, const Tensor& x, Loc w = MOTE_HERE) {
  return x.polygamma(n, w);
}
inline Tensor mvlgamma(const Tensor& x, int64_t p, Loc w = MOTE_HERE) {
  return x.mvlgamma(p, w);
}
inline bool allclose(const Tensor& x, const Tensor& other, double rtol = 1e-5, double atol = 1e-8,
                     bool equal_nan = false, Loc w = MOTE_HERE) {
  return x.allclose(other, rtol, atol, equal_nan, w);
}
inline bool equal(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.equal(other, w);
}
inline Tensor as_strided(const Tensor& x, const Ints& size, const Ints& stride,
                         int64_t offset = -1, Loc w = MOTE_HERE) {
  return x.as_strided(size, stride, offset, w);
}
inline std::vector<Tensor> tensor_split(const Tensor& x, int64_t sections, int64_t dim = 0,
                                        Loc w = MOTE_HERE) {
  return x.tensor_split(sections, dim, w);
}
inline std::vector<Tensor> tensor_split(const Tensor& x, const Ints& before, int64_t dim = 0,
                                        Loc w = MOTE_HERE) {
  return x.tensor_split(before, dim, w);
}
inline std::vector<Tensor> hsplit(const Tensor& x, const Ints& how, Loc w = MOTE_HERE) {
  return x.hsplit(how, w);
}
inline std::vector<Tensor> vsplit(const Tensor& x, const Ints& how, Loc w = MOTE_HERE) {
  return x.vsplit(how, w);
}
inline std::vector<Tensor> dsplit(const Tensor& x, const Ints& how, Loc w = MOTE_HERE) {
  return x.dsplit(how, w);
}
inline Tensor moveaxis(const Tensor& x, const Axes& from, const Axes& to, Loc w = MOTE_HERE) {
  return x.movedim(from, to, w);
}
inline Tensor fliplr(const Tensor& x, Loc w = MOTE_HERE) { return x.fliplr(w); }
inline Tensor flipud(const Tensor& x, Loc w = MOTE_HERE) { return x.flipud(w); }
inline Tensor diagflat(const Tensor& x, int64_t offset = 0, Loc w = MOTE_HERE) {
  return x.diagflat(offset, w);
}
inline Tensor select_scatter(const Tensor& x, const Tensor& src, int64_t dim, int64_t index,
                             Loc w = MOTE_HERE) {
  return x.select_scatter(src, dim, index, w);
}
inline Tensor slice_scatter(const Tensor& x, const Tensor& src, int64_t dim = 0,
                            const Slice& slice = {}, Loc w = MOTE_HERE) {
  return x.slice_scatter(src, dim, slice, w);
}
inline Tensor diagonal_scatter(const Tensor& x, const Tensor& src, int64_t offset = 0,
                               int64_t dim1 = 0, int64_t dim2 = 1, Loc w = MOTE_HERE) {
  return x.diagonal_scatter(src, offset, dim1, dim2, w);
}
inline Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& src,
                             Loc w = MOTE_HERE) {
  return x.masked_scatter(mask, src, w);
}
inline Tensor index_reduce(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src,
                           const char* reduce, bool include_self = true, Loc w = MOTE_HERE) {
  return x.index_reduce(dim, index, src, reduce, include_self, w);
}
inline Tensor nanmean(const Tensor& x, const Axes& axes = {}, bool keepdim = false,
                      Loc w = MOTE_HERE) {
  return x.nanmean(axes, keepdim, w);
}
inline Tensor dist(const Tensor& x, const Tensor& other, double p = 2, Loc w = MOTE_HERE) {
  return x.dist(other, p, w);
}
inline Tensor renorm(const Tensor& x, double p, int64_t dim, double maxnorm,
                     Loc w = MOTE_HERE) {
  return x.renorm(p, dim, maxnorm, w);
}
inline Tensor cov(const Tensor& x, double correction = 1, Loc w = MOTE_HERE) {
  return x.cov(correction, w);
}
inline Tensor corrcoef(const Tensor& x, Loc w = MOTE_HERE) { return x.corrcoef(w); }
inline Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, Number beta = 1,
                     Number alpha = 1, Loc w = MOTE_HERE) {
  return x.addbmm(a, b, beta, alpha, w);
}
inline Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, Number beta = 1,
                      Number alpha = 1, Loc w = MOTE_HERE) {
  return x.baddbmm(a, b, beta, alpha, w);
}
inline Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& vec, Number beta = 1,
                    Number alpha = 1, Loc w = MOTE_HERE) {
  return x.addmv(a, vec, beta, alpha, w);
}
inline Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, Number beta = 1,
                   Number alpha = 1, Loc w = MOTE_HERE) {
  return x.addr(a, b, beta, alpha, w);
}
inline Tensor inner(const Tensor& x, const Tensor& other, Loc w = MOTE_HERE) {
  return x.inner(other, w);
}
inline Tensor cross(const Tensor& x, const Tensor& other, int64_t dim = -1,
                    Loc w = MOTE_HERE) {
  return x.cross(other, dim, w);
}
inline Tensor tensordot(const Tensor& x, const Tensor& other, const Axes& axes, const Axes& others,
                        Loc w = MOTE_HERE) {
  return x.tensordot(other, axes, others, w);
}

template <class T>
Tensor from_data(const std::vector<T>& values, const Sizes& shape, const Options& o, Loc where) {
  if constexpr (std::is_same_v<T, bool>) {
    std::vector<uint8_t> bytes(values.begin(), values.end());
    return from_values(bytes.data(), bytes.size(), DType::boolean, shape, o, where);
  } else {
    return from_values(values.data(), values.size(), dtype_of<T>(), shape, o, where);
  }
}

}  // namespace mote
