// C11 with GNU vector types. Vectors are named variables, never arrays: compilers keep those in
// registers at -O2. A vector of bools is one of bytes that are 0 or -1.
#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/number.h"
#include "render/expand.h"
#include "render/render.h"

namespace mote {

namespace {

DType known(DType d) { return d == DType::index ? DType::i64 : d; }
std::string type(DType d, int lanes) {
  return lanes == 1 ? name(known(d)) : text(name(known(d)), "x", lanes);
}

const char* c_spelling(DType d) {
  switch (d) {
    case DType::boolean: return "_Bool";
    case DType::u8: return "__UINT8_TYPE__";
    case DType::u16: return "__UINT16_TYPE__";
    case DType::u32: return "__UINT32_TYPE__";
    case DType::u64: return "__UINT64_TYPE__";
    case DType::i8: return "__INT8_TYPE__";
    case DType::i16: return "__INT16_TYPE__";
    case DType::i32: return "__INT32_TYPE__";
    case DType::i64: return "__INT64_TYPE__";
    case DType::f32: return "float";
    case DType::f64: return "double";
    default: break;
  }
  ensure(false, "render: no C type for ", d);
  return "";
}

DType memory_type(DType d) { return d == DType::boolean ? DType::u8 : known(d); }
// The integer as wide as d: what comparisons of vectors of d give.
DType mask_type(DType d) {
  constexpr DType types[] = {DType::i8, DType::i16, DType::i32, DType::i64};
  return types[std::countr_zero(static_cast<unsigned>(row(d).bytes))];
}

std::string float_literal(DType d, double v) {
  const char* end = d == DType::f32 ? "f" : "";
  if (std::isnan(v)) return text("__builtin_nan", end, "(\"\")");
  if (std::isinf(v)) return text(v < 0 ? "-" : "", "__builtin_inf", end, "()");
  const bool plain = std::fabs(v) < 1e6 && v == std::trunc(v);
  return text(plain ? fixed_text(v, 1) : hex_text(v), end);
}

std::string scalar_literal(const Scalar& s) {
  if (is_float(s.dtype)) return float_literal(s.dtype, s.f);
  if (s.dtype == DType::u64) return text(static_cast<uint64_t>(s.i), "u");
  if (s.i == INT64_MIN) return "(-9223372036854775807 - 1)";
  return text(s.i, s.dtype == DType::u32 ? "u" : "");
}

struct Spelling {
  Op op;
  const char* infix;
};
constexpr Spelling spellings[] = {
    {Op::Add,  "+" },
    {Op::Mul,  "*" },
    {Op::Div,  "/" },
    {Op::IDiv, "/" },
    {Op::IMod, "%" },
    {Op::And,  "&" },
    {Op::Or,   "|" },
    {Op::Xor,  "^" },
    {Op::Shl,  "<<"},
    {Op::Shr,  ">>"},
    {Op::Lt,   "<" },
    {Op::Eq,   "=="},
};

const char* infix(Op op) {
  for (const Spelling& s : spellings)
    if (s.op == op) return s.infix;
  ensure(false, "render: no C operator for ", name(op));
  return "";
}

struct DotSpelling {
  Op op;
  const char *function, *words;  // of x86's header; what the type of the words ends in
};
constexpr DotSpelling dot_spellings[] = {
    {Op::DotBF16, "dpbf16_ps",    "bh"},
    {Op::DotI16,  "dpwssd_epi32", "i" },
    {Op::DotU8,   "dpbusd_epi32", "i" },
};

// Only aligned vectors can be stored past the caches, and only some compilers know how.
constexpr const char* streaming = R"(
#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
#if __has_builtin(__builtin_nontemporal_store)
#define store_past_caches(type, any, at, value)                            \
  do {                                                                     \
    if ((__UINTPTR_TYPE__)(at) % sizeof(type) == 0)                        \
      __builtin_nontemporal_store(value, (type*)(at));                     \
    else                                                                   \
      *(any*)(at) = value;                                                 \
  } while (0)
#else
#define store_past_caches(type, any, at, value) *(any*)(at) = value
#endif
)";

class CWriter : public Writer {
 public:
  Value literal(const Scalar& s, int lanes) override {
    std::string one = scalar_literal(s);
    if (lanes > 1 && s.dtype == DType::boolean) one = s.i ? "-1" : "0";
    if (lanes == 1) return {one, s.dtype, 1, s};
    return {list(s.dtype, lanes, [&](int) { return one; }), s.dtype, lanes, s};
  }

