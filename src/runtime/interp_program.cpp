#include "runtime/interp_program.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "ir/eval.h"
#include "ir/graph.h"
#include "ir/program.h"
#include "runtime/host_array.h"

namespace mote {

namespace {

// Where an operand's elements are: register base + offsets[element of the instruction's tile].
struct Operand {
  int base = -1;
  std::vector<int> offsets;
};

struct Instruction {
  enum Kind : uint8_t { Compute, Fold, Load, Store, Move, Loop, End } kind;
  Op op = Op::Sink;           // of Compute and Fold
  DType dtype = DType::none;  // of the result, or of the memory of Load and Store
  bool global = false;        // of Loop: from begin to end as the caller says
  bool gated = false;         // the last source says whether an element is accessed
  int to = -1;                // register of the result, or of the loop's position
  int count = 1;              // elements of the tile
  int param = -1;             // of Load and Store: slot, and how many elements it has
  int64_t size = 0;
  int jump = -1;            // Loop: past its End; End: its Loop
  std::vector<int> places;  // of Fold and Move: where each element goes, from `to`
  std::vector<Operand> src;
};

}  // namespace

struct InterpProgram::Code {
  std::string name;
  std::vector<Instruction> instructions;
  std::vector<Scalar> registers;          // at the start: constants and tile positions
  std::vector<std::pair<int, int>> vars;  // (register, number of the scalar argument)
  std::vector<Scratch> scratch;
};

namespace {

// Gives every node a tile (the set of tile ranges it has an element for, by slot) and registers.
class Assembler {
 public:
  Assembler(std::span<const std::string> vars, std::vector<Instruction>* out,
            std::vector<Scalar>* registers, std::vector<std::pair<int, int>>* used)
      : names_(vars), out_(*out), registers_(*registers), used_(*used) {}

  void run(UOp linear) {
    ensure(linear->is(Op::Linear), "interp: a program is a Linear, got ", name(linear->op));
    for (Node* s : linear->src()) statement(UOp(s));
    ensure(loops_.empty(), "interp: a loop is never closed");
  }

 private:
  struct Place {
    uint64_t tile = 0;
    int base = -1;
  };

  void statement(UOp u) {
    if (u->is(Op::Range)) return open_loop(u);
    if (u->is(Op::End)) return close_loop(u);
    if (u->is(Op::Store)) return store(u);
    if (u->is(Op::Fetch)) return;
    if (u->is(Op::Load)) return load(u);
    if (u->is(Op::Reduce)) return fold(u);
    ensure(has(u->op, Alu), "interp: ", name(u->op), " is no statement");
    Instruction in{.kind = Instruction::Compute, .op = u->op, .dtype = u->dtype};
    uint64_t tile = 0;
    for (Node* s : u->src()) tile |= place(s).tile;
    in.to = define(u, tile);
    in.count = elements(tile);
    for (Node* s : u->src()) in.src.push_back(operand(s, tile));
    out_.push_back(std::move(in));
  }

  void open_loop(UOp r) {
    ensure(!is_tile_range(r), "interp: a tile range is no loop");
    Instruction in{.kind = Instruction::Loop, .dtype = r->dtype};
    in.global = range_role(r) == Role::Global;
    in.src.push_back(operand(r->src(0), 0));
    in.to = define(r, 0);
    loops_.push_back({r, static_cast<int>(out_.size())});
    out_.push_back(std::move(in));
  }

  void close_loop(UOp u) {
    const UOp range = u->src(u->nsrc - 1);
    ensure(!loops_.empty() && loops_.back().first == range, "interp: loops are not nested");
    const int loop = loops_.back().second;
    loops_.pop_back();
    out_[static_cast<size_t>(loop)].jump = static_cast<int>(out_.size()) + 1;
    out_.push_back({.kind = Instruction::End, .jump = loop});
  }

  void load(UOp u) {
    const UOp from = without_effects(u->src(0));
    const bool memory = from->is(Op::Index);
    uint64_t tile = memory ? place(from->src(1)).tile : place(from).tile;
    Instruction in{.kind = memory ? Instruction::Load : Instruction::Move, .dtype = u->dtype};
    if (u->nsrc > 1) tile |= place(u->src(1)).tile, in.gated = true;
    in.count = elements(tile);
    in.src.push_back(operand(memory ? from->src(1) : from, tile));
    if (in.gated) in.src.push_back(operand(u->src(1), tile));
    if (memory) access(from, &in);
    in.to = define(u, tile);
    if (!memory) in.places = offsets(tile, tile);
    out_.push_back(std::move(in));
  }

