// PTX. Registers hold one element each: a vector is a list of them.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/integers.h"
#include "base/number.h"
#include "ir/freedoms.h"
#include "render/expand.h"
#include "render/ptx_text.h"
#include "render/render.h"

namespace mote {

namespace {

constexpr int64_t kScratchAlign = 16;
constexpr int kWidest = 16;             // bytes of one access
constexpr int64_t kMostBlocks = 65535;  // of all dimensions of a launch but the first
constexpr std::string_view kSeparator = ", ";

// As it lies in memory.
std::string stored(DType d) {
  if (d == DType::boolean) return "u8";
  if (is_float(d) || is_wide(d)) return text("b", row(d).bits);
  return text(is_signed(d) ? "s" : "u", row(d).bits);
}

std::vector<std::string> elements(const Value& v) {
  std::vector<std::string> out;
  for (size_t at = 0;;) {
    const size_t end = v.text.find(kSeparator, at);
    out.push_back(v.text.substr(at, end - at));
    if (end == std::string::npos) return out;
    at = end + kSeparator.size();
  }
}
std::string element(const Value& v, int lane) {
  return v.lanes == 1 ? v.text : elements(v)[static_cast<size_t>(lane)];
}
std::string list(std::span<const std::string> parts) {
  std::string out;
  for (const std::string& p : parts) {
    if (!out.empty()) out += kSeparator;
    out += p;
  }
  return out;
}

// The first version of the language that knows an architecture: any driver that runs it does.
struct Architecture {
  int number;
  const char *isa, *name;
};
constexpr Architecture architectures[] = {
    {75,  "6.3", "sm_75"  },
    {80,  "7.0", "sm_80"  },
    {86,  "7.1", "sm_86"  },
    {89,  "7.8", "sm_89"  },
    {90,  "8.0", "sm_90a" },
    {100, "8.6", "sm_100a"},
    {120, "8.7", "sm_120a"},
};
// Later GPUs run what was made for an earlier one of their kind.
std::string header_of(int architecture) {
  for (const Architecture& a : architectures)
    if (a.number == architecture) return text(".version ", a.isa, "\n.target ", a.name, "\n");
  const bool is_new = architecture > 80;
  return text(".version ", is_new ? "7.0" : "6.3", "\n.target ", is_new ? "sm_80" : "sm_75", "\n");
}

class PtxWriter : public Writer, PtxText {
 public:
  PtxWriter(const Program& program, const Target& target, int architecture, bool aligned_arguments)
      : PtxText(contracts(target), architecture),
        program_(program),
        target_(target),
        aligned_arguments_(aligned_arguments) {
    for (const Scratch& s : program.scratch) place_scratch(s);
    for (Node* n : program.linear->src())
      if (n->op == Op::Store && UOp(n)->src(0)->is(Op::Index))
        written_.insert(static_cast<int>(without_effects(UOp(n)->src(0)->src(0))->ints(0)));
    for (int64_t n : program.block) workers_ *= n;
  }

  // ---- values

  Value literal(const Scalar& s, int lanes) override {
    std::vector<std::string> parts(static_cast<size_t>(lanes), scalar_literal(s));
    return {list(parts), s.dtype, lanes, s};
  }
  Value lane_numbers(DType dtype, int lanes) override {
    std::vector<std::string> parts;
    for (int64_t l = 0; l < lanes; ++l) parts.push_back(scalar_literal(scalar(dtype, l)));
    return {list(parts), dtype, lanes, {}};
  }
  Value splat(const Value& v, int lanes) override {
    const std::vector<std::string> parts(static_cast<size_t>(lanes), v.text);
    return {list(parts), v.dtype, lanes, v.literal};
  }
  Value slice(const Value& v, int first, int lanes) override {
    const std::vector<std::string> parts = elements(v);
    return {list(std::span(parts).subspan(static_cast<size_t>(first), static_cast<size_t>(lanes))),
            v.dtype, lanes, v.literal};
  }
  Value join(std::span<const Value> parts) override {
    std::vector<std::string> all;
    for (const Value& v : parts) all.push_back(v.text);
    return {list(all), parts[0].dtype, static_cast<int>(parts.size()), {}};
  }
  Value shuffle(const Value& a, const Value& b, std::span<const int> from) override {
    std::vector<std::string> all = elements(a), out;
    for (std::string& s : elements(b)) all.push_back(std::move(s));
    for (int l : from) out.push_back(all[static_cast<size_t>(l)]);
    return {list(out), a.dtype, a.lanes, {}};
  }

