#include "ir/spec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <unordered_set>

#include "base/lifetime.h"
#include "ir/build.h"
#include "ir/dots.h"
#include "ir/graph.h"
#include "ir/print.h"
#include "ir/program.h"

namespace mote {

namespace {

struct SpecRule {
  OpSet ops;
  const char* says;
  bool (*holds)(UOp);
};

bool sources_have(UOp u, DType d) {
  return std::ranges::all_of(u->src(), [&](const Node* s) { return s->dtype == d; });
}

bool is_whole(DType d) { return is_int(d) || d == DType::boolean; }

bool representable(UOp u) {
  if (u->dtype == DType::none) return false;
  if (!is_float(u->dtype)) return wrap_to(u->dtype, u->arg.i) == u->arg.i;
  return u->arg.f != u->arg.f || round_to(u->dtype, u->arg.f) == u->arg.f;
}

bool folds(Op op) {
  return OpSet{Op::Add, Op::Mul, Op::Max, Op::Min, Op::And, Op::Or, Op::Xor}.has(op);
}

bool valid_dtypes(UOp u) {
  if (u->is(Op::Where)) return u->src(1)->dtype == u->dtype && u->src(2)->dtype == u->dtype;
  if (has(u->op, Compares)) return sources_have(u, u->src(0)->dtype) && u->dtype == DType::boolean;
  if (u->is(Op::Cast) || u->is(Op::Bitcast)) return u->dtype != DType::none;
  if (const Dot* dot = dot_of(u->op))
    return u->src(0)->dtype == DType::u32 && u->src(1)->dtype == DType::u32 &&
           u->src(2)->dtype == u->dtype && u->dtype == dot->sum;
  return sources_have(u, u->dtype) && u->dtype != DType::none;
}

// A list of distinct axes of the first source.
bool are_axes(UOp u, std::span<const int64_t> axes) {
  uint64_t seen = 0;
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= u->src(0)->shape->rank() || (seen >> axis & 1)) return false;
    seen |= uint64_t{1} << axis;
  }
  return true;
}

bool expands(UOp u) {
  const std::vector<Dim>&from = u->src(0)->shape->dims, &to = u->shape->dims;
  if (from.empty()) return true;
  if (from.size() != to.size()) return false;
  for (size_t i = 0; i < to.size(); ++i)
    if (from[i] != to[i] && from[i] != Dim(1)) return false;
  return true;
}

// The entries of Pad and Shrink come in pairs; `fits` judges those that are numbers.
bool pairs_fit(UOp u, bool (*fits)(int64_t begin, int64_t end, int64_t size)) {
  const std::vector<Dim>& dims = u->src(0)->shape->dims;
  const std::vector<Dim> list = list_dims(u);
  if (list.size() != 2 * dims.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const Dim &begin = list[2 * i], &end = list[2 * i + 1];
    if (begin.is_symbolic() || end.is_symbolic()) continue;
    if (!fits(begin.size, end.size, dims[i].size)) return false;
  }
  return true;
}

bool same_count(UOp u) {
  const Shape &from = *u->src(0)->shape, &to = *u->shape;
  return from.symbolic || to.symbolic || from.count() == to.count();
}

bool is_version(UOp u) { return u->is(Op::Buffer) || u->is(Op::Param) || u->is(Op::After); }

bool is_view(UOp u) {
  while (has(u->op, Movement) && !u->is(Op::Pad)) u = u->src(0);
  return is_version(u);
}

bool fills(UOp value, const Shape& target) {
  return value->shape && (value->shape->dims.empty() || value->shape->dims == target.dims);
}

bool all_ranges(std::span<Node* const> src) {
  return std::ranges::all_of(src, [](const Node* s) { return s->op == Op::Range; });
}

// A place in a plan: all of a memory, or a slice of it.
bool is_place_of(UOp u) { return u->is(Op::Param) || u->is(Op::Index); }

