#include "runtime/machine.h"

#include <algorithm>
#include <bit>
#include <unordered_map>

#include "base/error.h"
#include "ir/build.h"
#include "runtime/host_array.h"

namespace mote {

namespace {

// Gives every node a tile (the set of tile ranges it has an element for, by slot) and registers.
class Assembler {
 public:
  Assembler(std::span<const std::string> vars, Instructions& out)
      : names_(vars), out_(out.list), registers_(out.registers), used_(out.vars) {}

  void run(UOp linear) {
    ensure(linear->is(Op::Linear), "interp: a program is a Linear, got ", name(linear->op));
    for (Node* s : linear->src()) {
      const size_t first = out_.size();
      statement(UOp(s));
      if (out_.size() > first) out_.back().statement = number_;
      ++number_;
    }
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
    if (u->is(Op::Barrier)) return barrier();
    if (u->is(Op::Fragment)) return fragment(u);
    if (OpSet{Op::Box, Op::Arrive, Op::Await}.has(u->op)) return counted(u);
    if (u->is(Op::Wait))
      return void(out_.push_back(
          {.kind = Instruction::Wait, .size = u->ints(1), .products = u->ints().size() > 2}));
    ensure(has(u->op, Alu) || u->is(Op::Shuffle), "interp: ", name(u->op), " is no statement");
    Instruction in{.kind = u->is(Op::Shuffle) ? Instruction::Shuffle : Instruction::Compute,
                   .op = u->op,
                   .dtype = u->dtype};
    uint64_t tile = 0;
    for (Node* s : u->src()) tile |= place(s).tile;
    in.to = define(u, tile);
    in.count = elements(tile);
    for (Node* s : u->src()) in.src.push_back(operand(s, tile));
    out_.push_back(std::move(in));
  }

  void barrier() {
    Instruction in{.kind = Instruction::Barrier};
    for (const auto& [range, loop] : loops_)
      if (out_[static_cast<size_t>(loop)].dimension < 0) in.src.push_back(operand(range, 0));
    out_.push_back(std::move(in));
  }

  // Ranges of one product stand inside of those that say which product it is.
  void fragment(UOp u) {
    Instruction in{.kind = Instruction::Fragment, .dtype = u->dtype, .size = u->ints(0)};
    uint64_t own[3] = {place(u->src(3)).tile, 0, 0}, outer = 0;
    uint32_t at = 4;
    for (uint32_t i : {1u, 2u})
      for (const uint32_t end = at + (u->ints(1) & i ? 2 : 1); at < end; ++at)
        own[i] |= place(u->src(at)).tile;
    UOp from[3];
    for (uint32_t i = 0; i < 3; ++i) {
      const bool staged = i && (u->ints(1) & i);
      from[i] = staged ? u->src(i)->src(1) : u->src(i);
      if (staged) in.staged[i] = static_cast<int>(without_effects(u->src(i)->src(0))->ints(0));
      outer |= place(from[i]).tile & ~own[i];
    }
    for (uint32_t i = 0; i < 3; ++i) in.src.push_back(operand(from[i], outer | own[i]));
    in.count = elements(outer);
    in.to = define(u, outer | own[0]);
    out_.push_back(std::move(in));
  }

  void counted(UOp u) {
    const bool box = u->is(Op::Box);
    Instruction in{.kind = box                 ? Instruction::Box
                           : u->is(Op::Arrive) ? Instruction::Arrive
                                               : Instruction::Await,
                   .size = u->arg.i};
    if (box) in.dtype = u->src(0)->dtype;
    uint64_t tile = 0;
    for (uint32_t i = 5; i < u->nsrc; ++i) {
      tile |= place(u->src(i)).tile;
      in.places.push_back(static_cast<int>(u->src(i)->src(0)->arg.i));
    }
    in.count = elements(tile);
    for (uint32_t i = 0; i < (box ? 5 : 2); ++i) {
      UOp s = u->src(i);
      const bool at = s->is(Op::Index);
      if (at) access(s, &in), in.staged[i] = in.param, in.limits[i] = in.size;
      in.src.push_back(operand(at ? s->src(1) : s, tile));
    }
    in.size = u->arg.i;
    out_.push_back(std::move(in));
  }

