// Staged values become memory of a worker or a block: what fills it is an effect that its readers
// come after.
#include <algorithm>

#include "algebra/algebra.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

namespace mote {

namespace {

class Placer {
 public:
  explicit Placer(UOp body) : body_(body) {
    for (UOp n : toposort(body)) {
      if (n->is(Op::Param)) slot_ = std::max(slot_, static_cast<int>(n->ints(0)) + 1);
      if (n->is(Op::Range)) used_ |= slot_bit(n);
      if (n->is(Op::Range) && is_worker(range_role(n))) first_ = first_ & lt(n, index(1));
    }
  }

  UOp placed(UOp n, const Mapped& now) {
    if (n->is(Op::Stage))
      return boxes(n) ? box_ring(n, now.src) : is_ring(n) ? ring(n, now.src) : filled(n, now.src);
    if (!n->is(Op::Index) || !n->src(0)->is(Op::Stage) || !is_ring(n->src(0))) return {};
    return make(Op::Index, n->dtype,
                {now.src[0], in_ring(n->src(0), ring_loop(n->src(0)), now.src[1])});
  }

 private:
  UOp body_;
  int slot_ = 0;
  uint64_t used_ = 0;
  UOp first_ = truth(true);  // of the workers of a block

  static Space space(UOp stage) { return static_cast<Space>(stage->ints(0)); }
  static bool is_shared(UOp stage) { return space(stage) == Space::Shared; }
  static bool is_ring(UOp stage) { return is_shared(stage) && depth_of(stage) > 1; }
  static bool boxes(UOp stage) { return is_ring(stage) && fill_of(stage) == Fill::Boxes; }
  static bool copies(UOp stage) { return is_shared(stage) && fill_of(stage) == Fill::Copies; }

  static UOp write(UOp stage, UOp memory, UOp position, UOp value, std::vector<UOp> ranges) {
    UOp place = make(Op::Index, stage->dtype, {memory, position});
    const Arg how = Arg::of(int64_t{copies(stage) ? 2 : 0});
    ranges.insert(ranges.begin(), make(Op::Store, DType::none, {place, value}, how));
    return make(Op::End, DType::none, ranges);
  }

  static std::vector<UOp> fill_ranges(std::span<Node* const> src) {
    return {src.begin() + 2, src.end()};
  }

  // Stage(value, place, ranges...) as a memory that has been filled.
  UOp filled(UOp stage, std::span<Node* const> src) {
    UOp memory = param(slot_++, stage->dtype, stage->ints(1), space(stage));
    UOp end = write(stage, memory, UOp(src[1]), UOp(src[0]), fill_ranges(src));
    return after(memory, end);
  }

  // The place in the memory of this round.
  static UOp in_ring(UOp stage, UOp round, UOp position) {
    const Gated at = split_gate(position);
    return gated(at.valid, simplify(round % depth_of(stage) * stage->ints(1) + at.idx));
  }

  // What a round has, copied as a whole by one worker; `arrives` when it is there.
  UOp send_box(UOp stage, std::span<Node* const> src, UOp memory, UOp arrives, UOp round) {
    UOp loop = ring_loop(stage);
    std::vector<std::pair<UOp, UOp>> map{
        {loop, round}
    };
    std::vector<UOp> tiles;
    for (UOp r : fill_ranges(src)) {
      tiles.push_back(range(range_slot(r), r->src(0), Role::Upcast));
      map.emplace_back(r, tiles.back());
    }
    UOp value = substitute(UOp(src[0]), map);
    const Gated to = split_gate(in_ring(stage, round, substitute(UOp(src[1]), map))),
                from = split_gate(value->src(1));
    auto place = [](UOp in, UOp at) { return make(Op::Index, in->dtype, {in, simplify(at)}); };
    std::vector<UOp> parts{place(memory, to.idx), place(value->src(0), from.idx),
                           place(arrives, round % depth_of(stage)),
                           simplify(first_ & lt(round, loop->src(0))), from.valid};
    parts.insert(parts.end(), tiles.begin(), tiles.end());
    return make(Op::Box, DType::none, parts, Arg::of(int64_t{1}));
  }

