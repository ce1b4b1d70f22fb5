// What evaluating a node costs, by which the schedule chooses between fusing and storing it.
#pragma once
#include <span>
#include <unordered_set>
#include <vector>

#include "schedule/ranges.h"

namespace mote {

struct Cost {
  double each = 0;   // to evaluate one element with everything cheap below fused, in operations
  double bytes = 0;  // of the distinct buffers below
};

// So many bytes do not stay in a near cache.
bool is_far(double bytes, const Target& target);
// What a fold loses by sharing its kernel with another one. The loops of a kernel are chosen for its
// only fold: a tile in registers so that products share what they load, sums in several passes
// where memory is read across them. Without a tile each product loads its own operands, at worst
// lane by lane; memory beyond the near caches that is read across is waited for.
double lost_beside_others(double products, double bytes_across, const Target& target);

// Built once, sources first, from what a node's sources cost. What several sources share is counted
// once, where they ask for it at the same place.
class Costs {
 public:
  Costs() = default;
  Costs(std::span<const UOp> order, const Bounds& bounds, const Targets& targets);
  const Cost& operator[](UOp n) const { return by_id_[n->id]; }
  // The axis of n along which the largest buffer below lies; -1: none that is known.
  int lane(UOp n) const { return lanes_[n->id]; }
  // A comparison that goes when the sum around it collapses to a gather.
  bool in_closed_form(UOp n) const { return in_closed_form_.count(n.get()) != 0; }

 private:
  // One node of an expression, alone: an operation, a read, or a whole that is not looked into.
  struct Part {
    uint32_t id = 0;
    Cost cost;
  };
  void weigh(UOp n, const Bounds& bounds, const Target& target);
  void add_parts(UOp source, const Bounds& bounds, const Target& target);
  void keep(UOp n, bool whole, Cost alone);
  int find_lane(UOp n, const Bounds& bounds) const;

  std::vector<Cost> by_id_;
  std::vector<int16_t> lanes_;  // by node id
  std::vector<std::span<const Part>> parts_;  // by node id: of one element's evaluation, by id
  std::vector<Part> joined_, union_;          // of the node being weighed, kept warm
  Lists lists_;
  std::unordered_set<const Node*> in_closed_form_;
};

double element_count(UOp n);

// Elements read for one of a Reduce; 1 where it will collapse to a gather.
double fold_count(UOp reduce);

}  // namespace mote
