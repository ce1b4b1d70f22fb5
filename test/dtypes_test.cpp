// The dtype of every function's result against PyTorch's (tools/make_dtype_goldens.py), for every
// dtype of the operands, tensors without axes and numbers among them.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "test_paths.h"

using namespace mote;

namespace {

using One = Tensor (*)(const Tensor& x);
using Two = Tensor (*)(const Tensor& x, Operand y);

#define ONE(name, ...)                                           \
  {                                                              \
#name, [](const Tensor& x) -> Tensor { return __VA_ARGS__; } \
  }
#define TWO(name, ...)                                                      \
  {                                                                         \
#name, [](const Tensor& x, Operand y) -> Tensor { return __VA_ARGS__; } \
  }
#define UNARY(name) ONE(name, x.name()),
#define BINARY(name) TWO(name, x.name(y)),

Tensor square_of(const Tensor& x) { return x.reshape({2, 2}); }
Tensor line_of(const Tensor& x) { return x.reshape({1, 1, 4}); }

// clang-format off
const std::map<std::string, One> unary_calls = {
    MOTE_UNARY(UNARY)
    ONE(round_decimals, x.round(1)), ONE(nan_to_num, x.nan_to_num()), ONE(logit, x.logit()),
    ONE(gelu, x.gelu()), ONE(elu, x.elu()), ONE(celu, x.celu()), ONE(leaky_relu, x.leaky_relu()),
    ONE(hardtanh, x.hardtanh()), ONE(hardshrink, x.hardshrink()), ONE(softshrink, x.softshrink()),
    ONE(softplus, x.softplus()), ONE(sum, x.sum()), ONE(sum_axis, x.sum(0)),
    ONE(nansum, x.nansum()), ONE(prod, x.prod()), ONE(mean, x.mean()), ONE(var, x.var(0)), ONE(std, x.std(0)),
    ONE(amax, x.amax(0)), ONE(amin, x.amin(0)), ONE(max, x.max()), ONE(min, x.min()),
    ONE(max_axis, x.max(0).values), ONE(argmax, x.argmax()), ONE(argmin, x.argmin(0)),
    ONE(any, x.any()), ONE(all, x.all(0)), ONE(count_nonzero, x.count_nonzero()),
    ONE(logsumexp, x.logsumexp(0)), ONE(norm, x.norm()), ONE(norm_1, x.norm(1, 0)),
    ONE(normalize, x.normalize(2, 0)), ONE(cumsum, x.cumsum(0)), ONE(cumprod, x.cumprod(0)),
    ONE(cummax, x.cummax(0).values), ONE(cummax_indices, x.cummax(0).indices),
    ONE(logcumsumexp, x.logcumsumexp(0)), ONE(sort, x.sort(0).values), ONE(argsort, x.argsort(0)),
    ONE(topk, x.topk(1, 0).values), ONE(kthvalue, x.kthvalue(1, 0).values), ONE(median, x.median()),
    ONE(softmax, x.softmax(0)), ONE(log_softmax, x.log_softmax(0)), ONE(clamp_int, x.clamp(0, 1)),
    ONE(clamp_float, x.clamp(0.5, 1.5)), ONE(clamp_min_int, x.clamp_min(1)),
    ONE(clamp_min_float, x.clamp_min(1.5)), ONE(clamp_max_float, x.clamp_max(1.5)),
    ONE(tril, square_of(x).tril()), ONE(trace, square_of(x).trace()), ONE(flip, x.flip(0)),
    ONE(roll, x.roll(1)), ONE(masked_fill_int, x.masked_fill(x == x, 1)),
    ONE(masked_fill_float, x.masked_fill(x == x, 1.5)), ONE(zeros_like, x.zeros_like()),
    ONE(full_like, x.full_like(1.5)), ONE(threshold, x.threshold(1, 2)),
    ONE(dropout_none, x.dropout(0)), ONE(where_int, mote::where(x == x, x, 2)),
    ONE(where_float, mote::where(x == x, x, 1.5)), ONE(one_hot, x.one_hot()),
    ONE(nonzero, x.nonzero()), ONE(matmul, square_of(x).matmul(square_of(x))), ONE(dot, x.dot(x)),
    ONE(outer, x.outer(x)), ONE(div_floor, x.div(2, "floor")), ONE(div_trunc, x.div(2, "trunc")),
    ONE(div_floor_float, x.div(1.5, "floor")), ONE(addcmul, x.addcmul(x, x)),
    ONE(addcdiv, x.addcdiv(x, x)), ONE(lerp, x.lerp(x, 0.5)), ONE(isclose, x.isclose(x)),
    ONE(mse_loss, x.mse_loss(x)), ONE(l1_loss, x.l1_loss(x)),
    ONE(avg_pool1d, line_of(x).avg_pool1d(2)), ONE(max_pool1d, line_of(x).max_pool1d(2)),
    ONE(interpolate, line_of(x).interpolate({.size = 2})),
    ONE(cosine_similarity, x.cosine_similarity(x, 0)), ONE(layer_norm, x.layer_norm(4)),
    ONE(diag, x.diag()),
};
const std::map<std::string, Two> binary_calls = {
    MOTE_BINARY(BINARY) BINARY(add) BINARY(sub) BINARY(mul) BINARY(div)
    TWO(where, mote::where(x == x, x, y)), TWO(cat, cat({x, *y.tensor})),
    TWO(matmul, square_of(x).matmul(square_of(*y.tensor))), TWO(clamp, x.clamp(y, y)),
    TWO(result_type, zeros(1, result_type(x, y))),
};
// clang-format on

template <class F>
std::string dtype_of_result(F f) {
  try {
    return name(f().dtype());
  } catch (const Error&) { return "-"; }
}

class Table {
 public:
  void read(const std::string& path) {
    std::ifstream file(path);
    REQUIRE(file.good());
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::vector<std::string> w{std::istream_iterator<std::string>(words), {}};
      if (w[0] == "#") continue;
      if (w[0] == "dtypes")
        dtypes_.assign(w.begin() + 1, w.end());
      else
        compare(w);
    }
    CHECK(wrong_ == 0);
    MESSAGE(compared_ << " results have PyTorch's dtype, " << refused_ << " are refused by both");
  }

