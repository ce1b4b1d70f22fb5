// LLVM IR. Values are SSA names; registers that live across loops are allocas of the entry block,
// which the compiler's first pass lifts.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/number.h"
#include "ir/freedoms.h"
#include "render/expand.h"
#include "render/render.h"

namespace mote {

namespace {

const char* type_name(DType d) {
  switch (d) {
    case DType::boolean: return "i1";
    case DType::f16: return "half";
    case DType::bf16: return "bfloat";
    case DType::f32: return "float";
    case DType::f64: return "double";
    default: break;
  }
  ensure(is_int(d), "render: no LLVM type for ", d);
  constexpr const char* names[] = {"i8", "i16", "i32", "i64"};
  return names[std::countr_zero(static_cast<unsigned>(row(d).bytes))];
}

std::string type(DType d, int lanes) {
  return lanes == 1 ? type_name(d) : text("<", lanes, " x ", type_name(d), ">");
}
std::string type(const Value& v) { return type(v.dtype, v.lanes); }
std::string typed(const Value& v) { return type(v) + " " + v.text; }

// Bools are bytes in memory.
DType memory_type(DType d) { return d == DType::boolean ? DType::u8 : d; }

// The part of an intrinsic's name that says its type: "v16f32".
std::string suffix(DType d, int lanes) {
  std::string element = is_float(d) ? name(d) : text("i", row(d).bits);
  return lanes == 1 ? element : text("v", lanes, element);
}

std::string float_literal(DType d, double v) {
  if (d == DType::f16) return text("0xH", hex_text(to_half(v).bits, 4));
  if (d == DType::bf16) return text("0xR", hex_text(to_bfloat16(v).bits, 4));
  if (std::fabs(v) < 1e6 && v * 64 == std::trunc(v * 64))
    return fixed_text(v, 6);  // exact: at most six binary places
  return text("0x", hex_text(std::bit_cast<uint64_t>(v), 16));
}

std::string scalar_literal(const Scalar& s) {
  if (s.dtype == DType::boolean) return s.i ? "true" : "false";
  if (is_float(s.dtype)) return float_literal(s.dtype, s.f);
  const int unused = 64 - row(s.dtype).bits;
  return std::to_string(static_cast<int64_t>(static_cast<uint64_t>(s.i) << unused) >> unused);
}

struct DotSpelling {
  Op op;
  const char* function;
};
constexpr DotSpelling dot_spellings[] = {
    {Op::DotBF16, "llvm.x86.avx512bf16.dpbf16ps."},
    {Op::DotI16,  "llvm.x86.avx512.vpdpwssd."    },
    {Op::DotU8,   "llvm.x86.avx512.vpdpbusd."    },
};

// One instruction for one op, by the kind of its sources.
struct Spelling {
  Op op;
  const char *signed_int, *unsigned_int, *floating;
};
// clang-format off
constexpr Spelling spellings[] = {
    {Op::Add,  "add",      "add",      "fadd"},
    {Op::Mul,  "mul",      "mul",      "fmul"},
    {Op::Div,  nullptr,    nullptr,    "fdiv"},
    {Op::IDiv, "sdiv",     "udiv",     nullptr},
    {Op::IMod, "srem",     "urem",     nullptr},
    {Op::And,  "and",      "and",      nullptr},
    {Op::Or,   "or",       "or",       nullptr},
    {Op::Xor,  "xor",      "xor",      nullptr},
    {Op::Shl,  "shl",      "shl",      nullptr},
    {Op::Shr,  "ashr",     "lshr",     nullptr},
    {Op::Lt,   "icmp slt", "icmp ult", "fcmp olt"},
    {Op::Eq,   "icmp eq",  "icmp eq",  "fcmp oeq"},
};
// clang-format on

const char* instruction(Op op, DType d) {
  for (const Spelling& s : spellings) {
    if (s.op != op) continue;
    const char* found = is_float(d) ? s.floating : is_signed(d) ? s.signed_int : s.unsigned_int;
    if (found) return found;
  }
  ensure(false, "render: no LLVM instruction for ", name(op), " of ", d);
  return "";
}

const char* conversion(DType from, DType to) {
  if (is_float(from) && is_float(to)) return row(from).bits < row(to).bits ? "fpext" : "fptrunc";
  if (is_float(from)) return is_signed(to) ? "fptosi" : "fptoui";
  if (is_float(to)) return is_signed(from) ? "sitofp" : "uitofp";
  if (row(from).bits > row(to).bits && from != DType::boolean) return "trunc";
  return is_signed(from) ? "sext" : "zext";
}

class LlvmWriter : public Writer {
 public:
  explicit LlvmWriter(const Target& target)
      : contracts_(contracts(target)), most_words_(target.vector_bytes / 4) {}