  // As ring(), but the rounds before are said to be there by a counted barrier of each memory.
  UOp box_ring(UOp stage, std::span<Node* const> src) {
    const int64_t depth = depth_of(stage);
    UOp loop = ring_loop(stage), first = index(0);
    UOp memory = param(slot_++, stage->dtype, stage->ints(1) * depth, space(stage)),
        arrives = param(slot_++, DType::u64, depth, space(stage));
    if (depth > 2) first = range(take_slot(used_), index(depth - 1), Role::Loop);
    UOp ahead = send_box(stage, src, memory, arrives, first);
    if (depth > 2) ahead = make(Op::End, DType::none, {ahead, first});
    UOp there = make(Op::Index, arrives->dtype, {arrives, simplify(loop % depth)}),
        await =
            make(Op::Await, DType::none, {there, simplify(loop / depth + 1)}, Arg::of(int64_t{1}));
    memory = after(after(after(memory, ahead), await), barrier({&loop, 1}));
    if (loop->src(0)->hi < depth) return memory;
    return after(memory, send_box(stage, src, memory, arrives, loop + (depth - 1)));
  }

  UOp fill_round(UOp stage, std::span<Node* const> src, UOp memory, UOp round,
                 std::vector<UOp> ranges) {
    UOp loop = ring_loop(stage), exists = simplify(lt(round, loop->src(0)));
    std::pair<UOp, UOp> map[] = {
        {loop, round}
    };
    const Gated at = split_gate(in_ring(stage, round, substitute(UOp(src[1]), map)));
    UOp value = gated_reads(substitute(UOp(src[0]), map), exists, 0);
    return write(stage, memory, gated(exists & at.valid, at.idx), simplify(value),
                 std::move(ranges));
  }

  // The first depth - 1 rounds before the loop, each time that it begins; then in each round the
  // one that many later. The barrier of a round says that what was filled for it is there, and that
  // what is filled in it is no longer read.
  UOp ring(UOp stage, std::span<Node* const> src) {
    const int64_t depth = depth_of(stage);
    UOp loop = ring_loop(stage), first = index(0);
    UOp memory = param(slot_++, stage->dtype, stage->ints(1) * depth, space(stage));
    std::vector<UOp> ranges = fill_ranges(src), ahead = ranges;
    if (depth > 2) {
      first = range(take_slot(used_), index(depth - 1), Role::Loop);
      ahead.insert(ahead.begin(), first);
    }
    const std::vector<UOp> around = loops_around(body_, loop);
    if (!around.empty()) memory = after(memory, barrier(around));
    UOp inside = copies(stage) && depth > 2 ? after(memory, wait(first, depth - 2)) : memory;
    memory = after(memory, fill_round(stage, src, inside, first, ahead));
    std::vector<UOp> meeting{loop};
    if (copies(stage)) meeting.push_back(wait(loop, depth - 2));
    memory = after(memory, barrier(meeting));
    if (loop->src(0)->hi < depth) return memory;
    UOp next = fill_round(stage, src, memory, loop + (depth - 1), ranges);
    return after(memory, next);
  }

  static UOp after(UOp memory, UOp effect) {
    return make(Op::After, memory->dtype, {memory, effect});
  }
  static UOp barrier(std::span<const UOp> in) {
    return make(Op::Barrier, DType::none, in, Arg::of(int64_t{0}));
  }
  static UOp wait(UOp loop, int64_t later) {
    const int64_t ints[] = {0, later};
    return make(Op::Wait, DType::none, {loop}, Arg::of(intern_arg(ints)));
  }
};

}  // namespace

UOp place_stages(UOp body) {
  Placer placer(body);
  return map_nodes("fill stages", body,
                   [&](UOp n, const Mapped& now) { return placer.placed(n, now); });
}

}  // namespace mote
