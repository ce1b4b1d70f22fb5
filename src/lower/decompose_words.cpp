// 64-bit integers on targets without them: every value is two u32 words.
#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/error.h"
#include "ir/program.h"
#include "lower/decompose.h"

namespace mote {

namespace {

struct Words {
  UOp lo, hi;
};

UOp u32(int64_t v) { return constant(DType::u32, v); }
UOp as_signed(UOp x) { return make(Op::Bitcast, DType::i32, {x}); }
UOp as_unsigned(UOp x) { return make(Op::Bitcast, DType::u32, {x}); }
UOp number_of(UOp truth) { return cast(truth, DType::u32); }
UOp exclusive(UOp a, UOp b) { return binary(Op::Xor, a, b); }
UOp word_where(UOp c, int64_t a, int64_t b) { return where(c, u32(a), u32(b)); }

bool is_wide(DType d) { return d == DType::i64 || d == DType::u64; }
Words literal(int64_t v) { return {u32(v & 0xffffffff), u32(v >> 32 & 0xffffffff)}; }
Words sign_extended(UOp word) { return {word, as_unsigned(shift_right(as_signed(word), 31))}; }

Words choose(UOp c, Words a, Words b) { return {where(c, a.lo, b.lo), where(c, a.hi, b.hi)}; }
Words each_word(Op op, Words a, Words b) {
  return {binary(op, a.lo, b.lo), binary(op, a.hi, b.hi)};
}
UOp equal(Words a, Words b) { return eq(a.lo, b.lo) & eq(a.hi, b.hi); }
UOp less(Words a, Words b, bool with_sign) {
  UOp above = with_sign ? lt(as_signed(a.hi), as_signed(b.hi)) : lt(a.hi, b.hi);
  return above | (eq(a.hi, b.hi) & lt(a.lo, b.lo));
}
UOp is_negative(Words a) { return lt(as_signed(a.hi), constant(DType::i32, 0)); }

Words add(Words a, Words b) {
  UOp lo = a.lo + b.lo;
  return {lo, a.hi + b.hi + number_of(lt(lo, a.lo))};
}
Words negate(Words a) { return {-a.lo, exclusive(a.hi, u32(-1)) + number_of(eq(a.lo, u32(0)))}; }
Words subtract(Words a, Words b) { return add(a, negate(b)); }
Words negate_if(UOp c, Words a) { return choose(c, negate(a), a); }

// Two words as one product of words.
Words multiply_words(UOp a, UOp b) {
  UOp mask = u32(0xffff);
  UOp a0 = a & mask, a1 = shift_right(a, 16), b0 = b & mask, b1 = shift_right(b, 16);
  UOp middle = a1 * b0 + shift_right(a0 * b0, 16);
  UOp other = a0 * b1 + (middle & mask);
  return {a * b, a1 * b1 + shift_right(middle, 16) + shift_right(other, 16)};
}
Words multiply(Words a, Words b) {
  Words p = multiply_words(a.lo, b.lo);
  return {p.lo, p.hi + a.lo * b.hi + a.hi * b.lo};
}

// The amount is below 64.
Words shift(Op op, Words a, UOp by, bool with_sign) {
  UOp far = lt(u32(31), by), n = by & u32(31), rest = exclusive(n, u32(31));
  auto up = [](UOp x, UOp k) { return binary(Op::Shl, x, k); };
  auto down = [](UOp x, UOp k) { return binary(Op::Shr, x, k); };
  if (op == Op::Shl) {
    UOp carried = down(shift_right(a.lo, 1), rest), lo = up(a.lo, n);
    return {where(far, u32(0), lo), where(far, lo, up(a.hi, n) | carried)};
  }
  UOp fill = with_sign ? sign_extended(a.hi).hi : u32(0);
  UOp hi = with_sign ? as_unsigned(down(as_signed(a.hi), as_signed(n))) : down(a.hi, n);
  UOp carried = up(shift_left(a.hi, 1), rest);
  return {where(far, hi, down(a.lo, n) | carried), where(far, fill, hi)};
}
Words shift(Op op, Words a, int by) { return shift(op, a, u32(by), false); }

struct Division {
  Words quotient, rest;
};

// By a word below 2^16: long division in digits of 16 bits.
Division divide_by_short(Words a, UOp b) {
  UOp mask = u32(0xffff);
  UOp digits[] = {shift_right(a.hi, 16), a.hi & mask, shift_right(a.lo, 16), a.lo & mask};
  UOp rest = u32(0), quotients[4];
  for (int i = 0; i < 4; ++i) {
    UOp part = shift_left(rest, 16) | digits[i];
    quotients[i] = binary(Op::IDiv, part, b);
    rest = binary(Op::IMod, part, b);
  }
  return {
      {shift_left(quotients[2], 16) | quotients[3], shift_left(quotients[0], 16) | quotients[1]},
      {rest, u32(0)}
  };
}

// Bit by bit. The rest stays below b, so doubling it loses a bit only when b is above 2^63; the bit
// lost then says that b goes into it.
Division divide_by_bits(Words a, Words b) {
  Division d{literal(0), literal(0)};
  for (int i = 63; i >= 0; --i) {
    UOp lost = is_negative(d.rest);
    UOp digit = shift_right(i >= 32 ? a.hi : a.lo, i % 32) & u32(1);
    Words rest = shift(Op::Shl, d.rest, 1);
    rest.lo = rest.lo | digit;
    UOp fits = lost | logical_not(less(rest, b, false));
    d.rest = choose(fits, subtract(rest, b), rest);
    UOp& word = i >= 32 ? d.quotient.hi : d.quotient.lo;
    word = word | shift_left(number_of(fits), i % 32);
  }
  return d;
}

// A number of u64 as f32, rounded once: moved up until its top bit is set, what is left of the low
// word says only whether there was anything.
UOp to_float(Words a) {
  UOp moved = u32(0);
  for (int step : {32, 16, 8, 4, 2, 1}) {
    UOp empty = step == 32 ? eq(a.hi, u32(0)) : eq(shift_right(a.hi, 32 - step), u32(0));
    a = choose(empty, step == 32 ? Words{u32(0), a.lo} : shift(Op::Shl, a, step), a);
    moved = moved + word_where(empty, step, 0);
  }
  UOp top = a.hi | number_of(ne(a.lo, u32(0)));
  UOp scale = shift_left(u32(127 + 32) - moved, 23);
  return cast(top, DType::f32) * make(Op::Bitcast, DType::f32, {scale});
}

Words from_float(UOp x) {
  UOp zero = constant(DType::f32, 0.0), negative = lt(x, zero), a = where(negative, -x, x);
  // The cast back is exact: an f32 has 24 digits.
  UOp high = cast(a * constant(DType::f32, 0x1p-32), DType::u32);
  UOp low = a - cast(high, DType::f32) * constant(DType::f32, 0x1p32);
  return negate_if(negative, {cast(low, DType::u32), high});
}

class WordSplitter {
 public:
  UOp run(UOp body) {
    for (UOp n : toposort(body)) {
      if (n->is(Op::Range)) slots_ |= slot_bit(n);
      grow_far(n);
    }
    return map_nodes("split words", body, [this](UOp n, const Mapped& now) {
      now_ = &now;
      const Words words = split(n);
      if (words.hi) high_[n.get()] = words.hi;
      if (words.hi && !words.hi->provenance) words.hi.get()->provenance = n->provenance;
      return words.lo;
    });
  }