bool fits_its_kernel(UOp call) {
  if (call->nsrc < 2) return false;
  auto is_here = [&](UOp place) { return is_place_of(place) && place->device == call->device; };
  if (call->src(0)->is(Op::Source)) return std::ranges::all_of(call->src().subspan(1), is_here);
  if (!call->src(0)->is(Op::Sink)) return false;
  std::vector<UOp> params(call->nsrc - 1);
  for (UOp n : toposort(call->src(0))) {
    if (!n->is(Op::Param)) continue;
    const auto slot = static_cast<size_t>(n->ints(0));
    if (slot >= params.size() || params[slot]) return false;
    params[slot] = n;
  }
  for (uint32_t i = 1; i < call->nsrc; ++i) {
    const UOp place = call->src(i), p = params[i - 1];
    // A temporary is a slice of an arena of bytes.
    if (!p || !is_here(place) || (place->dtype != p->dtype && place->dtype != DType::u8))
      return false;
  }
  return true;
}

bool loops_nest(UOp linear) {
  std::vector<const Node*> open;
  for (const Node* s : linear->src()) {
    if (s->op == Op::Range) open.push_back(s);
    if (s->op == Op::End && (open.empty() || open.back() != s->sources[0])) return false;
    if (s->op == Op::End) open.pop_back();
    if (!OpSet{Op::Call, Op::Copy, Op::Range, Op::End}.has(s->op)) return false;
    const uint64_t inside = std::accumulate(open.begin(), open.end(), uint64_t{0},
                                            [](uint64_t all, UOp r) { return all | slot_bit(r); });
    if (!OpSet{Op::Range, Op::End}.has(s->op) && (s->ranges & ~inside)) return false;
  }
  return open.empty();
}

const OpSet every{};  // no bits: all ops

// clang-format off
MOTE_MADE_FIRST const SpecRule everywhere[] = {
    {every, "an op has as many sources as its row says",
     [](UOp u) { return row(u->op).arity < 0 || row(u->op).arity == static_cast<int>(u->nsrc); }},
    {Op::Const, "a Const holds a value of its dtype", representable},
    {Op::Invalid, "Invalid is an index", [](UOp u) { return u->dtype == DType::index; }},
    {Op::Var, "a Var is an integer with lo <= hi, and its value between them",
     [](UOp u) {
       const auto& v = u->ints();
       return is_int(u->dtype) && v.size() == 4 && v[0] <= v[1] &&
              (!v[2] || (v[0] <= v[3] && v[3] <= v[1]));
     }},
    {Op::Param, "a Param says slot, size, space and device",
     [](UOp u) { return u->ints().size() == 4; }},
    {ops_with(Alu), "sources of an elementwise op have its dtype", valid_dtypes},
    {ops_with(Float), "an op of floats takes floats",
     [](UOp u) { return is_float(u->src(0)->dtype); }},
    {ops_with(Integer), "an op of integers takes integers or bools",
     [](UOp u) { return is_whole(u->src(0)->dtype); }},
    {Op::Where, "Where chooses by a bool",
     [](UOp u) { return u->src(0)->dtype == DType::boolean; }},
    {Op::Bitcast, "Bitcast keeps the size of an element",
     [](UOp u) { return size_of(u->dtype) == size_of(u->src(0)->dtype); }},
    {ops_with(OfU64), "an op of u64 takes and gives it", [](UOp u) { return u->dtype == DType::u64; }},
    {Op::Reduce, "Reduce folds values of its dtype with an associative op",
     [](UOp u) {
       return u->nsrc > 0 && !u->ints().empty() && folds(static_cast<Op>(u->ints(0))) &&
              u->src(0)->dtype == u->dtype;
     }},
};

