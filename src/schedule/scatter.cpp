#include "schedule/scatter.h"

#include <algorithm>
#include <map>

#include "algebra/algebra.h"
#include "base/flags.h"
#include "ir/freedoms.h"
#include "schedule/ranges.h"

namespace mote {

bool pays_to_scatter(const ScatterSizes& s, DType dtype, const Target& target) {
  // For tests: other draws choose otherwise, whatever it costs.
  if (const int64_t draw = flag(Flag::DRAW)) return draw / 16 % 2;
  constexpr double kCompare = 2, kRow = 3, kSingle = 4;  // operations
  const double lanes = std::max<double>(1, target.vector_bytes / size_of(dtype));
  const double results = s.places * s.others;
  const double workers = target.workers ? target.parallel_results * target.warp : 1;
  // Those that share out the outputs share out the comparisons; writes in order only the others.
  const double compared = kCompare * results * s.writes / std::min(results, workers);
  const double each = s.row >= lanes || target.workers ? kRow : kSingle * lanes;
  const double written = each * s.writes * s.others / std::min(s.others, workers);
  // Either way results are stored; writes in order find them in memory again.
  return compared > written + results * size_of(dtype) * target.byte_cost + target.launch_cost;
}

// ---- among tensors

namespace {

bool is_moved(UOp n) { return has(n->op, Movement) || n->is(Op::Cast); }

// Where a node is evaluated, as expressions of one range for each axis of what is folded.
class Comparison {
 public:
  explicit Comparison(UOp reduce) : value_(reduce->src(0)) {
    for (size_t a = 1; a < reduce->ints().size(); ++a) reduced_ |= uint64_t{1} << reduce->ints(a);
  }

  uint64_t run() {
    std::vector<UOp> at;
    for (size_t d = 0; d < value_->shape->dims.size(); ++d)
      at.push_back(range(static_cast<int>(d), loop_extent(value_->shape->dims[d]), Role::Loop));
    look(value_, at);
    return found_;
  }
  bool runs() const { return runs_; }

 private:
  static constexpr int kMostNodes = 32;
  UOp value_;
  uint64_t reduced_ = 0, found_ = 0;
  Positions positions_;
  int seen_ = 0;
  bool runs_ = false;

  using At = std::vector<UOp>;
  UOp down(UOp n, At& at) {
    while (is_moved(n)) {
      UOp valid = truth(true);
      if (!n->is(Op::Cast)) at = positions_.through(n, at, &valid);
      n = n->src(0);
    }
    return n;
  }

  static At at_source(UOp source, const At& at) { return source->shape->dims.empty() ? At() : at; }

  void look(UOp n, At at) {
    n = down(n, at);
    if (n->is(Op::Where)) {
      const At of_gate = at_source(n->src(0), at);
      look(n->src(0), of_gate);
      if (!runs_) return;
      for (uint32_t i : {1u, 2u})
        if (moves(n->src(i), at_source(n->src(i), at), found_)) found_ = 0;
      return;
    }
    if (n->is(Op::And))
      for (Node* s : n->src()) look(UOp(s), at_source(UOp(s), at));
    if (n->is(Op::Lt) && !found_) compare_order(n, at);
    if (n->is(Op::Eq))
      for (uint32_t i : {0u, 1u}) compare(n->src(i), n->src(1 - i), at);
  }

  // A position of the result with what is known of each element that is folded.
  void compare(UOp position, UOp with, const At& at) {
    At here = at_source(position, at);
    if (!with->device || !down(position, here)->is(Op::Iota)) return;
    const uint64_t axes = here[0]->ranges;
    if (axes && !(axes & reduced_) && moves(with, at_source(with, at), reduced_)) found_ |= axes;
  }

  // Of what is folded, all up to a position of the result or from there on (run_along).
  void compare_order(UOp less, const At& at) {
    uint64_t sides[2];
    for (uint32_t i : {0u, 1u}) {
      At here = at_source(less->src(i), at);
      if (!down(less->src(i), here)->is(Op::Iota) || !here[0]->is(Op::Range)) return;
      sides[i] = here[0]->ranges;
    }
    if (sides[0] & reduced_) std::swap(sides[0], sides[1]);
    if ((sides[0] & reduced_) || sides[1] != reduced_) return;
    found_ = sides[0];
    runs_ = true;
  }