 private:
  Words at(UOp n) const {
    auto high = high_.find(n.get());
    return {(*now_)(n), high == high_.end() ? UOp() : high->second};
  }

  // Fits one word without a sign.
  static bool is_short(UOp n) {
    return n->dtype == DType::i64 && n->lo >= 0 && n->hi <= UINT32_MAX;
  }

  Words split(UOp n) {
    if (is_index_in_memory(n)) return {stored_index(n), {}};
    switch (n->op) {
      case Op::Param: return {is_wide(n->dtype) ? doubled(n) : n, {}};
      case Op::Index: return is_wide(n->dtype) ? places(n) : rebuilt(n);
      case Op::Cast:
      case Op::Bitcast: return converted(n);
      case Op::Lt: return compared(n);
      case Op::Eq: return compared(n);
      case Op::After:
      case Op::Sink: return gathered(n);
      default: break;
    }
    if (n->is(Op::Load) || n->is(Op::Store) || n->is(Op::End)) return each(n);
    if (!is_wide(n->dtype)) return rebuilt(n);
    return n->is(Op::Reduce) ? reduced(n) : computed(n);
  }

  Words rebuilt(UOp n) const { return {with_src(n, now_->src), {}}; }
  // The same node for both words of what it works on, if that has two.
  Words each(UOp n) const {
    Words out;
    for (UOp Words::*word : {&Words::lo, &Words::hi}) {
      if (!(at(n->src(0)).*word)) break;
      std::vector<UOp> src;
      for (Node* s : n->src()) {
        Words w = at(UOp(s));
        src.push_back(w.hi ? w.*word : w.lo);
      }
      out.*word = make(n->op, is_wide(n->dtype) ? DType::u32 : n->dtype, src, n->arg);
    }
    return out;
  }
  Words gathered(UOp n) const {
    std::vector<UOp> src;
    for (Node* s : n->src()) {
      Words w = at(UOp(s));
      src.push_back(w.lo);
      if (w.hi) src.push_back(w.hi);
    }
    return {make(n->op, n->is(Op::After) ? src[0]->dtype : n->dtype, src, n->arg), {}};
  }