MOTE_MADE_FIRST const SpecRule tensor_rules[] = {
    {OpSet{Op::Buffer, Op::Param}, "memory holds no index",
     [](UOp u) { return u->dtype != DType::index && u->dtype != DType::none; }},
    {Op::Iota, "Iota is an index with one size",
     [](UOp u) { return u->dtype == DType::index && u->ints().size() == 1; }},
    {ops_with(Movement), "movement keeps the dtype of an array",
     [](UOp u) { return u->nsrc > 0 && u->src(0)->shape && u->src(0)->dtype == u->dtype; }},
    {Op::Reshape, "Reshape keeps the number of elements", same_count},
    {Op::Permute, "Permute lists every axis once",
     [](UOp u) {
       return static_cast<int>(u->ints().size()) == u->src(0)->shape->rank() &&
              are_axes(u, u->ints());
     }},
    {Op::Expand, "Expand repeats axes of size 1, or a scalar", expands},
    {Op::Pad, "Pad adds nothing negative",
     [](UOp u) {
       return pairs_fit(
           u, [](int64_t before, int64_t after, int64_t) { return before >= 0 && after >= 0; });
     }},
    {Op::Shrink, "Shrink stays inside",
     [](UOp u) {
       return pairs_fit(u, [](int64_t begin, int64_t end, int64_t size) {
         return 0 <= begin && begin <= end && end <= size;
       });
     }},
    {Op::Window, "Window has an axis and positive numbers",
     [](UOp u) {
       return u->ints().size() == 4 && are_axes(u, std::span(u->ints()).first(1)) &&
              u->ints(1) > 0 && u->ints(2) > 0 && u->ints(3) > 0;
     }},
    {Op::Flip, "Flip lists axes once", [](UOp u) { return are_axes(u, u->ints()); }},
    {Op::Reduce, "a tensor's Reduce lists axes once",
     [](UOp u) { return u->nsrc == 1 && are_axes(u, std::span(u->ints()).subspan(1)); }},
    {Op::Store, "Store writes a value of the same dtype and shape to a view of a buffer's version",
     [](UOp u) {
       return u->nsrc >= 2 && is_view(u->src(0)) && u->src(0)->dtype == u->src(1)->dtype &&
              fills(u->src(1), *u->src(0)->shape);
     }},
    {Op::After, "After follows a buffer's version by Stores",
     [](UOp u) {
       return u->nsrc >= 2 && is_version(u->src(0)) && u->dtype == u->src(0)->dtype &&
              std::ranges::all_of(u->src().subspan(1),
                                  [](const Node* s) { return s->op == Op::Store; });
     }},
    {OpSet{Op::Copy, Op::Contiguous, Op::Detach, Op::Given, Op::Check},
     "a moved value keeps its dtype",
     [](UOp u) { return u->dtype == u->src(0)->dtype; }},
    {Op::Check, "Check looks at integers and compares them with a number",
     [](UOp u) {
       return !is_float(u->src(1)->dtype) && u->src(2)->dtype == DType::index &&
              u->src(2)->shape->rank() == 0;
     }},
};

MOTE_MADE_FIRST const SpecRule kernel_rules[] = {
    {Op::Range, "a Range is an index that counts to an index, with a slot below 64 and a role",
     [](UOp u) {
       return u->dtype == DType::index && u->src(0)->dtype == DType::index &&
              u->ints().size() == 2 && range_slot(u) >= 0 && range_slot(u) < kSlots;
     }},
    {Op::Reduce, "a kernel's Reduce runs over ranges",
     [](UOp u) { return u->ints().size() == 1 && u->nsrc > 1 && all_ranges(u->src().subspan(1)); }},
    {Op::Index, "Index finds a place of a memory (or what is there) by an index",
     [](UOp u) {
       return OpSet{Op::Param, Op::Stage}.has(u->src(0)->op) && u->src(0)->dtype == u->dtype &&
              u->src(1)->dtype == DType::index;
     }},
    {Op::Store, "Store writes a value to a place of its dtype",
     [](UOp u) {
       return u->nsrc == 2 && u->src(0)->is(Op::Index) && u->src(0)->dtype == u->src(1)->dtype;
     }},
    {Op::Stage, "Stage keeps a value at a place over ranges",
     [](UOp u) {
       const size_t numbers = u->ints().size();
       return u->nsrc >= 2 && (numbers == 2 || numbers == 4) && u->dtype == u->src(0)->dtype &&
              u->src(1)->dtype == DType::index && all_ranges(u->src().subspan(2));
     }},
    {Op::Fetch, "Fetch names a place", [](UOp u) { return u->src(0)->is(Op::Index); }},
    {Op::End, "End closes the ranges of a Store or a Fetch",
     [](UOp u) {
       return u->nsrc >= 1 && OpSet{Op::Store, Op::Fetch}.has(u->src(0)->op) &&
              all_ranges(u->src().subspan(1));
     }},
    {Op::Sink, "a kernel is a Sink of effects with no range left open",
     [](UOp u) {
       return u->nsrc >= 1 && u->ranges == 0 && std::ranges::all_of(u->src(), [](const Node* s) {
                return s->op == Op::End || s->op == Op::Store;
              });
     }},
};

