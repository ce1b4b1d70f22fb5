#include "lower/guards.h"

#include <algorithm>
#include <unordered_map>

#include "ir/program.h"

namespace mote {

namespace {

bool is_rare(UOp n) { return n->is(Op::Where) && n->arg.i == 1; }

bool needs(UOp n, UOp other) { return std::ranges::count(toposort(n), other) > 0; }

bool belongs(const RareBranch& g, UOp n) {
  UOp first = g.members[0];
  return first->src(0) == n->src(0) && first->ranges == n->ranges &&
         std::ranges::none_of(g.members, [&](UOp m) { return needs(n, m); });
}

}  // namespace

// Users come before what they use: a node is inside where every use of it is.
std::vector<RareBranch> find_guards(UOp body) {
  constexpr size_t kOutside = SIZE_MAX;
  const std::vector<UOp> order = toposort(body);
  std::vector<RareBranch> guards;
  std::unordered_map<const Node*, size_t> member_of, owner;
  for (UOp n : order) {
    if (!is_rare(n)) continue;
    auto g = std::ranges::find_if(guards, [&](const RareBranch& o) { return belongs(o, n); });
    if (g == guards.end()) g = guards.insert(g, RareBranch{});
    g->members.push_back(n);
    member_of[n.get()] = static_cast<size_t>(g - guards.begin());
  }
  if (guards.empty()) return guards;
  for (size_t i = order.size(); i-- > 0;) {
    UOp n = order[i];
    auto found = owner.find(n.get());
    const size_t own = found == owner.end() || !has(n->op, Alu) ? kOutside : found->second;
    if (own != kOutside) guards[own].inside.push_back(n);
    for (uint32_t s = 0; s < n->nsrc; ++s) {
      const bool rare_side = s == 1 && is_rare(n);
      const size_t by = rare_side ? member_of.at(n.get()) : own;
      auto [at, first] = owner.emplace(n->sources[s], by);
      if (!first && at->second != by) at->second = kOutside;
    }
  }
  std::erase_if(guards, [](const RareBranch& g) { return g.inside.empty(); });
  return guards;
}

bool is_guarded_write(UOp end) {
  const UOp store = end->src(0);
  auto is_ordered = [](Node* r) { return range_role(UOp(r)) == Role::Ordered; };
  return store->is(Op::Store) && store->nsrc > 2 &&
         std::ranges::any_of(closed_ranges(end), is_ordered) &&
         std::ranges::none_of(open_ranges(store->src(2)), is_tile_range);
}

}  // namespace mote