  static UOp doubled(UOp n) {
    std::vector<int64_t> ints = n->ints();
    ints[1] *= 2;
    return make(Op::Param, DType::u32, {}, Arg::of(intern_arg(ints, n->arg.object->str)));
  }
  Words places(UOp n) const {
    UOp memory = at(n->src(0)).lo, first = at(n->src(1)).lo * 2;
    auto place = [&](UOp i) { return make(Op::Index, DType::u32, {memory, i}); };
    return {place(first), place(first + 1)};
  }

  Words compared(UOp n) const {
    if (!is_wide(n->src(0)->dtype)) return rebuilt(n);
    Words a = at(n->src(0)), b = at(n->src(1));
    return {n->is(Op::Eq) ? equal(a, b) : less(a, b, is_signed(n->src(0)->dtype)), {}};
  }

  static bool is_index_in_memory(UOp n) {
    if (n->is(Op::Store)) return n->src(0)->dtype == DType::index;
    return n->dtype == DType::index && OpSet{Op::Param, Op::Index, Op::Load}.has(n->op);
  }

  Words converted(UOp n) const {
    const DType from = n->src(0)->dtype, to = n->dtype;
    Words x = at(n->src(0));
    if (is_wide(from) && is_wide(to)) return x;
    if (is_wide(to)) return widened(x.lo);
    if (!is_wide(from) && to == DType::index && is_int(from)) return {position(x.lo), {}};
    if (!is_wide(from)) return rebuilt(n);
    if (is_float(to)) {
      if (is_short(n->src(0))) return {cast(x.lo, to), {}};
      if (from == DType::u64) return {cast(to_float(x), to), {}};
      UOp negative = is_negative(x), f = to_float(negate_if(negative, x));
      return {cast(where(negative, -f, f), to), {}};
    }
    if (to != DType::index) return {cast(x.lo, to), {}};
    UOp fits = eq(x.hi, sign_extended(x.lo).hi);
    UOp beyond = word_where(is_negative(x), INT32_MIN, INT32_MAX);
    return {position(as_signed(where(fits, x.lo, beyond))), {}};
  }
  // Positions beyond every size that the kernel knows are all alike: out of bounds. Brought near,
  // they leave room for sums in 32 bits.
  void grow_far(UOp n) {
    int64_t size = 0;
    if (n->is(Op::Const) && n->dtype == DType::index) size = std::max(n->arg.i, -(n->arg.i + 1));
    if (n->is(Op::Var)) size = n->hi;
    if (n->is(Op::Param)) size = n->ints(1);
    while (far_ < 2 * std::min(size, kFarthest / 2)) far_ *= 2;
  }
  UOp position(UOp x) const {
    if (x->hi > far_) x = binary(Op::Min, x, constant(x->dtype, far_));
    if (x->lo < -far_) x = binary(Op::Max, x, constant(x->dtype, -far_));
    return cast(x, DType::index);
  }

  // Indices in memory are words too.
  UOp stored_index(UOp n) const {
    if (n->is(Op::Store)) {
      std::vector<Node*> src(now_->src.begin(), now_->src.end());
      src[1] = cast(src[1], DType::i32).get();
      return with_src(n, src);
    }
    UOp word = arena().make(n->op, DType::i32, now_->src, n->arg);
    return n->is(Op::Load) ? position(word) : word;
  }
  static Words widened(UOp x) {
    if (is_float(x->dtype)) return from_float(x);
    if (is_signed(x->dtype)) return sign_extended(as_unsigned(cast(x, DType::i32)));
    return {cast(x, DType::u32), u32(0)};
  }

  Words computed(UOp n) const {
    const bool with_sign = is_signed(n->dtype);
    auto src = [&](uint32_t i) { return at(n->src(i)); };
    switch (n->op) {
      case Op::Const: return literal(n->arg.i);
      case Op::Add: return add(src(0), src(1));
      case Op::Neg: return negate(src(0));
      case Op::Mul: return multiply(src(0), src(1));
      case Op::And:
      case Op::Or:
      case Op::Xor: return each_word(n->op, src(0), src(1));
      case Op::Shl:
      case Op::Shr: return shift(n->op, src(0), src(1).lo, with_sign);
      case Op::Where: return choose(src(0).lo, src(1), src(2));
      case Op::Max: return choose(less(src(0), src(1), with_sign), src(1), src(0));
      case Op::Min: return choose(less(src(1), src(0), with_sign), src(1), src(0));
      case Op::IDiv:
      case Op::IMod: return divided(n);
      default: break;
    }
    ensure(false, "no 64-bit ", name(n->op), " in words");
    return {};
  }