MOTE_MADE_FIRST const SpecRule plan_rules[] = {
    {Op::Index, "a place is found in a memory, by an index",
     [](UOp u) {
       return u->src(0)->is(Op::Param) && u->src(0)->dtype == u->dtype &&
              u->src(1)->dtype == DType::index;
     }},
    {Op::Call, "a Call runs a kernel or a program on places of one device, one for each of a kernel's Params",
     fits_its_kernel},
    {Op::Copy, "Copy names two places and a number of bytes",
     [](UOp u) { return u->nsrc == 3 && is_place_of(u->src(0)) && is_place_of(u->src(1)) &&
                        u->src(2)->is(Op::Const) && u->src(2)->dtype == DType::index; }},
    {Op::End, "End closes a Range", [](UOp u) { return u->nsrc == 1 && u->src(0)->is(Op::Range); }},
    {Op::Linear, "statements are Calls, Copies and loops; loops nest", loops_nest},
};
// clang-format on

bool is_register(UOp u) { return without_effects(u)->is(Op::Reg); }
bool is_memory(UOp u) { return without_effects(u)->is(Op::Param); }

bool is_place(UOp u, DType d) { return (u->is(Op::Index) || is_register(u)) && u->dtype == d; }

bool gated_from(UOp u, uint32_t gate) {
  return u->nsrc == gate || (u->nsrc == gate + 1 && u->src(gate)->dtype == DType::boolean);
}

constexpr OpSet kStatements{Op::Load, Op::Reduce,  Op::Store,   Op::Fetch,
                            Op::End,  Op::Barrier, Op::Shuffle, Op::Fragment,
                            Op::Wait, Op::Box,     Op::Arrive,  Op::Await};

bool is_statement(const Node* n) {
  if (n->op == Op::Range) return !is_tile_range(n);
  return has(n->op, Alu) || kStatements.has(n->op);
}

// A statement whose result others use. An End only says which effects are over.
bool is_definition(UOp u) { return is_statement(u.get()) && !u->is(Op::End); }

// Every statement comes once, after those it uses; loops nest.
bool well_ordered(UOp linear) {
  std::unordered_set<const Node*> done;
  std::vector<const Node*> open;
  for (const Node* s : linear->src()) {
    if (!is_statement(s) || done.count(s)) return false;
    const std::vector<UOp> uses(s->src().begin(), s->src().end());
    for (UOp used : toposort(uses, [](UOp u) { return !is_definition(u); }))
      if (is_definition(used) && !done.count(used.get())) return false;
    if (s->op == Op::Range) open.push_back(s);
    if (s->op == Op::End) {  // a statement closes one loop
      if (s->nsrc != 2 || open.empty() || open.back() != s->src().back()) return false;
      open.pop_back();
    }
    done.insert(s);
  }
  return open.empty();
}