  Value lane_numbers(DType dtype, int lanes) override {
    return {list(dtype, lanes, [](int l) { return std::to_string(l); }), dtype, lanes, {}};
  }

  Value splat(const Value& v, int lanes) override {
    const std::string one = (v.dtype == DType::boolean ? "-" : "") + v.text;
    return define(v.dtype, lanes, list(v.dtype, lanes, [&](int) { return one; }));
  }

  Value slice(const Value& v, int first, int lanes) override {
    if (v.literal) return literal(*v.literal, lanes);
    auto lane = [&](int l) { return text(v.text, "[", first + l, "]"); };
    if (lanes > 1) return define(v.dtype, lanes, list(v.dtype, lanes, lane));
    return define(v.dtype, 1, v.dtype == DType::boolean ? lane(0) + " != 0" : lane(0));
  }

  Value join(std::span<const Value> elements) override {
    const DType d = elements[0].dtype;
    const int lanes = static_cast<int>(elements.size());
    const char* sign = d == DType::boolean ? "-" : "";
    return define(d, lanes, list(d, lanes, [&](int l) {
                    return sign + elements[static_cast<size_t>(l)].text;
                  }));
  }

  Value shuffle(const Value& a, const Value& b, std::span<const int> from) override {
    std::string list;
    for (int l : from) list += text(", ", l);
    return define(a.dtype, a.lanes, "__builtin_shufflevector(", a.text, ", ", b.text, list, ")");
  }

