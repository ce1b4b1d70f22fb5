// Sizes, axes, variables: what stands in shapes.
#include <algorithm>
#include <map>

#include "base/integers.h"
#include "ir/eval.h"
#include "tensor/impl.h"

namespace mote {

namespace {

Dim combine(Op op, const Dim& a, const Dim& b) {
  Ref r = prim::alu(op, {index_node(a), index_node(b)});
  return Call::keep(Dim(UOp(r)), r);
}

bool numbers(const Dim& a, const Dim& b) { return !a.is_symbolic() && !b.is_symbolic(); }

// Of sizes: an error where it overflows.
int64_t quotient(int64_t a, int64_t b) { return b == -1 ? size_mul(a, b) : floor_div(a, b); }

// The node with one more count, for a handle that adopts it.
Node* counted(UOp u) {
  if (u) u->refs.fetch_add(1, std::memory_order_relaxed);
  return u.get();
}

Size sizes_op(const Size& a, const Size& b, Dim (*f)(const Dim&, const Dim&), const char* name) {
  Call call(name, Loc::current());
  return to_size(f(to_dim(a), to_dim(b)));
}

}  // namespace

Ref index_node(const Dim& d) {
  return d.is_symbolic() ? Ref(d.symbol) : prim::constant(DType::index, d.size);
}

Dim operator+(const Dim& a, const Dim& b) { return size_sum(a, 1, b, combine); }
Dim operator-(const Dim& a, const Dim& b) { return size_sum(a, -1, b, combine); }
Dim operator*(const Dim& a, const Dim& b) {
  if (numbers(a, b)) return size_mul(a.size, b.size);
  return b.is_symbolic() && !a.is_symbolic() ? combine(Op::Mul, b, a) : combine(Op::Mul, a, b);
}
Dim operator/(const Dim& a, const Dim& b) {
  expect(b != Dim(0), "division of the size ", a, " by 0");
  if (b == Dim(1)) return a;
  return numbers(a, b) ? Dim(quotient(a.size, b.size)) : combine(Op::FloorDiv, a, b);
}
Dim operator%(const Dim& a, const Dim& b) {
  expect(b != Dim(0), "division of the size ", a, " by 0");
  return numbers(a, b) ? Dim(a.size - quotient(a.size, b.size) * b.size)
                       : combine(Op::FloorMod, a, b);
}

Dim smaller(const Dim& a, const Dim& b) {
  if (least(b - a) >= 0) return a;
  return least(a - b) >= 0 ? b : combine(Op::Min, a, b);
}
Dim larger(const Dim& a, const Dim& b) {
  if (least(a - b) >= 0) return a;
  return least(b - a) >= 0 ? b : combine(Op::Max, a, b);
}

int64_t least(const Dim& d) { return d.is_symbolic() ? d.symbol->lo : d.size; }

std::optional<int64_t> value_of(const Dim& d) {
  if (!d.is_symbolic()) return d.size;
  std::map<const Node*, Scalar> values;
  for (UOp n : toposort(d.symbol)) {
    if (n->is(Op::Var) && !n->ints(2)) return {};
    Scalar args[3];
    for (uint32_t i = 0; i < n->nsrc; ++i) args[i] = values.at(n->src(i).get());
    values[n.get()] = n->is(Op::Var)     ? scalar(DType::index, n->ints(3))
                      : n->is(Op::Const) ? scalar_of(n)
                                         : eval(n->op, n->dtype, {args, n->nsrc});
  }
  return values.at(d.symbol.get()).i;
}

std::string said(const Dim& d) {
  std::optional<int64_t> value = value_of(d);
  if (!d.is_symbolic()) return text(d);
  if (!value) return text(d, " (", least(d), " to ", d.size, ")");
  return d.symbol->is(Op::Var) ? text(d, " = ", *value) : text(*value);
}

Dim product(std::span<const Dim> dims) {
  Dim n = 1;
  for (const Dim& d : dims) n = n * d;
  return n;
}

Dim to_dim(const Size& s) { return s.is_symbolic() ? Dim(UOp(s.symbol().node())) : Dim(s.value()); }
Size to_size(const Dim& d) {
  if (!d.is_symbolic()) return d.size;
  return Sym::adopt(counted(d.symbol));
}
std::vector<Dim> to_dims(const Sizes& s) {
  std::vector<Dim> dims;
  for (const Size& size : s) dims.push_back(to_dim(size));
  return dims;
}

int64_t numeric(const Dim& d) {
  expect(!d.is_symbolic(), "needs a size known as a number, got the symbolic size ", d);
  return d.size;
}
std::vector<int64_t> numeric_shape(const Tensor& t) {
  for (const Dim& d : dims_of(t))
    expect(!d.is_symbolic(), "needs sizes known as numbers, got the symbolic shape ", t);
  return shape_of(t).sizes();
}

std::vector<int64_t> value_shape(const Tensor& t) {
  std::vector<int64_t> sizes;
  for (const Dim& d : dims_of(t)) {
    std::optional<int64_t> size = value_of(d);
    expect(size.has_value(), "the size ", d, " in the shape ", t,
           " has no value; bind its variables");
    sizes.push_back(*size);
  }
  return sizes;
}

int64_t to_axis(int64_t axis, int64_t rank) {
  int64_t n = std::max<int64_t>(rank, 1);  // as PyTorch: a scalar has axis 0 and -1
  expect(axis >= -n && axis < n, "axis ", axis, " is out of range, expected ", -n, " to ", n - 1,
         " for a tensor with ", rank, " axes");
  return axis < 0 ? axis + n : axis;
}

std::vector<int64_t> to_axes(const Axes& axes, int64_t rank) {
  std::vector<int64_t> out;
  for (int64_t axis : axes.list) {
    out.push_back(to_axis(axis, rank));
    expect(std::count(out.begin(), out.end(), out.back()) == 1, "axis ", axis,
           " appears twice in the axes ", axes.list);
  }
  if (rank == 0) out.clear();
  return out;
}

std::vector<int64_t> to_axes_or_all(const Axes& axes, int64_t rank) {
  return axes.empty() ? range_of(rank) : to_axes(axes, rank);
}

std::vector<int64_t> range_of(int64_t n) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < n; ++i) out.push_back(i);
  return out;
}