  Value alu(Op op, DType dtype, std::span<const Value> src, bool exact) override {
    std::vector<std::string> out;
    std::vector<Value> one(src.begin(), src.end());
    for (int l = 0; l < src[0].lanes; ++l) {
      for (size_t i = 0; i < src.size(); ++i) one[i].text = element(src[i], l), one[i].lanes = 1;
      out.push_back(compute(op, dtype, one, exact));
    }
    return {list(out), dtype, src[0].lanes, {}};
  }

  Value var(int number, DType dtype) override {
    const Value wide = define(DType::i64, "ld.param.b64", text("[v", number, "]"));
    return {cast(wide, dtype), dtype, 1, {}};
  }

  // ---- control

  Value open_loop(const Value& begin, const Value& end, bool may_be_empty) override {
    const Value i = define(begin.dtype, text("mov.", bits(begin.dtype)), begin.text);
    const int id = ++labels_;
    const std::string less = text("setp.lt.", kind(begin.dtype));
    if (may_be_empty) {
      const Value runs = define(DType::boolean, less, i.text, end.text);
      line("@!", runs.text, " bra DONE", id, ";");
    }
    label(text("LOOP", id));
    loops_.push_back({id, i, end.text});
    return i;
  }
  void close_loop() override {
    const Loop l = loops_.back();
    loops_.pop_back();
    line("add.", kind(l.position.dtype), " ", l.position.text, ", ", l.position.text, ", 1;");
    const Value more =
        define(DType::boolean, text("setp.lt.", kind(l.position.dtype)), l.position.text, l.end);
    line("@", more.text, " bra LOOP", l.id, ";");
    label(text("DONE", l.id));
  }

  Value open_launched(int dimension, const Value& end, bool may_end_early) override {
    const auto d = static_cast<size_t>(dimension), blocks = program_.grid.size();
    const Value at =
        d < blocks ? block_position(d) : position("%tid.x", program_.block, d - blocks);
    const Value i{cast(at, end.dtype), end.dtype, 1, {}};
    launched_.push_back(may_end_early ? ++labels_ : 0);
    if (may_end_early) {
      const Value runs =
          define(DType::boolean, text("setp.lt.", kind(end.dtype)), i.text, end.text);
      line("@!", runs.text, " bra DONE", labels_, ";");
    }
    return i;
  }
  void close_launched() override {
    if (launched_.back()) label(text("DONE", launched_.back()));
    launched_.pop_back();
  }

  Value fold(Op op, const Value& v) override {
    const std::vector<std::string> parts = elements(v);
    Value all{parts[0], v.dtype, 1, {}};
    for (size_t i = 1; i < parts.size(); ++i)
      all = define(v.dtype, op == Op::And ? "and.pred" : "or.pred", all.text, parts[i]);
    return all;
  }
  void open_if(const Value& c) override {
    ifs_.push_back({++labels_, false});
    line("@!", c.text, " bra ELSE", labels_, ";");
  }
  void open_else() override {
    ifs_.back().has_else = true;
    line("bra BOTH", ifs_.back().id, ";");
    label(text("ELSE", ifs_.back().id));
  }
  void close_if() override {
    label(text(ifs_.back().has_else ? "BOTH" : "ELSE", ifs_.back().id));
    ifs_.pop_back();
  }

  void declare_register(const std::string& name, DType dtype, int lanes) override {
    std::vector<std::string> parts;
    for (int l = 0; l < lanes; ++l) parts.push_back(fresh(dtype));
    registers_[name] = {list(parts), dtype, lanes, {}};
  }
  Value read_register(const std::string& name, DType dtype, int lanes) override {
    // A copy: the register may be written before its use.
    std::vector<std::string> out;
    for (const std::string& s : elements(registers_.at(name))) out.push_back(moved(dtype, s));
    return {list(out), dtype, lanes, {}};
  }
  void write_register(const std::string& name, const Value& v) override {
    const std::vector<std::string> to = elements(registers_.at(name)), from = elements(v);
    for (size_t i = 0; i < to.size(); ++i)
      line("mov.", bits(v.dtype), " ", to[i], ", ", from[i], ";");
  }

