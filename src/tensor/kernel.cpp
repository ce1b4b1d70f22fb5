// Expressions over indices as tensor programs: each index is a loop, each loop an axis. The axes of
// the result come last, those of folds before them, the innermost first: broadcasting is then what
// an expression means that does not use an index.
#include <mote/kernel.h>

#include <algorithm>
#include <unordered_map>

#include "tensor/gather.h"

namespace mote {

// The expression that this thread is asking for.
struct KernelScope {
  static thread_local KernelScope* open;
  const char* name;
  uint8_t device;
  std::vector<Dim> loops;    // by axis, from the last
  std::vector<Tensor> made;  // by reads, indices and folds: what else has loops is made of these
  KernelScope* before = std::exchange(open, this);

  KernelScope(const char* n, uint8_t d) : name(n), device(d) {}
  KernelScope(const KernelScope&) = delete;
  ~KernelScope() { open = before; }

  template <class... A>
  [[noreturn]] void wrong(const A&... parts) const {
    fail(ErrorKind::User, text("[", name, "] ", parts...));
  }
  static KernelScope& current(const char* what) {
    if (!open) fail(ErrorKind::User, text("[", what, "] is for the expression of a custom_kernel"));
    return *open;
  }
  Tensor keep(Tensor t) { return made.emplace_back(std::move(t)); }