  Words divided(UOp n) const {
    UOp a = n->src(0), b = n->src(1);
    Words x = at(a), y = at(b);
    if (is_short(a) && is_short(b)) return {binary(n->op, x.lo, y.lo), u32(0)};
    const bool with_sign = is_signed(n->dtype);
    UOp a_negative = with_sign ? is_negative(x) : truth(false);
    UOp b_negative = with_sign ? is_negative(y) : truth(false);
    if (with_sign) x = negate_if(a_negative, x), y = negate_if(b_negative, y);
    const bool by_short = is_const(b) && b->arg.i > 0 && b->arg.i <= 0xffff;
    Division d = by_short ? divide_by_short(x, y.lo) : divide_by_bits(x, y);
    if (n->op == Op::IMod) return with_sign ? negate_if(a_negative, d.rest) : d.rest;
    return with_sign ? negate_if(exclusive(a_negative, b_negative), d.quotient) : d.quotient;
  }

  Words reduced(UOp n) {
    const Op op = static_cast<Op>(n->ints(0));
    Words x = at(n->src(0));
    std::vector<UOp> ranges;
    for (uint32_t i = 1; i < n->nsrc; ++i) ranges.push_back(at(n->src(i)).lo);
    if (op == Op::Add) return summed(x, ranges);
    if (op == Op::Mul) return multiplied(x, ranges);
    if (op == Op::Max || op == Op::Min) return extreme(op, x, ranges, is_signed(n->dtype));
    return {reduce_over(op, x.lo, ranges), reduce_over(op, x.hi, ranges)};
  }

  // Sums of digits so short that a word holds the whole sum, put together at the end.
  static Words summed(Words x, std::span<const UOp> ranges) {
    double count = 1;
    for (UOp r : ranges) count *= static_cast<double>(r->src(0)->hi);
    const int digit = 32 - std::bit_width(static_cast<uint64_t>(count));
    ensure(count < 0x1p31 && digit > 0, "a sum of more than 2^31 64-bit integers in words");
    Words sum = literal(0);
    UOp mask = u32((int64_t{1} << digit) - 1);
    for (int at = 0; at < 64; at += digit) {
      UOp limb = shift(Op::Shr, x, at).lo & mask;
      if (limb->is_const(0)) continue;
      sum = add(sum, shift(Op::Shl, {reduce_over(Op::Add, limb, ranges), u32(0)}, at));
    }
    return sum;
  }

  // The extreme of the high words, then that of the low words beside it, in loops of its own.
  Words extreme(Op op, Words x, std::span<const UOp> ranges, bool with_sign) {
    UOp flip = word_where(truth(with_sign), 0x80000000, 0);
    UOp high = reduce_over(op, exclusive(x.hi, flip), ranges);
    std::vector<std::pair<UOp, UOp>> again;
    std::vector<UOp> own;
    std::vector<UOp> loops(ranges.begin(), ranges.end());
    std::ranges::sort(loops, {}, nest_order);  // extents depend on loops outside
    for (UOp r : loops) {
      own.push_back(range(take_slot(slots_), substitute(r->src(0), again), Role::Reduce));
      again.emplace_back(r, own.back());
    }
    Words y{substitute(x.lo, again), substitute(x.hi, again)};
    UOp none = u32(op == Op::Max ? 0 : -1);
    UOp low = where(eq(exclusive(y.hi, flip), high), y.lo, none);
    return {reduce_over(op, low, own), exclusive(high, flip)};
  }

  // A product has no digits to sum: all its factors are written out.
  static Words multiplied(Words x, std::span<const UOp> ranges) {
    std::vector<Words> factors{x};
    for (UOp r : ranges) {
      ensure(is_const(r->src(0)) && factors.size() * static_cast<size_t>(r->src(0)->hi) <= 1024,
             "a product of more than 1024 64-bit integers in words");
      std::vector<Words> more;
      for (Words f : factors)
        for (int64_t i = 0; i < r->src(0)->hi; ++i) {
          std::pair<UOp, UOp> map[] = {
              {r, index(i)}
          };
          more.push_back({substitute(f.lo, map), substitute(f.hi, map)});
        }
      factors = std::move(more);
    }
    Words product = literal(1);
    for (Words f : factors) product = multiply(product, f);
    return product;
  }

  const Mapped* now_ = nullptr;  // with the low words
  std::unordered_map<const Node*, UOp> high_;
  uint64_t slots_ = 0;
  static constexpr int64_t kFarthest = int64_t{1} << 30;
  int64_t far_ = 2;
};

}  // namespace

UOp split_words(UOp body, const Target& target) {
  return has_words(target) ? body : WordSplitter().run(body);
}

}  // namespace mote