// clang-format off
MOTE_MADE_FIRST const SpecRule program_rules[] = {
    {every, "no index is left", [](UOp u) { return u->dtype != DType::index; }},
    {Op::Range, "a Range counts to an integer of its dtype; a tile's extent is a constant",
     [](UOp u) {
       return is_int(u->dtype) && u->src(0)->dtype == u->dtype && range_slot(u) >= 0 &&
              range_slot(u) < kSlots && (!is_tile_range(u) || u->src(0)->is(Op::Const));
     }},
    {Op::Index, "Index finds a place of a memory, or a word of its elements, by an integer",
     [](UOp u) {
       const bool word = u->dtype == DType::u32 && size_of(u->src(0)->dtype) < 4;
       return is_memory(u->src(0)) && (u->src(0)->dtype == u->dtype || word) &&
              is_int(u->src(1)->dtype);
     }},
    {Op::Reg, "a Reg has a slot and tile ranges",
     [](UOp u) { return u->ints().size() == 1 && std::ranges::all_of(u->src(), is_tile_range); }},
    {Op::Load, "Load reads a place or a register of its dtype",
     [](UOp u) { return u->nsrc > 0 && is_place(u->src(0), u->dtype) && gated_from(u, 1); }},
    {Op::Store, "Store writes a value to a place or a register of its dtype",
     [](UOp u) {
       return u->nsrc > 1 && is_place(u->src(0), u->src(1)->dtype) && gated_from(u, 2);
     }},
    {Op::Fetch, "Fetch names a place", [](UOp u) { return u->src(0)->is(Op::Index); }},
    {Op::Shuffle, "Shuffle takes a value from the worker of an integer",
     [](UOp u) { return u->src(0)->dtype == u->dtype && is_int(u->src(1)->dtype); }},
    {Op::Fragment, "Fragment adds a product of tiles, whose registers or places are tile ranges",
     [](UOp u) {
       if (u->nsrc < 6 || u->ints().size() != 2) return false;
       const int64_t staged = u->ints(1);
       return u->nsrc == 6 + static_cast<uint32_t>(std::popcount(static_cast<uint64_t>(staged))) &&
              u->src(0)->dtype == u->dtype && u->src(1)->dtype == u->src(2)->dtype &&
              (staged & 1) == u->src(1)->is(Op::Index) && staged / 2 == u->src(2)->is(Op::Index) &&
              std::ranges::all_of(u->src().subspan(3), is_tile_range);
     }},
    {Op::Box, "Box copies places to places over tile ranges, and arrives at a place",
     [](UOp u) {
       return u->nsrc > 5 && u->arg.i > 0 && u->src(0)->is(Op::Index) && u->src(1)->is(Op::Index) &&
              u->src(0)->dtype == u->src(1)->dtype && u->src(2)->is(Op::Index) &&
              u->src(3)->dtype == DType::boolean && u->src(4)->dtype == DType::boolean &&
              std::ranges::all_of(u->src().subspan(5), is_tile_range);
     }},
    {OpSet{Op::Arrive, Op::Await}, "a counted barrier is a place, and has arrivals",
     [](UOp u) {
       return u->arg.i > 0 && u->src(0)->is(Op::Index) &&
              (u->is(Op::Arrive) ? u->src(1)->dtype == DType::boolean : is_int(u->src(1)->dtype));
     }},
    {OpSet{Op::Barrier, Op::Wait}, "workers meet and wait in loops, after effects",
     [](UOp u) {
       return std::ranges::all_of(u->src(), [](const Node* s) {
         return s->op == Op::Range || s->op == Op::Const || has(s->op, Effect);
       });
     }},
    {Op::Reduce, "a Reduce that is left folds tile ranges",
     [](UOp u) { return std::ranges::all_of(u->src().subspan(1), is_tile_range); }},
    {Op::After, "After follows a register or a memory by effects",
     [](UOp u) {
       return u->nsrc > 1 && (is_register(u) || is_memory(u)) && u->dtype == u->src(0)->dtype;
     }},
    {Op::End, "End closes ranges",
     [](UOp u) { return u->nsrc > 1 && all_ranges(u->src().subspan(1)); }},
    {Op::Linear, "statements come once, after what they use, in nested loops", well_ordered},
};
// clang-format on

struct StageRow {
  const char* name;
  OpSet ops;
  OpSet root;  // no bits: any
  std::span<const SpecRule> rules;
};

