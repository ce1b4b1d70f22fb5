// Rules are laws: instances are made from every rule's left side (and every commuted form of it),
// with values at the edges, and both sides must evaluate to the same bits.
#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "algebra/algebra.h"
#include "ir/eval.h"
#include "ir/print.h"
#include "lower/decompose.h"
#include "rewrite/matcher.h"
#include "test/amount.h"

using namespace mote;

TEST_SUITE_BEGIN("laws");

namespace {

uint64_t seed() { return test::seed_or(20240807); }

class Random {
 public:
  explicit Random(uint64_t start) : engine_(start) {}
  uint64_t bits() { return engine_(); }
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t lo, int64_t hi) {
    uint64_t width = static_cast<uint64_t>(hi) - static_cast<uint64_t>(lo) + 1;
    return static_cast<int64_t>(static_cast<uint64_t>(lo) +
                                (width ? engine_() % width : engine_()));
  }
  bool chance(int percent) { return below(100) < percent; }
  template <class T, size_t N>
  T pick(const T (&list)[N]) {
    return list[below(static_cast<int64_t>(N))];
  }

 private:
  std::mt19937_64 engine_;
};

constexpr DType kTypes[] = {DType::boolean, DType::u8,     DType::u16,    DType::u32,
                            DType::u64,     DType::i8,     DType::i16,    DType::i32,
                            DType::i64,     DType::f8e4m3, DType::f8e5m2, DType::bf16,
                            DType::f16,     DType::f32,    DType::f64,    DType::index};

// ---- Evaluation

// A value; Invalid is a value of indices, Any is what a comparison with Invalid gives, Beyond an
// index that 64 bits do not hold.
struct Value {
  enum State : uint8_t { Defined, Invalid, Any, Beyond } state = Defined;
  Scalar scalar;
};

Scalar random_scalar(Random& rng, DType d, int64_t lo, int64_t hi) {
  if (!is_float(d)) {
    int64_t v = rng.chance(50) ? rng.between(lo, hi) : rng.chance(50) ? lo : hi;
    return scalar(d, v);
  }
  static const double edges[] = {
      0.0,    -0.0,  1.0,   -1.0, 2.0,  0.5,      -3.0,      1e-40, -1e-310, 5e-324, 1.17549e-38,
      3.4e38, 1e308, 65504, 448,  1e-7, INFINITY, -INFINITY, NAN,   0.1,     -7.25,  100.0};
  double v = rng.chance(70) ? rng.pick(edges)
                            : std::ldexp(static_cast<double>(rng.between(-1000, 1000)),
                                         static_cast<int>(rng.between(-30, 30)));
  return scalar(d, round_to(d, v));
}

// Evaluates graphs of leaves and elementwise ops (and sums over ranges, and loads) for one random
// assignment of the leaves, which stays the same until `again`.
class Evaluator {
 public:
  explicit Evaluator(Random& rng) : rng_(rng) {}
  void again() { ++epoch_; }
  void fix(UOp leaf, int64_t v) {
    known(leaf);
    set(leaf, {Value::Defined, scalar(leaf->dtype, v)});
  }
  // Everything that depends on these ranges will be computed anew.
  void forget(std::span<const UOp> ranges) {
    uint64_t slots = 0;
    for (UOp r : ranges) slots |= r->ranges;
    for (Entry& e : entries_)
      if (e.ranges & slots) e.epoch = 0;
  }
  bool out_of_bounds = false;

  Value operator()(UOp root) {
    for (UOp n : toposort(root))
      if (!known(n)) set(n, compute(n));
    return entries_[root->id].value;
  }

 private:
  struct Entry {
    Value value;
    uint64_t epoch = 0, ranges = 0;
  };
  bool known(UOp n) {
    if (n->id >= entries_.size()) entries_.resize(n->id * 2 + 64);
    return entries_[n->id].epoch == epoch_;
  }
  void set(UOp n, const Value& v) { entries_[n->id] = {v, epoch_, n->ranges}; }

