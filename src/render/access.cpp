#include "render/access.h"

#include "base/error.h"

namespace mote {

TileAccess access_of(Tiles& tiles, UOp statement, UOp index, UOp gate) {
  UOp memory = without_effects(index->src(0));
  ensure(memory->is(Op::Param), "render: memory is ", name(memory->op), ", no Param");
  UOp position = index->src(1);
  const Steps& steps = tiles.steps(position);
  const TileSet all = tiles.of(position);
  TileAccess a{position,
               gate,
               static_cast<int>(memory->ints(0)),
               index->dtype,
               memory->dtype,
               size_of(index->dtype) / size_of(memory->dtype),
               all & ~steps.nonlinear,
               all & steps.nonlinear,
               tiles.lanes(tiles.of(statement)),
               statement->is(Op::Store) && statement->arg.i == 1,
               true,
               0};
  if (TileSet lane = tiles.lane(tiles.of(statement))) {
    a.lane_step_known = !(lane & steps.nonlinear);
    a.lane_step = steps.of(std::countr_zero(lane));
  }
  return a;
}

TileAccess without_gate(TileAccess a) {
  a.gate = {};
  return a;
}

bool is_contiguous(const TileAccess& a) { return a.lane_step_known && a.lane_step == a.parts; }

bool is_little_apart(const TileAccess& a) {
  constexpr int64_t kMostApart = 4;
  const int64_t step = a.lane_step / a.parts;
  return a.lane_step_known && a.lanes >= 4 && step > 1 && step <= kMostApart &&
         a.lane_step % a.parts == 0;
}

namespace {

// An axis whose steps are 1 and whose extent is right, where lanes step otherwise; -1: none.
template <class Right>
int axis_of_neighbours(Tiles& tiles, const TileAccess& a, TileSet open, const Right& right) {
  const TileSet lane = tiles.lane(open), gated = a.gate ? tiles.of(a.gate) : 0;
  const Steps& steps = tiles.steps(a.position);
  for (TileSet rest = open & a.linear & ~lane & ~gated; rest; rest &= rest - 1) {
    const int t = std::countr_zero(rest);
    if (steps.of(t) == a.parts && right(tiles.extent(t))) return t;
  }
  return -1;
}

}  // namespace

int transposed_axis(Tiles& tiles, const TileAccess& a, TileSet open) {
  if (!tiles.lane(open) || !a.lane_step_known || is_contiguous(a) || a.lane_step == 0) return -1;
  return axis_of_neighbours(tiles, a, open,
                            [&](int64_t extent) { return extent % a.lanes == 0; });
}

int paired_axis(Tiles& tiles, const TileAccess& a, TileSet open) {
  if (!tiles.lane(open) || !a.lane_step_known || a.lane_step != 2 * a.parts) return -1;
  return axis_of_neighbours(tiles, a, open, [](int64_t extent) { return extent == 2; });
}

}  // namespace mote
