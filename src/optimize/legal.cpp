// What lowering relies on. Actions come in any order and each may undo what another one needed, so
// all of it is said here, once, and held against every body that an action gives.
#include <algorithm>

#include "algebra/algebra.h"
#include "ir/dots.h"
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
  std::span<const UOp> order;
  std::vector<Accumulated> accumulated;
  uint64_t tiles = 0, workers = 0, divergent = 0;  // slots; workers run these differently often
  uint64_t fragments = 0;
  std::vector<UOp> rings;  // Stages that are several deep, or not filled by stores

  Facts(UOp root, std::span<const UOp> nodes) : body(root), order(nodes) {
    bool accumulates = false;
    for (UOp n : order) {
      if (n->is(Op::Stage) && n->ints().size() > 2) rings.push_back(n);
      if (!n->is(Op::Range)) continue;
      accumulates |= range_role(n) == Role::Accumulate;
      if (is_tile(range_role(n))) tiles |= slot_bit(n);
      if (is_worker(range_role(n))) workers |= slot_bit(n);
      if (range_role(n) == Role::Fragment) fragments |= slot_bit(n);
    }
    for (UOp n : order)
      if (workers && n->is(Op::Range) && (n->src(0)->ranges & workers)) divergent |= slot_bit(n);
    for (UOp n : order)
      for (Node* s : n->src())
        if (accumulates && !accumulated_ranges(UOp(s)).empty()) accumulated.push_back({UOp(s), n});
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

bool has_misplaced_loop(const Facts& f) { return misplaced_loop(f.order).get() != nullptr; }

bool has_two_vectors(const Facts& f) { return value_of_two_vectors(f.order).get() != nullptr; }

bool is_written(std::span<const UOp> order, UOp memory) {
  return std::ranges::any_of(
      order, [&](UOp n) { return n->is(Op::Store) && n->src(0)->src(0) == memory; });
}

// All positions of a tile would share the memory.
bool stages_in_tiles(const Facts& f) {
  return std::ranges::any_of(f.order,
                             [&](UOp n) { return n->is(Op::Stage) && (n->ranges & f.tiles); });
}

bool closes_workers(UOp n) {
  return std::ranges::any_of(closed_ranges(n), [](Node* r) { return is_worker(range_role(r)); });
}
// What workers of a block do together, but for outputs.
bool is_joint(UOp n) {
  if (n->is(Op::Stage) && fill_of(n) == Fill::Boxes) return true;
  return !n->is(Op::End) && closes_workers(n);
}

bool any_joint(const Facts& f, bool (*breaks)(const Facts&, UOp)) {
  return f.workers &&
         std::ranges::any_of(f.order, [&](UOp n) { return is_joint(n) && breaks(f, n); });
}

bool shares_what_differs(const Facts& f) {
  return any_joint(
      f, [](const Facts& g, UOp n) { return n->is(Op::Stage) && (n->ranges & g.workers) != 0; });
}

bool multiplies_other_tiles(const Facts& f) { return f.fragments && !tile_product_of(f.body).sum; }

bool meets_in_divergent(const Facts& f) {
  const TileProduct product = f.divergent && f.fragments ? tile_product_of(f.body) : TileProduct{};
  if (product.sum && (product.sum->ranges & f.divergent)) return true;
  return any_joint(f, [](const Facts& g, UOp n) { return (n->ranges & g.divergent) != 0; });
}

bool folds_tiles_together(const Facts& f) {
  return any_joint(f, [](const Facts& g, UOp n) {
    return n->is(Op::Reduce) && ((n->ranges & g.tiles) || !accumulated_ranges(n).empty());
  });
}

bool any_ring(const Facts& f, bool (*breaks)(const Facts&, UOp stage)) {
  return std::ranges::any_of(f.rings, [&](UOp n) { return breaks(f, n); });
}

// Rounds of a loop that is filled ahead for are numbered, and only one nest has them. Sums that
// wait in memory between rounds make a nest of its own of each.
bool fills_unknown_rounds(const Facts& f) {
  return any_ring(f, [](const Facts& g, UOp n) {
    if (depth_of(n) == 1) return false;
    if (!g.accumulated.empty()) return true;
    UOp loop = ring_loop(n);
    if (!loop || !is_const(loop->src(0))) return true;
    int folds = 0, stages = 0;
    for (UOp c : g.order) {
      if (!std::ranges::count(closed_ranges(c), loop.get())) continue;
      folds += c->is(Op::Reduce), stages += c->is(Op::Stage) || !accumulated_ranges(c).empty();
    }
    return folds > 1 || stages ||
           std::ranges::any_of(closed_ranges(n), [](Node* r) { return !is_const(UOp(r)->src(0)); });
  });
}

// What is filled ahead is read when the rounds before are not over; it is nothing that has loops.
bool fills_what_changes(const Facts& f) {
  return any_ring(f, [](const Facts& g, UOp n) {
    if (depth_of(n) == 1) return false;
    const std::vector<UOp> below = toposort(n->src(0));
    return std::ranges::any_of(below, [&](UOp s) {
      return s->is(Op::Stage) || s->is(Op::Reduce) ||
             (s->is(Op::Index) && is_written(g.order, s->src(0)));
    });
  });
}

bool copies_what_is_computed(const Facts& f) {
  return any_ring(f, [](const Facts&, UOp n) {
    return fill_of(n) != Fill::Stores &&
           !(n->src(0)->is(Op::Index) && n->src(0)->src(0)->is(Op::Param));
  });
}

// One worker sends a box ahead, in a loop that begins once, from a stretch of each loop's memory.
bool sends_other_boxes(const Facts& f) {
  return any_ring(f, [](const Facts& g, UOp n) {
    if (fill_of(n) != Fill::Boxes) return false;
    UOp loop = ring_loop(n);
    return depth_of(n) == 1 || !loop || !loops_around(g.body, loop).empty() || closes_workers(n) ||
           (n->ranges & g.workers) || !split_gate(n->src(1)).valid->is_const(1);
  });
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

// An output that the kernel reads stands in its own loops alone: in others it would be made again
// of what it is by then.
bool repeats_in_place(const Facts& f) {
  auto is_inside = [](Node* r, UOp end) {
    return is_loop(UOp(r)) && !std::ranges::count(closed_ranges(end), r) &&
           std::ranges::any_of(closed_ranges(end), [&](Node* own) {
             return is_loop(UOp(own)) && nest_order(UOp(own)) > nest_order(UOp(r));
           });
  };
  if (f.body->nsrc < 2) return false;
  return std::ranges::any_of(f.body->src(), [&](Node* end) {
    if (end->sources[0]->op != Op::Store) return false;
    const bool nested = std::ranges::any_of(f.body->src(), [&](Node* other) {
      return std::ranges::any_of(closed_ranges(UOp(other)),
                                 [&](Node* r) { return is_inside(r, UOp(end)); });
    });
    return nested && is_read(f.order, end->sources[0]->sources[0]->sources[0]);
  });
}

bool is_ordered(Node* r) { return range_role(UOp(r)) == Role::Ordered; }

// Writes at computed places: the loops of an End stand in the order of what it writes.
bool reorders_writes(const Facts& f) {
  return std::ranges::any_of(f.body->src(), [](Node* end) {
    std::vector<int> nest;
    for (Node* r : closed_ranges(UOp(end)))
      if (is_ordered(r)) nest.push_back(nest_order(UOp(r)));
    return !std::ranges::is_sorted(nest);
  });
}

// What a round reads is what the rounds before it wrote.
bool stages_ordered_writes(const Facts& f) {
  std::vector<UOp> memories;
  for (Node* end : f.body->src())
    if (std::ranges::any_of(closed_ranges(UOp(end)), is_ordered))
      memories.push_back(UOp(end)->src(0)->src(0)->src(0));
  return !memories.empty() && std::ranges::any_of(f.order, [&](UOp n) {
    if (!n->is(Op::Stage)) return false;
    const std::vector<UOp> below = toposort(n->src(0));
    return std::ranges::any_of(below, [&](UOp m) { return std::ranges::count(memories, m) > 0; });
  });
}

// Of the workers of a Group one writes, when others may still have to read.
bool groups_in_place(const Facts& f) {
  const bool groups = f.workers && std::ranges::any_of(f.order, [](UOp n) {
                        return n->is(Op::Range) && range_role(n) == Role::Group;
                      });
  return groups && std::ranges::any_of(f.order, [&](UOp n) {
           return n->is(Op::Store) && is_read(f.order, n->src(0)->src(0));
         });
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
    return closes_workers(n) ||
           std::ranges::any_of(over, [](Node* r) { return is_tile(range_role(UOp(r))); }) ||
           !std::ranges::is_sorted(over, {}, nests);
  });
}