  bool moves(UOp n, At at, uint64_t by) {
    n = down(n, at);
    if (++seen_ > kMostNodes) return by != reduced_;
    if (!has(n->op, Alu)) return std::ranges::any_of(at, [&](UOp p) { return p->ranges & by; });
    return std::ranges::any_of(n->src(),
                               [&](Node* s) { return moves(UOp(s), at_source(UOp(s), at), by); });
  }
};

}  // namespace

uint64_t scattered_axes(UOp reduce, const Target& target) {
  UOp value = reduce->src(0);
  while (is_moved(value)) value = value->src(0);
  if (!OpSet{Op::Where, Op::And, Op::Eq}.has(value->op)) return 0;
  if (reduce->src(0)->shape->dims.size() > kSlots) return 0;
  Comparison comparison(reduce);
  const uint64_t axes = comparison.run();
  if (!axes || comparison.runs()) return axes;
  const std::vector<Dim>& dims = reduce->src(0)->shape->dims;
  ScatterSizes sizes;
  for (size_t d = 0; d < dims.size(); ++d) {
    const auto n = static_cast<double>(dims[d].size);
    const bool reduced = dims[d] != reduce->shape->dims[d];
    (reduced ? sizes.writes : axes >> d & 1 ? sizes.places : sizes.others) *= n;
  }
  sizes.row = sizes.others;  // as far as can be told before the kernel is made
  return pays_to_scatter(sizes, reduce->dtype, target) ? axes : 0;
}

// ---- in kernels

namespace {

// The two kernels, over the same arguments; empty: it is something else.
struct InOrder {
  UOp start, writes;
  DType dtype = DType::none;  // of a memory of their own, the last argument
  int64_t count = 0;          // its elements; 0: they need none
};

UOp effect(UOp place, UOp value, std::span<const UOp> loops) {
  std::vector<UOp> src{make(Op::Store, DType::none, {place, value})};
  src.insert(src.end(), loops.begin(), loops.end());
  const UOp end = make(Op::End, DType::none, src);
  return make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({})));
}

class Writes {
 public:
  Writes(UOp body, const Target& target) : body_(body), target_(target) {}

  InOrder run() {
    if (!find_fold() || !find_gate() || !find_places() || !fold_the_rest() || !pays()) return {};
    const std::vector<UOp> outputs(end_->src().begin() + 1, end_->src().end());
    return {effect(place_, start_, outputs), in_order()};
  }

 private:
  UOp body_;
  const Target& target_;
  UOp end_, place_, fold_;
  Op op_ = Op::Add;
  std::vector<UOp> over_;        // its ranges
  UOp gate_, value_, position_;  // where it is true the value is folded there
  UOp start_;                    // the identity
  std::vector<UOp> solved_;      // outputs that the gate gives the position of

  static uint64_t slots(std::span<const UOp> ranges) {
    uint64_t all = 0;
    for (UOp r : ranges) all |= slot_bit(r);
    return all;
  }

  // The only effect stores a fold and reads nothing of the memory it writes.
  bool find_fold() {
    if (body_->nsrc != 1 || !body_->src(0)->is(Op::End)) return false;
    end_ = body_->src(0), place_ = end_->src(0)->src(0), fold_ = end_->src(0)->src(1);
    if (!fold_->is(Op::Reduce)) return false;
    op_ = static_cast<Op>(fold_->ints(0));
    over_.assign(fold_->src().begin() + 1, fold_->src().end());
    position_ = place_->src(1);
    const std::vector<UOp> below = toposort(fold_);
    return std::ranges::none_of(below, [&](UOp n) {
      return n == place_->src(0) || n->is(Op::Stage) || (n->is(Op::Range) && n->src(0)->ranges);
    });
  }

