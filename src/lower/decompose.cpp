#include "lower/decompose.h"

#include <bit>
#include <cmath>

#include "base/lifetime.h"
#include "ir/eval.h"
#include "lower/lower.h"

namespace mote {

namespace {

UOp zero(DType d) { return constant(d, 0); }

bool is_power_of_two(UOp u) {
  return is_const(u) && u->dtype != DType::u64 && u->arg.i > 0 &&
         std::has_single_bit(static_cast<uint64_t>(u->arg.i));
}
int log2_of(UOp u) { return std::countr_zero(static_cast<uint64_t>(u->arg.i)); }

// What is known of u's value; u64 nodes carry no interval of their own.
struct Known {
  int64_t lo, hi;
};
Known known(UOp u) {
  if (u->dtype != DType::u64) return {u->lo, u->hi};
  if (is_const(u) && u->arg.i >= 0) return {u->arg.i, u->arg.i};
  if (u->is(Op::Cast) && is_int(u->src(0)->dtype) && u->src(0)->dtype != DType::u64 &&
      u->src(0)->lo >= 0)
    return {u->src(0)->lo, u->src(0)->hi};
  if (u->is(Op::And) && is_const(u->src(1)) && u->src(1)->arg.i >= 0) return {0, u->src(1)->arg.i};
  return {INT64_MIN, INT64_MAX};
}

bool is_zero_possible(UOp u) {
  if (is_const(u)) return u->arg.i == 0;
  return !(known(u).lo > 0 || known(u).hi < 0);
}

// Float to int: bounds first, so that the plain cast is always in range.
UOp saturate(UOp x, DType to) {
  const DType d = x->dtype;
  auto number = [&](double v) { return constant(d, v); };
  const int bits = row(to).bits - (is_signed(to) ? 1 : 0);
  const double end = std::ldexp(1.0, bits);  // the first integer that does not fit
  const double lo = is_signed(to) ? -end : 0.0;
  const int precision = d == DType::f64 ? 53 : 24;
  x = where(lt(x, number(lo)), number(lo), x);
  if (bits <= precision) {
    UOp inside = where(lt(number(end - 1), x), number(end - 1), x);
    return cast(where(eq(x, x), inside, number(0)), to);
  }
  UOp inside = where(lt(x, number(end)), x, number(0));  // also takes NaN to 0
  UOp most = constant(to, to == DType::u64 ? int64_t{-1} : row(to).hi);
  UOp last = number(end - std::ldexp(end, -precision));
  return where(lt(last, x), most, cast(inside, to));
}

UOp rotate_left(UOp x, int by) { return shift_left(x, by) | shift_right(x, 32 - by); }

UOp truncating(Op op, UOp a, UOp b) {
  if (is_power_of_two(b) && a->lo >= 0 && a->dtype != DType::u64) {
    if (op == Op::IDiv) return shift_right(a, log2_of(b));
    return a & constant(a->dtype, b->arg.i - 1);
  }
  return binary(op, a, b);
}

// The floor of a / b for b > 0.
UOp floor_by_positive(Op op, UOp a, UOp b) {
  const bool divide = op == Op::FloorDiv;
  if (is_power_of_two(b) && is_signed(a->dtype))
    return divide ? shift_right(a, log2_of(b)) : a & constant(a->dtype, b->arg.i - 1);
  const Op truncated = divide ? Op::IDiv : Op::IMod;
  if (known(a).lo >= 0 || !is_signed(a->dtype)) return truncating(truncated, a, b);
  constexpr int64_t far = int64_t{1} << 61;
  if (a->dtype == DType::index && is_const(b) && a->lo > -far && a->hi < far && b->arg.i < far) {
    // Moved up by a multiple of b, a is not negative.
    const int64_t times = -(a->lo / b->arg.i) + 1;
    UOp q = binary(truncated, a + times * b->arg.i, b);
    return divide ? q + -times : q;
  }
  if (divide) return binary(Op::IDiv, where(lt(a, zero(a->dtype)), a - b + 1, a), b);
  UOp r = binary(Op::IMod, a, b);
  return where(lt(r, zero(a->dtype)), r + b, r);
}

// Through f64, where the product is exact. The sum is rounded to odd: its last bit says whether
// anything was lost, so that rounding it again gives what rounding once would have given.
UOp fuse_in_double(UOp a, UOp b, UOp c) {
  auto wide = [](UOp x) { return cast(x, DType::f64); };
  UOp product = wide(a) * wide(b), addend = wide(c), sum = product + addend;
  UOp part = sum - product;
  UOp lost = (product - (sum - part)) + (addend - part);
  UOp none = constant(DType::f64, 0.0), bits = make(Op::Bitcast, DType::i64, {sum});
  UOp even = eq(bits & constant(DType::i64, 1), zero(DType::i64));
  UOp inexact = lt(none, lost) | lt(lost, none);  // false for NaN: a sum that is not finite stays
  UOp outwards = eq(lt(none, lost), lt(none, sum));
  UOp step = where(outwards, constant(DType::i64, 1), constant(DType::i64, -1));
  UOp odd = make(Op::Bitcast, DType::f64, {bits + where(even & inexact, step, zero(DType::i64))});
  return cast(odd, DType::f32);
}

}  // namespace

UOp decompose_mul_add(UOp a, UOp b, UOp c, const Target& target) {
  const bool native = is_float(a->dtype) && row(a->dtype).bits >= 32;
  if (target.fma && native) return {};
  if (!target.has(DType::f64) || a->dtype == DType::f64) return a * b + c;
  if (a->dtype == DType::f32) return fuse_in_double(a, b, c);
  auto wide = [](UOp x) { return cast(x, DType::f64); };  // exact but for the one sum
  return cast(wide(a) * wide(b) + wide(c), a->dtype);
}

UOp decompose_threefry(UOp counter, UOp key) {
  static constexpr int rotations[2][4] = {
      {13, 15, 26, 6 },
      {17, 29, 16, 24}
  };
  auto low = [](UOp x) { return cast(x, DType::u32); };
  auto high = [](UOp x) { return cast(shift_right(x, 32), DType::u32); };
  auto mixed = [](UOp a, UOp b) { return binary(Op::Xor, a, b); };
  UOp keys[3] = {low(key), high(key), {}};
  keys[2] = mixed(mixed(keys[0], keys[1]), constant(DType::u32, 0x1BD11BDA));
  UOp x0 = low(counter) + keys[0], x1 = high(counter) + keys[1];
  for (int i = 0; i < 5; ++i) {
    for (int r : rotations[i % 2]) {
      x0 = x0 + x1;
      x1 = mixed(rotate_left(x1, r), x0);
    }
    x0 = x0 + keys[(i + 1) % 3];
    x1 = x1 + (keys[(i + 2) % 3] + (i + 1));
  }
  return shift_left(cast(x1, DType::u64), 32) | cast(x0, DType::u64);
}

UOp decompose_cast(UOp x, DType to) {
  const DType from = x->dtype;
  if (to == DType::boolean) return ne(x, zero_like(x));
  if (is_float(from) && is_int(to)) {
    if (row(from).bits < 32) return saturate(cast(x, DType::f32), to);
    return saturate(x, to);
  }
  if (is_int(from) && is_float(to) && row(to).bits < 32) return cast(cast(x, DType::f32), to);
  return {};
}

UOp decompose_divide(Op op, UOp a, UOp b) {
  const DType d = a->dtype;
  if (b->is_const(0)) return zero(d);
  const Known kb = known(b);
  const bool zero_possible = is_zero_possible(b);
  const bool wraps = is_signed(d) && kb.lo <= -1 && kb.hi >= -1 && a->lo == row(d).lo;
  if (!zero_possible && !wraps) return truncating(op, a, b);
  UOp by_zero = zero_possible ? eq(b, zero(d)) : truth(false);
  UOp by_minus = wraps ? eq(b, constant(d, -1)) : truth(false);
  // By 1 the remainder is 0, which is also what the two exceptions give.
  UOp q = binary(op, a, where(by_zero | by_minus, constant(d, 1), b));
  if (op == Op::IMod) return q;
  if (wraps) q = where(by_minus, -a, q);
  return where(by_zero, zero(d), q);
}

UOp decompose_floor(Op op, UOp a, UOp b) {
  const DType d = a->dtype;
  const Known kb = known(b);
  if (kb.lo > 0 || !is_signed(d)) return floor_by_positive(op, a, b);
  if (kb.hi < 0) {
    UOp r = floor_by_positive(op, -a, -b);
    return op == Op::FloorDiv ? r : -r;
  }
  UOp r = binary(Op::IMod, a, b);
  UOp differ = binary(Op::Xor, lt(r, zero(d)), lt(b, zero(d))) & ne(r, zero(d));
  if (op == Op::FloorMod) return where(differ, r + b, r);
  return binary(Op::IDiv, a, b) + where(differ, constant(d, -1), zero(d));
}

UOp decompose_shift(Op op, UOp a, UOp b) {
  const DType d = a->dtype;
  const int bits = row(d).bits;
  if (d == DType::boolean) return where(b, truth(false), a);
  const Known kb = known(b);
  if (kb.lo >= 0 && kb.hi < bits) return {};
  UOp fits = lt(cast(b, bits_type(bits)), constant(bits_type(bits), bits));
  if (op == Op::Shr && is_signed(d)) return binary(op, a, where(fits, b, constant(d, bits - 1)));
  return where(fits, binary(op, a, b & constant(d, bits - 1)), zero(d));
}

namespace {

const Target& target_of(const Match& m) { return *static_cast<const Target*>(m.context); }

UOp expand_curve(const Match& m) {
  if (target_of(m).native.has(m.root->op)) return {};
  return decompose_curve(m.root->op, m.root->src(0), target_of(m));
}
UOp expand_mul_add(const Match& m) {
  const Node& n = *m.root;
  return decompose_mul_add(n.src(0), n.src(1), n.src(2), target_of(m));
}
UOp expand_threefry(const Match& m) { return decompose_threefry(m.root->src(0), m.root->src(1)); }
UOp expand_cast(const Match& m) { return decompose_cast(m.root->src(0), m.root->dtype); }
UOp expand_divide(const Match& m) {
  return decompose_divide(m.root->op, m.root->src(0), m.root->src(1));
}
UOp expand_floor(const Match& m) {
  return decompose_floor(m.root->op, m.root->src(0), m.root->src(1));
}
UOp expand_shift(const Match& m) {
  return decompose_shift(m.root->op, m.root->src(0), m.root->src(1));
}

// A bool has one bit and does not wrap: 1 + 1 is 1.
UOp fold_bools(const Match& m) {
  const Op op = static_cast<Op>(m.root->ints(0));
  const Op bits = op == Op::Add || op == Op::Max   ? Op::Or
                  : op == Op::Mul || op == Op::Min ? Op::And
                                                   : op;
  if (bits == op) return {};
  int64_t ints[] = {static_cast<int64_t>(bits)};
  std::vector<UOp> src;
  for (Node* s : m.root->src()) src.emplace_back(s);
  return make(Op::Reduce, DType::boolean, src, Arg::of(intern_arg(ints)));
}

namespace tables {
using namespace pattern;

// What replaces an op is final, so the plain casts, divisions and shifts in it stay.
constexpr Rule bool_arithmetic[] = {
    rule(g + h, g | h),     rule(g* h, g& h),
    rule(max(g, h), g | h), rule(min(g, h), g& h),
    rule(idiv(g, h), g& h), rule(imod(g, h), 0),
    rule(neg(g), g),        rule(g < h, h & !g),
    rule(g == h, !(g ^ h)), rule(node_and_more(Op::Reduce, {g}), fold_bools),
};
constexpr Rule expansions[] = {
#define CURVE(op, function, meaning, f32, f64, derivative) rule(node(Op::op, {u}), expand_curve),
#include "ir/curves.def"
#undef CURVE
    rule(node(Op::MulAdd, {x, y, z}), expand_mul_add),
    rule(node(Op::Threefry, {x, y}), expand_threefry),
    rule(cast(x), expand_cast),
    rule(idiv(x, y), expand_divide),
    rule(imod(x, y), expand_divide),
    rule(x / y, expand_floor),
    rule(x % y, expand_floor),
    rule(shl(x, y), expand_shift),
    rule(shr(x, y), expand_shift),
};

}  // namespace tables

}  // namespace

MOTE_MADE_FIRST const RuleSet expansion_rules{
    "expand ops", RuleSet::Structural, {tables::bool_arithmetic, tables::expansions}
};

UOp expand_ops(UOp body, const Target& target) {
  return map_nodes("expand ops", body, [&](UOp n, const Mapped& now) {
    return apply_once(with_src(n, now.src), expansion_rules, const_cast<Target*>(&target));
  });
}

// clang-format off
static const Pass decompositions[] = {
    {"carry floats", carry_floats,
     "first: what stands for narrow floats is made of ops that the target may lack"},
    {"expand ops",   expand_ops,
     "before words are split, for what replaces ops works on whole integers"},
    {"split words",  split_words,
     "last: from here on there are no wide integers that an expansion could need"},
};
// clang-format on

bool has_words(const Target& target) { return target.has(DType::i64) && target.has(DType::u64); }

UOp decompose(UOp body, const Target& target) {
  if (has_words(target)) return run_passes(body, decompositions, target);
  // f64 needs integers of its width for its curves and conversions.
  Target words = target;
  words.dtypes &= ~(1u << static_cast<int>(DType::f64));
  return run_passes(body, decompositions, words);
}

}  // namespace mote