  Value compute(UOp n) {
    if (n->is(Op::Const)) return {Value::Defined, scalar_of(n)};
    if (n->is(Op::Invalid)) return {Value::Invalid, scalar(DType::index, int64_t{0})};
    if (n->is(Op::Var)) return {Value::Defined, random_scalar(rng_, n->dtype, n->lo, n->hi)};
    if (n->is(Op::Range)) {
      int64_t extent = entries_[n->src(0)->id].value.scalar.i;
      return {Value::Defined, random_scalar(rng_, n->dtype, 0, extent - 1)};
    }
    if (n->is(Op::Load)) return load(n);
    if (!has(n->op, Alu)) return {};
    return alu(n);
  }

  Value alu(UOp n) {
    Scalar src[3];
    Value::State worst = Value::Defined;
    for (uint32_t s = 0; s < n->nsrc; ++s) {
      const Value& v = entries_[n->src(s)->id].value;
      src[s] = v.scalar;
      if (!n->is(Op::Where)) worst = std::max(worst, v.state);
    }
    if (n->is(Op::Where)) {
      if (Value::State s = entries_[n->src(0)->id].value.state; s != Value::Defined)
        return {std::max(s, Value::Any), src[1]};
      return entries_[n->src(src[0].i ? 1 : 2)->id].value;
    }
    if (worst != Value::Defined && decides(n)) worst = Value::Defined;
    if (worst == Value::Invalid && n->dtype != DType::index) worst = Value::Any;
    if (n->dtype == DType::index && overflows(n->op, src[0].i, src[1].i)) worst = Value::Beyond;
    return {worst, eval(n->op, n->dtype, {src, n->nsrc})};
  }

  // false & anything is false, true | anything is true.
  bool decides(UOp n) {
    if (n->dtype != DType::boolean || (!n->is(Op::And) && !n->is(Op::Or))) return false;
    for (uint32_t s = 0; s < 2; ++s) {
      const Value& v = entries_[n->src(s)->id].value;
      if (v.state == Value::Defined && v.scalar.i == n->is(Op::Or)) return true;
    }
    return false;
  }

  // Index arithmetic is exact; values that do not fit and divisions by 0 say nothing.
  static bool overflows(Op op, int64_t a, int64_t b) {
    int64_t r;
    if (op == Op::Add) return __builtin_add_overflow(a, b, &r);
    if (op == Op::FloorDiv || op == Op::FloorMod) return b == 0;
    return op == Op::Mul && __builtin_mul_overflow(a, b, &r);
  }

  Value load(UOp n) {
    UOp place = n->src(0);
    const Value& at = entries_[place->src(1)->id].value;
    if (at.state == Value::Invalid) return {Value::Defined, scalar(n->dtype, int64_t{0})};
    int64_t size = place->src(0)->ints(1), i = at.scalar.i;
    if (at.state == Value::Defined && (i < 0 || i >= size)) out_of_bounds = true;
    int64_t v = (i * 7919 + 13 * place->src(0)->ints(0)) % 23 - 6;
    return {at.state, scalar(n->dtype, is_float(n->dtype) ? static_cast<double>(v) : v)};
  }

  Random& rng_;
  std::vector<Entry> entries_;
  uint64_t epoch_ = 1;
};

bool agrees(const Value& before, const Value& after) {
  if (before.state >= Value::Any || after.state == Value::Beyond) return true;
  if (before.state == Value::Invalid) return after.state == Value::Invalid;
  return after.state == Value::Defined && same_bits(before.scalar, after.scalar);
}

// ---- Random leaves and expressions

UOp raw(Op op, DType dtype, std::initializer_list<UOp> src) {
  Node* nodes[4];
  size_t n = 0;
  for (UOp s : src) nodes[n++] = s.get();
  return arena().make_raw({
      op, dtype, {nodes,     n},
        {         }
  });
}

UOp leaf_variable(const char* name, DType dtype, int64_t lo, int64_t hi) {
  int64_t ints[] = {lo, hi, 0, 0};
  return make(Op::Var, dtype, {}, Arg::of(intern_arg(ints, name)));
}