  // What is folded as where(gate, value, start_).
  bool find_gate() {
    gate_ = truth(true), value_ = fold_->src(0), start_ = fold_identity(op_, fold_->dtype);
    while (true) {
      UOp inner = value_->is(Op::Cast) ? value_->src(0) : value_;
      if (inner->dtype == DType::boolean && !inner->is(Op::Where) && !is_const(inner))
        inner = make(Op::Where, DType::boolean, {inner, truth(true), truth(false)});
      if (!inner->is(Op::Where)) break;
      if (simplify(cast(inner->src(2), value_->dtype)) != start_) break;
      gate_ = gate_ & inner->src(0), value_ = simplify(cast(inner->src(1), value_->dtype));
    }
    return !gate_->is_const(1);
  }

  // The outputs that are compared with what depends on the loops of the fold have no loop. Inner
  // ones first: they have the small strides, so that a split position is solved digit by digit.
  bool find_places() {
    const uint64_t folded = slots(over_);
    for (uint32_t i = end_->nsrc; i-- > 1;) {
      Node* a = end_->sources[i];
      if (!(gate_->ranges & a->ranges)) continue;
      const auto [at, valid] = only_position(gate_, UOp(a));
      if (!at || !(at->ranges & folded)) continue;
      const std::pair<UOp, UOp> moved[] = {
          {UOp(a), at}
      };
      position_ = substitute(position_, moved);
      value_ = select(value_, UOp(a), at, valid);
      gate_ = valid;
      solved_.emplace_back(a);
    }
    position_ = simplify(position_);
    return !solved_.empty();
  }

  // What goes to the same place for all positions of a loop is folded before it is written.
  bool fold_the_rest() {
    std::vector<UOp> inner;
    for (UOp r : over_)
      if (!(position_->ranges & slot_bit(r))) inner.push_back(r);
    if (inner.empty()) return true;
    if (!may_reorder(fold_)) return false;
    UOp inside = truth(true), outside = truth(true);
    for (UOp g : conjuncts(gate_)) {
      UOp& all = g->ranges & slots(inner) ? inside : outside;
      all = all & g;
    }
    value_ = reduce_over(op_, where(inside, value_, start_), inner);
    gate_ = outside;
    std::erase_if(over_, [&](UOp r) { return std::ranges::count(inner, r) > 0; });
    return true;
  }

  bool pays() const {
    ScatterSizes sizes;
    auto times = [](double& n, UOp r) { n *= static_cast<double>(r->src(0)->hi); };
    for (UOp r : over_) times(sizes.writes, r);
    for (UOp r : solved_) times(sizes.places, r);
    for (Node* r : end_->src().subspan(1)) {
      if (std::ranges::count(solved_, UOp(r))) continue;
      times(sizes.others, UOp(r));
      if (stride_of(position_, UOp(r)) == 1) sizes.row = static_cast<double>(r->sources[0]->hi);
    }
    return pays_to_scatter(sizes, fold_->dtype, target_);
  }

  // The loops of the fold stand where the first of the outputs stood that have none now.
  UOp in_order() const {
    std::vector<std::pair<UOp, UOp>> map;
    std::vector<UOp> ordered, loops;
    for (UOp r : over_) {
      ordered.push_back(range(range_slot(r), r->src(0), Role::Ordered));
      map.emplace_back(r, ordered.back());
    }
    for (Node* r : end_->src().subspan(1)) {
      if (UOp(r) == solved_.back()) loops.insert(loops.end(), ordered.begin(), ordered.end());
      if (!std::ranges::count(solved_, UOp(r))) loops.emplace_back(r);
    }
    const UOp at = simplify(gated(gate_, position_));
    const UOp to = make(Op::Index, fold_->dtype, {place_->src(0), at});
    return simplify(substitute(effect(to, binary(op_, to, value_), loops), map));
  }
};

}  // namespace

// ---- running folds

