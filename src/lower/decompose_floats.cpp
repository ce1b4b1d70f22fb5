// Floats the target lacks: their bit patterns, and a whole kernel computed in f32 instead.
#include <cmath>

#include "lower/decompose.h"

namespace mote {

namespace {

UOp u32(int64_t v) { return constant(DType::u32, v); }
UOp f32(double v) { return constant(DType::f32, v); }
UOp bits_of(UOp x) { return make(Op::Bitcast, DType::u32, {x}); }
UOp float_of(UOp b) { return make(Op::Bitcast, DType::f32, {b}); }

// The bf16 nearest to x, as an f32: its upper half, rounded.
UOp round_bf16(UOp x) {
  UOp bits = bits_of(x), last = shift_right(bits, 16) & u32(1);
  UOp near = where(eq(x, x), bits + (last + u32(0x7fff)), u32(0x7fc00000));
  return float_of(near & u32(0xffff0000));
}

// The pattern of d nearest to x, in a u32.
UOp pattern_of(UOp x, DType d) {
  const SmallFloat l = layout_of(d);
  const int dropped = 23 - l.mantissa;
  UOp bits = bits_of(x), magnitude = bits & u32(0x7fffffff);
  UOp last = shift_right(magnitude, dropped) & u32(1);
  UOp code = shift_right(magnitude + last + u32((int64_t{1} << (dropped - 1)) - 1), dropped);
  if (l.bias != 127) {
    // Below the smallest normal number the unit is fixed: adding a float of that unit rounds to it.
    const double unit = std::ldexp(1.0, 1 - l.bias - l.mantissa);
    UOp shift = f32(unit * 0x1p23), a = float_of(magnitude);
    UOp small = bits_of(a + shift) - bits_of(shift);
    code = code + u32(-(int64_t{127 - l.bias} << l.mantissa));
    code = where(lt(a, f32(std::ldexp(1.0, 1 - l.bias))), small, code);
    code = where(lt(u32(l.largest), code), u32(l.infinity), code);
  }
  code = where(eq(x, x), code, u32(l.nan));
  return code | shift_left(shift_right(bits, 31), l.bits - 1);
}

// The float that the pattern, in a u32, stands for.
UOp value_of(UOp code, DType d) {
  const SmallFloat l = layout_of(d);
  if (d == DType::bf16) return float_of(shift_left(code, 16));
  UOp magnitude = code & u32((int64_t{1} << (l.bits - 1)) - 1);
  UOp aligned = shift_left(magnitude, 23 - l.mantissa);
  // A product sets the bias right for subnormal patterns too.
  UOp finite = bits_of(float_of(aligned) * f32(std::ldexp(1.0, 127 - l.bias)));
  UOp other = d == DType::f8e4m3 ? u32(0x7fc00000) : aligned | u32(0x7f800000);
  UOp value = where(lt(u32(l.largest), magnitude), other, finite);
  return float_of(value | shift_left(shift_right(code, l.bits - 1), 31));
}

}  // namespace

UOp encode_float(UOp x, DType d) { return cast(pattern_of(x, d), bits_type(row(d).bits)); }
UOp decode_float(UOp bits, DType d) { return value_of(cast(bits, DType::u32), d); }
UOp round_float(UOp x, DType d) {
  return d == DType::bf16 ? round_bf16(x) : value_of(pattern_of(x, d), d);
}

UOp narrow_to_odd(UOp x) {
  UOp near = cast(x, DType::f32), back = cast(near, DType::f64), bits = bits_of(near);
  auto magnitude = [](UOp v) {
    UOp b = make(Op::Bitcast, DType::u64, {v});
    return b & constant(DType::u64, INT64_MAX);  // ordered as the floats are
  };
  UOp step = where(lt(magnitude(back), magnitude(x)), u32(1), u32(-1));
  UOp even = eq(bits & u32(1), u32(0));
  UOp inexact = lt(back, x) | lt(x, back);  // false for NaN
  return float_of(bits + where(even & inexact, step, u32(0)));
}

UOp encode_double(UOp x) {
  UOp bits = bits_of(x), magnitude = bits & u32(0x7fffffff), sign = bits & u32(0x80000000);
  // Subnormals are made normal first; inf and NaN keep an exponent of all ones.
  UOp small = lt(magnitude, u32(0x00800000));
  UOp scaled = bits_of(float_of(magnitude) * f32(0x1p64));
  UOp normal = where(small, scaled, magnitude);
  UOp bias = where(small, u32((1023 - 127 - 64) << 20), u32((1023 - 127) << 20));
  bias = where(lt(magnitude, u32(0x7f800000)), bias, u32(0x7ff00000 - 0x0ff00000));
  UOp high = where(eq(magnitude, u32(0)), u32(0), shift_right(normal, 3) + bias) | sign;
  UOp low = where(eq(magnitude, u32(0)), u32(0), shift_left(normal, 29));
  return shift_left(cast(high, DType::u64), 32) | cast(low, DType::u64);
}

UOp decode_double(UOp wide) {
  UOp low = cast(wide, DType::u32), high = cast(shift_right(wide, 32), DType::u32);
  UOp magnitude = high & u32(0x7fffffff), sign = high & u32(0x80000000);
  // Small values are built 2^64 too large and scaled back, which rounds again if subnormal.
  UOp small = lt(magnitude, u32((1023 - 126) << 20));
  UOp bias = where(small, u32((1023 - 127 - 64) << 20), u32((1023 - 127) << 20));
  UOp bits = shift_left(magnitude - bias, 3) | shift_right(low, 29);
  UOp rest = low & u32(0x1fffffff), half = u32(0x10000000);
  UOp odd = ne(bits & u32(1), u32(0));
  UOp up = lt(half, rest) | (eq(half, rest) & odd);
  UOp value = float_of(bits + where(up, u32(1), u32(0)));
  value = where(small, value * f32(0x1p-64), value);
  value = where(lt(magnitude, u32((1023 - 127 - 64 + 1) << 20)), f32(0), value);
  value = where(lt(magnitude, u32((1023 + 128) << 20)), value, f32(INFINITY));
  UOp nan = lt(u32(0x7ff00000), magnitude) | (eq(magnitude, u32(0x7ff00000)) & ne(low, u32(0)));
  return float_of(bits_of(where(nan, f32(NAN), value)) | sign);
}

namespace {

class FloatCarrier {
 public:
  explicit FloatCarrier(const Target& target) : target_(target) {}