  Position loop(size_t number);
  Position of(Tensor at, bool computed) const;
  Position join(Op op, const Position& a, const Position& b) const;
  Tensor compare(Op op, const Position& a, const Position& b);
  Tensor number(const Position& a, DType dtype);
  Tensor place(const Input& in, size_t axis, const Position& at, bool or_zero) const;
  Tensor read(const Input& in, const Indices& at, bool or_zero);
  void check_elements(const Tensor& value, const char* what) const;
  Tensor fold(const char* what, const Size& n, const KernelTerm& term,
              Tensor (*all)(const Tensor& t));
  Tensor run(const std::vector<Tensor>& inputs, const KernelExpression& f);
};
thread_local KernelScope* KernelScope::open = nullptr;

// ---- indices

Position KernelScope::of(Tensor at, bool computed) const {
  Position out(0);
  out.at_ = std::move(at), out.computed_ = computed, out.is_number_ = false;
  return out;
}

Position KernelScope::loop(size_t number) {
  std::vector<Dim> dims(number + 1, Dim(1));
  dims[0] = loops[number];
  Position out =
      of(keep(make_value(prim::reshape(prim::iota(loops[number]), dims), device)), false);
  out.loop_ = static_cast<int64_t>(number);
  return out;
}

Position::Position(Whole n) {
  const KernelScope& s = KernelScope::current("Position");
  at_ = make_value(prim::constant(DType::index, n.n), s.device);
  plus_ = n.n, is_number_ = true;
}

Position::Position(const Tensor& computed) : computed_(true) {
  const KernelScope& s = KernelScope::current("Position");
  if (!computed.defined() || !is_int(computed.dtype()))
    s.wrong("a position is an element of a tensor of integers",
            computed.defined() ? text(", got one of ", computed.dtype()) : "");
  s.check_elements(computed, "a position");
  at_ = make_value(prim::cast(node_of(computed), DType::index), computed);
}

Position KernelScope::join(Op op, const Position& a, const Position& b) const {
  return of(elementwise(op, {a.at_, b.at_}, DType::index), a.computed_ || b.computed_);
}
Tensor KernelScope::compare(Op op, const Position& a, const Position& b) {
  return keep(elementwise(op, {a.at_, b.at_}, DType::index));
}
Tensor KernelScope::number(const Position& a, DType dtype) {
  return keep(make_value(prim::cast(node_of(a.at_), dtype), a.at_));
}

Tensor Position::to(DType dtype) const {
  return KernelScope::current("Position").number(*this, dtype);
}

static Position join(Op op, const Position& a, const Position& b) {
  return KernelScope::current("Position").join(op, a, b);
}
static Tensor compare(Op op, const Position& a, const Position& b) {
  return KernelScope::current("Position").compare(op, a, b);
}
Position operator+(const Position& a, const Position& b) {
  Position sum = join(Op::Add, a, b);
  const Position& moved = a.is_number_ ? b : a;
  if (a.is_number_ || b.is_number_) {
    sum.loop_ = moved.loop_, sum.is_number_ = moved.is_number_;
    sum.plus_ = size_add(a.plus_, b.plus_);
  }
  return sum;
}
Position operator-(const Position& a, const Position& b) {
  return b.is_number_ ? a + Position(size_mul(b.plus_, -1)) : a + b * Position(-1);
}
Position operator*(const Position& a, const Position& b) {
  if (a.is_number_ && b.is_number_) return Position(size_mul(a.plus_, b.plus_));
  return join(Op::Mul, a, b);
}
Position operator/(const Position& a, const Position& b) { return join(Op::FloorDiv, a, b); }
Position operator%(const Position& a, const Position& b) { return join(Op::FloorMod, a, b); }
Tensor operator<(const Position& a, const Position& b) { return compare(Op::Lt, a, b); }
Tensor operator>(const Position& a, const Position& b) { return b < a; }
Tensor operator<=(const Position& a, const Position& b) { return (b < a).logical_not(); }
Tensor operator>=(const Position& a, const Position& b) { return (a < b).logical_not(); }
Tensor operator==(const Position& a, const Position& b) { return compare(Op::Eq, a, b); }
Tensor operator!=(const Position& a, const Position& b) { return (a == b).logical_not(); }

// ---- reads

int64_t Input::dim() const { return tensor_.dim(); }
DType Input::dtype() const { return tensor_.dtype(); }
Size Input::size(int64_t axis) const {
  return to_size(dims_of(tensor_)[static_cast<size_t>(to_axis(axis, tensor_.dim()))]);
}

// The position on an axis of the input, inside of it or (or_zero) also where there is nothing.
Tensor KernelScope::place(const Input& in, size_t axis, const Position& at, bool or_zero) const {
  const Dim& size = dims_of(in.tensor_)[axis];
  const UOp node = node_of(at.at_);
  const bool inside = node->lo >= 0 && node->hi < least(size);
  const bool is_whole =
      at.loop_ >= 0 && at.plus_ == 0 && loops[static_cast<size_t>(at.loop_)] == size;
  if (or_zero || inside || is_whole) return at.at_;
  if (!at.computed_)
    wrong("axis ", axis, " of input ", in.number_, ", of shape ", in.tensor_,
          ", is read at positions from ", node->lo, " to ", node->hi,
          ": or_zero() reads 0 where there is nothing");
  Tensor seen = make_value(prim::cast(Ref(node), DType::i64), at.at_);
  return as_positions(checked_index(seen, size), size);
}

// Axes read by a loop of their own are that loop's axis; the others come last and are picked from.
Tensor KernelScope::read(const Input& in, const Indices& at, bool or_zero) {
  const Tensor& x = in.tensor_;
  const size_t rank = static_cast<size_t>(x.dim());
  if (at.size() != rank)
    wrong("input ", in.number_, ", of shape ", x, ", is read with ", at.size(), " positions");
  std::vector<int64_t> axis_of(loops.size(), -1), order, picked;
  std::vector<prim::Extent> around, bounds;
  std::vector<Tensor> places;
  for (size_t a = 0; a < rank; ++a) {
    const Dim& size = dims_of(x)[a];
    around.push_back({0, 0}), bounds.push_back({0, size});
    Tensor there = place(in, a, at[a], or_zero);
    const bool is_loop = at[a].loop_ >= 0;
    const size_t loop = is_loop ? static_cast<size_t>(at[a].loop_) : 0;
    const bool has_numbers = is_loop && !size.is_symbolic() && !loops[loop].is_symbolic();
    const bool is_whole = is_loop && at[a].plus_ == 0 && loops[loop] == size;
    if ((!has_numbers && !is_whole) || axis_of[loop] >= 0) {
      picked.push_back(static_cast<int64_t>(a));
      places.push_back(there);
      continue;
    }
    axis_of[loop] = static_cast<int64_t>(a);
    if (is_whole) continue;
    const int64_t first = at[a].plus_, last = size_add(first, loops[loop].size);
    const int64_t front = std::max<int64_t>(0, -first),
                  behind = std::max<int64_t>(0, last - size.size);
    around[a] = {front, behind}, bounds[a] = {first + front, last + front};
  }
  std::vector<Dim> dims;
  for (size_t l = loops.size(); l-- > 0;) {
    dims.push_back(axis_of[l] < 0 ? Dim(1) : loops[l]);
    if (axis_of[l] >= 0) order.push_back(axis_of[l]);
  }
  for (int64_t a : picked) {
    order.push_back(a);
    dims.push_back(dims_of(x)[static_cast<size_t>(a)]);
  }
  Ref node = prim::permute(prim::shrink(prim::pad(node_of(x), around), bounds), order);
  Tensor y = make_value(prim::reshape(node, dims), x);
  for (size_t p = places.size(); p-- > 0;) {
    std::vector<Dim> wide(loops.size() + p + 1, Dim(1));
    const std::vector<Dim>& own = dims_of(places[p]);
    std::copy(own.begin(), own.end(),
              wide.begin() + static_cast<std::ptrdiff_t>(loops.size() - own.size()));
    y = pick_last(y, reshaped(places[p], wide));
  }
  return keep(y);
}

Tensor Input::read(const Indices& at, bool or_zero) const {
  return KernelScope::current("Input").read(*this, at, or_zero);
}

// ---- values

// Whether each element of n is made of those of its sources at the same indices.
static bool keeps_elements(UOp n) {
  auto front = [](UOp u) {  // without leading axes of one element
    std::span<const Dim> dims = u->shape->dims;
    while (!dims.empty() && dims[0] == Dim(1)) dims = dims.subspan(1);
    return dims;
  };
  if (n->is(Op::Reshape)) return std::ranges::equal(front(n), front(n->src(0)));
  return has(n->op, Alu) || OpSet{Op::Const, Op::Expand, Op::Given, Op::Detach}.has(n->op);
}

// Made of single elements: no axis was folded, moved or cut but by what the expression asked for.
void KernelScope::check_elements(const Tensor& value, const char* what) const {
  if (!value.defined()) wrong(what, " is undefined");
  if (static_cast<size_t>(value.dim()) > loops.size())
    wrong(what, " uses the index of a sum outside of it, or has axes of its own: shape ", value);
  enum Kind : uint8_t { Other, Same, Element };  // Same: one number for all indices
  std::unordered_map<const Node*, Kind> kinds;
  for (const Tensor& t : made) kinds.emplace(node_of(t).get(), Element);
  auto is_new = [&](UOp n) { return !kinds.contains(n.get()); };
  const Ref root = node_of(value);
  for (UOp n : toposort(std::vector<UOp>{root}, is_new)) {
    if (!is_new(n)) continue;
    bool uses = false, fits = keeps_elements(n);
    for (Node* s : n->src()) {
      uses |= kinds.at(s) == Element;
      fits &= kinds.at(s) != Other;
    }
    const bool one = n->shape && n->shape->count() <= 1;  // 0: a rule of custom_function
    if ((uses && !fits) || (n == root && !fits && !one))
      wrong(what, " is made of more than single elements (", mote::name(n->op), " of shape ",
            *n->shape, "): tensors are read as inputs, and folded by sum_over and the like");
    kinds.emplace(n.get(), uses ? Element : fits || one ? Same : Other);
  }
}

Tensor KernelScope::fold(const char* what, const Size& n, const KernelTerm& term,
                         Tensor (*all)(const Tensor& t)) {
  loops.push_back(to_dim(n));
  Tensor t = term(loop(loops.size() - 1));
  check_elements(t, what);
  std::vector<Dim> dims = dims_of(t);
  dims.insert(dims.begin(), loops.size() - dims.size(), Dim(1));
  dims[0] = loops.back();
  loops.pop_back();
  return keep(all(broadcast_tensor(t, dims)));
}

static Tensor folded(const char* what, const Size& n, const KernelTerm& term,
                     Tensor (*all)(const Tensor& t)) {
  return KernelScope::current(what).fold(what, n, term, all);
}
Tensor sum_over(const Size& n, const KernelTerm& term) {
  return folded("sum_over", n, term, [](const Tensor& t) { return t.sum(Axes{0}); });
}
Tensor prod_over(const Size& n, const KernelTerm& term) {
  return folded("prod_over", n, term, [](const Tensor& t) { return t.prod(0); });
}
Tensor max_over(const Size& n, const KernelTerm& term) {
  return folded("max_over", n, term, [](const Tensor& t) { return t.amax(Axes{0}); });
}
Tensor min_over(const Size& n, const KernelTerm& term) {
  return folded("min_over", n, term, [](const Tensor& t) { return t.amin(Axes{0}); });
}

Tensor KernelScope::run(const std::vector<Tensor>& inputs, const KernelExpression& f) {
  Inputs in;
  for (const Tensor& t : inputs) {
    Input& next = in.emplace_back();
    next.tensor_ = t, next.number_ = in.size() - 1;
  }
  Indices at;
  for (size_t i = loops.size(); i-- > 0;) at.push_back(loop(i));
  Tensor value = f(at, in);
  check_elements(value, "the result");
  std::vector<Dim> shape(loops.rbegin(), loops.rend());
  if (!can_expand(dims_of(value), shape)) wrong("the result has shape ", value);
  return broadcast_tensor(value, shape);
}

Tensor custom_kernel(const std::string& name, const Sizes& shape, const std::vector<Tensor>& inputs,
                     const KernelExpression& f, Loc where) {
  const char* kept = intern_arg({}, name)->str.c_str();
  ProgramCall call(kept, where);
  uint8_t device = kDefaultDevice;
  for (size_t i = 0; i < inputs.size(); ++i) {
    expect(inputs[i].defined(), "input ", i, " is undefined");
    common_device({&inputs[0], &inputs[i]});
    device = inputs[0].impl()->device;
  }
  KernelScope scope(kept, device);
  scope.loops = to_dims(shape);
  std::ranges::reverse(scope.loops);
  return scope.run(inputs, f);
}

}  // namespace mote
