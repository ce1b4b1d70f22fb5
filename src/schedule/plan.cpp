#include "schedule/plan.h"

#include <algorithm>
#include <utility>

#include "ir/memo.h"

namespace mote {

namespace {

// Items by a number below `groups`, in the order they had: found without a search.
template <class T>
class Grouped {
 public:
  template <class Key>
  Grouped(std::span<const T> items, size_t groups, Key key)
      : first_(groups + 1), items_(items.size()) {
    for (const T& item : items) ++first_[static_cast<size_t>(key(item)) + 1];
    std::partial_sum(first_.begin(), first_.end(), first_.begin());
    std::vector<size_t> next = first_;
    for (const T& item : items) items_[next[static_cast<size_t>(key(item))]++] = item;
  }
  std::span<const T> operator[](int group) const {
    const size_t begin = first_[static_cast<size_t>(group)];
    return {items_.data() + begin, first_[static_cast<size_t>(group) + 1] - begin};
  }

 private:
  std::vector<size_t> first_;  // by group: its first item
  std::vector<T> items_;
};

}  // namespace

// ---- statements

UOp call(UOp body, std::span<const UOp> places, std::span<const uint32_t> provenance) {
  std::vector<UOp> src{body};
  src.insert(src.end(), places.begin(), places.end());
  const std::vector<int64_t> ints(provenance.begin(), provenance.end());
  return make(Op::Call, DType::none, src, Arg::of(intern_arg(ints)));
}

UOp copy(UOp to, UOp from) {
  return make(Op::Copy, to->dtype, {to, from, index(bytes_of(to))}, Arg::of(int64_t{to->device}));
}

UOp with_places(UOp step, const std::function<UOp(UOp)>& f) {
  std::vector<Node*> src(step->src().begin(), step->src().end());
  const auto first = static_cast<size_t>(places_of(step).data() - step->src().data());
  for (size_t i = first; i < first + places_of(step).size(); ++i) src[i] = f(src[i]).get();
  return with_src(step, src);
}

UOp linear(std::span<const UOp> statements) {
  return make(Op::Linear, DType::none, statements, Arg::of(intern_arg({})));
}

std::vector<uint32_t> provenance_of(UOp call) {
  std::vector<uint32_t> out;
  if (call->is(Op::Call)) out.assign(call->ints().begin(), call->ints().end());
  return out;
}

std::vector<UOp> memories_of(UOp plan) {
  std::vector<UOp> found;
  MemoLease<bool> lease;
  Memo<bool>& seen = *lease;
  for (UOp s : plan->src()) {
    if (!is_step(s)) continue;
    for (UOp place : places_of(s)) {
      const UOp memory = memory_of(place);
      if (!std::exchange(seen[memory], true)) found.push_back(memory);
    }
  }
  return found;
}

int64_t temporary_bytes(UOp plan) {
  int64_t sum = 0;
  for (UOp memory : memories_of(plan))
    if (is_temporary(memory)) sum = size_add(sum, bytes_of(memory));
  return sum;
}

UOp map_steps(UOp plan, const StepsFunction& f) {
  std::vector<UOp> statements, steps;
  auto finish = [&] {
    const std::vector<UOp> now = f(std::exchange(steps, {}));
    statements.insert(statements.end(), now.begin(), now.end());
  };
  for (UOp s : plan->src()) {
    if (is_step(s)) {
      steps.push_back(s);
      continue;
    }
    finish();
    statements.push_back(s);
  }
  finish();
  return linear(statements);
}

// ---- order

std::vector<Edge> dependences(std::span<const UOp> steps, Facts& facts) {
  struct Uses {
    int writer = -1;
    std::vector<int> readers;  // since then
  };
  std::vector<Edge> edges;
  std::unordered_map<const Node*, Uses> latest;
  for (size_t i = 0; i < steps.size(); ++i) {
    const auto now = static_cast<int>(i);
    const std::span<Node* const> places = places_of(steps[i]);
    auto wait_for = [&](int earlier) {
      if (earlier >= 0 && earlier != now) edges.push_back({now, earlier});
    };
    for (uint32_t p = 0; p < places.size(); ++p) {
      Uses& uses = latest[memory_of(places[p]).get()];
      wait_for(uses.writer);
      if (p >= written_by(steps[i]) || facts.reads(steps[i], p)) uses.readers.push_back(now);
      if (p >= written_by(steps[i])) continue;
      for (int reader : uses.readers) wait_for(reader);
      uses = {now, {}};
    }
  }
  return edges;
}

std::vector<int> sorted(size_t n, std::span<const Edge> edges,
                        const std::function<int64_t(int)>& rank) {
  std::vector<int> waiting(n), order;
  for (Edge e : edges) ++waiting[static_cast<size_t>(e.later)];
  const Grouped after(edges, n, [](Edge e) { return e.earlier; });
  std::priority_queue<std::pair<int64_t, int>> ready;
  for (size_t i = 0; i < n; ++i)
    if (!waiting[i]) ready.emplace(rank(static_cast<int>(i)), static_cast<int>(i));
  while (!ready.empty()) {
    order.push_back(ready.top().second);
    ready.pop();
    for (Edge e : after[order.back()])
      if (--waiting[static_cast<size_t>(e.later)] == 0) ready.emplace(rank(e.later), e.later);
  }
  return order;
}

}  // namespace mote