  UOp run(UOp body) {
    return map_nodes("carry floats", body, [this](UOp n, const Mapped& now) {
      now_ = &now;
      return replaced(n);
    });
  }

 private:
  bool carried(DType d) const { return is_float(d) && !target_.has(d); }
  static DType memory_type(DType d) { return bits_type(row(d).bits); }
  UOp at(UOp n) const { return (*now_)(n); }

  static UOp decoded(UOp bits, DType d) {
    return d == DType::f64 ? decode_double(bits) : decode_float(bits, d);
  }
  // Of a value that d holds.
  static UOp encoded(UOp x, DType d) {
    if (d == DType::bf16) return cast(shift_right(bits_of(x), 16), DType::u16);
    return d == DType::f64 ? encode_double(x) : encode_float(x, d);
  }
  // x as d would hold it. f64 holds every f32.
  UOp rounded(UOp x, DType d) const {
    return carried(d) && d != DType::f64 ? round_float(x, d) : x;
  }

  UOp rebuilt(UOp n, DType dtype) const { return arena().make(n->op, dtype, now_->src, n->arg); }

  UOp replaced(UOp n) const {
    const DType d = n->dtype;
    const bool converts = n->is(Op::Cast) || n->is(Op::Bitcast);
    if (converts && (carried(d) || carried(n->src(0)->dtype))) return converted(n);
    if (n->is(Op::Store) && carried(n->src(1)->dtype)) return stored(n);
    if (!carried(d)) return {};
    switch (n->op) {
      case Op::Const: return f32(n->arg.f);
      case Op::Param: return make(Op::Param, memory_type(d), {}, n->arg);
      case Op::After:
      case Op::Index: return rebuilt(n, at(n->src(0))->dtype);
      case Op::Load: return loaded(n);
      // These choose among values, or change only the sign or drop digits.
      case Op::Where:
      case Op::Max:
      case Op::Min:
      case Op::Neg:
      case Op::Trunc: return rebuilt(n, DType::f32);
      case Op::Reduce: return reduced(n);
      case Op::MulAdd: return mul_add(n);
      default: return rounded(rebuilt(n, DType::f32), has(n->op, Alu) ? d : DType::f32);
    }
  }

  UOp loaded(UOp n) const {
    UOp place = at(n->src(0));
    UOp load = rebuilt(n, place->dtype);
    return is_float(place->dtype) ? load : decoded(load, n->dtype);
  }
  UOp stored(UOp n) const {
    std::vector<Node*> src(now_->src.begin(), now_->src.end());
    if (src[0]->dtype != src[1]->dtype) src[1] = encoded(src[1], n->src(1)->dtype).get();
    return with_src(n, src);
  }
  UOp reduced(UOp n) const {
    const Op op = static_cast<Op>(n->ints(0));
    UOp r = rebuilt(n, DType::f32);
    return op == Op::Max || op == Op::Min ? r : rounded(r, n->dtype);
  }

  UOp converted(UOp n) const {
    const DType from = n->src(0)->dtype, to = n->dtype;
    UOp x = at(n->src(0));
    if (n->is(Op::Bitcast)) {
      if (carried(from)) x = encoded(x, from);
      return carried(to) ? decoded(make(Op::Bitcast, memory_type(to), {x}), to)
                         : make(Op::Bitcast, to, {x});
    }
    if (!carried(to)) return cast(x, to);
    if (to == DType::f64) return cast(x, DType::f32);
    if (x->dtype == DType::f64) x = narrow_to_odd(x);
    return rounded(cast(x, DType::f32), to);
  }

  // The product of two narrow floats is exact in f64, so only the sum rounds before the end.
  UOp mul_add(UOp n) const {
    UOp a = at(n->src(0)), b = at(n->src(1)), c = at(n->src(2));
    if (!target_.has(DType::f64)) return rounded(mote::mul_add(a, b, c), n->dtype);
    auto wide = [](UOp x) { return cast(x, DType::f64); };
    return rounded(narrow_to_odd(wide(a) * wide(b) + wide(c)), n->dtype);
  }

  const Target& target_;
  const Mapped* now_ = nullptr;
};

}  // namespace

UOp carry_floats(UOp body, const Target& target) { return FloatCarrier(target).run(body); }

}  // namespace mote