class Generator {
 public:
  explicit Generator(Random& rng) : rng_(rng) {}

  // A few variables with fresh intervals, shared by all leaves of an instance.
  void fresh() {
    static const char* names[] = {"p", "q", "r"};
    for (int v = 0; v < 3; ++v) {
      int64_t lo = rng_.chance(60) ? 0 : rng_.between(-20, 20);
      int64_t width = rng_.pick({0, 1, 2, 3, 4, 7, 8, 15, 31, 63, 100});
      if (rng_.chance(4)) lo = rng_.pick({-(1ll << 31), (1ll << 31) - 4, 1ll << 40, -(1ll << 40)});
      vars_[v] = rng_.chance(30) && lo == 0 ? range(v, ::mote::index(width + 1), Role::Loop)
                                            : leaf_variable(names[v], DType::index, lo, lo + width);
    }
  }

  int64_t small_constant() {
    if (rng_.chance(5)) return rng_.between(-2000, 2000);
    if (rng_.chance(2)) return rng_.pick({1ll << 31, -(1ll << 31), 1ll << 40});
    return rng_.chance(75) ? rng_.between(1, 16) : rng_.between(-12, 12);
  }

  UOp literal(DType d) {
    if (d == DType::index) return constant(d, small_constant());
    Scalar s =
        random_scalar(rng_, d, rng_.chance(70) ? std::max<int64_t>(row(d).lo, -5) : row(d).lo,
                      rng_.chance(70) ? std::min<int64_t>(row(d).hi, 5) : row(d).hi);
    return is_float(d) ? constant(d, s.f) : constant(d, s.i);
  }

  UOp leaf(DType d, int depth) {
    if (d == DType::index) return index(depth);
    if (d == DType::boolean) return condition(depth);
    static const char* names[] = {"a", "b", "c"};
    if (rng_.chance(12)) return literal(d);
    if (rng_.chance(8) && !is_float(d)) return raw(Op::Cast, d, {index(1)});
    int64_t lo = row(d).lo, hi = row(d).hi;
    if (d == DType::u64) lo = INT64_MIN;
    if (rng_.chance(25) && !is_float(d) && d != DType::u64) {
      lo = std::max<int64_t>(lo, -3);
      hi = 9;
    }
    return leaf_variable(rng_.pick(names), d, lo, hi);
  }

  UOp index(int depth) {
    if (depth <= 0 || rng_.chance(25))
      return rng_.chance(12) ? literal(DType::index) : vars_[rng_.below(3)];
    auto c = [&] { return literal(DType::index); };
    UOp a = index(depth - 1);
    switch (rng_.below(10)) {
      case 0:
      case 1:
      case 2: return raw(Op::Add, DType::index, {a, index(depth - 1)});
      case 3:
      case 4: return raw(Op::Mul, DType::index, {a, c()});
      case 5:
      case 6: return raw(Op::FloorDiv, DType::index, {a, c()});
      case 7:
      case 8: return raw(Op::FloorMod, DType::index, {a, c()});
      default:
        if (rng_.chance(50))
          return raw(rng_.chance(50) ? Op::Max : Op::Min, DType::index, {a, c()});
        return raw(Op::Where, DType::index, {condition(depth - 1), a, index(depth - 1)});
    }
  }