  void open_loop(UOp r) {
    ensure(!is_tile_range(r), "interp: a tile range is no loop");
    Instruction in{.kind = Instruction::Loop, .dtype = r->dtype};
    if (range_role(r) == Role::Global || is_worker(range_role(r))) in.dimension = dimensions_++;
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
    UOp from = without_effects(u->src(0));
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
    UOp into = without_effects(u->src(0));
    const bool memory = into->is(Op::Index);
    uint64_t tile = place(u->src(1)).tile | place(memory ? into->src(1) : into).tile;
    Instruction in{.kind = memory ? Instruction::Store : Instruction::Move,
                   .dtype = u->src(1)->dtype};
    in.later = memory && u->arg.i == 2;
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
    UOp memory = without_effects(index->src(0));
    ensure(memory->is(Op::Param), "interp: Index of ", name(memory->op));
    in->param = static_cast<int>(memory->ints(0));
    in->size = memory->ints(1);
    in->unit = size_of(memory->dtype);
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

  RegisterTile operand(UOp u, uint64_t tile) {
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
  int extents_[kSlots] = {};
  int number_ = 0, dimensions_ = 0;
};

}  // namespace

Instructions assemble(UOp linear, std::string name, std::span<const std::string> vars) {
  Instructions code{.name = std::move(name)};
  Assembler(vars, code).run(linear);
  for (UOp n : toposort(linear))
    if (n->is(Op::Param) && space_of(n) != Space::Global)
      code.scratch.push_back(
          {static_cast<int>(n->ints(0)), n->ints(1) * size_of(n->dtype), space_of(n)});
  return code;
}

std::byte* Machine::element(const Instruction& in, const Scalar& position) {
  const int64_t last = position.i + size_of(in.dtype) / in.unit - 1;
  if (position.i < 0 || last >= in.size) [[unlikely]]
    ensure(false, "kernel ", code.name, ", statement ", in.statement, ":",
           in.kind == Instruction::Load ? " reads" : " writes", " element ", position.i,
           " of argument ", in.param, ", which has ", in.size);
  if (watch) watch->accessed(in, position.i);
  auto* start = static_cast<std::byte*>(buffers[static_cast<size_t>(in.param)]);
  return start + position.i * in.unit;
}

void Machine::compute(const Instruction& in) {
  Scalar values[3];
  for (int i = 0; i < in.count; ++i) {
    for (size_t s = 0; s < in.src.size(); ++s) values[s] = get(in.src[s], i);
    reg(in.to + i) = eval(in.op, in.dtype, {values, in.src.size()});
  }
}

void Machine::fold(const Instruction& in) {
  std::vector<char> started(static_cast<size_t>(in.count), 0);
  for (int i = 0; i < in.count; ++i) {
    const int place = in.places[static_cast<size_t>(i)];
    Scalar values[] = {reg(in.to + place), get(in.src[0], i)};
    char& begun = started[static_cast<size_t>(place)];
    reg(in.to + place) = begun ? eval(in.op, in.dtype, values) : values[1];
    begun = 1;
  }
}

void Machine::load(const Instruction& in) {
  for (int i = 0; i < in.count; ++i)
    reg(in.to + i) = in.gated && !get(in.src[1], i).i
                         ? scalar(in.dtype, int64_t{0})
                         : load_scalar(in.dtype, element(in, get(in.src[0], i)));
}

void Machine::store(const Instruction& in) {
  for (int i = 0; i < in.count; ++i) {
    if (in.gated && !get(in.src[2], i).i) continue;
    const Scalar &value = get(in.src[0], i), &position = get(in.src[1], i);
    if (in.later && watch)
      watch->stored_later(in, position.i, value);
    else
      store_scalar(element(in, position), value);
  }
}

void Machine::move(const Instruction& in) {
  for (int i = 0; i < in.count; ++i)
    if (!in.gated || get(in.src[1], i).i)
      reg(in.to + in.places[static_cast<size_t>(i)]) = get(in.src[0], i);
}

void Machine::set_vars(std::span<const int64_t> values) {
  for (auto [to, number] : code.vars) reg(to).i = values[static_cast<size_t>(number)];
}

int64_t Machine::end_of(const Instruction& loop) {
  return loop.dimension < 0 ? get(loop.src[0], 0).i
                            : launch[static_cast<size_t>(loop.dimension)].end;
}

void Machine::step() {
  const Instruction& in = code.list[at++];
  switch (in.kind) {
    case Instruction::Compute: return compute(in);
    case Instruction::Fold: return fold(in);
    case Instruction::Load: return load(in);
    case Instruction::Store: return store(in);
    case Instruction::Move: return move(in);
    case Instruction::Loop:
      reg(in.to).i = in.dimension < 0 ? 0 : launch[static_cast<size_t>(in.dimension)].begin;
      if (reg(in.to).i >= end_of(in)) at = static_cast<size_t>(in.jump);
      return;
    case Instruction::End: {
      const Instruction& loop = code.list[static_cast<size_t>(in.jump)];
      if (++reg(loop.to).i < end_of(loop)) at = static_cast<size_t>(in.jump) + 1;
      return;
    }
    default: ensure(false, "kernel ", code.name, " needs blocks of workers");
  }
}

}  // namespace mote
