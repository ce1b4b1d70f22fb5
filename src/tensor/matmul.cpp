// Products of tensors: a broadcast multiply and a sum.
#include <algorithm>
#include <map>

#include "tensor/autocast.h"
#include "tensor/movement.h"
#include "tensor/recorded.h"

namespace mote {

namespace {

void expect_same_dtype(const Tensor& a, const Tensor& b) {
  expect(a.dtype() == b.dtype(), "dtypes ", a.dtype(), " and ", b.dtype(), " differ; cast one");
  expect(a.dtype() != DType::boolean, "bool tensors cannot be multiplied; cast them first");
}

// The product of matrices in the accumulator's dtype, so that what follows can round once.
Tensor wide_matmul(const Tensor& x, const Tensor& y) {
  DType wide = accumulator(x.dtype());
  Tensor a = x.dim() == 1 ? x.unsqueeze(0) : x;
  Tensor b = y.dim() == 1 ? y.unsqueeze(0) : y.transpose(-1, -2);
  Tensor terms = a.unsqueeze(-2).to(wide) * b.unsqueeze(-3).to(wide);
  int64_t last = terms.dim() - 1;
  Tensor out = reduce_tensor(Op::Add, terms, {&last, 1}, false);
  if (x.dim() == 1) out = out.squeeze(-2);
  if (y.dim() == 1) out = out.squeeze(-1);
  return recorded("matmul", out, {&x, &y});
}

// One operand of einsum with a name per axis; each name once.
struct Named {
  Tensor tensor;
  std::string names;
};

// Names for the axes that "..." stands for, aligned at the last one.
std::string dots(int64_t count) {
  std::string out;
  for (int64_t i = count; i-- > 0;) out += static_cast<char>('0' + i);
  return out;
}

std::vector<std::string> split_terms(const std::string& text) {
  std::vector<std::string> out(1);
  for (char c : text) {
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

std::string without_spaces(const std::string& s) {
  std::string out;
  for (char c : s)
    if (c != ' ') out += c;
  return out;
}

std::string expand_dots(const std::string& term, int64_t count) {
  size_t at = term.find("...");
  return at == std::string::npos ? term : term.substr(0, at) + dots(count) + term.substr(at + 3);
}

Named name_axes(const Tensor& t, const std::string& term) {
  expect_defined(t, "an operand");
  size_t at = term.find("...");
  int64_t plain = static_cast<int64_t>(term.size()) - (at == std::string::npos ? 0 : 3);
  expect(at == std::string::npos ? plain == t.dim() : plain <= t.dim(), "'", term, "' names ",
         plain, " axes, the operand has shape ", t);
  Named n{t, expand_dots(term, t.dim() - plain)};
  for (size_t i = 0; i < n.names.size(); ++i) {
    size_t twin = n.names.find(n.names[i], i + 1);
    if (twin == std::string::npos) continue;
    n.tensor = n.tensor.diagonal(0, static_cast<int64_t>(i), static_cast<int64_t>(twin));
    char name = n.names[i];
    n.names.erase(twin, 1).erase(i, 1);
    n.names += name;
    i = static_cast<size_t>(-1);
  }
  return n;
}

// Axes in the order of `all`, size 1 where the operand lacks one.
Tensor align(const Named& n, const std::string& all) {
  std::vector<int64_t> order;
  std::vector<Dim> dims;
  for (char c : all) {
    size_t at = n.names.find(c);
    if (at != std::string::npos) order.push_back(static_cast<int64_t>(at));
    dims.push_back(at == std::string::npos ? Dim(1) : dims_of(n.tensor)[at]);
  }
  return reshaped(n.tensor.permute(order), dims);
}

// Without "->": the names that occur once, in order; "..." comes first.
std::string implied_output(const std::vector<std::string>& terms) {
  std::string joined, out;
  bool any_dots = false;
  for (const std::string& t : terms) {
    any_dots |= t.find("...") != std::string::npos;
    for (char c : t)
      if (c != '.') joined += c;
  }
  for (char c : joined)
    if (std::count(joined.begin(), joined.end(), c) == 1) out += c;
  std::sort(out.begin(), out.end());
  return (any_dots ? "..." : "") + out;
}

void check_equation(const std::string& text) {
  for (char c : text)
    expect((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == ',' || c == '-' ||
               c == '>',
           "unexpected '", c, "' in the equation");
}

// The axes before the last two, broadcast against each other.
void expect_batches(const Tensor& a, const Tensor& b) {
  for (int64_t i = 3; i <= std::min(a.dim(), b.dim()); ++i) {
    const Dim& x = dims_of(a)[static_cast<size_t>(a.dim() - i)];
    const Dim& y = dims_of(b)[static_cast<size_t>(b.dim() - i)];
    expect(x == y || x == Dim(1) || y == Dim(1), "shapes ", a, " and ", b, ": batches of ", x,
           " and ", y, " matrices cannot be broadcast together");
  }
}

}  // namespace

Tensor Tensor::matmul(const Tensor& other, Loc where) const {
  Call call("matmul", where);
  if (Recast as{call}) return as(*this).matmul(as(other), where);
  expect_defined(other, "the other tensor");
  expect(dim() > 0 && other.dim() > 0, "needs tensors with axes, got shapes ", *this, " and ",
         other);
  expect_same_dtype(*this, other);
  const Dim& inner = dims_of(*this).back();
  const Dim& outer = dims_of(other)[static_cast<size_t>(std::max<int64_t>(other.dim() - 2, 0))];
  expect(inner == outer, "shapes ", *this, " and ", other, ": inner sizes ", inner, " and ", outer,
         " differ");
  expect_batches(*this, other);
  return wide_matmul(*this, other).to(dtype());
}

Tensor Tensor::mm(const Tensor& other, Loc where) const {
  Call call("mm", where);
  if (Recast as{call}) return as(*this).mm(as(other), where);
  expect(dim() == 2 && other.dim() == 2, "needs matrices, got shapes ", *this, " and ", other);
  return matmul(other);
}
Tensor Tensor::bmm(const Tensor& other, Loc where) const {
  Call call("bmm", where);
  if (Recast as{call}) return as(*this).bmm(as(other), where);
  expect(dim() == 3 && other.dim() == 3, "needs batches of matrices, got shapes ", *this, " and ",
         other);
  expect(dims_of(*this)[0] == dims_of(other)[0], "shapes ", *this, " and ", other, ": batches of ",
         dims_of(*this)[0], " and ", dims_of(other)[0], " matrices differ");
  return matmul(other);
}
Tensor Tensor::mv(const Tensor& vec, Loc where) const {
  Call call("mv", where);
  if (Recast as{call}) return as(*this).mv(as(vec), where);
  expect(dim() == 2 && vec.dim() == 1, "needs a matrix and a vector, got shapes ", *this, " and ",
         vec);
  return matmul(vec);
}
Tensor Tensor::dot(const Tensor& other, Loc where) const {
  Call call("dot", where);
  if (Recast as{call, *this, other}) return as(*this).dot(as(other), where);
  expect(dim() == 1 && other.dim() == 1, "needs two vectors, got shapes ", *this, " and ", other);
  return matmul(other);
}
Tensor Tensor::outer(const Tensor& other, Loc where) const {
  Call call("outer", where);
  expect(dim() == 1 && other.dim() == 1, "needs two vectors, got shapes ", *this, " and ", other);
  return unsqueeze(1) * other;
}

Tensor Tensor::addmm(const Tensor& a, const Tensor& b, Number beta, Number alpha, Loc where) const {
  Call call("addmm", where);
  if (Recast as{call}) return as(*this).addmm(as(a), as(b), beta, alpha, where);
  return *this * beta + a.mm(b) * alpha;
}

Tensor Tensor::linear(const Tensor& weight, const Tensor& bias, Loc where) const {
  Call call("linear", where);
  if (Recast as{call}) return as(*this).linear(as(weight), bias, where);
  expect_defined(weight, "the weight");
  expect(weight.dim() == 1 || weight.dim() == 2, "needs a weight (out, in), got shape ", weight);
  expect(dim() > 0 && dims_of(*this).back() == dims_of(weight).back(), "input of shape ", *this,
         " and weight of shape ", weight, ": inner sizes differ");
  expect_same_dtype(*this, weight);
  common_device({this, &weight, &bias});
  Tensor out = wide_matmul(*this, weight.dim() == 1 ? weight : weight.t());
  if (!bias.defined()) return out.to(dtype());
  expect(can_expand(dims_of(bias), dims_of(out)), "bias of shape ", bias,
         " does not fit the weight of shape ", weight);
  return (out + bias.to(out.dtype())).to(dtype());
}

Tensor Tensor::tensordot(const Tensor& other, int64_t dims, Loc where) const {
  Call call("tensordot", where);
  if (Recast as{call, *this, other}) return as(*this).tensordot(as(other), dims, where);
  expect(dims >= 0 && dims <= dim() && dims <= other.dim(), "cannot contract ", dims,
         " axes of shapes ", *this, " and ", other);
  auto n = static_cast<size_t>(dims);
  const std::vector<Dim>&a = dims_of(*this), &b = dims_of(other);
  expect(std::equal(a.end() - static_cast<long>(n), a.end(), b.begin()), "the last ", dims,
         " axes of ", *this, " and the first ", dims, " of ", other, " differ");
  Dim inner = product(std::span(a).last(n));
  std::vector<Dim> out(a.begin(), a.end() - static_cast<long>(n)),
      rest(b.begin() + static_cast<long>(n), b.end());
  std::vector<Dim> left = {product(out), inner}, right = {inner, product(rest)};
  out.insert(out.end(), rest.begin(), rest.end());
  return reshaped(reshaped(*this, left).matmul(reshaped(other, right)), out);
}

Tensor Tensor::kron(const Tensor& other, Loc where) const {
  Call call("kron", where);
  auto rank = static_cast<size_t>(std::max(dim(), other.dim()));
  std::vector<Dim> a = dims_of(*this), b = dims_of(other), left, right, out;
  a.insert(a.begin(), rank - a.size(), Dim(1));
  b.insert(b.begin(), rank - b.size(), Dim(1));
  for (size_t i = 0; i < rank; ++i) {
    left.insert(left.end(), {a[i], Dim(1)});
    right.insert(right.end(), {Dim(1), b[i]});
    out.push_back(a[i] * b[i]);
  }
  return reshaped(reshaped(*this, left) * reshaped(other, right), out);
}

Tensor Tensor::cosine_similarity(const Tensor& other, int64_t dim, double eps, Loc where) const {
  Call call("cosine_similarity", where);
  if (Recast as{call}) return as(*this).cosine_similarity(as(other), dim, eps, where);
  const DType d = result_type(*this, other), wide = accumulator(d);  // f16 does not hold eps
  Tensor x = to(wide), y = other.to(wide);
  Tensor scale = x.norm(2, dim).clamp_min(eps) * y.norm(2, dim).clamp_min(eps);
  return ((x * y).sum(dim) / scale).to(d);
}

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands, Loc where) {
  Call call("einsum", where);
  if (Recast as{call}) return einsum(equation, as(operands), where);
  std::string text = without_spaces(equation);
  check_equation(text);
  size_t arrow = text.find("->");
  std::vector<std::string> terms = split_terms(text.substr(0, arrow));
  expect(terms.size() == operands.size(), "'", equation, "' has ", terms.size(), " terms, got ",
         operands.size(), " operands");
  std::vector<Named> named;
  std::string all;
  std::map<char, Dim> sizes;
  int64_t most_dots = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    named.push_back(name_axes(operands[i], terms[i]));
    const Named& n = named.back();
    for (size_t k = 0; k < n.names.size(); ++k) {
      char c = n.names[k];
      if (c <= '9') most_dots = std::max<int64_t>(most_dots, c - '0' + 1);
      if (all.find(c) == std::string::npos) all += c;
      Dim& size = sizes.try_emplace(c, dims_of(n.tensor)[k]).first->second;
      Dim own = dims_of(n.tensor)[k];
      expect(size == own || size == Dim(1) || own == Dim(1), "'", c, "' has sizes ", size, " and ",
             own);
      if (size == Dim(1)) size = own;
    }
  }
  std::string out = expand_dots(
      arrow == std::string::npos ? implied_output(terms) : text.substr(arrow + 2), most_dots);
  std::string order = out;
  for (char c : all)
    if (out.find(c) == std::string::npos) order += c;
  for (size_t i = 0; i < out.size(); ++i)
    expect(all.find(out[i]) != std::string::npos && out.find(out[i], i + 1) == std::string::npos,
           "'", out[i], "' of the output must be named once there and in an operand");
  Tensor result = align(named[0], order);
  for (size_t i = 1; i < named.size(); ++i) result = result * align(named[i], order);
  std::vector<Dim> dims;
  for (char c : order) dims.push_back(sizes.at(c));
  result = broadcast_tensor(result, dims);
  std::vector<int64_t> over;
  for (size_t i = out.size(); i < order.size(); ++i) over.push_back(static_cast<int64_t>(i));
  DType d = result.dtype();
  return over.empty() ? result
                      : reduce_tensor(Op::Add, result.to(accumulator(d)), over, false).to(d);
}

}  // namespace mote