  int most_words() const override { return most_words_; }

  Value literal(const Scalar& s, int lanes) override {
    std::string one = scalar_literal(s);
    if (lanes > 1) one = text("splat (", type_name(s.dtype), " ", one, ")");
    return {one, s.dtype, lanes, s};
  }

  Value lane_numbers(DType dtype, int lanes) override {
    std::string list;
    for (int l = 0; l < lanes; ++l) list += text(l ? ", " : "", type_name(dtype), " ", l);
    return {text("<", list, ">"), dtype, lanes, {}};
  }

  Value splat(const Value& v, int lanes) override {
    const std::string wide = type(v.dtype, lanes);
    Value first = define(v.dtype, lanes, "insertelement ", wide, " poison, ", typed(v), ", i64 0");
    return define(v.dtype, lanes, "shufflevector ", typed(first), ", ", wide, " poison, <", lanes,
                  " x i32> zeroinitializer");
  }

  Value slice(const Value& v, int first, int lanes) override {
    if (v.literal) return literal(*v.literal, lanes);
    if (lanes == 1) return define(v.dtype, 1, "extractelement ", typed(v), ", i64 ", first);
    std::string list;
    for (int l = 0; l < lanes; ++l) list += text(l ? ", " : "", "i32 ", first + l);
    return define(v.dtype, lanes, "shufflevector ", typed(v), ", ", type(v), " poison, <", lanes,
                  " x i32> <", list, ">");
  }

  Value join(std::span<const Value> elements) override {
    const int lanes = static_cast<int>(elements.size());
    Value v{"poison", elements[0].dtype, lanes, {}};
    for (int l = 0; l < lanes; ++l)
      v = define(v.dtype, lanes, "insertelement ", typed(v), ", ",
                 typed(elements[static_cast<size_t>(l)]), ", i64 ", l);
    return v;
  }

  Value shuffle(const Value& a, const Value& b, std::span<const int> from) override {
    std::string list;
    for (size_t l = 0; l < from.size(); ++l) list += text(l ? ", " : "", "i32 ", from[l]);
    return define(a.dtype, a.lanes, "shufflevector ", typed(a), ", ", typed(b), ", <", a.lanes,
                  " x i32> <", list, ">");
  }