  // Any elementwise expression of the dtype.
  UOp value(DType d, int depth) {
    if (d == DType::index) return index(depth);
    if (depth <= 0 || rng_.chance(15)) return leaf(d, 1);
    auto sub = [&] { return value(d, depth - 1); };
    switch (rng_.below(8)) {
      case 0: return raw(Op::Where, d, {value(DType::boolean, depth - 1), sub(), sub()});
      case 1: return raw(Op::Cast, d, {value(rng_.pick(kTypes), depth - 1)});
      case 2: return raw(rng_.chance(50) ? Op::Max : Op::Min, d, {sub(), sub()});
      case 3:
        if (d == DType::boolean) break;
        return raw(Op::Neg, d, {sub()});
      default: break;
    }
    if (d == DType::boolean && rng_.chance(60)) {
      DType other = rng_.pick(kTypes);
      return raw(rng_.chance(50) ? Op::Lt : Op::Eq, d,
                 {value(other, depth - 1), value(other, depth - 1)});
    }
    if (d == DType::boolean) return raw(rng_.pick({Op::And, Op::Or, Op::Xor}), d, {sub(), sub()});
    if (is_float(d)) return raw(rng_.pick({Op::Add, Op::Mul, Op::Div}), d, {sub(), sub()});
    UOp right = rng_.chance(40) ? literal(d) : sub();
    return raw(rng_.pick({Op::Add, Op::Add, Op::Mul, Op::Mul, Op::IDiv, Op::IMod, Op::And, Op::Or,
                          Op::Xor, Op::Shl, Op::Shr}),
               d, {sub(), right});
  }

  UOp condition(int depth) {
    if (depth <= 0 || rng_.chance(15))
      return leaf_variable(rng_.chance(50) ? "s" : "t", DType::boolean, 0, 1);
    switch (rng_.below(6)) {
      case 0: return raw(Op::And, DType::boolean, {condition(depth - 1), condition(depth - 1)});
      case 1: return raw(Op::Or, DType::boolean, {condition(depth - 1), condition(depth - 1)});
      case 2: return raw(Op::Xor, DType::boolean, {condition(depth - 1), truth(true)});
      case 3: return raw(Op::Eq, DType::boolean, {index(depth - 1), index(depth - 1)});
      default: {
        UOp right =
            rng_.chance(70) ? constant(DType::index, rng_.between(-5, 20)) : index(depth - 1);
        return raw(Op::Lt, DType::boolean, {index(depth - 1), right});
      }
    }
  }

 private:
  Random& rng_;
  UOp vars_[3];
};

// ---- Instances of a left side

class Instance {
 public:
  Instance(Random& rng, const Pat& left)
      : rng_(rng), generate_(rng), left_(left), types_(infer_dtypes(left)) {}
  UOp operator()() {
    generate_.fresh();
    bound_ = {};
    at_ = 0;
    DType d = any_of(types_[0]);
    return d == DType::none ? UOp() : node(d);
  }

 private:
  DType any_of(DTypes set) {
    for (int tries = 0; tries < 200; ++tries) {
      DType d = rng_.pick(kTypes);
      if (set >> static_cast<int>(d) & 1) return d;
    }
    return DType::none;
  }

  UOp node(DType d) {
    const int pos = at_++;
    const PatNode& n = left_[pos];
    if (n.kind == PatNode::Number) return constant(d, n.value);
    if (n.kind != PatNode::Node) {
      UOp& b = bound_[n.var];
      if (!b) b = n.kind == PatNode::Constant ? generate_.literal(d) : generate_.leaf(d, 2);
      return b->dtype == d ? b : UOp();
    }
    if (n.op == Op::Invalid) return invalid();
    DType inner = d;
    if (has(n.op, Compares) || n.op == Op::Cast) inner = any_of(types_[static_cast<size_t>(at_)]);
    Node* src[4];
    for (int s = 0; s < n.nsrc; ++s) {
      UOp u = node(n.op == Op::Where && s == 0 ? DType::boolean : inner);
      if (!u) return {};
      src[s] = u.get();
    }
    return arena().make_raw({
        n.op, d, {src,         n.nsrc},
          {           }
    });
  }

  Random& rng_;
  Generator generate_;
  Pat left_;
  std::array<DTypes, kPatNodes> types_;
  std::array<UOp, kVariables> bound_;
  int at_ = 0;
};

struct Tally {
  uint64_t fired = 0, tried = 0, wrong = 0;
};

