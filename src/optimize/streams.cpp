// What goes past the caches, and what is asked for before it is read.
#include <algorithm>

#include "base/integers.h"
#include "optimize/sketch.h"

namespace mote {

namespace {

// Each line is written at once. Past the caches, one that is written in pieces with others in
// between goes to memory with each piece.
bool stores_lines(UOp end) {
  const UOp position = split_gate(end->src(0)->src(0)->src(1)).idx;
  auto from_inside = [](UOp r) {
    const Role role = range_role(r);
    return std::pair(role == Role::Vector ? 0 : role == Role::Loop ? 2 : 1, -range_slot(r));
  };
  std::vector<UOp> ranges(end->src().begin() + 1, end->src().end());
  std::ranges::sort(ranges, {}, from_inside);
  int64_t bytes = size_of(end->src(0)->src(1)->dtype);
  auto step = [&, each = bytes](UOp r) { return stride_of(position, r).value_or(0) * each; };
  auto is_even = [&](UOp r) { return stride_of(position, r).has_value(); };
  if (!std::ranges::all_of(ranges, is_even)) return false;
  size_t next = 0;
  for (; next < ranges.size() && step(ranges[next]) == bytes; ++next)
    bytes *= Sketch::size(ranges[next]);
  const std::span rest = std::span(ranges).subspan(next);
  return rest.empty() || (bytes % kCacheLine == 0 && std::ranges::all_of(rest, [&](UOp r) {
                            return step(r) % kCacheLine == 0;
                          }));
}

}  // namespace

// Outputs that the caches do not hold until they are read.
void stream_stores(Sketch& s) {
  std::vector<int> large;
  for (UOp end : s.body->src()) {
    UOp memory = end->src(0)->src(0)->src(0);
    double bytes = static_cast<double>(size_of(memory->dtype));
    for (Node* r : end->src().subspan(1)) bytes *= static_cast<double>(Sketch::size(UOp(r)));
    if (bytes > static_cast<double>(s.target->cache_bytes) && stores_lines(end))
      large.push_back(static_cast<int>(memory->ints(0)));
  }
  for (int param : large) s.act({Action::Stream, param});
}

// Where nothing else is folded than what no cache holds, each element once.
void ask_ahead(Sketch& s) {
  auto is_read = [](const Access& a) { return !a.store && a.nest; };
  const auto a = std::ranges::find_if(s.accesses, is_read);
  if (!s.target->ahead_bytes || std::ranges::count_if(s.accesses, is_read) != 1) return;
  if (!a->memory->is(Op::Param)) return;
  if (a->memory->ints(1) * size_of(a->dtype()) <= s.target->cache_bytes) return;
  for (const std::vector<UOp>& list : {s.outputs, s.reduces})
    for (UOp r : list)
      if (!a->depends_on(r)) return;
  s.act({Action::Ahead, static_cast<int>(a->memory->ints(0)), s.target->ahead_bytes});
}

}  // namespace mote