  void store(UOp u) {
    const UOp into = without_effects(u->src(0));
    const bool memory = into->is(Op::Index);
    uint64_t tile = place(u->src(1)).tile | place(memory ? into->src(1) : into).tile;
    Instruction in{.kind = memory ? Instruction::Store : Instruction::Move,
                   .dtype = u->src(1)->dtype};
    if (u->nsrc > 2) tile |= place(u->src(2)).tile, in.gated = true;
    in.count = elements(tile);
    in.src.push_back(operand(u->src(1), tile));
    if (memory) {
      access(into, &in);
      in.src.push_back(operand(into->src(1), tile));
    } else {
      in.to = place(into).base;
      in.places = offsets(tile, place(into).tile);
    }
    if (in.gated) in.src.push_back(operand(u->src(2), tile));
    out_.push_back(std::move(in));
  }

  void fold(UOp u) {
    // A value that does not depend on a range is folded with itself as often as the range is long.
    uint64_t tile = place(u->src(0)).tile, over = 0;
    for (Node* r : u->src().subspan(1)) {
      ensure(is_tile_range(UOp(r)), "interp: a Reduce that is left is over tile ranges");
      over |= place(UOp(r)).tile;
    }
    const uint64_t kept = tile & ~over;
    tile |= over;
    Instruction in{.kind = Instruction::Fold, .op = static_cast<Op>(u->ints(0)), .dtype = u->dtype};
    in.count = elements(tile);
    in.to = define(u, kept);
    in.src.push_back(operand(u->src(0), tile));
    in.places = offsets(tile, kept);
    out_.push_back(std::move(in));
  }

  static void access(UOp index, Instruction* in) {
    const UOp memory = without_effects(index->src(0));
    ensure(memory->is(Op::Param), "interp: Index of ", name(memory->op));
    in->param = static_cast<int>(memory->ints(0));
    in->size = memory->ints(1);
  }

  // The place of an operand; leaves get theirs at first use, statements when they were met.
  const Place& place(UOp u) {
    if (auto it = places_.find(u.get()); it != places_.end()) return it->second;
    ensure(OpSet{Op::Const, Op::Var, Op::Range, Op::Reg}.has(u->op) &&
               (!u->is(Op::Range) || is_tile_range(u)),
           "interp: ", name(u->op), " is used before its statement");
    uint64_t tile = 0;
    if (is_tile_range(u)) {
      extents_[range_slot(u)] = static_cast<int>(u->src(0)->arg.i);
      ensure(is_const(u->src(0)), "interp: the extent of a tile range is not a constant");
      tile = slot_bit(u);
    }
    if (u->is(Op::Reg))
      for (Node* r : u->src()) tile |= place(UOp(r)).tile;
    const int base = define(u, tile);
    if (u->is(Op::Const)) registers_[static_cast<size_t>(base)] = scalar_of(u);
    if (u->is(Op::Var)) used_.emplace_back(base, argument(u));
    if (is_tile_range(u))
      for (int i = 0; i < elements(tile); ++i)
        registers_[static_cast<size_t>(base + i)] = scalar(u->dtype, int64_t{i});
    return places_.at(u.get());
  }

  int argument(UOp var) const {
    auto it = std::ranges::find(names_, var->arg.object->str);
    ensure(it != names_.end(), "interp: ", var->arg.object->str, " is no argument of the kernel");
    return static_cast<int>(it - names_.begin());
  }

  int define(UOp u, uint64_t tile) {
    const int base = static_cast<int>(registers_.size());
    registers_.resize(registers_.size() + static_cast<size_t>(elements(tile)),
                      scalar(u->dtype, int64_t{0}));
    ensure(places_.emplace(u.get(), Place{tile, base}).second, "interp: ", name(u->op),
           " is a statement twice");
    return base;
  }

  Operand operand(UOp u, uint64_t tile) {
    const Place p = place(u);
    return {p.base, offsets(tile, p.tile)};
  }

  int elements(uint64_t tile) const {
    int n = 1;
    for (uint64_t rest = tile; rest; rest &= rest - 1) n *= extents_[std::countr_zero(rest)];
    return n;
  }

  // For each element of `tile` (row-major, slots ascending) the element of `part` with the same
  // positions.
  std::vector<int> offsets(uint64_t tile, uint64_t part) const {
    std::vector<int> out{0};
    int step = elements(part);
    for (uint64_t rest = tile; rest; rest &= rest - 1) {
      const int slot = std::countr_zero(rest), extent = extents_[slot];
      const bool moves = part >> slot & 1;
      if (moves) step /= extent;
      std::vector<int> wider;
      for (int o : out)
        for (int i = 0; i < extent; ++i) wider.push_back(o + (moves ? i * step : 0));
      out = std::move(wider);
    }
    return out;
  }

  std::span<const std::string> names_;
  std::vector<Instruction>& out_;
  std::vector<Scalar>& registers_;
  std::vector<std::pair<int, int>>& used_;
  std::unordered_map<const Node*, Place> places_;
  std::vector<std::pair<UOp, int>> loops_;
  int extents_[64] = {};
};

struct Machine {
  const std::string& name;
  std::span<void* const> buffers;
  std::vector<Scalar> registers;