  // ---- memory

  std::string address(int slot, DType dtype, const Value& position) override {
    const int bytes = row(dtype).bytes;
    const Memory& m = memory(slot);
    std::string at;
    if (m.space == Space::Shared) {
      const std::string n = cast(position, DType::u32);
      at = define(DType::u32, "mad.lo.u32", n, std::to_string(bytes), m.start).text;
    } else {
      const bool wide = is_wide(position.dtype) || position.literal;
      const std::string size = std::to_string(bytes);
      const Value step =
          wide ? define(DType::i64, "mul.lo.s64", cast(position, DType::i64), size)
               : define(DType::i64, text("mul.wide.", kind(position.dtype)), position.text, size);
      at = define(DType::i64, "add.s64", m.start, step.text).text;
    }
    places_[at] = slot;
    return at;
  }

  Value load(const Place& place, int lanes, const Gate& gate) override {
    if (const int bytes = wide_bytes(place, lanes, gate))
      return load_wide(place, lanes, gate, bytes);
    const bool is_bool = place.dtype == DType::boolean;
    const DType d = is_bool ? DType::u8 : place.dtype;
    std::vector<std::string> out;
    for (int l = 0; l < lanes; ++l) {
      std::string to = fresh(d);
      if (gate) line("mov.", bits(d), " ", to, ", 0;");
      line(when(gate, l), "ld", space(place), ".", stored(d), " ", to, ", ", at(place, l), ";");
      if (is_bool) to = define(DType::boolean, "setp.ne.u32", to, "0").text;
      out.push_back(to);
    }
    return {list(out), place.dtype, lanes, {}};
  }

  void store(const Place& place, const Value& value, const Gate& gate) override {
    if (const int bytes = wide_bytes(place, value.lanes, gate))
      return store_wide(place, value, gate, bytes);
    for (int l = 0; l < value.lanes; ++l) {
      Value one{element(value, l), value.dtype, 1, {}};
      if (one.dtype == DType::boolean) one = {cast(one, DType::u8), DType::u8, 1, {}};
      line(when(gate, l), "st", space(place), ".", stored(one.dtype), " ", at(place, l), ", ",
           one.text, ";");
    }
  }

  void fetch(const Place& place, bool) override {
    if (memory(places_.at(place.address)).space == Space::Global)
      line("prefetch.global.L2 ", at(place, 0), ";");
  }

  // Some access needs arguments that begin at multiples of 16 bytes.
  bool needs_aligned_arguments() const { return needs_aligned_; }

  // ---- workers of a block

  void barrier() override { line("bar.sync 0;"); }

  Value of_lane(const Value& v, const Value& lane) override {
    std::vector<std::string> out;
    for (int l = 0; l < v.lanes; ++l)
      out.push_back(exchanged({element(v, l), v.dtype, 1, {}},
                              cast({element(lane, l), lane.dtype, 1, {}}, DType::u32)));
    return {list(out), v.dtype, v.lanes, {}};
  }

  // Where the hardware cannot, or what is read may be written, at once.
  void copy(const Place& to, const Place& from, int lanes, const Gate& filled,
            const Gate& gate) override {
    const int bytes = row(to.dtype).bytes;
    const int at_once = std::max(wide_bytes(to, lanes, gate), bytes) / bytes,
              most = std::max(wide_bytes(from, lanes, filled), bytes) / bytes,
              step = std::min(at_once, most);
    if (step * bytes < 4 || written_.contains(places_.at(from.address)))
      return store(to, load(from, lanes, filled), gate);
    for (int l = 0; l < lanes; l += step) {
      std::string size = std::to_string(bytes * step);
      if (filled) size += ", " + define(DType::u32, "selp.b32", size, "0", filled->text).text;
      line(when(gate, l), "cp.async.ca.shared.global ", at(to, l), ", ", at(from, l), ", ", size,
           ";");
    }
  }
  void wait(int64_t missing) override {
    line("cp.async.commit_group;");
    line("cp.async.wait_group ", missing, ";");
  }

