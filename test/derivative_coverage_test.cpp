// Every function of the public headers that gives tensors has its derivatives tested at special
// points, or stands in a list that says why not.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "golden_file.h"
#include "test_paths.h"

using namespace mote::test;

namespace {

std::string file_text(const std::string& path) {
  std::ifstream in(MOTE_SOURCE_DIR "/" + path);
  REQUIRE_MESSAGE(in.good(), path);
  std::stringstream text;
  text << in.rdbuf();
  return std::regex_replace(text.str(), std::regex("//[^\n]*"), "");
}

void add_matches(std::set<std::string>& names, const std::string& text, const std::regex& pattern) {
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it)
    names.insert((*it)[1]);
}

// Methods and functions that give a Tensor, values with indices, or several tensors.
std::set<std::string> declared() {
  std::set<std::string> names;
  const std::regex call(R"((?:Tensor&?|ValuesIndices|std::vector<Tensor>)\s+([a-zA-Z_]\w*)\()"),
      listed(R"(\bF\(([a-z]\w*)\))");
  for (const char* header :
       {"tensor.h", "functions.h", "functional.h", "special.h", "fft.h", "linalg.h"}) {
    const std::string text = file_text(std::string("include/mote/") + header);
    add_matches(names, text, call);
    add_matches(names, text, listed);
  }
  names.erase("name");      // of macros
  names.erase("alias");
  names.erase("operator");  // the functions behind them have names
  return names;
}

std::string within_parentheses(const std::string& text, size_t at) {
  size_t end = at;
  for (int depth = 0; end < text.size(); ++end) {
    depth += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    if (depth == 0) break;
  }
  return text.substr(at, end - at);
}

// Ops of the golden derivatives, and what the tables of the other tests call.
std::set<std::string> tested() {
  std::set<std::string> names;
  for (const GoldenCase& c :
       read_goldens({"derivatives.gold.gz", "more_derivatives.gold.gz"}).cases)
    names.insert(c.op);
  for (const char* table : {"curves", "pairs", "folds"}) {
    const std::string text = file_text(std::string("test/derivative_") + table + "_test.cpp");
    for (size_t at = text.find(" F("); at != std::string::npos; at = text.find(" F(", at + 1))
      add_matches(names, within_parentheses(text, at + 2), std::regex(R"(\b([a-z]\w*)\()"));
  }
  return names;
}

// clang-format off
const std::map<std::string, std::set<std::string>> without = {
    {"gives bools or integers", {"argmax", "argmin", "argsort", "any", "all", "count_nonzero",
        "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite", "isposinf", "isneginf",
        "isclose", "signbit", "logical_not", "logical_and", "logical_or", "logical_xor", "nonzero",
        "one_hot", "argwhere", "searchsorted", "bucketize", "isin", "histc", "to_bool", "to_int", "to_long",
         "bitcast", "matrix_rank"}},
    {"is of integers", {"bincount", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor",
        "bitwise_left_shift", "bitwise_right_shift", "gcd", "lcm"}},
    {"makes a tensor from nothing", {"full", "zeros", "ones", "empty", "arange", "linspace", "eye",
        "zeros_like", "ones_like", "full_like", "empty_like", "from_bytes", "from_blob",
        "from_values", "from_data", "tensor", "scalar", "random_state", "logspace", "tril_indices",
        "triu_indices", "hann_window", "hamming_window", "blackman_window", "bartlett_window",
        "kaiser_window", "fftfreq", "rfftfreq"}},
    {"draws random numbers", {"rand", "randn", "randint", "uniform", "normal", "randperm",
        "kaiming_uniform", "kaiming_normal", "glorot_uniform", "glorot_normal", "rand_like",
        "randn_like", "uniform_", "normal_", "multinomial", "bernoulli", "dropout", "bernoulli_",
        "exponential_", "geometric_", "cauchy_", "log_normal_", "random_", "randint_like",
        "poisson", "rrelu", "gumbel_softmax", "alpha_dropout", "feature_alpha_dropout",
        "dropout1d", "dropout2d", "dropout3d"}},
    {"has poles, where PyTorch's derivatives are those of rounding errors: golden ops", {"lgamma",
        "digamma", "polygamma", "mvlgamma", "psi", "gammaln", "multigammaln"}},
    {"PyTorch has no derivatives by the exponent: golden ops", {"zeta"}},
    {"is another name of a tested one", {"adjoint", "concat", "concatenate", "divide", "expit",
        "ger", "moveaxis", "reshape_as", "subtract", "swapdims", "vdot", "nextafter",
        "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices",
        "adaptive_max_pool3d_with_indices", "adaptive_max_pool3d",
        "triplet_margin_with_distance_loss"}},
    {"takes complex numbers apart", {"complex", "polar", "real", "imag", "angle", "conj"}},
    {"linear algebra: linalg_test takes differences", {"cholesky", "cholesky_solve",
        "cholesky_inverse", "lu_solve", "solve", "solve_triangular", "inv", "det", "logdet",
        "eigvalsh", "svdvals", "pinv", "cond", "matrix_exp", "matrix_power", "multi_dot",
        "matrix_norm", "vector_norm", "vecdot", "tensorinv", "tensorsolve"}},
    {"is the derivative itself, or about it", {"grad", "gradient", "detach", "requires_grad_"}},
    {"writes: aliasing_test and semantics_test take derivatives through writes", {"assign", "copy_",
        "fill_", "zero_", "add_", "sub_", "mul_", "div_", "clamp_", "masked_fill_", "set",
        "index_put_", "scatter_", "scatter_add_", "realize"}},
    {"casts or moves: linear, of which the golden ops test the gradients", {"to", "cast", "to_half",
        "to_bfloat16", "to_float", "to_double", "clone", "contiguous"}},
};
// clang-format on

TEST_CASE("derivative points: every function of the headers is tested, or said why not") {
  const std::set<std::string> functions = declared(), covered = tested();
  CHECK(functions.size() > 250);
  std::map<std::string, std::string> excused;
  for (const auto& [why, names] : without)
    for (const std::string& name : names) {
      CHECK_MESSAGE(functions.count(name), name, " is no function of the headers");
      excused[name] = why;
    }
  size_t tested_count = 0;
  for (const std::string& name : functions) {
    tested_count += covered.count(name);
    CHECK_MESSAGE((covered.count(name) || excused.count(name)), "derivatives of ", name,
                  " are not tested at special points");
  }
  MESSAGE(tested_count, " functions tested, ", excused.size(), " without derivatives");
}

}  // namespace