Sizes::Sizes(std::initializer_list<Size> list) : list_(list) {}
Sizes::Sizes(const std::vector<int64_t>& list) : list_(list.begin(), list.end()) {}
Ints::Ints(std::initializer_list<int64_t> l) : list(l) {}
Floats::Floats(std::initializer_list<double> l) : list(l) {}

Sym::Sym(const Sym& o) : node_(counted(UOp(o.node_))) {}
Sym::~Sym() {
  if (!node_) return;
  InsideLibrary inside;
  if (!forked_amid_call()) Ref::adopt(node_);
}
Sym Sym::adopt(Node* node) {
  Sym s;
  s.node_ = node;
  return s;
}
int64_t Sym::lo() const { return node_->lo; }
int64_t Sym::hi() const { return node_->hi; }
std::string Sym::to_string() const { return text(Dim(UOp(node_))); }

Variable::Variable(const std::string& name, int64_t lo, int64_t hi, Loc where) {
  Call call("Variable", where);
  expect(lo <= hi, "'", name, "' has the empty range ", lo, " to ", hi);
  Sym::operator=(Sym::adopt(counted(prim::variable(name, lo, hi))));
}

Sym Variable::bind(int64_t value, Loc where) const {
  Call call("bind", where);
  const std::string& name = node()->arg.object->str;
  expect(value >= lo() && value <= hi(), "'", name, "' cannot be ", value, ", its range is ", lo(),
         " to ", hi());
  return Sym::adopt(counted(prim::bind(Ref(UOp(node())), value)));
}

Size operator+(const Size& a, const Size& b) {
  return sizes_op(
      a, b, [](const Dim& x, const Dim& y) { return x + y; }, "Size +");
}
Size operator-(const Size& a, const Size& b) {
  return sizes_op(
      a, b, [](const Dim& x, const Dim& y) { return x - y; }, "Size -");
}
Size operator*(const Size& a, const Size& b) {
  return sizes_op(
      a, b, [](const Dim& x, const Dim& y) { return x * y; }, "Size *");
}
Size operator/(const Size& a, const Size& b) {
  return sizes_op(
      a, b, [](const Dim& x, const Dim& y) { return x / y; }, "Size /");
}
Size operator%(const Size& a, const Size& b) {
  return sizes_op(
      a, b, [](const Dim& x, const Dim& y) { return x % y; }, "Size %");
}

}  // namespace mote