namespace {

// Where condition holds, j lies before i + reach (1), or i before j + reach (-1); 0: it says
// something else.
int direction(UOp condition, UOp i, UOp j, int64_t reach) {
  const bool negated = condition->is(Op::Xor) && condition->src(1)->is_const(1);
  const UOp less = negated ? condition->src(0) : condition;
  if (!less->is(Op::Lt)) return 0;
  Linear sum = linear(less->src(0));
  sum.add(linear(less->src(1)), -1);
  if (!sum.ok || sum.count != 2) return 0;
  // sum < 0, or -sum < 1
  const int64_t sign = negated ? -1 : 1, limit = (negated ? 1 : 0) - sign * sum.constant;
  const int64_t of_i = sign * sum.coeff_of(i), of_j = sign * sum.coeff_of(j);
  return limit == reach && of_i + of_j == 0 && of_j * of_j == 1 ? static_cast<int>(of_j) : 0;
}

// out[i] = the fold of x[j] for j <= i: the first is x[0], then each is made of the one before.
InOrder run_along(UOp body) {
  if (body->nsrc != 1 || !body->src(0)->is(Op::End)) return {};
  const UOp end = body->src(0), place = end->src(0)->src(0), fold = end->src(0)->src(1);
  if (!fold->is(Op::Reduce) || fold->nsrc != 2 || !fold->src(0)->is(Op::Where)) return {};
  const UOp choice = fold->src(0), j = fold->src(1);
  const Op op = static_cast<Op>(fold->ints(0));
  const bool first = choice->src(1) == fold_identity(op, fold->dtype);
  const UOp nothing = choice->src(first ? 1 : 2);
  if (nothing != fold_identity(op, fold->dtype) || !may_reorder(fold)) return {};
  UOp i, rest = truth(true);
  int step = 0;
  for (UOp g : conjuncts(simplify(first ? logical_not(choice->src(0)) : choice->src(0)))) {
    int found = 0;
    for (Node* r : end->src().subspan(1))
      if (const int d = i ? 0 : direction(g, UOp(r), j, 1)) i = UOp(r), step = found = d;
    if (!found) rest = rest & g;
  }
  const UOp value = where(rest, choice->src(first ? 2 : 1), nothing);
  if (!i || i->src(0) != j->src(0) || (value->ranges & slot_bit(i))) return {};
  const UOp n = i->src(0), one = index(1);
  const UOp rounds = range(range_slot(i), simplify(n - one), Role::Ordered);
  auto at = [&](UOp from_start) { return step > 0 ? from_start : n - one - from_start; };
  auto element = [&](UOp from_start) {
    const std::pair<UOp, UOp> map[] = {
        {j, at(from_start)}
    };
    return substitute(value, map);
  };
  auto result = [&](UOp from_start) {
    const std::pair<UOp, UOp> map[] = {
        {i, at(from_start)}
    };
    return make(Op::Index, place->dtype, {place->src(0), substitute(place->src(1), map)});
  };
  std::vector<UOp> others, loops;
  for (Node* r : end->src().subspan(1)) {
    if (UOp(r) != i) others.emplace_back(r);
    loops.push_back(UOp(r) == i ? rounds : UOp(r));
  }
  const UOp next = binary(op, result(rounds), element(rounds + one));
  return {simplify(effect(result(index(0)), element(index(0)), others)),
          simplify(effect(result(rounds + one), next, loops))};
}

// out[i] = how many j before i have the key of i: counters of all keys, each read and then increased.
class CountEqual {
 public:
  explicit CountEqual(UOp body) : body_(body) {}

  InOrder run() {
    if (!find_count() || !find_key()) return {};
    const std::vector<UOp> outputs(end_->src().begin() + 1, end_->src().end());
    std::vector<UOp> others, loops;
    UOp number = index(0);
    int64_t count = keys_;
    uint64_t used = slot_bit(j_);
    for (UOp r : outputs) {
      used |= slot_bit(r);
      loops.push_back(r == i_ ? range(range_slot(i_), i_->src(0), Role::Ordered) : r);
      if (r == i_) continue;
      if (!is_const(r->src(0))) return {};
      others.push_back(r);
      number = number * r->src(0) + r;
      count *= r->src(0)->hi;
    }
    const UOp memory = param(arguments(), count_->dtype, count);
    const UOp zero = constant(count_->dtype, int64_t{0});
    const UOp key = range(take_slot(used), index(keys_), Role::Loop);
    auto counter = [&](UOp at) {
      return make(Op::Index, count_->dtype, {memory, simplify(number * index(keys_) + at)});
    };
    others.push_back(key);
    const std::pair<UOp, UOp> map[] = {
        {i_, loops[static_cast<size_t>(std::ranges::find(outputs, i_) - outputs.begin())]}
    };
    const UOp mine = counter(cast(key_, DType::index) - index(key_->lo));
    const UOp read = effect(place_, mine, outputs)->src(0);
    const UOp add = effect(mine, mine + constant(count_->dtype, int64_t{1}), outputs)->src(0);
    const UOp both = make(Op::Sink, DType::none, {read, add}, Arg::of(intern_arg({})));
    return {effect(counter(key), zero, others), simplify(substitute(both, map)), count_->dtype,
            count};
  }