  std::vector<Value> multiply_tiles(int64_t number, std::span<const Value> c,
                                    std::span<const Value> a, std::span<const Value> b) override {
    const Fragment& f = target_.fragments[static_cast<size_t>(number)];
    ensure(!f.a_staged && !f.b_staged && !f.pending, "render: no PTX for ", f.name);
    std::vector<std::string> sums, before;
    for (const Value& v : c) sums.push_back(fresh(v.dtype)), before.push_back(v.text);
    const char* factor = name(f.factor);
    line("mma.sync.aligned.m", f.rows, "n", f.columns, "k", f.depth, ".row.col.", kind(f.sum), ".",
         factor, ".", factor, ".", kind(f.sum), " {", list(sums), "}, {", packed(a), "}, {",
         packed(b), "}, {", list(before), "};");
    std::vector<Value> out;
    for (const std::string& s : sums) out.push_back({s, f.sum, 1, {}});
    return out;
  }

  std::string function(const std::string& name) const {
    std::string out = text(".visible .entry ", name, "(");
    const char* separator = "";
    auto argument = [&](char letter, int number) {
      out += text(separator, "\n  .param .b64 ", std::string(1, letter), number);
      separator = ",";
    };
    for (int i = 0; i < program_.params; ++i) argument('p', i);
    for (size_t i = 0; i < program_.vars.size(); ++i) argument('v', static_cast<int>(i));
    out += text(")\n.maxntid ", workers_, ", 1, 1\n{\n", local_);
    for (const auto& [letter, count] : counts_)
      out += text("  .reg .", bits(letter), " %", std::string(1, letter), "<", count, ">;\n");
    return out + entry_ + body_ + "  ret;\n}\n";
  }
  std::string header() const {
    return text(header_of(architecture_), ".address_size 64\n",
                shared_bytes_ ? ".extern .shared .align 16 .b8 block_memory[];\n" : "");
  }

 private:
  struct Memory {
    Space space = Space::Global;
    std::string start;  // a register
  };
  struct Loop {
    int id;
    Value position;
    std::string end;
  };
  struct Branch {
    int id;
    bool has_else;
  };

  // ---- places

  // Positions of number n, the last dimension moving fastest.
  Value position(const std::string& number, std::span<const int64_t> extents, size_t d) {
    int64_t step = 1;
    for (size_t i = d + 1; i < extents.size(); ++i) step *= extents[i];
    Value n = define(DType::u32, "mov.u32", number);
    if (step > 1) n = define(DType::u32, "div.u32", n.text, std::to_string(step));
    if (d > 0) n = define(DType::u32, "rem.u32", n.text, std::to_string(extents[d]));
    return n;
  }
  Value block_position(size_t d) {
    const size_t count = program_.grid.size();
    constexpr const char* words[] = {"%ctaid.x", "%ctaid.y", "%ctaid.z"};
    if (launch_of(program_).flat) return position(words[0], program_.grid, d);
    return define(DType::u32, "mov.u32", words[count - 1 - d]);
  }

  // ---- several elements at once

  // Bytes of one access to consecutive elements; 0: each is accessed by itself.
  int wide_bytes(const Place& p, int lanes, const Gate& gate) {
    const int size = row(p.dtype).bytes;
    if (lanes == 1 || p.dtype == DType::boolean || (gate && gate->lanes > 1)) return 0;
    const bool global = memory(places_.at(p.address)).space == Space::Global;
    if (global && !aligned_arguments_) return 0;
    for (int bytes = kWidest; bytes > std::max(size, 2); bytes /= 2) {
      if (bytes > lanes * size || p.divisor * size % bytes) continue;
      needs_aligned_ |= global;
      return bytes;
    }
    return 0;
  }

  // Registers of one access: words of 32 bits, or of 64 where elements are as wide.
  static DType word_of(DType d) { return is_wide(d) ? DType::u64 : DType::u32; }
  static std::string vector_of(std::span<const std::string> words, DType word) {
    const std::string count = words.size() > 1 ? text(".v", words.size()) : "";
    return text(count, ".", bits(word));
  }
  static std::string braced(std::span<const std::string> words) {
    return words.size() > 1 ? "{" + list(words) + "}" : words[0];
  }