// Fires one form of a rule `wanted` times; prints the first instance that is not a law.
Tally fuzz_form(const Matcher& matcher, int form, uint64_t wanted, Random& rng, void* context) {
  const Form& f = matcher.forms()[static_cast<size_t>(form)];
  Instance make_instance(rng, f.left);
  Evaluator evaluate(rng);
  Tally t;
  while (t.fired < wanted && t.tried < wanted * 100 + 20000 && !t.wrong) {
    if (t.tried++ % 512 == 0) arena().reset();
    UOp before = make_instance();
    if (!before) continue;
    UOp after = matcher.apply_form(form, before.get(), context);
    if (!after) continue;
    ++t.fired;
    for (int k = 0; k < 2; ++k) {
      evaluate.again();
      Value a = evaluate(before), b = evaluate(after);
      if (agrees(a, b)) continue;
      ++t.wrong;
      MESSAGE(text_of(*f.rule), "\n", print(before), "became\n", print(after));
      break;
    }
  }
  return t;
}

// Curves are right to an ulp, not to the bit, and a MulAdd without its instruction may round twice;
// a fold over ranges is no expression of leaves.
bool is_exact(const Form& f) {
  const PatNode& root = f.left[0];
  return !has(root.op, Curve) && root.op != Op::MulAdd && !root.more;
}

void fuzz_rules(const RuleSet& set, uint64_t total, void* context = nullptr) {
  Arena scratch;
  ArenaScope scope(scratch);
  const Matcher& matcher = set.matcher();
  const size_t forms = matcher.forms().size();
  const double least = test::scaled(1000.0);
  const uint64_t each = std::max(static_cast<uint64_t>(least), total / forms) + 1;
  uint64_t fired = 0;
  for (size_t form = 0; form < forms; ++form) {
    const Form& f = matcher.forms()[form];
    if (!is_exact(f)) continue;
    Random rng(seed() + form);
    Tally t = fuzz_form(matcher, static_cast<int>(form), each, rng, context);
    fired += t.fired;
    CHECK_MESSAGE(t.wrong == 0, "form ", form, " of ", text_of(*f.rule));
    CHECK_MESSAGE(static_cast<double>(t.fired) >= least, t.fired, " firings in ", t.tried,
                  " tries of ", text_of(*f.rule), " as ", text_of(f.left));
  }
  std::printf("laws: %s: %zu rules, %zu forms, %llu firings\n", set.name(), set.rules().size(),
              forms, static_cast<unsigned long long>(fired));
}

}  // namespace

TEST_CASE("every rule keeps every value") {
  auto start = std::chrono::steady_clock::now();
  fuzz_rules(simplify_rules, test::scaled<uint64_t>(1'050'000));
  Target target;
  fuzz_rules(expansion_rules, 0, &target);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("laws: seed %llu, %.1f s of 30 s\n", static_cast<unsigned long long>(seed()),
              seconds);
}

