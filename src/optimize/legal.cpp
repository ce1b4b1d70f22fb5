// What lowering relies on. Actions come in any order and each may undo what another one needed, so
// all of it is said here, once, and held against every body that an action gives.
#include <algorithm>

#include "ir/freedoms.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

// A Reduce whose sums wait in memory between rounds, and one of those that take its result.
struct Accumulated {
  UOp reduce, user;
};

struct Facts {
  UOp body;
  std::vector<UOp> order;
  std::vector<Accumulated> accumulated;

  explicit Facts(UOp root) : body(root), order(toposort(root)) {
    for (UOp n : order)
      for (Node* s : n->src())
        if (!accumulated_ranges(UOp(s)).empty()) accumulated.push_back({UOp(s), n});
  }
};

bool shares_slots(const Facts& f) {
  uint64_t seen = 0;
  return std::ranges::any_of(f.order, [&](UOp n) {
    if (!n->is(Op::Range)) return false;
    const bool again = seen & slot_bit(n);
    seen |= slot_bit(n);
    return again;
  });
}

bool has_misplaced_loop(const Facts& f) { return misplaced_loop(f.body).get() != nullptr; }

bool has_two_vectors(const Facts& f) { return value_of_two_vectors(f.body).get() != nullptr; }

// All positions of a tile would share the memory.
bool stages_in_tiles(const Facts& f) {
  uint64_t tiles = 0;
  for (UOp n : f.order)
    if (n->is(Op::Range) && is_tile(range_role(n))) tiles |= slot_bit(n);
  return std::ranges::any_of(f.order,
                             [&](UOp n) { return n->is(Op::Stage) && (n->ranges & tiles); });
}

bool any_accumulated(const Facts& f, bool (*breaks)(UOp reduce, UOp user)) {
  return std::ranges::any_of(f.accumulated,
                             [&](const Accumulated& b) { return breaks(b.reduce, b.user); });
}

bool stages_over_accumulated(const Facts& f) {
  return std::ranges::any_of(f.order, [](UOp n) {
    return n->is(Op::Stage) && std::ranges::any_of(closed_ranges(n), [](Node* r) {
             return range_role(UOp(r)) == Role::Accumulate;
           });
  });
}

bool uses_unfinished_sums(const Facts& f) {
  std::vector<UOp> sums;
  for (const Accumulated& b : f.accumulated) {
    const bool stored = (b.user->is(Op::Stage) && b.user->src(0) == b.reduce) ||
                        (b.user->is(Op::Store) && b.user->src(1) == b.reduce);
    if (!stored || std::ranges::count(sums, b.reduce)) return true;
    sums.push_back(b.reduce);
  }
  return false;
}

bool accumulates_beside_outputs(const Facts& f) {
  const auto stores = std::ranges::count_if(f.order, [](UOp n) { return n->is(Op::Store); });
  return stores > 1 && any_accumulated(f, [](UOp, UOp user) { return user->is(Op::Store); });
}

bool reads_unfinished_output(const Facts& f) {
  return std::ranges::any_of(f.accumulated, [&](const Accumulated& b) {
    return b.user->is(Op::Store) && is_read(f.order, b.user->src(0)->src(0));
  });
}

// The ranges of a Reduce stand in the order of what it folds, as they nest without any action.
bool reorders_sums(const Facts& f) {
  return std::ranges::any_of(f.order, [](UOp n) {
    if (!n->is(Op::Reduce) || may_reorder(n)) return false;
    auto nests = [](Node* r) {
      return nest_order(UOp(r)) - (range_role(UOp(r)) == Role::Accumulate ? kSlots : 0);
    };
    const std::span<Node* const> over = closed_ranges(n);
    return std::ranges::any_of(over, [](Node* r) { return is_tile(range_role(UOp(r))); }) ||
           !std::ranges::is_sorted(over, {}, nests);
  });
}

bool rounds_sums(const Facts& f) {
  return any_accumulated(f, [](UOp reduce, UOp) {
    return is_float(reduce->dtype) && row(reduce->dtype).bits < 32;
  });
}

bool streams_unfinished_sums(const Facts& f) {
  return any_accumulated(f, [](UOp, UOp user) { return user->is(Op::Store) && user->arg.i; });
}

// The factors of a product that is written out, all at once, stand in one place of memory.
bool multiplies_staged(UOp n) {
  if (!n->is(Op::Reduce) || n->ints(0) != static_cast<int64_t>(Op::Mul)) return false;
  uint64_t over = 0;
  for (Node* r : closed_ranges(n)) over |= slot_bit(UOp(r));
  const std::vector<UOp> below = toposort(n->src(0));
  return std::ranges::any_of(below, [&](UOp s) { return s->is(Op::Stage) && (s->ranges & over); });
}

struct Law {
  const char* broken;
  bool (*breaks)(const Facts&);
};

constexpr Law laws[] = {
    {"a loop would run differently in a copy of its nest",  shares_slots              },
    {"the extent of a loop depends on one inside it",       has_misplaced_loop        },
    {"some value has two axes of vectors",                  has_two_vectors           },
    {"something is staged for each position of a tile",     stages_in_tiles           },
    {"something is staged over a loop that accumulates",    stages_over_accumulated   },
    {"an accumulated sum is not what is stored",            uses_unfinished_sums      },
    {"an accumulated sum beside other outputs",             accumulates_beside_outputs},
    {"an accumulated sum is stored where the kernel reads", reads_unfinished_output   },
    {"an accumulated sum would be rounded",                 rounds_sums               },
    {"a sum is to be made in its order",                    reorders_sums             },
    {"an accumulated sum is stored past the caches",        streams_unfinished_sums   },
};

}  // namespace

bool is_read(std::span<const UOp> order, UOp memory) {
  return std::ranges::any_of(order, [&](UOp n) {
    for (uint32_t i = n->is(Op::Store) ? 1 : 0; i < n->nsrc; ++i)
      if (n->src(i)->is(Op::Index) && n->src(i)->src(0) == memory) return true;
    return false;
  });
}

std::string broken_law(UOp body) {
  const Facts facts(body);
  for (const Law& law : laws)
    if (law.breaks(facts)) return law.broken;
  return "";
}

bool runs_on(UOp body, const Target& target) {
  int memories = 0;
  for (UOp n : toposort(body)) {
    memories += n->is(Op::Param) || n->is(Op::Stage);
    if (target.has(n->dtype)) continue;
    if (!accumulated_ranges(n).empty() || multiplies_staged(n)) return false;
  }
  return memories <= target.max_buffers;
}

}  // namespace mote