  Value load_wide(const Place& place, int lanes, const Gate& gate, int bytes) {
    const DType d = place.dtype, word = word_of(d);
    const int size = row(d).bytes, in_word = std::max(1, 4 / size);
    std::vector<std::string> out;
    for (int l = 0; l < lanes; l += bytes / size) {
      std::vector<std::string> words;
      for (int w = 0; w < std::max(1, bytes / row(word).bytes); ++w) {
        words.push_back(fresh(word));
        if (gate) line("mov.", bits(word), " ", words.back(), ", 0;");
      }
      line(when(gate, 0), "ld", space(place), vector_of(words, word), " ", braced(words), ", ",
           at(place, l), ";");
      for (const std::string& w : words)
        for (int i = 0; i < in_word; ++i) out.push_back(in_word == 1 ? w : taken(w, d, i));
    }
    return {list(out), d, lanes, {}};
  }
  // Element i of a word.
  std::string taken(const std::string& word, DType d, int i) {
    const int width = row(d).bits;
    if (bank(d) == 'r')
      return define(d, is_signed(d) ? "bfe.s32" : "bfe.u32", word, std::to_string(i * width),
                    std::to_string(width))
          .text;
    const Value low =
        i ? define(DType::u32, "shr.u32", word, "16") : Value{word, DType::u32, 1, {}};
    return define(d, "cvt.u16.u32", low.text).text;
  }

  void store_wide(const Place& place, const Value& value, const Gate& gate, int bytes) {
    const DType d = place.dtype, word = word_of(d);
    const int size = row(d).bytes;
    const size_t in_word = static_cast<size_t>(std::max(1, 4 / size));
    const std::vector<std::string> all = elements(value);
    for (int l = 0; l < value.lanes; l += bytes / size) {
      std::vector<std::string> words;
      for (size_t e = static_cast<size_t>(l); e < static_cast<size_t>(l + bytes / size);
           e += in_word)
        words.push_back(joined(std::span(all).subspan(e, in_word), d, word));
      line(when(gate, 0), "st", space(place), vector_of(words, word), " ", at(place, l), ", ",
           braced(words), ";");
    }
  }
  std::string joined(std::span<const std::string> parts, DType d, DType word) {
    if (parts.size() == 1) return moved(word, parts[0]);
    if (bank(d) == 'h') return define(word, "mov.b32", "{" + list(parts) + "}").text;
    std::string all = moved(word, parts[0]);
    for (size_t i = 1; i < parts.size(); ++i)
      all =
          define(word, "bfi.b32", parts[i], all,
                 std::to_string(i * static_cast<size_t>(row(d).bits)), std::to_string(row(d).bits))
              .text;
    return all;
  }

  void place_scratch(const Scratch& s) {
    const bool is_shared = s.space == Space::Shared;
    Memory m{s.space, fresh(is_shared ? DType::u32 : DType::u64)};
    if (is_shared) {
      entry_line("mov.u32 ", m.start, ", block_memory;");
      entry_line("add.u32 ", m.start, ", ", m.start, ", ", shared_bytes_, ";");
      shared_bytes_ += round_up(s.bytes, kScratchAlign);
    } else {
      local_ += text("  .local .align ", kScratchAlign, " .b8 own", s.slot, "[", s.bytes, "];\n");
      entry_line("mov.u64 ", m.start, ", own", s.slot, ";");
    }
    memories_[s.slot] = std::move(m);
  }

  const Memory& memory(int slot) {
    const auto found = memories_.find(slot);
    if (found != memories_.end()) return found->second;
    const std::string start = fresh(DType::u64);
    entry_line("ld.param.b64 ", start, ", [p", slot, "];");
    entry_line("cvta.to.global.u64 ", start, ", ", start, ";");
    return memories_[slot] = {Space::Global, start};
  }

  const char* space(const Place& p) {
    const Space s = memory(places_.at(p.address)).space;
    return s == Space::Shared ? ".shared" : s == Space::Local ? ".local" : ".global";
  }
  std::string at(const Place& p, int lane) const {
    const int64_t bytes = (p.offset + lane) * row(p.dtype).bytes;
    if (!bytes) return text("[", p.address, "]");
    if (bytes == static_cast<int32_t>(bytes)) return text("[", p.address, "+", bytes, "]");
    return far(p.address, bytes);
  }
  std::string far(const std::string& address, int64_t bytes) const {
    auto* self = const_cast<PtxWriter*>(this);
    return text("[", self->define(DType::i64, "add.s64", address, std::to_string(bytes)).text, "]");
  }
  static std::string when(const Gate& gate, int lane) {
    return gate ? text("@", gate->lanes > 1 ? element(*gate, lane) : gate->text, " ") : "";
  }