 private:
  static constexpr int64_t kMostKeys = 1 << 16;
  UOp body_, end_, place_, count_, gate_, i_, j_, key_;
  int64_t keys_ = 0;

  bool find_count() {
    if (body_->nsrc != 1 || !body_->src(0)->is(Op::End)) return false;
    end_ = body_->src(0), place_ = end_->src(0)->src(0), count_ = end_->src(0)->src(1);
    if (!count_->is(Op::Reduce) || count_->nsrc != 2 || !is_int(count_->dtype)) return false;
    if (static_cast<Op>(count_->ints(0)) != Op::Add) return false;
    const UOp value = count_->src(0);
    j_ = count_->src(1);
    if (value->is(Op::Cast) && value->src(0)->dtype == DType::boolean) gate_ = value->src(0);
    if (value->is(Op::Where) && value->src(1)->is_const(1) && is_zero(value->src(2)))
      gate_ = value->src(0);
    return static_cast<bool>(gate_);
  }

  bool find_key() {
    UOp equal;
    const std::vector<UOp> list = conjuncts(gate_);
    for (UOp g : list) {
      for (Node* r : end_->src().subspan(1))
        if (direction(g, UOp(r), j_, 0) > 0) i_ = UOp(r);
      if (g->is(Op::Eq)) equal = g;
    }
    if (list.size() != 2 || !i_ || !equal || i_->src(0) != j_->src(0)) return false;
    const std::pair<UOp, UOp> map[] = {
        {j_, i_}
    };
    for (uint32_t side : {0u, 1u})
      if (equal->src(1 - side)->ranges & slot_bit(j_)) key_ = equal->src(side);
    if (!key_ || simplify(substitute(equal, map)) != truth(true)) return false;
    if (key_->ranges & slot_bit(j_) || key_->lo < -kMostKeys || key_->hi > kMostKeys) return false;
    keys_ = key_->hi - key_->lo + 1;
    return keys_ <= kMostKeys;
  }

  int arguments() const {
    int most = 0;
    for (UOp n : toposort(body_))
      if (n->is(Op::Param)) most = std::max(most, static_cast<int>(n->ints(0)) + 1);
    return most;
  }
};

}  // namespace

UOp write_in_order(UOp plan, const Targets& targets) {
  int slots = 0;
  for (UOp memory : memories_of(plan)) slots = std::max(slots, slot_of(memory) + 1);
  std::map<std::pair<const Node*, uint8_t>, InOrder> known;  // by body and device
  Bodies bodies;
  return map_steps(plan, [&](const std::vector<UOp>& steps) {
    std::vector<UOp> out;
    for (UOp step : steps) {
      out.push_back(step);
      if (!is_kernel(step)) continue;
      auto [it, fresh] = known.try_emplace({step->src(0).get(), step->device});
      if (fresh) it->second = Writes(step->src(0), targets[step->device]).run();
      if (fresh && !it->second.writes) it->second = run_along(step->src(0));
      if (fresh && !it->second.writes) it->second = CountEqual(step->src(0)).run();
      if (!it->second.writes) continue;
      std::vector<UOp> places(places_of(step).begin(), places_of(step).end());
      const InOrder& two = it->second;
      if (two.count)
        places.push_back(param(slots++, two.dtype, two.count, Space::Local, step->device));
      out.back() = bodies.call(it->second.start, places, provenance_of(step));
      out.push_back(bodies.call(it->second.writes, places, provenance_of(step)));
    }
    return out;
  });
}

}  // namespace mote