  Value alu(Op op, DType dtype, std::span<const Value> src, bool exact) override {
    const Value& a = src[0];
    switch (op) {
#define FLOAT_FUNCTION(op, arity, function, meaning, derivative) \
  case Op::op: return each(dtype, "__builtin_" #function, src);
#include "ir/float_functions.def"
#undef FLOAT_FUNCTION
      case Op::Cast: return cast(a, dtype);
      case Op::Bitcast: return bitcast(a, dtype);
      case Op::Where: return select(src[0], src[1], src[2]);
      case Op::Max:
      case Op::Min: return extremum(op, src[0], src[1]);
#define DOT(op, a, b, sum, meaning) case Op::op:
#include "ir/dots.def"
#undef DOT
        return multiply_words(op, src[0], src[1], src[2]);
      case Op::Lt:
      case Op::Eq: return compare(infix(op), src[0], src[1]);
      case Op::Neg:
        if (is_float(dtype)) return define(dtype, a.lanes, "-", a.text);
        return define(dtype, a.lanes, narrow(dtype, a.lanes, text("-", wrapping(a))));
      default: break;
    }
    const Value& b = src[1];
    const bool wraps = is_int(dtype) && !exact && (op == Op::Add || op == Op::Mul || op == Op::Shl);
    const std::string left = wraps ? wrapping(a) : a.text;
    const std::string right = wraps && op != Op::Shl ? wrapping(b)
                              : wraps && a.lanes > 1 ? text("(", unsigned_name(b), ")", b.text)
                                                     : b.text;
    const std::string whole = text(left, " ", infix(op), " ", right);
    if (dtype == DType::boolean && a.lanes > 1) return combine(op, a, b, whole);
    return define(dtype, a.lanes, is_float(dtype) ? whole : narrow(dtype, a.lanes, whole));
  }

  Value var(int number, DType dtype) override {
    return define(dtype, 1, text("vars[", number, "]"));
  }

  Value open_loop(const Value& begin, const Value& end, bool) override {
    const Value position{text("at", ++loops_made_), begin.dtype, 1, {}};  // i8 is a type
    const std::string& i = position.text;
    line("for (", use(begin.dtype, 1), " ", i, " = ", begin.text, "; ", i, " < ", end.text, "; ", i,
         "++) {");
    ++depth_;
    return position;
  }
  Value open_launched(int, const Value& extent, bool) override {
    return open_loop({"begin", extent.dtype, 1, {}}, {"end", extent.dtype, 1, {}}, true);
  }
  void close_loop() override {
    --depth_;
    line("}");
  }

  Value fold(Op op, const Value& v) override {
    if (v.lanes == 1) return v;
    const char* between = op == Op::And ? " & " : " | ";
    std::string whole;
    for (int l = 0; l < v.lanes; ++l) whole += text(l ? between : "", gate_lane(v, l));
    return define(DType::boolean, 1, "(", whole, ") != 0");
  }
  void open_if(const Value& c) override {
    line("if (", c.text, ") {");
    ++depth_;
  }
  void open_else() override {
    --depth_;
    line("} else {");
    ++depth_;
  }
  void close_if() override { close_loop(); }

  void declare_register(const std::string& name, DType dtype, int lanes) override {
    entry_ += text("  ", use(dtype, lanes), " ", name, ";\n");
  }
  Value read_register(const std::string& name, DType dtype, int lanes) override {
    return define(dtype, lanes, name);  // a copy: the register may be written before its use
  }
  void write_register(const std::string& name, const Value& v) override {
    line(name, " = ", v.text, ";");
  }

  std::string address(int slot, DType dtype, const Value& position) override {
    slots_.insert(slot);
    const DType d = memory_type(dtype);
    const std::string name = text("a", next_++);
    line(memory(d, 1), "* ", name, " = (", memory(d, 1), "*)p", slot, " + ", position.text, ";");
    return name;
  }

  Value load(const Place& place, int lanes, const Gate& gate) override {
    const DType d = memory_type(place.dtype);
    auto element = [&](int l) {
      const int parts = size_of(place.dtype) / size_of(place.unit);
      std::string at = text(place.address, "[", place.offset + l, "]");
      if (parts > 1)
        at = text("*(const ", memory(d, 1), "*)(", place.address, " + ", place.offset + l * parts,
                  ")");
      return gate ? text(gate_lane(*gate, l), " ? ", at, " : 0") : at;
    };
    std::string whole = element(0);
    if (lanes > 1 && gate && gate->lanes > 1) {
      whole = list(d, lanes, element);
    } else if (lanes > 1) {
      const std::string t = use(d, lanes);
      whole = text("*(const ", memory(d, lanes), "*)(", place.address, " + ", place.offset, ")");
      if (gate) whole = text(gate->text, " ? (", t, ")", whole, " : (", t, "){0}");
    }
    Value v = define(d, lanes, whole);
    v.dtype = place.dtype == DType::boolean ? d : place.dtype;
    return place.dtype == DType::boolean ? cast(v, DType::boolean) : v;
  }

  void store(const Place& place, const Value& value, const Gate& gate) override {
    const Value v = value.dtype == DType::boolean ? cast(value, DType::u8) : value;
    const DType d = memory_type(v.dtype);
    if (gate && gate->lanes > 1) {
      for (int l = 0; l < v.lanes; ++l)
        line("if (", gate_lane(*gate, l), ") ", place.address, "[", place.offset + l,
             "] = ", v.text, "[", l, "];");
      return;
    }
    const std::string when = gate ? text("if (", gate->text, ") ") : "";
    if (place.streamed && v.lanes > 1) {
      streams_ = true;
      line(when, "store_past_caches(", use(d, v.lanes), ", ", memory(d, v.lanes), ", ",
           place.address, " + ", place.offset, ", ", v.text, ");");
    } else if (v.lanes == 1)
      line(when, place.address, "[", place.offset, "] = ", v.text, ";");
    else
      line(when, "*(", memory(d, v.lanes), "*)(", place.address, " + ", place.offset,
           ") = ", v.text, ";");
  }

  void fetch(const Place& place, bool nearest) override {
    line("__builtin_prefetch(", place.address, " + ", place.offset, nearest ? "" : ", 0, 2", ");");
  }

  std::string function(const std::string& name) const {
    std::string out;
    for (auto [lanes, dtype, unaligned] : types_) out += type_definition(dtype, lanes, unaligned);
    if (multiplies_words_) out = "#include <immintrin.h>\n" + out;
    if (streams_) out += streaming;
    out += text("\n__attribute__((visibility(\"default\")))\nvoid ", name,
                "(void** buffers, const i64* vars, i64 begin, i64 end) {\n");
    for (int slot : slots_) out += text("  void* restrict p", slot, " = buffers[", slot, "];\n");
    if (streams_) return out + entry_ + body_ + "  __sync_synchronize();\n}\n";
    return out + entry_ + body_ + "}\n";
  }

 private:
  // Types are defined where first used by number of lanes; scalars come first.
  using TypeKey = std::tuple<int, DType, bool>;

  static std::string type_definition(DType d, int lanes, bool unaligned) {
    const std::string t = type(d, lanes);
    if (unaligned)
      return text("typedef ", t, " ", t, "_u __attribute__((aligned(1), may_alias));\n");
    if (lanes == 1) return text("typedef ", c_spelling(d), " ", t, ";\n");
    const DType element = d == DType::boolean ? DType::i8 : d;
    return text("typedef ", c_spelling(element), " ", t, " __attribute__((vector_size(",
                row(d).bytes * lanes, ")));\n");
  }

  std::string use(DType d, int lanes) {
    types_.insert({lanes, known(d), false});
    return type(d, lanes);
  }
  std::string memory(DType d, int lanes) {
    use(d, lanes);
    types_.insert({lanes, known(d), true});
    return type(d, lanes) + "_u";
  }

  template <class... A>
  void line(const A&... parts) {
    body_.append(static_cast<size_t>(2 * depth_), ' ');
    (append(body_, parts), ...);
    body_ += '\n';
  }
  template <class... A>
  Value define(DType dtype, int lanes, const A&... parts) {
    Value v{text("v", next_++), dtype, lanes, {}};
    line("const ", use(dtype, lanes), " ", v.text, " = ", parts..., ";");
    return v;
  }
  // (f32x4){a, b, c, d}
  template <class Element>
  std::string list(DType d, int lanes, const Element& element) {
    std::string out = text("(", use(d, lanes), "){");
    for (int l = 0; l < lanes; ++l) out += (l ? ", " : "") + element(l);
    return out + "}";
  }

  static std::string gate_lane(const Value& gate, int lane) {
    if (gate.literal) return gate.literal->i ? "1" : "0";
    return gate.lanes == 1 ? gate.text : text(gate.text, "[", lane, "]");
  }

  // Signed overflow is undefined in C, so arithmetic that may wrap is unsigned; promotion to int
  // would bring the problem back for 16 bits.
  std::string unsigned_name(const Value& v) {
    const int bits = v.lanes == 1 ? std::max(row(v.dtype).bits, 32) : row(v.dtype).bits;
    return use(bits_type(bits), v.lanes);
  }
  std::string wrapping(const Value& v) { return text("(", unsigned_name(v), ")", v.text); }
  std::string narrow(DType d, int lanes, const std::string& expression) {
    return text("(", use(d, lanes), ")(", expression, ")");
  }

  Value converted(const std::string& expression, DType to, int lanes) {
    if (lanes == 1) return define(to, 1, "(", use(to, 1), ")(", expression, ")");
    return define(to, lanes, "__builtin_convertvector(", expression, ", ", use(to, lanes), ")");
  }

  Value cast(const Value& v, DType to) {
    if (v.dtype == DType::boolean && v.lanes > 1) {
      const DType wide = mask_type(to);
      Value ones = converted(text(v.text, " & 1"), wide, v.lanes);
      return wide == to ? ones : converted(ones.text, to, v.lanes);
    }
    if (known(to) == known(v.dtype)) return {v.text, to, v.lanes, v.literal};
    if (to == DType::boolean && v.lanes == 1) return define(to, 1, v.text, " != 0");
    if (to == DType::boolean) return converted(v.text + " != 0", to, v.lanes);
    return converted(v.text, to, v.lanes);
  }

  Value bitcast(const Value& v, DType to) {
    if (v.dtype == DType::boolean || to == DType::boolean) return cast(v, to);
    if (v.lanes > 1) return define(to, v.lanes, "(", use(to, v.lanes), ")", v.text);
    return define(to, 1, "((union { ", use(v.dtype, 1), " from; ", use(to, 1), " to; }){", v.text,
                  "}).to");
  }

  // The bools c, bytes of 0 and -1, made as wide as the elements they choose. What a comparison of
  // such elements gave has that width: gcc does not see that narrowing and widening undo each other.
  Value mask_of(const Value& c, DType bits) {
    const auto wide = masks_.find({c.text, bits});
    return wide == masks_.end() ? converted(c.text, bits, c.lanes) : wide->second;
  }

  Value select(const Value& c, const Value& a, const Value& b) {
    if (a.lanes == 1) return define(a.dtype, 1, c.text, " ? ", a.text, " : ", b.text);
    const DType bits = mask_type(a.dtype);
    const std::string t = use(bits, a.lanes);
    const Value mask = mask_of(c, bits);
    return define(a.dtype, a.lanes, "(", use(a.dtype, a.lanes), ")(((", t, ")", a.text, " & ",
                  mask.text, ") | ((", t, ")", b.text, " & ~", mask.text, "))");
  }

  Value multiply_words(Op op, const Value& a, const Value& b, const Value& c) {
    const auto spelling = std::ranges::find(dot_spellings, op, &DotSpelling::op);
    ensure(spelling != std::end(dot_spellings), "render: no C function for ", name(op));
    multiplies_words_ = true;
    const std::string bits = std::to_string(32 * c.lanes),
                      sum = text("(__m", bits, is_float(c.dtype) ? ")" : "i)"),
                      words = text("(__m", bits, spelling->words, ")"),
                      prefix = text(")_mm", c.lanes > 4 ? bits : "", "_");
    return define(c.dtype, c.lanes, "(", use(c.dtype, c.lanes), prefix, spelling->function, "(",
                  sum, c.text, ", ", words, a.text, ", ", words, b.text, ")");
  }

  // And, Or, Xor of bools, and of what they were made from.
  Value combine(Op op, const Value& a, const Value& b, const std::string& whole) {
    const Value bools = define(DType::boolean, a.lanes, narrow(DType::boolean, a.lanes, whole));
    for (DType bits : {DType::i8, DType::i16, DType::i32, DType::i64}) {
      const auto x = masks_.find({a.text, bits}), y = masks_.find({b.text, bits});
      if (x == masks_.end() || y == masks_.end()) continue;
      masks_.insert({{bools.text, bits},
                     define(bits, a.lanes, x->second.text, " ", infix(op), " ", y->second.text)});
    }
    return bools;
  }

  Value compare(const char* how, const Value& a, const Value& b) {
    const std::string whole = text(a.text, " ", how, " ", b.text);
    if (a.lanes == 1) return define(DType::boolean, 1, whole);
    if (a.dtype != DType::boolean) {
      const Value wide = define(mask_type(a.dtype), a.lanes, whole);
      const Value bools = converted(wide.text, DType::boolean, a.lanes);
      masks_.insert({{bools.text, wide.dtype}, wide});
      return bools;
    }
    const bool less = how[0] == '<';
    return define(DType::boolean, a.lanes,
                  less ? text("~", a.text, " & ", b.text) : text("~(", a.text, " ^ ", b.text, ")"));
  }

  // The same choice as in render_llvm.cpp: a > b ? a : b, and a if a is NaN.
  Value extremum(Op op, Value a, Value b) {
    const bool known_b = b.literal && !std::isnan(b.literal->f);
    if (is_float(a.dtype) && known_b) std::swap(a, b);
    const Value chosen = select(compare(op == Op::Max ? ">" : "<", a, b), a, b);
    if (!is_float(a.dtype) || known_b) return chosen;
    return select(compare("!=", a, a), a, chosen);
  }

  // Lane by lane; the float form of a double function ends in f.
  Value each(DType dtype, std::string function, std::span<const Value> src) {
    if (dtype == DType::f32) function += "f";
    const int lanes = src[0].lanes;
    auto one = [&](int l) {
      std::string args;
      for (const Value& v : src) {
        if (!args.empty()) args += ", ";
        args += lanes == 1  ? v.text
                : v.literal ? scalar_literal(*v.literal)
                            : text(v.text, "[", l, "]");
      }
      return text(function, "(", args, ")");
    };
    return define(dtype, lanes, lanes == 1 ? one(0) : list(dtype, lanes, one));
  }

  std::string entry_, body_;
  bool streams_ = false, multiplies_words_ = false;
  int next_ = 0, loops_made_ = 0, depth_ = 1;
  std::set<int> slots_;
  std::map<std::pair<std::string, DType>, Value> masks_;  // of vectors of bools, by their width
  std::set<TypeKey> types_{
      {1, DType::i64, false}
  };
};

}  // namespace

std::string render_c(const Program& program, const Target&) {
  CWriter writer;
  expand(program, writer);
  return writer.function(program.name);
}

}  // namespace mote