 private:
  std::vector<std::string> dtypes_;
  int64_t compared_ = 0, refused_ = 0, wrong_ = 0;

  // Averages of integers are not whole; mote asks for floats.
  static bool is_left_out(const std::string& key, const std::string& dtype) {
    return key == "avg_pool1d" && dtype == "i64";
  }
  static Tensor operand(const std::string& dtype) {
    for (int d = 0; d < kDTypes; d++)
      if (dtype == name(static_cast<DType>(d)))
        return full({4}, 1, {static_cast<DType>(d), "INTERP"});
    FAIL("no dtype " << dtype);
    return {};
  }

  // A key, the dtypes of the operands but the last, and a result for each dtype of the last.
  void compare(const std::vector<std::string>& w) {
    size_t given = w.size() - dtypes_.size();
    for (size_t i = 0; i < dtypes_.size(); ++i) {
      Tensor last = operand(dtypes_[i]);
      std::string got = given == 1 ? of_one(w[0], last) : of_two(w[0], operand(w[1]), last);
      const std::string& want = w[given + i];
      std::string what = w[0] + " of " + (given == 1 ? "" : w[1] + " and ") + dtypes_[i];
      if (want == "-") {
        refused_ += got == "-";
        continue;
      }
      ++compared_;
      if (got == want || is_left_out(w[0], dtypes_[i]) || ++wrong_ > 200) continue;
      what += ": got " + got + ", PyTorch gives " + want;
      FAIL_CHECK(what);
    }
  }
  static std::string of_one(const std::string& key, const Tensor& x) {
    if (auto f = unary_calls.find(key); f != unary_calls.end())
      return dtype_of_result([&] { return f->second(x); });
    for (auto [suffix, number] : {
             std::pair<const char*, Number>{"_int",   2   },
               {"_float", 1.5 },
               {"_bool",  true}
    }) {
      size_t at = key.rfind(suffix);
      if (at == std::string::npos) continue;
      auto f = binary_calls.find(key.substr(0, at));
      if (f == binary_calls.end()) continue;
      return dtype_of_result([&, n = number] { return f->second(x, n); });
    }
    FAIL("no row for " << key);
    return {};
  }
  static std::string of_two(const std::string& key, const Tensor& x, const Tensor& y) {
    size_t at = key.rfind("_scalar");
    auto f = binary_calls.find(key.substr(0, at));
    if (f == binary_calls.end()) FAIL("no row for " << key);
    Tensor last = at == std::string::npos ? y : y.select(0, 0);
    return dtype_of_result([&] { return f->second(x, last); });
  }
};

}  // namespace

TEST_CASE("dtypes of results are PyTorch's, for every function and every pair of dtypes") {
  Table().read(MOTE_SOURCE_DIR "/test/goldens/dtypes.txt");
}
