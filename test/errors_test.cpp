// Misuse of the public interface: every error's full text. «HERE» stands for the user's line, which
// must be the statement's own.
#include <doctest/doctest.h>
#include <mote/fft.h>
#include <mote/mote.h>

#include <string>
#include <vector>

#include "test/odd_devices.h"

using namespace mote;

namespace {

struct Misuse {
  void (*statement)();
  const char* text;
};

// The text with " (file:line)" replaced, and the line.
struct Caught {
  std::string text;
  int line = 0;
};
Caught caught(void (*statement)()) {
  try {
    statement();
  } catch (const Error& e) {
    std::string text = e.what(), file = std::string(" (") + __FILE__ + ":";
    size_t at = text.rfind(file);
    if (e.kind() != ErrorKind::User) return {"not the user's error: " + text};
    if (at == std::string::npos) return {"without a place: " + text};
    int line = std::stoi(text.substr(at + file.size()));
    return {text.substr(0, at) + " «HERE»", line};
  }
  return {"no error"};
}

template <size_t n>
void check_all(const Misuse (&cases)[n]) {
  add_odd_devices();  // which messages list
  int before = 0;
  for (const Misuse& c : cases) {
    Caught got = caught(c.statement);
    CHECK(got.text == std::string(c.text));
    CHECK_MESSAGE(got.line > before, "each case stands on a line of its own: ", got.text);
    before = got.line;
  }
}

// clang-format off
const Misuse creation[] = {
    {[] { zeros({2, -1}); },
     "[zeros] the shape (2, -1) has a negative size «HERE»"},
    {[] { full({1000000000, 1000000000, 1000000000}, 1); },
     "[full] the shape (1000000000, 1000000000, 1000000000) has too many elements «HERE»"},
    {[] { arange(0, 5, 0); },
     "[arange] the step must not be 0 «HERE»"},
    {[] { arange(5, 0, 1); },
     "[arange] from 5 to 0 there are no steps of 1 «HERE»"},
    {[] { linspace(0, 1, -3); },
     "[linspace] needs a number of steps >= 0, got -3 «HERE»"},
    {[] { eye(-2); },
     "[eye] needs sizes >= 0, got -2 and -2 «HERE»"},
    {[] { from_data(std::vector<float>{1, 2, 3}, {2, 2}); },
     "[from_data] the shape (2, 2) holds 4 elements, got 3 «HERE»"},
    {[] { tensor({{1, 2}, {3}}); },
     "[tensor] rows must be of one length, got 2 and 1 elements «HERE»"},
    {[] { tensor({{1, 2}, 3}); },
     "[tensor] a list holds numbers and lists «HERE»"},
    {[] { zeros({2}, {.device = "TOASTER"}); },
     "[device] there is no device TOASTER; there are CPU, NULL, CUDA, DISK, INTERP, "
     "INTERP_PROGRAM, SIMT, SIMT_SMALL, SIMT_BROWSER, LATE, NARROW, TIGHT, PARTED, FAR "
     "«HERE»"},
    {[] { zeros({2}, {.device = "CPU:x"}); },
     "[device] 'CPU:x' is not a device name; write for example CPU or CPU:1 «HERE»"},
    {[] { zeros({2}, {.device = "CPU:99999999999999999999"}); },
     "[device] the number in 'CPU:99999999999999999999' is too large «HERE»"},
    {[] { set_default_device(""); },
     "[set_default_device] needs a name, for example CPU «HERE»"},
    {[] { from_blob(nullptr, {4}, float32); },
     "[from_blob] the memory is null «HERE»"},
    {[] { zeros({2}, DType::index); },
     "[zeros] no tensor has the dtype index «HERE»"},
    {[] { randint(5, 5, {2}); },
     "[randint] needs low < high, got 5 and 5 «HERE»"},
    {[] { rand({2}, {.dtype = int32}); },
     "[rand] random floats have a float dtype, got i32 «HERE»"},
    {[] { randperm(-1); },
     "[randperm] needs a size >= 0, got -1 «HERE»"},
    {[] { kaiming_uniform({3}); },
     "[kaiming_uniform] needs a shape (out, in, kernel...), got (3) «HERE»"},
    {[] { Variable("n", 5, 2); },
     "[Variable] 'n' has the empty range 5 to 2 «HERE»"},
    {[] { Variable("n", 1, 8).bind(9); },
     "[bind] 'n' cannot be 9, its range is 1 to 8 «HERE»"},
    {[] { zeros({Variable("n", 1, 8), 2}).shape(); },
     "[shape] needs sizes known as numbers, got the symbolic shape (n, 2) «HERE»"},
    {[] { zeros({Variable("n", 0, 8), 2}); },
     "[zeros] the shape (n, 2) has a symbolic size that may be below 1 «HERE»"},
};

const Misuse limits[] = {
    {[] { zeros({int64_t{1} << 62}).realize(); },
     "[realize] a size of 4611686018427387904 x 4 is too large «HERE»"},
    {[] { ones({int64_t{1} << 61}).nbytes(); },
     "[nbytes] a size of 2305843009213693952 x 4 is too large «HERE»"},
    {[] { zeros({int64_t{1} << 62, 2}); },
     "[zeros] the shape (4611686018427387904, 2) has too many elements «HERE»"},
    {[] { ones({1}, {.device = "INTERP"}).realize().expand({int64_t{1} << 62}).sum().realize(); },
     "[realize] a size of 4611686018427387904 x 4 is too large «HERE»"},
    {[] { float f; from_blob(&f, {int64_t{1} << 62}, float32); },
     "[from_blob] a size of 4611686018427387904 x 4 is too large «HERE»"},
    {[] { ones({1}).expand({int64_t{1} << 40, int64_t{1} << 40}); },
     "[expand] the shape (1099511627776, 1099511627776) has too many elements «HERE»"},
    {[] { eye(int64_t{1} << 33); },
     "[eye] the shape (8589934592, 8589934592) has too many elements «HERE»"},
    {[] { ones({int64_t{1} << 32}).outer(ones({int64_t{1} << 32})); },
     "[outer] the shape (4294967296, 4294967296) has too many elements «HERE»"},
    {[] { Tensor a = ones({int64_t{1} << 62}); cat({a, a, a}); },
     "[cat] a size of 4611686018427387904 + 4611686018427387904 is too large «HERE»"},
    {[] { arange(1e30); },
     "[arange] from 0 to 1e+30 there are too many steps of 1 «HERE»"},
    {[] { arange(INT64_MIN, INT64_MAX); },
     "[arange] from -9.22337204e+18 to 9.22337204e+18 there are too many steps of 1 «HERE»"},
    {[] { zeros({0, 5}).reshape({0, INT64_MAX, 2}); },
     "[reshape] a size of 2 x 9223372036854775807 is too large «HERE»"},
    {[] { arange(3).narrow(0, 1, INT64_MAX); },
     "[narrow] from 1 there are no 9223372036854775807 elements on an axis of size 3 «HERE»"},
    {[] { arange(3).pad({INT64_MIN, 0}); },
     "[pad] a size of -9223372036854775808 x -1 is too large «HERE»"},
    {[] { ones({4}).pad({INT64_MAX, INT64_MAX}); },
     "[pad] a size of 4 + 9223372036854775807 is too large «HERE»"},
    {[] { ones({1, 4, 2, 2}).pixel_shuffle(int64_t{1} << 32); },
     "[pixel_shuffle] a size of 4294967296 x 4294967296 is too large «HERE»"},
    {[] { ones({1, 1, 4}).conv1d(ones({1, 1, 3}), {}, {.dilation = INT64_MAX}); },
     "[conv1d] a size of 9223372036854775807 x 2 is too large «HERE»"},
    {[] { ones({1, 1, 4}).conv_transpose1d(ones({1, 1, 2}), {}, {.stride = INT64_MAX}); },
     "[conv_transpose1d] the shape (1, 1, 9223372036854775807, 4) has too many elements «HERE»"},
    {[] { ones({1, 1, 4}).max_pool1d(2, {.dilation = INT64_MAX}); },
     "[max_pool1d] a size of 9223372036854775807 + 1 is too large «HERE»"},
    {[] { ones({1, 1, 4}).interpolate({.scale_factor = 1e30}); },
     "[interpolate] the shape (1, 1, 9223372036854775807, 4) has too many elements «HERE»"},
    {[] { tensor({INT64_MAX}).one_hot(); },
     "[one_hot] a size of 9223372036854775807 + 1 is too large «HERE»"},
    {[] { ones({3}).split({INT64_MAX, INT64_MAX}); },
     "[split] a size of 9223372036854775807 + 9223372036854775807 is too large «HERE»"},
};

const Misuse variables[] = {
    {[] { arange(5)(Variable("n", 0, 10).bind(7)); },
     "[index] index n = 7 is out of range for axis 0 of size 5 «HERE»"},
    {[] { arange(5)(Variable("n", 0, int64_t{1} << 40).bind(int64_t{1} << 38)); },
     "[index] index n = 274877906944 is out of range for axis 0 of size 5 «HERE»"},
    {[] { arange(5)(Variable("n", 0, 10)); },
     "[index] index n (0 to 10) is out of range for axis 0 of size 5 «HERE»"},
    {[] { arange(5)(Variable("n", 0, 10).bind(7)) = 3; },
     "[index] index n = 7 is out of range for axis 0 of size 5 «HERE»"},
    {[] { arange(5).narrow(0, Variable("n", 1, 10).bind(4), 3); },
     "[narrow] from n = 4 there are no 3 elements on an axis of size 5 «HERE»"},
    {[] { arange(5).narrow(0, 0, Variable("n", 1, 10)); },
     "[narrow] from 0 there are no n (1 to 10) elements on an axis of size 5 «HERE»"},
    {[] { arange(5).shrink({0}, {Variable("n", 1, 10).bind(7)}); },
     "[shrink] cannot cut (0) to (n) out of shape (5) «HERE»"},
    {[] { arange(20)(Slice(Variable("n", 1, 10).bind(7), Variable("m", 1, 10).bind(3))); },
     "[index] a slice of symbolic sizes must not be empty, got -4 elements from n = 7 «HERE»"},
    {[] { arange(5)(Slice(Variable("n", 0, 10).bind(7), None)); },
     "[index] a slice of symbolic sizes must not be empty, got -2 elements from n = 7 «HERE»"},
    {[] { arange(20)(Slice(Variable("n", -3, 3).bind(-1), None)); },
     "[index] the slice bound n = -1 is negative; only numbers count from the end «HERE»"},
    {[] { Variable n("n", 1, 4); (arange(n.bind(2)).sum() + arange(n.bind(3)).sum()).realize(); },
     "[realize] the variable n is bound to both 2 and 3 in what is realized together «HERE»"},
    {[] { arange(Variable("n", 0, 3)); },
     "[arange] the shape (n) has a symbolic size that may be below 1 «HERE»"},
    {[] { ones({Variable("n", 1, 4)}).to_vector<float>(); },
     "[to_vector] the size n in the shape (n) has no value; bind its variables «HERE»"},
};

const Misuse questions[] = {
    {[] { Tensor().dtype(); },
     "[dtype] the tensor is undefined «HERE»"},
    {[] { Tensor().device(); },
     "[device] the tensor is undefined «HERE»"},
    {[] { Tensor().dim(); },
     "[dim] the tensor is undefined «HERE»"},
    {[] { Tensor().numel(); },
     "[numel] the tensor is undefined «HERE»"},
    {[] { Tensor().sizes(); },
     "[sizes] the tensor is undefined «HERE»"},
    {[] { Tensor().nbytes(); },
     "[nbytes] the tensor is undefined «HERE»"},
    {[] { Tensor().is_contiguous(); },
     "[is_contiguous] the tensor is undefined «HERE»"},
    {[] { Tensor().is_floating_point(); },
     "[is_floating_point] the tensor is undefined «HERE»"},
};

const Misuse elementwise[] = {
    {[] { zeros({2, 3}) + zeros({2, 4}); },
     "[add] shapes (2, 3) and (2, 4) cannot be broadcast together: sizes 3 and 4 differ «HERE»"},
    {[] { zeros({2}).maximum(zeros({3})); },
     "[maximum] shapes (2) and (3) cannot be broadcast together: sizes 2 and 3 differ «HERE»"},
    {[] { zeros({2}) + Tensor(); },
     "[add] the tensor is undefined «HERE»"},
    {[] { Tensor().exp(); },
     "[exp] the tensor is undefined «HERE»"},
    {[] { Tensor().shape(); },
     "[shape] the tensor is undefined «HERE»"},
    {[] { zeros({2}) * zeros({2}, {.device = "CPU:1"}); },
     "[mul] tensors are on the devices CPU and CPU:1; move one with to() «HERE»"},
    {[] { zeros({2}, DType::boolean) - zeros({2}, DType::boolean); },
     "[sub] bools cannot be subtracted; use bitwise_xor or logical_not «HERE»"},
    {[] { zeros({2}, DType::boolean).neg(); },
     "[neg] a bool tensor cannot be negated; use logical_not «HERE»"},
    {[] { zeros({2}) & zeros({2}); },
     "[bitwise_and] needs integers or bools, got f32 «HERE»"},
    {[] { zeros({2}) << 1; },
     "[bitwise_left_shift] needs integers, got f32 «HERE»"},
    {[] { zeros({2}).bitwise_not(); },
     "[bitwise_not] needs integers or bools, got f32 «HERE»"},
    {[] { zeros({2}).div(2, "up"); },
     "[div] the rounding mode is floor or trunc, got up «HERE»"},
    {[] { where(zeros({2}), 1, 2); },
     "[where] the condition must be bool, got f32 «HERE»"},
    {[] { where(zeros({2}) > 0, zeros({3}), 1); },
     "[where] shapes (2) and (3) cannot be broadcast together: sizes 2 and 3 differ «HERE»"},
    {[] { zeros({2}, int32).pow(-1); },
     "[pow] an integer has no integer power of -1; cast to a float first «HERE»"},
    {[] { zeros({2}).gelu("fast"); },
     "[gelu] approximate is none or tanh, got fast «HERE»"},
    {[] { zeros({2}).gelu(nullptr); },
     "[gelu] approximate is null «HERE»"},
    {[] { zeros({2, 3}).glu(); },
     "[glu] needs an axis of even size, got shape (2, 3) and axis -1 «HERE»"},
    {[] { zeros({2, 3}).prelu(zeros({2})); },
     "[prelu] needs 3 weights, got 2 «HERE»"},
    {[] { zeros({2}).lerp(zeros({3}), 0.5); },
     "[lerp] shapes (3) and (2) cannot be broadcast together: sizes 3 and 2 differ «HERE»"},
    {[] { zeros({2, 4}).cross(zeros({2, 4})); },
     "[cross] axis -1 of shapes (2, 4) and (2, 4) must have size 3 «HERE»"},
    {[] { cdist(zeros({2, 3}), zeros({2, 4})); },
     "[cdist] needs rows of one size, got shapes (2, 3) and (2, 4) «HERE»"},
    {[] { zeros({4}).as_strided({3, 2}, {2, 1}); },
     "[as_strided] reaches element 5 of a tensor of 4 «HERE»"},
    {[] { zeros({5, 2}).vsplit(2); },
     "[vsplit] cannot split axis 0 of shape (5, 2) into 2 equal parts «HERE»"},
    {[] { zeros({3, 4}).select_scatter(zeros({3}), 0, 1); },
     "[select_scatter] a source of shape (3) does not fit a part of shape (4) «HERE»"},
    {[] { fold(zeros({1, 4, 5}), 4, 2); },
     "[fold] columns of shape (1, 4, 5) are not those of 9 windows of 4 elements «HERE»"},
    {[] { grid_sample(zeros({1, 1, 2, 2}), zeros({1, 2, 2, 2}), "cubic"); },
     "[grid_sample] mode cubic does not fit 2 spatial axes; there are bilinear, nearest and bicubic "
     "«HERE»"},
    {[] { multi_margin_loss(zeros({2, 3}), zeros({3}, DType::i64)); },
     "[multi_margin_loss] input of shape (2, 3) needs one class for each row, got shape (3) «HERE»"},
    {[] { fft::fft(zeros({4})); },
     "[fft] needs floats whose last axis holds real and imaginary part, got f32 of shape (4); "
     "complex(x) makes them of real numbers «HERE»"},
    {[] { zeros({3}).polygamma(-1); },
     "[polygamma] needs an order from 0 to 100, got -1 «HERE»"},
};

const Misuse conversions[] = {
    {[] { zeros({3}).bitcast(float64); },
     "[bitcast] shape (3) has no last axis that 2 divides «HERE»"},
    {[] { zeros({}).bitcast(uint8); },
     "[bitcast] a tensor without axes cannot become 4 elements «HERE»"},
    {[] { zeros({2}, DType::boolean).bitcast(uint8); },
     "[bitcast] bits of bool cannot be read as u8 «HERE»"},
    {[] { zeros({2}).to(DType::none); },
     "[to] no tensor has the dtype void «HERE»"},
    {[] { zeros({2}).to("GPU9000"); },
     "[device] there is no device GPU9000; there are CPU, NULL, CUDA, DISK, INTERP, "
     "INTERP_PROGRAM, SIMT, SIMT_SMALL, SIMT_BROWSER, LATE, NARROW, TIGHT, PARTED, FAR "
     "«HERE»"},
    {[] { zeros({2}).item<float>(); },
     "[item] needs a tensor with one element, got shape (2) «HERE»"},
    {[] { Tensor().item<float>(); },
     "[item] the tensor is undefined «HERE»"},
    {[] { Tensor().realize(); },
     "[realize] the tensor is undefined «HERE»"},
    {[] { Tensor().to_vector<float>(); },
     "[to_vector] the tensor is undefined «HERE»"},
    {[] { (zeros({Variable("n", 1, 8)}) + 1).realize(); },
     "[realize] the variable n has no value; bind it first «HERE»"},
    {[] { zeros({4}).copy_out(nullptr, 3); },
     "[copy_out] room for 3 bytes, but the tensor of shape (4) has 16 «HERE»"},
    {[] { zeros({2}, {.device = "NULL"}).to_vector<float>(); },
     "[to_vector] the device NULL holds no data to read back «HERE»"},
    {[] { zeros({2}).to(DType::index); },
     "[to] no tensor has the dtype index «HERE»"},
};

const Misuse movement[] = {
    {[] { zeros({2, 3}).reshape({4}); },
     "[reshape] shape (2, 3) does not fit (4) «HERE»"},
    {[] { zeros({2, 3}).reshape({-1, -1}); },
     "[reshape] only one size may be -1, got (-1, -1) «HERE»"},
    {[] { zeros({2, 3}).reshape({-1, 4}); },
     "[reshape] shape (2, 3) does not fit (-1, 4) «HERE»"},
    {[] { zeros({2, 3}).reshape({2, -3}); },
     "[reshape] a size is negative in (2, -3) «HERE»"},
    {[] { zeros({2, 3}).t().view({6}); },
     "[view] shape (3, 2) with strides (1, 3) cannot be seen as (6) without a copy; use "
     "reshape() «HERE»"},
    {[] { zeros({2, 3}).permute({0}); },
     "[permute] needs all axes of shape (2, 3), got (0) «HERE»"},
    {[] { zeros({2, 3}).permute({0, 0}); },
     "[permute] axis 0 appears twice in the axes (0, 0) «HERE»"},
    {[] { zeros({2, 3}).transpose(0, 2); },
     "[transpose] axis 2 is out of range, expected -2 to 1 for a tensor with 2 axes «HERE»"},
    {[] { zeros({2, 3, 4}).t(); },
     "[t] needs at most two axes, got shape (2, 3, 4) «HERE»"},
    {[] { zeros({2}).mT(); },
     "[mT] needs at least two axes, got shape (2) «HERE»"},
    {[] { zeros({2, 3}).movedim({0, 1}, {1}); },
     "[movedim] moves 2 axes to 1 places «HERE»"},
    {[] { zeros({2, 3}).expand({4, 3}); },
     "[expand] shape (2, 3) cannot be expanded to (4, 3) «HERE»"},
    {[] { zeros({2, 3}).expand({3}); },
     "[expand] shape (2, 3) has more axes than (3) «HERE»"},
    {[] { zeros({2, 3}).expand({-1, 2, 3}); },
     "[expand] a new axis needs a size, got (-1, 2, 3) «HERE»"},
    {[] { zeros({2, 3}).shrink({0, 0}, {2, 4}); },
     "[shrink] cannot cut (0, 0) to (2, 4) out of shape (2, 3) «HERE»"},
    {[] { zeros({2, 3}).shrink({0}, {2}); },
     "[shrink] needs a begin and an end per axis of shape (2, 3), got (0) and (2) «HERE»"},
    {[] { zeros({4}).narrow(0, 3, 2); },
     "[narrow] from 3 there are no 2 elements on an axis of size 4 «HERE»"},
    {[] { zeros({4}).select(0, 4); },
     "[select] index 4 is out of range for axis 0 of size 4 «HERE»"},
    {[] { zeros({}).select(0, 0); },
     "[select] a tensor without axes cannot be indexed «HERE»"},
    {[] { zeros({2, 3}).squeeze(2); },
     "[squeeze] axis 2 is out of range, expected -2 to 1 for a tensor with 2 axes «HERE»"},
    {[] { zeros({2, 3}).unsqueeze(4); },
     "[unsqueeze] a new axis of shape (2, 3) can be -3 to 2, got 4 «HERE»"},
    {[] { zeros({2, 3}).flatten(1, 0); },
     "[flatten] the first axis 1 comes after the last, 0 «HERE»"},
    {[] { zeros({2, 6}).unflatten(1, {2, 4}); },
     "[unflatten] an axis of size 6 does not fit (2, 4) «HERE»"},
    {[] { zeros({5}).split({2, 2}); },
     "[split] the parts (2, 2) do not add up to the size 5 of axis 0 «HERE»"},
    {[] { zeros({5}).split(0); },
     "[split] needs a part size > 0, got 0 «HERE»"},
    {[] { zeros({5}).chunk(0); },
     "[chunk] needs a number of chunks > 0, got 0 «HERE»"},
    {[] { zeros({5}).unfold(0, 6, 1); },
     "[unfold] windows of size 6 do not fit axis 0 of size 5 «HERE»"},
    {[] { zeros({2, 3}).diagonal(0, 1, 1); },
     "[diagonal] the two axes are the same, 1 «HERE»"},
    {[] { zeros({2, 3}).flip({0, 0}); },
     "[flip] axis 0 appears twice in the axes (0, 0) «HERE»"},
    {[] { zeros({2, 3}).pad({1, 2, 3}); },
     "[pad] needs pairs of amounts, got (1, 2, 3) «HERE»"},
    {[] { zeros({2, 3}).pad({3, 0}, "reflect"); },
     "[pad] mode reflect cannot add 3 and 0 to an axis of size 3 «HERE»"},
    {[] { zeros({2, 3}).pad({1, 1}, "mirror"); },
     "[pad] the mode is constant, reflect, replicate or circular, got mirror «HERE»"},
    {[] { zeros({2, 3}).pad({1, 1}, nullptr); },
     "[pad] the mode is null «HERE»"},
    {[] { zeros({2, 3}).pad({-3, -3}); },
     "[pad] amounts -3 and -3 cut more than axis 1 of shape (2, 3) has «HERE»"},
    {[] { zeros({2, 3}).repeat({2}); },
     "[repeat] needs a number for each axis of shape (2, 3), got (2) «HERE»"},
    {[] { zeros({2, 3}).repeat({2, -1}); },
     "[repeat] needs numbers >= 0, got (2, -1) «HERE»"},
    {[] { zeros({2, 3}).repeat_interleave(-1); },
     "[repeat_interleave] needs a number >= 0, got -1 «HERE»"},
    {[] { zeros({2, 3}).roll({1, 2}, {0}); },
     "[roll] needs a shift per axis, got (1, 2) and (0) «HERE»"},
    {[] { zeros({2, 3}).rot90(1, {0}); },
     "[rot90] needs two axes, got (0) «HERE»"},
    {[] { zeros({3}).tril(); },
     "[tril] needs at least two axes, got shape (3) «HERE»"},
    {[] { zeros({2, 2, 2}).diag(); },
     "[diag] needs a vector or a matrix, got shape (2, 2, 2) «HERE»"},
    {[] { cat({}); },
     "[cat] needs at least one tensor «HERE»"},
    {[] { cat({zeros({2, 3}), zeros({2, 4})}); },
     "[cat] shapes (2, 3) and (2, 4) must agree on all axes but 0 «HERE»"},
    {[] { cat({zeros({2}), zeros({2, 2})}); },
     "[cat] shapes (2) and (2, 2) must agree on all axes but 0 «HERE»"},
    {[] { cat({zeros({2}), zeros({2}, {.device = "CPU:1"})}); },
     "[cat] tensors are on the devices CPU and CPU:1; move one with to() «HERE»"},
    {[] { stack({zeros({2}), zeros({3})}); },
     "[stack] shapes (2) and (3) differ «HERE»"},
    {[] { meshgrid({zeros({2}), zeros({3})}, "xyz"); },
     "[meshgrid] indexing is ij or xy, got xyz «HERE»"},
    {[] { meshgrid({zeros({2})}, nullptr); },
     "[meshgrid] indexing is null «HERE»"},
    {[] { meshgrid({zeros({2, 2})}); },
     "[meshgrid] needs vectors, got shape (2, 2) «HERE»"},
    {[] { broadcast_shapes({{2, 3}, {4}}); },
     "[broadcast_shapes] shapes (2, 3) and (4) cannot be broadcast together: sizes 3 and 4 "
     "differ «HERE»"},
};

const Misuse indexing[] = {
    {[] { zeros({3})[3]; },
     "[index] index 3 is out of range for axis 0 of size 3 «HERE»"},
    {[] { zeros({3, 4})(0, 4); },
     "[index] index 4 is out of range for axis 1 of size 4 «HERE»"},
    {[] { zeros({3, 4, 5})(0, Ellipsis, -6); },
     "[index] index -6 is out of range for axis 2 of size 5 «HERE»"},
    {[] { zeros({3})(0, 0); },
     "[index] 2 indices for a tensor of shape (3) «HERE»"},
    {[] { zeros({3, 3})(Ellipsis, Ellipsis); },
     "[index] an index can have one Ellipsis «HERE»"},
    {[] { zeros({3})(Slice(0, 3, 0)); },
     "[index] the step of a slice must not be 0 «HERE»"},
    {[] { zeros({3})(zeros({2})); },
     "[index] the index must have an integer dtype, got f32 «HERE»"},
    {[] { zeros({3})(zeros({2}, DType::boolean)); },
     "[index] a mask of shape (2) does not fit shape (3) at axis 0 «HERE»"},
    {[] { zeros({3}).set({Slice(0, 2)}, zeros({3})); },
     "[set] a value of shape (3) does not fit a tensor of shape (2) «HERE»"},
    {[] { zeros({3}).set({5}, 1); },
     "[set] index 5 is out of range for axis 0 of size 3 «HERE»"},
    {[] { zeros({1}).expand({3}).fill_(2); },
     "[fill_] cannot write through a view of shape (3) in which several elements share one "
     "place; clone() it first «HERE»"},
    {[] { zeros({3}).assign(zeros({2})); },
     "[assign] a value of shape (2) does not fit a tensor of shape (3) «HERE»"},
    {[] { zeros({3}, int32).add_(zeros({3})); },
     "[add_] a result of f32 cannot be written in place to a tensor of i32 «HERE»"},
    {[] { zeros({3}).add_(zeros({2, 3})); },
     "[add_] a result of shape (2, 3) cannot be written in place to a tensor of shape (3) «HERE»"},
    {[] { zeros({3, 3})(tensor({0, 1})) = 1; },
     "[assign] the left side is a temporary copy; to write at advanced indices use set() "
     "or index_put_() «HERE»"},
    {[] { zeros({2, 3}).gather(1, zeros({2}, int64)); },
     "[gather] index of shape (2) and tensor of shape (2, 3) have different numbers of axes "
     "«HERE»"},
    {[] { zeros({2, 3}).gather(1, zeros({2, 3})); },
     "[gather] the index must have an integer dtype, got f32 «HERE»"},
    {[] { zeros({2, 3}).gather(1, zeros({3, 3}, int64)); },
     "[gather] index of shape (3, 3) reaches beyond the tensor of shape (2, 3) «HERE»"},
    {[] { zeros({2, 3}).scatter(1, zeros({2, 4}, int64), zeros({2, 3})); },
     "[scatter] index of shape (2, 4) reaches beyond the source of shape (2, 3) or the tensor "
     "of shape (2, 3) «HERE»"},
    {[] { zeros({2, 3}).scatter_reduce(1, zeros({2, 3}, int64), zeros({2, 3}), "median"); },
     "[scatter_reduce] reduce is sum, prod, mean, amax or amin, got median «HERE»"},
    {[] { zeros({2, 3}).scatter_add(1, zeros({2, 3}, int64), zeros({2, 3}, int64)); },
     "[scatter_add] source of i64 and tensor of f32 must have one dtype «HERE»"},
    {[] { zeros({2, 3}).index_select(1, zeros({2, 2}, int64)); },
     "[index_select] needs a vector of positions, got shape (2, 2) «HERE»"},
    {[] { zeros({2, 3}).index_add(0, zeros({2}, int64), zeros({3, 3})); },
     "[index_add] 2 positions for a source of shape (3, 3) on axis 0 «HERE»"},
    {[] { zeros({3}).take(zeros({2})); },
     "[take] the index must have an integer dtype, got f32 «HERE»"},
    {[] { zeros({2, 3}).masked_fill(zeros({2, 3}), 1); },
     "[masked_fill] the mask must be bool, got f32 «HERE»"},
    {[] { zeros({2, 3}).masked_fill(zeros({2}, DType::boolean), 1); },
     "[masked_fill] shapes (2) and (2, 3) cannot be broadcast together: sizes 2 and 3 differ "
     "«HERE»"},
    {[] { zeros({2, 3}).masked_select(zeros({2, 3})); },
     "[masked_select] the mask must be bool, got f32 «HERE»"},
};

const Misuse folds[] = {
    {[] { zeros({2, 3}).sum(2); },
     "[sum] axis 2 is out of range, expected -2 to 1 for a tensor with 2 axes «HERE»"},
    {[] { zeros({2, 3}).sum({0, -2}); },
     "[sum] axis -2 appears twice in the axes (0, -2) «HERE»"},
    {[] { zeros({2, 3}, int32).mean(); },
     "[mean] needs a float tensor, got i32 «HERE»"},
    {[] { zeros({2, 3}, int32).var(); },
     "[var] needs a float tensor, got i32 «HERE»"},
    {[] { zeros({0}).amax(); },
     "[amax] axis 0 of shape (0) is empty, so it has no largest or smallest element «HERE»"},
    {[] { zeros({2, 0}).max(1); },
     "[max] axis 1 of shape (2, 0) is empty, so it has no largest or smallest element «HERE»"},
    {[] { zeros({0}).argmax(); },
     "[argmax] axis 0 of shape (0) is empty, so it has no largest or smallest element «HERE»"},
    {[] { zeros({0, 3}).median(); },
     "[median] a tensor of shape (0, 3) is empty, so it has no middle element «HERE»"},
    {[] { zeros({0, 3}).median(0); },
     "[median] axis 0 of shape (0, 3) is empty, so it has no middle element «HERE»"},
    {[] { zeros({2, 3}).softmax(2); },
     "[softmax] axis 2 is out of range, expected -2 to 1 for a tensor with 2 axes «HERE»"},
    {[] { zeros({2, 3}).cumsum(-3); },
     "[cumsum] axis -3 is out of range, expected -2 to 1 for a tensor with 2 axes «HERE»"},
    {[] { zeros({2, 3}).sort(5); },
     "[sort] axis 5 is out of range, expected -2 to 1 for a tensor with 2 axes «HERE»"},
    {[] { zeros({2, 3}).topk(4, 1); },
     "[topk] needs k between 0 and the size 3 of axis 1, got 4 «HERE»"},
    {[] { zeros({2, 3}).kthvalue(0, 1); },
     "[kthvalue] needs k between 1 and the size 3 of axis 1, got 0 «HERE»"},
    {[] { zeros({2, 3}).multinomial(4); },
     "[multinomial] cannot draw 4 of 3 classes without replacement «HERE»"},
    {[] { zeros({2, 3, 4}).multinomial(1); },
     "[multinomial] needs weights (classes) or (rows, classes), got shape (2, 3, 4) «HERE»"},
    {[] { zeros({2, 3}).trace().trace(); },
     "[trace] needs a matrix, got shape () «HERE»"},
};

const Misuse products[] = {
    {[] { zeros({2, 3}).matmul(zeros({2, 3})); },
     "[matmul] shapes (2, 3) and (2, 3): inner sizes 3 and 2 differ «HERE»"},
    {[] { zeros({}).matmul(zeros({3})); },
     "[matmul] needs tensors with axes, got shapes () and (3) «HERE»"},
    {[] { zeros({2, 2, 3}).matmul(zeros({3, 3, 2})); },
     "[matmul] shapes (2, 2, 3) and (3, 3, 2): batches of 2 and 3 matrices cannot be broadcast "
     "together «HERE»"},
    {[] { zeros({2, 3}).matmul(zeros({3}, int32)); },
     "[matmul] dtypes f32 and i32 differ; cast one «HERE»"},
    {[] { zeros({2, 3, 4}).mm(zeros({4, 2})); },
     "[mm] needs matrices, got shapes (2, 3, 4) and (4, 2) «HERE»"},
    {[] { zeros({2, 3, 4}).bmm(zeros({3, 4, 2})); },
     "[bmm] shapes (2, 3, 4) and (3, 4, 2): batches of 2 and 3 matrices differ «HERE»"},
    {[] { zeros({2, 3}).mv(zeros({2})); },
     "[mv] shapes (2, 3) and (2): inner sizes 3 and 2 differ «HERE»"},
    {[] { zeros({2}).dot(zeros({3})); },
     "[dot] shapes (2) and (3): inner sizes 2 and 3 differ «HERE»"},
    {[] { zeros({2, 2}).outer(zeros({2})); },
     "[outer] needs two vectors, got shapes (2, 2) and (2) «HERE»"},
    {[] { zeros({2, 3}).linear(zeros({4, 2})); },
     "[linear] input of shape (2, 3) and weight of shape (4, 2): inner sizes differ «HERE»"},
    {[] { zeros({2, 3}).linear(zeros({4, 3}), zeros({3})); },
     "[linear] bias of shape (3) does not fit the weight of shape (4, 3) «HERE»"},
    {[] { zeros({2, 3}).addmm(zeros({2, 2}), zeros({3, 3})); },
     "[addmm] shapes (2, 2) and (3, 3): inner sizes 2 and 3 differ «HERE»"},
    {[] { einsum("ij,jk->ik", {zeros({2, 3})}); },
     "[einsum] 'ij,jk->ik' has 2 terms, got 1 operands «HERE»"},
    {[] { einsum("ij,jk->ik", {zeros({2, 3}), zeros({4, 2})}); },
     "[einsum] 'j' has sizes 3 and 4 «HERE»"},
    {[] { einsum("ij->ijk", {zeros({2, 3})}); },
     "[einsum] 'k' of the output must be named once there and in an operand «HERE»"},
    {[] { einsum("ijk->i", {zeros({2, 3})}); },
     "[einsum] 'ijk' names 3 axes, the operand has shape (2, 3) «HERE»"},
    {[] { einsum("i1->i", {zeros({2, 3})}); },
     "[einsum] unexpected '1' in the equation «HERE»"},
    {[] { zeros({2, 3}).tensordot(zeros({3, 2})); },
     "[tensordot] the last 2 axes of (2, 3) and the first 2 of (3, 2) differ «HERE»"},
    {[] { zeros({2, 3}).cosine_similarity(zeros({2, 4})); },
     "[cosine_similarity] shapes (2, 3) and (2, 4) cannot be broadcast together: sizes 3 and 4 "
     "differ «HERE»"},
};

const Misuse layers[] = {
    {[] { zeros({1, 3, 8, 8}).conv2d(zeros({4, 2, 3, 3})); },
     "[conv2d] weight of shape (4, 2, 3, 3) with 1 groups needs 2 input channels, got an input "
     "of shape (1, 3, 8, 8) «HERE»"},
    {[] { zeros({1, 3, 8, 8}).conv2d(zeros({4, 3, 3})); },
     "[conv2d] needs a weight with 4 axes, got shape (4, 3, 3) «HERE»"},
    {[] { zeros({1, 3, 8, 8}).conv2d(zeros({4, 3, 9, 9})); },
     "[conv2d] a kernel reaching over 9 does not fit a padded input of size 8 on spatial axis 0 "
     "«HERE»"},
    {[] { zeros({1, 4, 8}).conv1d(zeros({3, 2, 3}), {}, {.groups = 2}); },
     "[conv1d] 3 channels cannot be divided into 2 groups «HERE»"},
    {[] { zeros({1, 4, 8}).conv1d(zeros({3, 4, 3}), zeros({4})); },
     "[conv1d] needs a bias of shape (3), got (4) «HERE»"},
    {[] { zeros({1, 4, 8}).conv1d(zeros({3, 4, 3}), {}, {.stride = 0}); },
     "[conv1d] stride must be >= 1, got (0) «HERE»"},
    {[] { zeros({1, 4, 8}).conv1d(zeros({3, 4, 3}), {}, {.stride = {1, 1}}); },
     "[conv1d] stride needs one number, or one for each of the 1 spatial axes, got (1, 1) «HERE»"},
    {[] { zeros({1, 4, 8}).conv1d(zeros({3, 4, 3}), {}, {.padding = -1}); },
     "[conv1d] padding must be >= 0, got (-1) «HERE»"},
    {[] { zeros({8, 8}).conv2d(zeros({1, 1, 3, 3})); },
     "[conv2d] needs an input (N, C, 2 spatial axes) or without N, got shape (8, 8) «HERE»"},
    {[] { zeros({1, 4, 4, 4}).conv_transpose2d(zeros({3, 2, 2, 2})); },
     "[conv_transpose2d] weight of shape (3, 2, 2, 2) with 1 groups needs 3 input channels, got "
     "an input of shape (1, 4, 4, 4) «HERE»"},
    {[] { zeros({1, 1, 4, 4}).max_pool2d(0); },
     "[max_pool2d] kernel must be >= 1, got (0) «HERE»"},
    {[] { zeros({1, 1, 4, 4}).max_pool2d(2, {.padding = 2}); },
     "[max_pool2d] padding 2 must be at most half the kernel 2 «HERE»"},
    {[] { zeros({1, 1, 4, 4}).avg_pool2d(5); },
     "[avg_pool2d] a window of 5 does not fit a padded input of 4 on spatial axis 0 «HERE»"},
    {[] { zeros({1, 1, 4, 4}).adaptive_avg_pool2d({0, 1}); },
     "[adaptive_avg_pool2d] output must be >= 1, got (0, 1) «HERE»"},
    {[] { zeros({1, 1, 4, 4}).interpolate({}); },
     "[interpolate] needs either size or scale_factor «HERE»"},
    {[] { zeros({1, 1, 4, 4}).interpolate({.size = {8, 8}, .mode = "lanczos"}); },
     "[interpolate] mode lanczos does not fit 2 spatial axes; there are nearest, nearest-exact, "
     "area, bilinear and bicubic «HERE»"},
    {[] { zeros({1, 1, 4, 4}).interpolate({.size = {8}, .mode = "linear"}); },
     "[interpolate] mode linear does not fit 2 spatial axes; there are nearest, nearest-exact, "
     "area, bilinear and bicubic «HERE»"},
    {[] { zeros({1, 3, 4, 4}).pixel_shuffle(2); },
     "[pixel_shuffle] channels of shape (1, 3, 4, 4) cannot be divided by 2 x 2 «HERE»"},
    {[] { zeros({2, 3}).layer_norm({4}); },
     "[layer_norm] normalized_shape (4) does not match the end of shape (2, 3) «HERE»"},
    {[] { zeros({2, 3}).layer_norm({3}, zeros({2})); },
     "[layer_norm] weight or bias of shape (2) does not match normalized_shape (3) «HERE»"},
    {[] { zeros({2, 3}).rms_norm({2}); },
     "[rms_norm] normalized_shape (2) does not match the end of shape (2, 3) «HERE»"},
    {[] { zeros({2, 5}).group_norm(2); },
     "[group_norm] 5 channels cannot be divided into 2 groups «HERE»"},
    {[] { zeros({2, 3}).batch_norm(zeros({2}), zeros({2})); },
     "[batch_norm] running mean of shape (2) does not fit the channels of an input of shape (2, "
     "3) «HERE»"},
    {[] { zeros({2, 3}).batch_norm({}, {}); },
     "[batch_norm] needs running statistics when not training «HERE»"},
    {[] { zeros({2, 3}).dropout(1.5); },
     "[dropout] needs a probability between 0 and 1, got 1.5 «HERE»"},
    {[] { zeros({2, 3}).scaled_dot_product_attention(zeros({2, 4}), zeros({2, 3})); },
     "[scaled_dot_product_attention] query of shape (2, 3) and key of shape (2, 4) differ on "
     "the last axis «HERE»"},
    {[] { zeros({2, 3}).one_hot(4); },
     "[one_hot] the index must have an integer dtype, got f32 «HERE»"},
    {[] { zeros({2}).embedding(zeros({4, 2})); },
     "[embedding] the index must have an integer dtype, got f32 «HERE»"},
    {[] { zeros({2}, int64).embedding(zeros({4})); },
     "[embedding] needs a weight (rows, features), got shape (4) «HERE»"},
};

const Misuse losses[] = {
    {[] { zeros({2, 3}).cross_entropy(zeros({3}, int64)); },
     "[cross_entropy] input of shape (2, 3) needs a target of shape (2), got (3) «HERE»"},
    {[] { zeros({2, 3}).cross_entropy(zeros({2}, int64), {.weight = zeros({2})}); },
     "[cross_entropy] needs 3 class weights, got shape (2) «HERE»"},
    {[] { zeros({2, 3}).cross_entropy(zeros({2}, int64), {.label_smoothing = 2}); },
     "[cross_entropy] label_smoothing must be between 0 and 1, got 2 «HERE»"},
    {[] { zeros({2, 3}).nll_loss(zeros({2})); },
     "[nll_loss] class indices must be integers, got f32 «HERE»"},
    {[] { zeros({2, 3}).mse_loss(zeros({3, 2})); },
     "[mse_loss] input of shape (2, 3) and target of shape (3, 2) differ «HERE»"},
    {[] { zeros({2, 3}).binary_cross_entropy(zeros({2, 2})); },
     "[binary_cross_entropy] input of shape (2, 3) and target of shape (2, 2) differ «HERE»"},
    {[] { zeros({2, 3}).smooth_l1_loss(zeros({2, 3}), -1); },
     "[smooth_l1_loss] needs beta >= 0, got -1 «HERE»"},
};

const Misuse gradients[] = {
    {[] { zeros({2}, int64).requires_grad_(); },
     "[requires_grad_] only floating-point tensors have gradients, got i64 (2) «HERE»"},
    {[] { ones({2}).requires_grad_().backward(); },
     "[backward] the gradient can be left out only if the tensor has one element, got shape (2); "
     "reduce it (sum, mean) or pass a gradient of that shape «HERE»"},
    {[] { ones({2}, int64).sum().backward(); },
     "[backward] only floating-point tensors have gradients, got i64 () «HERE»"},
    {[] { ones({2}).sum().backward(); },
     "[backward] this tensor of shape () depends on no marked tensor; call requires_grad_() on "
     "the leaves first «HERE»"},
    {[] { Tensor().backward(); },
     "[backward] the tensor is undefined «HERE»"},
    {[] { ones({2}).requires_grad_().sum().backward(ones({2})); },
     "[backward] the gradient has shape (2) but the tensor has () «HERE»"},
    {[] { ones({}).requires_grad_().backward(ones({}, int64)); },
     "[backward] the gradient must be floating-point, got i64 «HERE»"},
    {[] { ones({2}).requires_grad_().backward(ones({2}, {.device = "CPU:1"})); },
     "[backward] the gradient is on CPU:1 but the tensor is on CPU «HERE»"},
    {[] { ones({2}).requires_grad_().sum().realize().backward(); },
     "[backward] this tensor was already realized, its graph is gone; call backward() before "
     "realize/item «HERE»"},
    {[] { (ones({2}).requires_grad_() * 2).realize().sum().backward(); },
     "[backward] it depends on a tensor of 2 elements that was already realized, whose graph is "
     "gone; call backward() before realize/item, or detach() that tensor «HERE»"},
    {[] { (ones({2}).requires_grad_() * 2).requires_grad_(false); },
     "[requires_grad_] this tensor is no leaf, because it is computed from marked ones; use detach() "
     "«HERE»"},
    {[] { ones({2}).exp().sum().gradient({ones({2}).sin()}); },
     "[gradient] the tensor does not depend on target 0 of shape (2); was it assigned to since, "
     "or realized? allow_unused gives zeros «HERE»"},
    {[] { ones({2}).exp().sum().gradient({ones({2})}); },
     "[gradient] target 0 of shape (2) is a constant, and equal constants are one value; call "
     "requires_grad_() on it before use «HERE»"},
    {[] { ones({2}).exp().sum().gradient({Tensor()}); },
     "[gradient] target 0 is undefined «HERE»"},
    {[] { ones({2}).exp().sum().gradient({zeros({2}, int64)}); },
     "[gradient] target 0 must be floating-point, got i64 (2) «HERE»"},
};

// clang-format on

}  // namespace

TEST_SUITE("errors") {
  TEST_CASE("of creation") { check_all(creation); }
  TEST_CASE("of sizes beyond all memory") { check_all(limits); }
  TEST_CASE("of variables") { check_all(variables); }
  TEST_CASE("of questions") { check_all(questions); }
  TEST_CASE("of elementwise") { check_all(elementwise); }
  TEST_CASE("of dtype and device") { check_all(conversions); }
  TEST_CASE("of movement") { check_all(movement); }
  TEST_CASE("of indexing") { check_all(indexing); }
  TEST_CASE("of reductions and order") { check_all(folds); }
  TEST_CASE("of products") { check_all(products); }
  TEST_CASE("of layers") { check_all(layers); }
  TEST_CASE("of losses") { check_all(losses); }
  TEST_CASE("of gradients") { check_all(gradients); }
}