bool rounds_sums(const Facts& f) {
  return any_accumulated(
      f, [](UOp reduce, UOp) { return is_float(reduce->dtype) && row(reduce->dtype).bits < 32; });
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
    {"a loop would run differently in a copy of its nest",    shares_slots              },
    {"the extent of a loop depends on one inside it",         has_misplaced_loop        },
    {"some value has two axes of vectors",                    has_two_vectors           },
    {"something is staged for each position of a tile",       stages_in_tiles           },
    {"something is staged over a loop that accumulates",      stages_over_accumulated   },
    {"an accumulated sum is not what is stored",              uses_unfinished_sums      },
    {"an accumulated sum beside other outputs",               accumulates_beside_outputs},
    {"an accumulated sum is stored where the kernel reads",   reads_unfinished_output   },
    {"an accumulated sum would be rounded",                   rounds_sums               },
    {"a sum is to be made in its order",                      reorders_sums             },
    {"an accumulated sum is stored past the caches",          streams_unfinished_sums   },
    {"workers share what differs between them",               shares_what_differs       },
    {"workers meet in a loop that some leave earlier",        meets_in_divergent        },
    {"workers fold tiles or accumulated sums together",       folds_tiles_together      },
    {"workers fold what is stored where they read",           groups_in_place           },
    {"no box of this is sent ahead",                          sends_other_boxes         },
    {"it is no product of two tiles",                         multiplies_other_tiles    },
    {"a stage is filled ahead for rounds that are not known", fills_unknown_rounds      },
    {"a stage is filled ahead with what may change",          fills_what_changes        },
    {"what is computed is not copied",                        copies_what_is_computed   },
    {"an output is made in place in loops of others",         repeats_in_place          },
    {"writes are to be made in their order",                  reorders_writes           },
    {"something is staged that changes from round to round",  stages_ordered_writes     },
};

}  // namespace