  // ---- lanes

  // Of the last warp of a block there may be a part.
  std::string mask() {
    if (!mask_.empty()) return mask_;
    const int64_t rest = workers_ % 32;
    if (!rest) return mask_ = "0xffffffff";
    const std::string part = text("0x", hex_text((uint32_t{1} << rest) - 1, 8));
    if (workers_ < 32) return mask_ = part;
    mask_ = fresh(DType::u32);
    const std::string last = fresh(DType::boolean);
    entry_line("mov.u32 ", mask_, ", %tid.x;");
    entry_line("setp.ge.u32 ", last, ", ", mask_, ", ", workers_ - rest, ";");
    entry_line("selp.b32 ", mask_, ", ", part, ", 0xffffffff, ", last, ";");
    return mask_;
  }

  std::string exchanged_word(const std::string& word, const std::string& lane) {
    return define(DType::u32, "shfl.sync.idx.b32", word, lane, "31", mask()).text;
  }
  std::string exchanged(const Value& v, const std::string& from) {
    if (bank(v.dtype) == 'r') return exchanged_word(v.text, from);
    if (bank(v.dtype) == 'p')
      return truth({exchanged_word(cast(v, DType::u32), from), DType::u32, 1, {}});
    if (bank(v.dtype) == 'h') {
      const Value word = define(DType::u32, "cvt.u32.u16", v.text);
      return define(v.dtype, "cvt.u16.u32", exchanged_word(word.text, from)).text;
    }
    const std::string low = fresh(DType::u32), high = fresh(DType::u32);
    line("mov.b64 {", low, ", ", high, "}, ", v.text, ";");
    const std::string one = exchanged_word(low, from), two = exchanged_word(high, from);
    return define(v.dtype, "mov.b64", text("{", one, ", ", two, "}")).text;
  }

  // Pairs of 16-bit elements as the product takes them.
  std::string packed(std::span<const Value> registers) {
    std::vector<std::string> out;
    for (size_t i = 0; i < registers.size(); i += 2)
      out.push_back(define(DType::u32, "mov.b32",
                           text("{", registers[i].text, ", ", registers[i + 1].text, "}"))
                        .text);
    return list(out);
  }

  const Program& program_;
  const Target& target_;
  const bool aligned_arguments_;
  std::string local_, mask_;
  std::map<std::string, Value> registers_;
  std::map<int, Memory> memories_;
  std::map<std::string, int> places_;  // addresses: whose slot
  std::set<int> written_;              // slots
  std::vector<Loop> loops_;
  std::vector<Branch> ifs_;
  std::vector<int> launched_;
  int labels_ = 0;
  int64_t shared_bytes_ = 0, workers_ = 1;
  bool needs_aligned_ = false;
};

}  // namespace

// The last Global range is the first dimension, whose blocks run beside each other.
GridLaunch launch_of(const Program& program) {
  GridLaunch out;
  for (int64_t n : program.block) out.workers *= n;
  for (const Scratch& s : program.scratch)
    if (s.space == Space::Shared) out.shared_bytes += round_up(s.bytes, kScratchAlign);
  const size_t count = program.grid.size();
  for (size_t d = 0; d < count; ++d) {
    const int64_t extent = program.grid[count - 1 - d];
    out.flat |= count > 3 || (d > 0 && extent > kMostBlocks);
    if (d < 3) out.blocks[d] = extent;
  }
  if (out.flat) out.blocks[0] = program.global_extent, out.blocks[1] = out.blocks[2] = 1;
  return out;
}

std::string unaligned_entry(const std::string& kernel) { return kernel + "_any"; }

std::string render_ptx(const Program& program, const Target& target, int architecture) {
  PtxWriter writer(program, target, architecture, true);
  expand(program, writer);
  std::string out = writer.header() + writer.function(program.name);
  if (!writer.needs_aligned_arguments()) return out;
  PtxWriter any(program, target, architecture, false);
  expand(program, any);
  return out + any.function(unaligned_entry(program.name));
}

}  // namespace mote