// clang-format off
MOTE_MADE_FIRST const StageRow stage_rows[] = {
    {"tensor",
     ops_with(Movement) | ops_with(Alu) | ops_with(Moves) |
         OpSet{Op::Const, Op::Buffer, Op::Param, Op::Var, Op::Iota, Op::Reduce, Op::Store,
               Op::After, Op::Sink, Op::Source},
     every, tensor_rules},
    {"kernel",
     ops_with(Alu) | OpSet{Op::Const, Op::Invalid, Op::Param, Op::Var, Op::Range, Op::Reduce,
                           Op::Index, Op::Store, Op::Fetch, Op::Stage, Op::End, Op::Sink},
     Op::Sink, kernel_rules},
    {"plan",
     ops_with(Alu) | OpSet{Op::Const, Op::Param, Op::Range, Op::Index, Op::Sink, Op::Call, Op::Copy,
                           Op::Source, Op::End, Op::Linear},
     Op::Linear, plan_rules},
    {"program",
     ops_with(Alu).without({Op::FloorDiv, Op::FloorMod}) |
         kStatements | OpSet{Op::Const, Op::Param, Op::Var, Op::Range, Op::Index, Op::Reg,
                             Op::After, Op::Linear},
     Op::Linear, program_rules},
};
// clang-format on

bool applies(OpSet set, Op op) { return set.empty() || set.has(op); }

// The end of a graph's text: the node in question and what it was made of.
std::string last_lines(const std::string& text, int count) {
  size_t at = text.size();
  while (at > 0 && count-- > 0) {
    at = text.rfind('\n', at - 2);
    if (at == std::string::npos) return text;
  }
  return "...\n" + text.substr(at + 1);
}

[[noreturn]] void violated(UOp u, const char* stage, const char* pass, std::string_view rule) {
  fail(ErrorKind::Internal, text("internal error: after ", pass, ", in the ", stage, " stage: ",
                                 rule, "; broken by the last line of\n", last_lines(print(u), 30)));
}

void check_rules(UOp u, std::span<const SpecRule> rules, const char* stage, const char* pass) {
  for (const SpecRule& r : rules)
    if (applies(r.ops, u->op) && !r.holds(u)) violated(u, stage, pass, r.says);
}

}  // namespace

void verify(UOp root, Stage stage, const char* pass) {
  const StageRow& s = stage_rows[static_cast<int>(stage)];
  if (!applies(s.root, root->op)) violated(root, s.name, pass, "this op is no root");
  std::array<UOp, kSlots> by_slot;
  const bool is_plan = stage == Stage::Plan;
  for (UOp u : toposort({&root, 1}, [&](UOp n) { return !is_plan || !n->is(Op::Sink); })) {
    if (is_plan && u->is(Op::Sink)) {
      verify(u, Stage::Kernel, pass);
      continue;
    }
    if (!s.ops.has(u->op)) violated(u, s.name, pass, "this op does not belong here");
    check_rules(u, everywhere, s.name, pass);
    check_rules(u, s.rules, s.name, pass);
    if (!u->is(Op::Range)) continue;
    UOp& other = by_slot[static_cast<size_t>(range_slot(u))];
    if (other && other != u) violated(u, s.name, pass, "two ranges of one kernel share a slot");
    other = u;
  }
  if (stage == Stage::Tensor || is_plan) return;
  const std::vector<UOp> order = toposort(root);
  if (UOp u = value_of_two_vectors(order))
    violated(u, s.name, pass, "no value depends on two Vector ranges");
  if (stage != Stage::Kernel) return;
  if (UOp u = misplaced_loop(order))
    violated(u, s.name, pass, "a loop stands inside those that its extent depends on");
}

void verify_target(UOp linear, const Target& target, const char* pass) {
  int buffers = 0;
  for (UOp u : toposort(linear)) {
    if (u->dtype != DType::none && !target.has(u->dtype))
      violated(u, "program", pass, text("the target has no ", u->dtype));
    buffers += u->is(Op::Param);
  }
  if (buffers > target.max_buffers)
    violated(linear, "program", pass,
             text(buffers, " buffers, the target takes ", target.max_buffers));
}

void verify_text(UOp root, const char* pass) {
  const std::string before = print(root);
  const UOp again = parse(before);
  if (again == root) return;
  fail(ErrorKind::Internal, text("internal error: after ", pass, ": the text\n", before,
                                 "parses to another graph,\n", print(again)));
}

}  // namespace mote