bool is_read(std::span<const UOp> order, UOp memory) {
  return std::ranges::any_of(order, [&](UOp n) {
    for (uint32_t i = n->is(Op::Store) ? 1 : 0; i < n->nsrc; ++i)
      if (n->src(i)->is(Op::Index) && n->src(i)->src(0) == memory) return true;
    return false;
  });
}

std::string broken_law(UOp body, std::span<const UOp> order) {
  const Facts facts(body, order);
  for (const Law& law : laws)
    if (law.breaks(facts)) return law.broken;
  return "";
}

static bool fits_box(UOp stage, const Target& target) {
  return std::ranges::all_of(closed_ranges(stage),
                             [&](Node* r) { return UOp(r)->src(0)->hi <= target.box; });
}

// Bytes that each worker stages for itself.
static int64_t own_bytes(UOp body) {
  int64_t bytes = 0;
  for (UOp n : toposort(body))
    if (n->is(Op::Stage) && !is_joint(n)) bytes += n->ints(1) * size_of(n->dtype);
  return bytes;
}

bool runs_on(UOp body, const Target& target, UOp made_of) {
  return runs_on(body, toposort(body), target, made_of);
}

bool runs_on(UOp body, std::span<const UOp> order, const Target& target, UOp made_of) {
  constexpr int64_t kLittle = 16 << 10;
  if (target.workers && made_of)
    if (const int64_t own = own_bytes(body); own > kLittle && own > own_bytes(made_of))
      return false;
  int memories = 0, dimensions = 0;
  int64_t workers = 1, shared = 0;
  bool multiplies = false;
  for (UOp n : order) {
    memories += n->is(Op::Param) || n->is(Op::Stage) || (n->is(Op::Reduce) && is_joint(n));
    if (n->is(Op::Reduce) && is_joint(n) && !target.has(n->dtype)) return false;
    if (n->is(Op::Stage) && is_joint(n)) shared += n->ints(1) * size_of(n->dtype) * depth_of(n);
    if (n->is(Op::Stage) && fill_of(n) == Fill::Copies && !target.copies) return false;
    if (n->is(Op::Stage) && fill_of(n) == Fill::Boxes && !fits_box(n, target)) return false;
    if (n->is(Op::Range) && range_role(n) == Role::Global) {
      if (++dimensions > (target.workers ? 3 : 1)) return false;
      if (n->src(0)->hi > target.max_blocks) return false;
      if (target.workers && !is_const(n->src(0))) return false;
    } else if (n->is(Op::Range) && range_role(n) == Role::Fragment) {
      multiplies = true;
    } else if (n->is(Op::Range) && is_worker(range_role(n))) {
      workers *= n->src(0)->hi;
      if (workers > target.workers) return false;
    }
    if (dot_of(n->op) && !target.dots.has(n->op)) return false;
    if (target.has(n->dtype)) continue;
    if (!accumulated_ranges(n).empty() || multiplies_staged(n)) return false;
  }
  if (multiplies) {
    TileProduct product = tile_product_of(body);
    if (fragment_row(product, target) < 0) return false;
  }
  for (UOp n : order)  // partial results, at most one of each worker
    if (n->is(Op::Reduce) && is_joint(n)) shared += workers * size_of(n->dtype);
  return memories <= target.max_buffers && shared <= target.shared_bytes;
}

}  // namespace mote
