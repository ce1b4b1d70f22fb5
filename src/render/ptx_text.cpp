#include "render/ptx_text.h"

#include <bit>
#include <cmath>

#include "base/number.h"
#include "ir/dtype.h"

namespace mote {

namespace {

// One instruction for one op, by what its sources are.
struct Spelling {
  Op op;
  const char *integer, *floating;
};
constexpr Spelling spellings[] = {
    {Op::Add,    "add",     "add"    },
    {Op::Mul,    "mul.lo",  "mul"    },
    {Op::Div,    nullptr,   "div.rn" },
    {Op::IDiv,   "div",     nullptr  },
    {Op::IMod,   "rem",     nullptr  },
    {Op::And,    "and",     nullptr  },
    {Op::Or,     "or",      nullptr  },
    {Op::Xor,    "xor",     nullptr  },
    {Op::Shl,    "shl",     nullptr  },
    {Op::Shr,    "shr",     nullptr  },
    {Op::Lt,     "setp.lt", "setp.lt"},
    {Op::Eq,     "setp.eq", "setp.eq"},
    {Op::Max,    "max",     "max.NaN"},
    {Op::Min,    "min",     "min.NaN"},
    {Op::Neg,    "neg",     "neg"    },
    {Op::Sqrt,   nullptr,   "sqrt.rn"},
    {Op::MulAdd, nullptr,   "fma.rn" },
};
std::string instruction(Op op, DType d) {
  for (const Spelling& s : spellings)
    if (const char* word = is_float(d) ? s.floating : s.integer; s.op == op && word) return word;
  ensure(false, "render: no PTX instruction for ", name(op), " of ", d);
  return "";
}
// Instructions that move bits have no signs.
bool is_of_bits(Op op) { return OpSet{Op::And, Op::Or, Op::Xor, Op::Shl}.has(op); }

}  // namespace

char bank(DType d) {
  if (d == DType::boolean) return 'p';
  if (is_narrow_float(d)) return 'h';
  return is_wide(d) ? 'd' : 'r';
}

const char* bits(char bank) {
  switch (bank) {
    case 'p': return "pred";
    case 'h': return "b16";
    case 'd': return "b64";
    default: return "b32";
  }
}

const char* kind(DType d) {
  if (d == DType::f32) return "f32";
  if (d == DType::f64) return "f64";
  if (d == DType::f16) return "f16";
  if (d == DType::bf16) return "bf16";
  if (is_signed(d)) return is_wide(d) ? "s64" : "s32";
  return is_wide(d) ? "u64" : "u32";
}

// Predicates and 16-bit floats are no operands by themselves.
std::string PtxText::scalar_literal(const Scalar& s) {
  if (s.dtype == DType::boolean) return constant(s.dtype, s.i ? "1" : "0");
  if (s.dtype == DType::f16) return constant(s.dtype, "0x" + hex_text(to_half(s.f).bits, 4));
  if (s.dtype == DType::bf16) return constant(s.dtype, "0x" + hex_text(to_bfloat16(s.f).bits, 4));
  if (s.dtype == DType::f32)
    return "0f" + hex_text(std::bit_cast<uint32_t>(static_cast<float>(s.f)), 8);
  if (s.dtype == DType::f64) return "0d" + hex_text(std::bit_cast<uint64_t>(s.f), 16);
  const int64_t v = wrap_to(s.dtype, s.i);
  if (v >= INT32_MIN && v <= int64_t{UINT32_MAX}) return std::to_string(v);
  return "0x" + hex_text(static_cast<uint64_t>(v), 16);
}
std::string PtxText::constant(DType d, const std::string& value) {
  std::string& known = constants_[{bank(d), value}];
  if (!known.empty()) return known;
  known = fresh(d);
  if (d == DType::boolean)
    entry_line("setp.ne.u32 ", known, ", ", value, ", 0;");
  else
    entry_line("mov.b16 ", known, ", ", value, ";");
  return known;
}

std::string PtxText::compute(Op op, DType dtype, std::span<const Value> src, bool exact) {
  const Value& a = src[0];
  if (op == Op::Cast) return cast(a, dtype);
  if (op == Op::Bitcast) return bitcast(a, dtype);
  if (op == Op::Where) return select(a.text, src[1], src[2]);
  if (a.dtype == DType::boolean) return compute_bool(op, src);
  if (is_narrow_float(a.dtype) && op != Op::MulAdd) return compute_in_f32(op, dtype, src);
  if (op == Op::Trunc)
    return define(dtype, text("cvt.rzi.", kind(dtype), ".", kind(dtype)), a.text).text;
  if ((op == Op::Max || op == Op::Min) &&
      (a.dtype == DType::f64 || (is_float(dtype) && architecture_ < 80)))
    return extremum(op, dtype, src);
  std::string word = instruction(op, a.dtype);
  if (is_float(dtype) && (op == Op::Add || op == Op::Mul)) {
    // Without a rounding of their own products and sums are fused.
    const bool fuses = contracts_ && (op == Op::Mul || !exact);
    word += fuses ? "" : ".rn";
  }
  std::string operands;
  for (size_t i = 0; i < src.size(); ++i) {
    const bool amount = i == 1 && (op == Op::Shl || op == Op::Shr);
    operands += (i ? ", " : std::string()) + (amount ? cast(src[1], DType::u32) : src[i].text);
  }
  const char* type = is_of_bits(op)                     ? bits(a.dtype)
                     : op == Op::Neg && is_int(a.dtype) ? (is_wide(a.dtype) ? "s64" : "s32")
                                                        : kind(a.dtype);
  const Value v = define(dtype, text(word, ".", type), operands);
  const bool wraps = OpSet{Op::Add, Op::Mul, Op::Shl, Op::Neg}.has(op) && is_int(dtype);
  return wraps ? wrapped(v.text, dtype) : v.text;
}

std::string PtxText::compute_bool(Op op, std::span<const Value> src) {
  auto both = [&](const char* word, const std::string& x, const std::string& y) {
    return define(DType::boolean, word, x, y).text;
  };
  auto negated = [&](const std::string& x) { return define(DType::boolean, "not.pred", x).text; };
  switch (op) {
    case Op::And: return both("and.pred", src[0].text, src[1].text);
    case Op::Or: return both("or.pred", src[0].text, src[1].text);
    case Op::Xor: return both("xor.pred", src[0].text, src[1].text);
    case Op::Eq: return negated(both("xor.pred", src[0].text, src[1].text));
    case Op::Lt: return both("and.pred", negated(src[0].text), src[1].text);
    case Op::Neg: return src[0].text;
    default: break;
  }
  ensure(false, "render: no PTX for ", name(op), " of bools");
  return "";
}

std::string PtxText::compute_in_f32(Op op, DType dtype, std::span<const Value> src) {
  std::vector<Value> wide;
  for (const Value& v : src) wide.push_back({cast(v, DType::f32), DType::f32, 1, {}});
  const bool compares = dtype == DType::boolean;
  const std::string r = compute(op, compares ? dtype : DType::f32, wide, true);
  return compares ? r : cast({r, DType::f32, 1, {}}, dtype);
}

// The hardware's own passes over NaNs.
std::string PtxText::extremum(Op op, DType d, std::span<const Value> src) {
  const std::string &a = src[0].text, &b = src[1].text;
  const char* type = kind(d);
  const Value further =
      define(DType::boolean, text(op == Op::Max ? "setp.gt." : "setp.lt.", type), a, b);
  const Value ordered = define(d, text("selp.", type), a, b, further.text);
  const Value has_nan = define(DType::boolean, text("setp.nan.", type), a, b);
  const std::string nan = scalar_literal(scalar(d, std::nan("")));
  return define(d, text("selp.", type), nan, ordered.text, has_nan.text).text;
}

std::string PtxText::select(const std::string& c, const Value& a, const Value& b) {
  if (a.dtype != DType::boolean)
    return define(a.dtype, text("selp.", bits(a.dtype)), a.text, b.text, c).text;
  const Value first = define(DType::boolean, "and.pred", a.text, c),
              no = define(DType::boolean, "not.pred", c),
              second = define(DType::boolean, "and.pred", b.text, no.text);
  return define(DType::boolean, "or.pred", first.text, second.text).text;
}

// What 32 bits hold as a narrower integer has it.
std::string PtxText::wrapped(const std::string& v, DType d) {
  if (row(d).bits >= 32) return v;
  const char* sign = is_signed(d) ? "s" : "u";
  return define(d, text("cvt.", sign, "32.", sign, row(d).bits), v).text;
}

std::string PtxText::cast(const Value& v, DType to) {
  const DType from = v.dtype;
  if (from == to) return v.text;
  if (v.literal) return scalar_literal(eval(Op::Cast, to, {&*v.literal, 1}));
  if (to == DType::boolean) return truth(v);
  if (from == DType::boolean) return select(v.text, one_of(to, 1), one_of(to, 0));
  if (is_int(from) && is_int(to)) return cast_integer(v, to);
  if (is_float(from) && is_float(to)) return cast_float(v, to);
  if (is_int(to)) {
    const Value wide = is_narrow_float(from) ? Value{cast(v, DType::f32), DType::f32, 1, {}} : v;
    const Value r = define(to, text("cvt.rzi.", kind(to), ".", kind(wide.dtype)), wide.text);
    return wrapped(r.text, to);
  }
  if (to != DType::bf16) return convert("cvt.rn.", v, to);
  const DType middle = row(from).bits <= 16 ? DType::f32 : DType::f64;
  return cast_float({convert("cvt.rn.", v, middle), middle, 1, {}}, to);
}

Value PtxText::one_of(DType d, int n) {
  const Scalar s = is_float(d) ? scalar(d, double(n)) : scalar(d, int64_t{n});
  return {scalar_literal(s), d, 1, s};
}
std::string PtxText::convert(const char* word, const Value& v, DType to) {
  return define(to, text(word, kind(to), ".", kind(v.dtype)), v.text).text;
}

std::string PtxText::truth(const Value& v) {
  const Value wide = is_narrow_float(v.dtype) ? Value{cast(v, DType::f32), DType::f32, 1, {}} : v;
  return define(DType::boolean,
                text(is_float(wide.dtype) ? "setp.neu." : "setp.ne.", kind(wide.dtype)), wide.text,
                one_of(wide.dtype, 0).text)
      .text;
}

std::string PtxText::cast_integer(const Value& v, DType to) {
  if (is_wide(to)) return is_wide(v.dtype) ? v.text : convert("cvt.", v, to);
  if (is_wide(v.dtype)) return wrapped(define(to, "cvt.u32.u64", v.text).text, to);
  const bool fits = row(v.dtype).lo >= row(to).lo && row(v.dtype).hi <= row(to).hi;
  return fits ? v.text : wrapped(v.text, to);
}

std::string PtxText::cast_float(const Value& v, DType to) {
  const DType from = v.dtype;
  if (from == DType::bf16) {
    // The upper half of an f32.
    const std::string wide =
        define(DType::f32, "mov.b32", text("{", zero_half(), ", ", v.text, "}")).text;
    return cast({wide, DType::f32, 1, {}}, to);
  }
  if (to == DType::bf16 && from == DType::f16)
    return cast_float({convert("cvt.", v, DType::f32), DType::f32, 1, {}}, to);
  if (to == DType::bf16 && from == DType::f64) return cast_float(to_odd_f32(v), to);
  return convert(row(to).bits > row(from).bits ? "cvt." : "cvt.rn.", v, to);
}
std::string PtxText::zero_half() { return constant(DType::f16, "0x0000"); }

// A double in f32 so that rounding once more is right: cut off, with the last bit set if anything
// was lost.
Value PtxText::to_odd_f32(const Value& v) {
  const Value cut = define(DType::f32, "cvt.rz.f32.f64", v.text),
              back = define(DType::f64, "cvt.f64.f32", cut.text),
              lost = define(DType::boolean, "setp.ne.f64", back.text, v.text),
              bit = define(DType::u32, "selp.b32", "1", "0", lost.text);
  return define(DType::f32, "or.b32", cut.text, bit.text);
}

std::string PtxText::bitcast(const Value& v, DType to) {
  if (v.dtype == DType::boolean || to == DType::boolean) return cast(v, to);
  if (v.literal) return scalar_literal(eval(Op::Bitcast, to, {&*v.literal, 1}));
  if (bank(v.dtype) == bank(to)) return wrapped(v.text, to);
  if (bank(to) == 'h') return define(to, "cvt.u16.u32", v.text).text;
  return wrapped(define(to, "cvt.u32.u16", v.text).text, to);
}

}  // namespace mote