TEST_CASE("simplify keeps every value of random expressions") {
  Arena scratch;
  ArenaScope scope(scratch);
  Random rng(seed() + 7);
  Generator generate(rng);
  Evaluator evaluate(rng);
  const int rounds = test::scaled(60'000);
  for (int k = 0; k < rounds; ++k) {
    if (k % 256 == 0) arena().reset();
    generate.fresh();
    UOp before;
    if (k % 4 == 0)
      before = generate.condition(4);
    else if (k % 4 == 1)
      before = generate.index(5);
    else if (k % 4 == 2)
      before = generate.value(rng.pick(kTypes), 5);
    else
      before = raw(Op::Where, DType::index, {generate.condition(3), generate.index(4), invalid()});
    UOp after = simplify(before);
    REQUIRE_MESSAGE(simplify(after) == after, print(after));
    for (int e = 0; e < 4; ++e) {
      evaluate.again();
      Value a = evaluate(before), b = evaluate(after);
      REQUIRE_MESSAGE(agrees(a, b), "round ", k, "\n", print(before), "became\n", print(after));
    }
  }
}

namespace {

// The sum over ranges by running them, integers only.
Value run_sum(UOp reduce, Evaluator& evaluate) {
  Scalar total = scalar(reduce->dtype, int64_t{0});
  std::vector<UOp> ranges;
  for (uint32_t s = 1; s < reduce->nsrc; ++s) ranges.push_back(reduce->src(s));
  std::vector<int64_t> at(ranges.size(), 0);
  for (size_t done = 0; done < ranges.size();) {
    evaluate.forget(ranges);
    for (size_t r = 0; r < ranges.size(); ++r) evaluate.fix(ranges[r], at[r]);
    Value v = evaluate(reduce->src(0));
    if (v.state != Value::Defined) return v;
    Scalar two[] = {total, v.scalar};
    total = eval(Op::Add, reduce->dtype, two);
    for (done = 0; done < ranges.size() && ++at[done] == ranges[done]->src(0)->arg.i;)
      at[done++] = 0;
  }
  return {Value::Defined, total};
}

}  // namespace

TEST_CASE("collapsed sums equal the sums, and read only inside memory") {
  Arena scratch;
  ArenaScope scope(scratch);
  Random rng(seed() + 11);
  Evaluator evaluate(rng);
  const int rounds = test::scaled(4'000);
  int collapsed = 0;
  for (int k = 0; k < rounds; ++k) {
    if (k % 64 == 0) arena().reset();
    int64_t n = rng.between(1, 9), m = rng.between(1, 5);
    UOp r = range(0, index(n), Role::Reduce), q = range(1, index(m), Role::Reduce);
    UOp o = range(2, index(rng.between(1, 7)), Role::Loop);
    UOp read_id =
        make(Op::Load, DType::i32, {make(Op::Index, DType::i32, {param(1, DType::i32, 16), o})});
    UOp at =
        rng.chance(50) ? cast(read_id, DType::index) : o * rng.between(-2, 3) + rng.between(-3, 4);
    UOp flat = rng.chance(50) ? r : rng.chance(50) ? r * m + q : q * n + r;
    int64_t size = flat == r ? n : n * m;
    UOp position = flat + o * size;
    UOp memory = param(0, DType::i32, size * 8);
    UOp value = rng.chance(60)
                    ? make(Op::Load, DType::i32, {make(Op::Index, DType::i32, {memory, position})})
                    : constant(DType::i32, rng.between(-4, 4));
    UOp zero = constant(DType::i32, 0);
    UOp mask = rng.chance(60)   ? eq(flat, at)
               : rng.chance(50) ? lt(flat * rng.between(1, 3), at)
                                : ge(flat, at) & lt(flat, o + 3);
    if (rng.chance(30)) mask = mask & lt(o, index(3));
    if (rng.chance(20)) mask = mask & lt(r, index(rng.between(1, 8)));
    if (rng.chance(20)) value = value * cast(o + 1, DType::i32);
    UOp body = where(mask, value, rng.chance(85) ? zero : constant(DType::i32, 2));
    UOp ranges[] = {r, q};
    UOp before = reduce_over(Op::Add, body, std::span<const UOp>(ranges, rng.chance(70) ? 2 : 1));
    if (before->nsrc == 2 && (body->ranges >> 1 & 1)) continue;
    UOp after = collapse_reduces(before);
    bool closed = true;
    for (UOp u : toposort(after)) closed &= !u->is(Op::Reduce);
    if (!closed) continue;
    ++collapsed;
    for (int e = 0; e < 3; ++e) {
      evaluate.again();
      evaluate.fix(o, rng.below(o->src(0)->arg.i));
      Value b = evaluate(after);
      Value a = run_sum(before, evaluate);
      REQUIRE_MESSAGE(agrees(a, b), "round ", k, "\n", print(before), "became\n", print(after));
      REQUIRE_MESSAGE(!evaluate.out_of_bounds, "round ", k, "\n", print(after));
    }
  }
  CHECK(collapsed * 4 > rounds);
  std::printf("laws: %d of %d sums collapsed\n", collapsed, rounds);
}

TEST_SUITE_END();