  Scalar& reg(int i) { return registers[static_cast<size_t>(i)]; }
  const Scalar& get(const Operand& o, int element) {
    return reg(o.base + o.offsets[static_cast<size_t>(element)]);
  }

  std::byte* element(const Instruction& in, const Scalar& position) {
    if (position.i < 0 || position.i >= in.size) [[unlikely]]
      ensure(false, "kernel ", name, in.kind == Instruction::Load ? " reads" : " writes",
             " element ", position.i, " of argument ", in.param, ", which has ", in.size);
    auto* start = static_cast<std::byte*>(buffers[static_cast<size_t>(in.param)]);
    return start + position.i * size_of(in.dtype);
  }

  void compute(const Instruction& in) {
    Scalar values[3];
    for (int i = 0; i < in.count; ++i) {
      for (size_t s = 0; s < in.src.size(); ++s) values[s] = get(in.src[s], i);
      reg(in.to + i) = eval(in.op, in.dtype, {values, in.src.size()});
    }
  }

  void fold(const Instruction& in) {
    std::vector<char> started(static_cast<size_t>(in.count), 0);
    for (int i = 0; i < in.count; ++i) {
      const int place = in.places[static_cast<size_t>(i)];
      Scalar values[] = {reg(in.to + place), get(in.src[0], i)};
      char& begun = started[static_cast<size_t>(place)];
      reg(in.to + place) = begun ? eval(in.op, in.dtype, values) : values[1];
      begun = 1;
    }
  }

  void load(const Instruction& in) {
    for (int i = 0; i < in.count; ++i)
      reg(in.to + i) = in.gated && !get(in.src[1], i).i
                           ? scalar(in.dtype, int64_t{0})
                           : load_scalar(in.dtype, element(in, get(in.src[0], i)));
  }

  void store(const Instruction& in) {
    for (int i = 0; i < in.count; ++i)
      if (!in.gated || get(in.src[2], i).i)
        store_scalar(element(in, get(in.src[1], i)), get(in.src[0], i));
  }

  void move(const Instruction& in) {
    for (int i = 0; i < in.count; ++i)
      if (!in.gated || get(in.src[1], i).i)
        reg(in.to + in.places[static_cast<size_t>(i)]) = get(in.src[0], i);
  }
};

}  // namespace

InterpProgram::InterpProgram(UOp linear, std::string name, std::span<const std::string> vars) {
  auto code = std::make_unique<Code>();
  code->name = std::move(name);
  Assembler(vars, &code->instructions, &code->registers, &code->vars).run(linear);
  for (UOp n : toposort(linear))
    if (n->is(Op::Param) && static_cast<Space>(n->ints(2)) == Space::Local)
      code->scratch.push_back({static_cast<int>(n->ints(0)), n->ints(1) * size_of(n->dtype)});
  code_ = std::move(code);
}
InterpProgram::~InterpProgram() = default;
InterpProgram::InterpProgram(InterpProgram&&) noexcept = default;

void InterpProgram::run(std::span<void* const> buffers, std::span<const int64_t> vars,
                        int64_t begin, int64_t end) const {
  std::vector<void*> memories(buffers.begin(), buffers.end());
  std::vector<std::vector<std::byte>> local;
  for (const Scratch& s : code_->scratch) {
    memories.resize(std::max(memories.size(), static_cast<size_t>(s.slot) + 1));
    memories[static_cast<size_t>(s.slot)] =
        local.emplace_back(static_cast<size_t>(s.bytes)).data();
  }
  Machine m{code_->name, memories, code_->registers};
  for (auto [to, number] : code_->vars) m.reg(to).i = vars[static_cast<size_t>(number)];
  const std::vector<Instruction>& code = code_->instructions;
  for (size_t at = 0; at < code.size();) {
    const Instruction& in = code[at++];
    switch (in.kind) {
      case Instruction::Compute: m.compute(in); break;
      case Instruction::Fold: m.fold(in); break;
      case Instruction::Load: m.load(in); break;
      case Instruction::Store: m.store(in); break;
      case Instruction::Move: m.move(in); break;
      case Instruction::Loop: {
        const int64_t first = in.global ? begin : 0;
        m.reg(in.to).i = first;
        if (first >= (in.global ? end : m.get(in.src[0], 0).i)) at = static_cast<size_t>(in.jump);
        break;
      }
      case Instruction::End: {
        const Instruction& loop = code[static_cast<size_t>(in.jump)];
        const int64_t last = loop.global ? end : m.get(loop.src[0], 0).i;
        if (++m.reg(loop.to).i < last) at = static_cast<size_t>(in.jump) + 1;
      }
    }
  }
}

}  // namespace mote
