#include "render/tile.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace mote {

bool keeps_value(UOp from, DType to) {
  return is_int(from->dtype) && is_int(to) && is_exact(from) && from->lo >= row(to).lo &&
         from->hi <= row(to).hi;
}

namespace {

Steps scaled(Steps s, int64_t by) {
  for (int64_t& v : s.step) v *= by;
  return s;
}

Steps sum(Steps a, const Steps& b) {
  a.nonlinear |= b.nonlinear;
  if (a.step.empty())
    a.step = b.step;
  else if (!b.step.empty())
    for (size_t t = 0; t < a.step.size(); ++t) a.step[t] += b.step[t];
  return a;
}

}  // namespace

bool is_exact(UOp u) {
  const DTypeRow& r = row(u->dtype);
  if (!r.integer || u->dtype == DType::u64) return false;
  // An index saturates at either end; the other dtypes fall back to the whole type.
  if (u->dtype == DType::index) return u->lo > r.lo && u->hi < r.hi;
  return u->lo > r.lo || u->hi < r.hi;
}

Tiles::Tiles(const Program& program) {
  UOp roots[] = {program.linear};
  bool multiplies = false;  // tiles of registers by lanes: these are single
  for (UOp u : toposort(roots)) {
    if (is_tile_range(u)) ranges_.push_back(u);
    multiplies |= u->is(Op::Fragment);
  }
  ensure(ranges_.size() <= 64, "render: more than 64 tile ranges");
  std::ranges::sort(ranges_, {}, range_slot);
  for (size_t t = 0; t < ranges_.size(); ++t) {
    UOp r = ranges_[t];
    ensure(r->src(0)->is(Op::Const), "render: a tile range has a constant extent");
    const int64_t extent = r->src(0)->arg.i;
    extents_.push_back(extent);
    sets_[r] = TileSet{1} << t;
    steps_[r].step.resize(ranges_.size(), 0);
    steps_[r].step[t] = 1;
    if (range_role(r) == Role::Vector && extent > 1 && std::has_single_bit(uint64_t(extent)) &&
        !multiplies)
      lanes_ |= TileSet{1} << t;
  }
  for (Node* s : program.linear->src()) note(UOp(s));
}

int Tiles::lanes(TileSet set) const {
  const TileSet axis = lane(set);
  ensure(std::popcount(axis) <= 1, "render: a value depends on two Vector ranges");
  return axis ? static_cast<int>(extents_[static_cast<size_t>(std::countr_zero(axis))]) : 1;
}

int Tiles::number(UOp range) const {
  return static_cast<int>(std::ranges::find(ranges_, range) - ranges_.begin());
}

TileSet Tiles::of(UOp u) {
  switch (u->op) {
    case Op::Const:
    case Op::Var:
    case Op::Param: return 0;
    case Op::After: return of(u->src(0));
    case Op::Index: return of(u->src(1));
    default: break;
  }
  if (u->is(Op::Range) && !is_tile(range_role(u))) return 0;
  if (u->is(Op::Reg)) {
    TileSet set = 0;
    for (Node* r : u->src()) set |= of(UOp(r));
    return set;
  }
  ensure(sets_[u].has_value(), "render: ", name(u->op), " is used before its statement");
  return *sets_[u];
}

void Tiles::note(UOp u) {
  if (OpSet{Op::End, Op::Range, Op::Barrier, Op::Wait}.has(u->op)) return;
  TileSet set = of(u->src(0));
  for (Node* s : u->src().subspan(1))
    set = u->is(Op::Reduce) ? set & ~of(UOp(s)) : set | of(UOp(s));
  if (u->is(Op::Fragment))  // factors are held in registers of their own
    for (UOp s : u->src().subspan(4)) set &= ~of(s);
  sets_[u] = set;
  if (set && is_int(u->dtype)) {
    Steps s = combine_steps(u);
    steps_[u] = std::move(s);
  }
}

const Steps& Tiles::steps(UOp u) { return of(u) ? steps_[u] : constant_; }

Steps Tiles::combine_steps(UOp u) {
  // Signed positions that wrap are out of bounds, hence gated; unsigned ones come back at 0.
  if (!is_signed(u->dtype) && !is_exact(u)) return {of(u), {}};
  switch (u->op) {
    case Op::Add: return sum(steps(u->src(0)), steps(u->src(1)));
    case Op::Mul:
      if (u->src(1)->is(Op::Const)) return scaled(steps(u->src(0)), u->src(1)->arg.i);
      break;
    case Op::Shl:
      if (u->src(1)->is(Op::Const)) return scaled(steps(u->src(0)), int64_t{1} << u->src(1)->arg.i);
      break;
    case Op::Neg: return scaled(steps(u->src(0)), -1);
    case Op::Cast:
      if (keeps_value(u->src(0), u->dtype)) return steps(u->src(0));
      break;
    default: break;
  }
  return {of(u), {}};
}

int64_t Tiles::divisor(UOp u, TileSet open) {
  constexpr int64_t kMost = 1 << 20;  // more helps nobody
  if (u->is(Op::Const)) return std::gcd(u->arg.i, kMost);
  if (is_tile_range(u)) return of(u) & open ? 1 : 0;
  if (!is_int(u->dtype) || (!is_signed(u->dtype) && !is_exact(u))) return 1;
  const bool by_constant = u->nsrc > 1 && u->src(1)->is(Op::Const);
  switch (u->op) {
    case Op::Add: return std::gcd(divisor(u->src(0), open), divisor(u->src(1), open));
    case Op::Neg: return divisor(u->src(0), open);
    case Op::Mul:
      if (!by_constant) return 1;
      return std::gcd(divisor(u->src(0), open) * std::gcd(u->src(1)->arg.i, kMost), kMost);
    case Op::Shl:
      if (!by_constant || u->src(1)->arg.i > 20) return 1;
      return std::gcd(divisor(u->src(0), open) << u->src(1)->arg.i, kMost);
    case Op::Cast: return keeps_value(u->src(0), u->dtype) ? divisor(u->src(0), open) : 1;
    default: return 1;
  }
}

int64_t Tiles::registers(TileSet set) const {
  int64_t n = 1;
  for (TileSet rest = set & ~lanes_; rest; rest &= rest - 1)
    n *= extents_[static_cast<size_t>(std::countr_zero(rest))];
  return n;
}

int64_t Tiles::rank(TileSet set, const Point& at) const {
  int64_t k = 0;
  for (TileSet rest = set & ~lanes_; rest; rest &= rest - 1) {
    const auto t = static_cast<size_t>(std::countr_zero(rest));
    k = k * extents_[t] + at[t];
  }
  return k;
}

bool Tiles::advance(TileSet set, Point& at) const {
  set &= ~lanes_;
  while (set) {
    const auto t = static_cast<size_t>(std::bit_width(set) - 1);
    if (++at[t] < extents_[t]) return true;
    at[t] = 0;
    set &= ~(TileSet{1} << t);
  }
  return false;
}

}  // namespace mote
