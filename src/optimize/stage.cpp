// Staging: the reads of one memory kept over copies of some ranges.
#include <algorithm>
#include <unordered_map>

#include "algebra/algebra.h"
#include "ir/program.h"
#include "optimize/apply.h"

namespace mote {

namespace {

constexpr int64_t kMostElements = int64_t{1} << 28;

struct Users {
  std::unordered_map<const Node*, std::vector<UOp>> of;
  explicit Users(std::span<const UOp> order) {
    for (UOp n : order)
      for (Node* s : n->src())
        if (of[s].empty() || of[s].back() != n) of[s].push_back(n);
  }
};

bool is_place(UOp index, const Users& users) {
  return std::ranges::any_of(users.of.at(index.get()),
                             [&](UOp u) { return u->is(Op::Store) && u->src(0) == index; });
}

// The largest value made of a read that depends on no range the read does not depend on.
UOp largest_alike(UOp read, const Users& users) {
  UOp value = read;
  while (true) {
    auto it = users.of.find(value.get());
    if (it == users.of.end() || it->second.size() != 1) return value;
    UOp user = it->second[0];
    if (!has(user->op, Alu) || (user->ranges & ~read->ranges)) return value;
    if (user->dtype == DType::index || user->dtype == DType::boolean) return value;
    value = user;
  }
}

// What the copy of a range that fills a stage is: to be cut anew, but for lanes.
Role copied_role(Role role) { return role == Role::Lane ? role : Role::Loop; }

UOp the_read(UOp body, int param, uint64_t slots, std::string* refused) {
  const std::vector<UOp> order = toposort(body);
  const Users users(order);
  UOp read;
  for (UOp n : order) {
    if (!n->is(Op::Index) || !n->src(0)->is(Op::Param) || n->src(0)->ints(0) != param) continue;
    if (is_place(n, users)) return refuse(refused, "the memory is written by this kernel");
    if ((n->ranges & slots) != slots) continue;
    if (read) return refuse(refused, text("several reads of ", param));
    read = n;
  }
  if (!read) return refuse(refused, text("no read of ", param, " depends on all of these"));
  return largest_alike(read, users);
}

UOp the_sum(UOp body, uint64_t slots, std::string* refused) {
  UOp sum;
  for (UOp n : toposort(body)) {
    if (!n->is(Op::Reduce)) continue;
    if (sum) return refuse(refused, "several reduces");
    sum = n;
  }
  if (!sum) return refuse(refused, "no reduce");
  if ((sum->ranges & slots) != slots)
    return refuse(refused, "the sum does not depend on all of these");
  return sum;
}

}  // namespace

UOp apply_stage(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  if (a.over.empty()) return refuse(refused, "no ranges to stage over");
  std::vector<UOp> over;
  uint64_t slots = 0;
  for (int slot : a.over) {
    UOp r = ranges.find(slot);
    if (!r) return refuse(refused, text("no range of slot ", slot));
    if (std::ranges::count(over, r)) return refuse(refused, text("slot ", slot, " twice"));
    if (most_positions(r) == 0) return refuse(refused, "a size that is not constant");
    over.push_back(r);
    slots |= slot_bit(r);
  }
  UOp value = a.slot == Action::kSum ? the_sum(body, slots, refused)
                                     : the_read(body, a.slot, slots, refused);
  if (!value) return {};
  for (UOp r : open_ranges(value)) {
    if (std::ranges::count(over, r)) continue;
    if (r->src(0)->ranges & slots)
      return refuse(refused, text("the extent of range ", range_slot(r), " depends on these"));
    if (is_tile(range_role(r)))
      return refuse(refused, text("the read depends on tile range ", range_slot(r), " too"));
  }
  if (ranges.next_slot + static_cast<int>(over.size()) > kSlots)
    return refuse(refused, "too many ranges");

  int64_t size = 1;
  for (UOp r : over) {
    size *= most_positions(r);
    if (size > kMostElements) return refuse(refused, "too much memory");
  }
  UOp place = index(0), position = index(0);
  std::vector<std::pair<UOp, UOp>> copies;
  int64_t step = size;
  for (size_t i = 0; i < over.size(); ++i) {
    const int64_t positions = most_positions(over[i]);
    UOp copy = range(ranges.next_slot + static_cast<int>(i), index(positions),
                     copied_role(range_role(over[i])));
    copies.emplace_back(over[i], copy);
    step /= positions;
    place = place + copy * step;
    position = position + over[i] * step;
  }
  std::vector<UOp> src{substitute(value, copies), place};
  for (auto& [from, to] : copies) src.push_back(to);
  int64_t ints[] = {static_cast<int64_t>(Space::Local), size};
  UOp stage = make(Op::Stage, value->dtype, src, Arg::of(intern_arg(ints)));
  std::pair<UOp, UOp> map[] = {{value, make(Op::Index, value->dtype, {stage, position})}};
  return simplify(substitute(body, map));
}

}  // namespace mote