  Value alu(Op op, DType dtype, std::span<const Value> src, bool exact) override {
    const Value& a = src[0];
    switch (op) {
      case Op::Neg:
        if (is_float(dtype)) return define(dtype, a.lanes, "fneg ", typed(a));
        return define(dtype, a.lanes, "sub ", type(a), " ",
                      literal(scalar(dtype, int64_t{0}), a.lanes).text, ", ", a.text);
#define FLOAT_FUNCTION(op, arity, function, meaning, derivative) \
  case Op::op: return call("llvm." #function, src);
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
      default: break;
    }
    const char* flag = "";
    if (op == Op::Add || op == Op::Mul) {
      // Narrow floats are rounded after each op; fusing them would show.
      const bool fuses = contracts_ && (op == Op::Mul || !exact);
      if (fuses && (dtype == DType::f32 || dtype == DType::f64)) flag = " contract";
      // Lets addresses absorb constants across sign extension.
      if (exact && is_int(dtype) && is_signed(dtype)) flag = " nsw";
    }
    return define(dtype, a.lanes, instruction(op, a.dtype), flag, " ", typed(a), ", ", src[1].text);
  }

  Value var(int number, DType dtype) override {
    const std::string n = text("%n", number);
    const Value wide{n, DType::i64, 1, {}};
    line(n, ".at = getelementptr i64, ptr %vars, i64 ", number);
    line(n, " = load i64, ptr ", n, ".at");
    return row(dtype).bits == 64 ? Value{n, dtype, 1, {}} : cast(wide, dtype);
  }

  Value open_loop(const Value& begin, const Value& end, bool may_be_empty) override {
    const int id = ++loops_made_;
    const Value position{text("%i", id), begin.dtype, 1, {}};
    if (may_be_empty) {
      Value runs = define(DType::boolean, 1, "icmp slt ", typed(begin), ", ", end.text);
      line("br i1 ", runs.text, ", label %loop", id, ", label %done", id);
    } else {
      line("br label %loop", id);
    }
    const std::string before = block_;
    start_block(text("loop", id));
    open_.push_back({id, position, begin.text, end.text, before, body_.size()});
    return position;
  }

  Value open_launched(int, const Value& extent, bool) override {
    const DType dtype = extent.dtype;
    Value begin{"%begin", DType::i64, 1, {}}, end{"%end", DType::i64, 1, {}};
    if (row(dtype).bits < 64) begin = cast(begin, dtype), end = cast(end, dtype);
    begin.dtype = end.dtype = dtype;
    return open_loop(begin, end, true);
  }

  void close_loop() override {
    const Loop l = open_.back();
    open_.pop_back();
    const std::string& i = l.position.text;
    line(i, ".next = add nsw ", typed(l.position), ", 1");
    line(i, ".more = icmp slt ", type(l.position), " ", i, ".next, ", l.end);
    line("br i1 ", i, ".more, label %loop", l.id, ", label %done", l.id);
    body_.insert(l.phi_at, text("  ", i, " = phi ", type(l.position), " [ ", l.begin, ", %",
                                l.before, " ], [ ", i, ".next, %", block_, " ]\n"));
    start_block(text("done", l.id));
  }

  Value fold(Op op, const Value& v) override {
    if (v.lanes == 1) return v;
    const char* word = op == Op::And ? "and" : "or";
    const std::string f = text("llvm.vector.reduce.", word, ".", suffix(DType::boolean, v.lanes));
    declare(text("i1 @", f, "(", type(v), ")"));
    return define(DType::boolean, 1, "call i1 @", f, "(", typed(v), ")");
  }
  void open_if(const Value& c) override {
    const int id = ++gates_made_;
    ifs_.push_back({id, false});
    line("br i1 ", c.text, ", label %then", id, ", label %else", id);
    start_block(text("then", id));
  }
  void open_else() override {
    ifs_.back().has_else = true;
    line("br label %both", ifs_.back().id);
    start_block(text("else", ifs_.back().id));
  }
  void close_if() override {
    if (!ifs_.back().has_else) open_else();
    line("br label %both", ifs_.back().id);
    start_block(text("both", ifs_.back().id));
    ifs_.pop_back();
  }

  void declare_register(const std::string& name, DType dtype, int lanes) override {
    entry_ += text("  %", name, " = alloca ", type(dtype, lanes), "\n");
  }
  Value read_register(const std::string& name, DType dtype, int lanes) override {
    return define(dtype, lanes, "load ", type(dtype, lanes), ", ptr %", name);
  }
  void write_register(const std::string& name, const Value& v) override {
    line("store ", typed(v), ", ptr %", name);
  }

  std::string address(int slot, DType dtype, const Value& position) override {
    slots_.insert(slot);
    Value at = position;
    if (row(at.dtype).bits < 64) at = cast(at, DType::i64);
    return pointer("getelementptr ", type_name(memory_type(dtype)), ", ptr %p", slot, ", i64 ",
                   at.text);
  }

  Value load(const Place& place, int lanes, const Gate& gate) override {
    std::string at = moved(place);
    const DType stored = memory_type(place.dtype);
    Value v;
    if (gate && gate->lanes > 1) {
      const std::string t = type(stored, lanes);
      const std::string f = "llvm.masked.load." + suffix(stored, lanes) + ".p0";
      declare(text(t, " @", f, "(ptr, i32, ", type(*gate), ", ", t, ")"));
      v = define(stored, lanes, "call ", t, " @", f, "(ptr ", at, ", i32 1, ", typed(*gate), ", ",
                 t, " zeroinitializer)");
    } else {
      // A false gate reads zeros that lie elsewhere: no branch.
      if (gate) {
        zero_bytes_ = std::max(zero_bytes_, row(stored).bytes * lanes);
        at = pointer("select i1 ", gate->text, ", ptr ", at, ", ptr @zeros");
      }
      v = define(stored, lanes, "load ", type(stored, lanes), ", ptr ", at, ", align 1");
    }
    return place.dtype == DType::boolean ? cast(v, DType::boolean) : v;
  }

  void store(const Place& place, const Value& value, const Gate& gate) override {
    const Value v = value.dtype == DType::boolean ? cast(value, DType::u8) : value;
    const std::string at = moved(place);
    if (gate && gate->lanes > 1) {
      const std::string f = "llvm.masked.store." + suffix(v.dtype, v.lanes) + ".p0";
      declare(text("void @", f, "(", type(v), ", ptr, i32, ", type(*gate), ")"));
      line("call void @", f, "(", typed(v), ", ptr ", at, ", i32 1, ", typed(*gate), ")");
      return;
    }
    const int id = gate ? ++gates_made_ : 0;
    if (gate) {
      line("br i1 ", gate->text, ", label %write", id, ", label %skip", id);
      start_block(text("write", id));
    }
    if (place.streamed && v.lanes > 1) store_past_caches(v, at);
    else line("store ", typed(v), ", ptr ", at, ", align 1");
    if (gate) {
      line("br label %skip", id);
      start_block(text("skip", id));
    }
  }

  void fetch(const Place& place, bool nearest) override {
    declare("void @llvm.prefetch.p0(ptr, i32, i32, i32)");
    line("call void @llvm.prefetch.p0(ptr ", moved(place), ", i32 0, i32 ", nearest ? 3 : 2,
         ", i32 1)");
  }

  std::string function(const std::string& name, int vector_bytes) const {
    std::string out;
    if (zero_bytes_)
      out +=
          text("@zeros = private constant [", zero_bytes_, " x i8] zeroinitializer, align 64\n\n");
    out += text("define void @", name, "(ptr %buffers, ptr %vars, i64 %begin, i64 %end) #0 {\n");
    out += "entry:\n" + entry_;
    for (int slot : slots_) {
      out += text("  %p", slot, ".at = getelementptr ptr, ptr %buffers, i64 ", slot, "\n");
      out += text("  %p", slot, " = load ptr, ptr %p", slot, ".at\n");
    }
    out += body_ + (streams_ ? "  fence seq_cst\n" : "") + "  ret void\n}\n\n";
    for (const std::string& d : declarations_) out += "declare " + d + "\n";
    if (!declarations_.empty()) out += "\n";
    if (streams_) out += "!0 = !{i32 1}\n";
    return out + text("attributes #0 = { nounwind \"prefer-vector-width\"=\"", vector_bytes * 8,
                      "\" \"no-trapping-math\"=\"true\" }\n");
  }

 private:
  struct Loop {
    int id;
    Value position;
    std::string begin, end, before;
    size_t phi_at;  // where the phi goes once the last block of the body is known
  };

  struct Branch {
    int id;
    bool has_else;
  };

  template <class... A>
  void line(const A&... parts) {
    body_ += "  ";
    (append(body_, parts), ...);
    body_ += '\n';
  }
  template <class... A>
  Value define(DType dtype, int lanes, const A&... parts) {
    Value v{text("%v", next_++), dtype, lanes, {}};
    line(v.text, " = ", parts...);
    return v;
  }
  template <class... A>
  std::string pointer(const A&... parts) {
    std::string p = text("%a", next_++);
    line(p, " = ", parts...);
    return p;
  }
  void start_block(const std::string& label) {
    block_ = label;
    body_ += label + ":\n";
  }
  void declare(const std::string& signature) { declarations_.insert(signature); }

  std::string moved(const Place& p) {
    if (p.offset == 0) return p.address;
    return pointer("getelementptr ", type_name(memory_type(p.unit)), ", ptr ", p.address, ", i64 ",
                   p.offset);
  }

  // Only aligned vectors can be; memory need not be.
  void store_past_caches(const Value& v, const std::string& at) {
    streams_ = true;
    const int bytes = row(v.dtype).bytes * v.lanes;
    const Value word = define(DType::i64, 1, "ptrtoint ptr ", at, " to i64");
    const Value rest = define(DType::i64, 1, "and i64 ", word.text, ", ", bytes - 1);
    open_if(define(DType::boolean, 1, "icmp eq i64 ", rest.text, ", 0"));
    line("store ", typed(v), ", ptr ", at, ", align ", bytes, ", !nontemporal !0");
    open_else();
    line("store ", typed(v), ", ptr ", at, ", align 1");
    close_if();
  }

  // An intrinsic whose sources and result have one type.
  Value call(const char* base, std::span<const Value> src, const char* flags = "") {
    const std::string t = type(src[0]);
    const std::string f = text(base, ".", suffix(src[0].dtype, src[0].lanes));
    std::string args, types;
    for (const Value& v : src) {
      args += (args.empty() ? "" : ", ") + typed(v);
      types += (types.empty() ? "" : ", ") + t;
    }
    declare(text(t, " @", f, "(", types, ")"));
    return define(src[0].dtype, src[0].lanes, "call ", flags, t, " @", f, "(", args, ")");
  }

  Value cast(const Value& v, DType to) {
    const Value zero =
        literal(is_float(v.dtype) ? scalar(v.dtype, 0.0) : scalar(v.dtype, int64_t{0}), v.lanes);
    if (to == DType::boolean)
      return define(to, v.lanes, is_float(v.dtype) ? "fcmp une " : "icmp ne ", typed(v), ", ",
                    zero.text);
    if (type(v) == type(to, v.lanes)) return {v.text, to, v.lanes, v.literal};
    // Between the two 16-bit floats there is no conversion of its own.
    if (is_float(v.dtype) && is_float(to) && row(v.dtype).bits == row(to).bits)
      return cast(cast(v, DType::f32), to);
    const bool twice = v.dtype == DType::f64 && is_float(to) && row(to).bits == 16;
    return plain_cast(twice ? to_odd_f32(v) : v, to);
  }
  Value plain_cast(const Value& v, DType to) {
    return define(to, v.lanes, conversion(v.dtype, to), " ", typed(v), " to ", type(to, v.lanes));
  }

  // A double in f32 so that rounding once more is right: cut off, with the last bit set if anything
  // was lost. (LLVM would call a function for f64 to f16.)
  Value to_odd_f32(const Value& v) {
    const int n = v.lanes;
    auto bits = [&](int64_t i) { return literal(scalar(DType::i32, i), n); };
    const Value near = plain_cast(v, DType::f32), back = plain_cast(near, DType::f64);
    const Value pair[] = {back, v};
    const Value above =
        compare("fcmp ogt", call("llvm.fabs", {pair, 1}), call("llvm.fabs", {pair + 1, 1}));
    const Value less = select(above, bits(-1), bits(0)),
                odd = select(compare("fcmp one", back, v), bits(1), bits(0));
    const Value cut =
        define(DType::i32, n, "add ", typed(bitcast(near, DType::i32)), ", ", less.text);
    return bitcast(define(DType::i32, n, "or ", typed(cut), ", ", odd.text), DType::f32);
  }

  Value bitcast(const Value& v, DType to) {
    if (v.dtype == DType::boolean || to == DType::boolean) return cast(v, to);
    if (type(v) == type(to, v.lanes)) return {v.text, to, v.lanes, {}};
    return define(to, v.lanes, "bitcast ", typed(v), " to ", type(to, v.lanes));
  }

  Value multiply_words(Op op, Value a, Value b, const Value& c) {
    const auto spelling = std::ranges::find(dot_spellings, op, &DotSpelling::op);
    ensure(spelling != std::end(dot_spellings), "render: no LLVM function for ", name(op));
    std::string words = type(a);
    if (is_float(c.dtype)) {
      words = type(DType::bf16, 2 * a.lanes);
      for (Value* v : {&a, &b})
        v->text = define(DType::bf16, 2 * a.lanes, "bitcast ", typed(*v), " to ", words).text;
    }
    const std::string f = text(spelling->function, 32 * a.lanes);
    declare(text(type(c), " @", f, "(", type(c), ", ", words, ", ", words, ")"));
    return define(c.dtype, c.lanes, "call ", type(c), " @", f, "(", typed(c), ", ", words, " ",
                  a.text, ", ", words, " ", b.text, ")");
  }

  Value select(const Value& c, const Value& a, const Value& b) {
    return define(a.dtype, a.lanes, "select ", typed(c), ", ", typed(a), ", ", typed(b));
  }
  Value compare(const char* how, const Value& a, const Value& b) {
    return define(DType::boolean, a.lanes, how, " ", typed(a), ", ", b.text);
  }

  // A NaN in either is the result. Which zero is the larger one is left open.
  Value extremum(Op op, Value a, Value b) {
    const bool max = op == Op::Max;
    if (!is_float(a.dtype)) {
      const char* signed_less = max ? "icmp sgt" : "icmp slt";
      const char* unsigned_less = max ? "icmp ugt" : "icmp ult";
      return select(compare(is_signed(a.dtype) ? signed_less : unsigned_less, a, b), a, b);
    }
    auto further = [&](const Value& x, const Value& y) {
      return select(compare(max ? "fcmp ogt" : "fcmp olt", x, y), x, y);
    };
    if (extrema_.contains(b.text)) std::swap(a, b);
    const auto first = extrema_.find(a.text), second = extrema_.find(b.text);
    if (first == extrema_.end()) {
      const Value r = call(max ? "llvm.maximum" : "llvm.minimum", std::array{a, b}, "nsz ");
      if (a.lanes > 1 && !a.literal && !b.literal)
        extrema_[r.text] = {further(a, b), compare("fcmp uno", a, b)};
      return r;
    }
    const bool both = second != extrema_.end();
    const Extremum left = first->second;
    const Value ordered = further(left.ordered, both ? second->second.ordered : b);
    const Value other_nan = both ? second->second.has_nan : compare("fcmp uno", b, b);
    const Value has_nan = define(DType::boolean, a.lanes, "or ", typed(left.has_nan), ", ",
                                 other_nan.text);
    const Value nan = literal(scalar(a.dtype, std::nan("")), a.lanes);
    const Value r = select(both ? has_nan : left.has_nan, nan, ordered);
    extrema_[r.text] = {ordered, has_nan};
    return r;
  }

  // The largest or smallest of several values in two parts: what it is if none of them is NaN, and
  // whether one is. One comparison looks for NaNs in two values, and of parts that nobody uses
  // nothing is left.
  struct Extremum {
    Value ordered, has_nan;
  };
  std::map<std::string, Extremum> extrema_;
  const bool contracts_;
  const int most_words_;
  bool streams_ = false;
  std::string entry_, body_, block_ = "entry";
  int next_ = 0, loops_made_ = 0, gates_made_ = 0, zero_bytes_ = 0;
  std::vector<Loop> open_;
  std::vector<Branch> ifs_;
  std::set<int> slots_;
  std::set<std::string> declarations_;
};

}  // namespace

std::string render_llvm(const Program& program, const Target& target) {
  LlvmWriter writer(target);
  expand(program, writer);
  return writer.function(program.name, target.vector_bytes);
}

}  // namespace mote
