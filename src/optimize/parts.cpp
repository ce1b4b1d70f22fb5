// Loops in parts, one for each position of the launch. What is staged over copies of such a loop is
// staged for the part alone.
#include <algorithm>
#include <numeric>

#include "algebra/algebra.h"
#include "base/integers.h"
#include "ir/program.h"
#include "optimize/apply.h"
#include "rewrite/rewrite.h"

namespace mote {

namespace {

UOp stage_filled_over(std::span<const UOp> order, UOp loop) {
  UOp found;
  for (UOp n : order) {
    if (!std::ranges::count(closed_ranges(n), loop.get())) continue;
    if (found || !n->is(Op::Stage)) return {};
    found = n;
  }
  return found;
}

// A position in what is staged, and where it exists.
struct Place {
  Linear sum;
  std::vector<UOp> gates;
};

Place place_of(UOp position) {
  const Gated g = split_gate(position);
  return {linear(g.idx), conjuncts(g.valid)};
}

// What these terms of a sum are at most where the gates hold, which may bound multiples of some.
double most(std::vector<Linear::Term> terms, std::span<const UOp> gates) {
  double sum = 0;
  for (UOp gate : gates) {
    if (!gate->is(Op::Lt) || !is_const(gate->src(1)) || gate->src(0)->dtype != DType::index)
      continue;
    const Linear bound = linear(gate->src(0));
    const auto of = [&](UOp n) { return std::ranges::find(terms, n, &Linear::Term::node); };
    if (!bound.ok || !bound.count || of(bound.terms[0].node) == terms.end()) continue;
    const int64_t times = of(bound.terms[0].node)->coeff / bound.terms[0].coeff;
    if (times < 1 || !std::ranges::all_of(bound.all(), [&](const Linear::Term& t) {
          return of(t.node) != terms.end() && of(t.node)->coeff == t.coeff * times;
        }))
      continue;
    for (const Linear::Term& t : bound.all()) terms.erase(of(t.node));
    sum += static_cast<double>(times * (gate->src(1)->arg.i - 1 - bound.constant));
  }
  for (const Linear::Term& t : terms)
    sum += static_cast<double>(t.coeff) * static_cast<double>(t.node->hi);
  return sum;
}

// Whether the loop is one digit of the position: multiples of the period, the loop's steps, and
// less than a step. Period 0: there are no higher digits.
bool is_digit(const Place& place, UOp loop, int64_t period) {
  const Linear& sum = place.sum;
  const int64_t step = sum.coeff_of(loop);
  std::vector<Linear::Term> terms;
  if (!sum.ok || sum.constant != 0 || step <= 0 || (period && step >= period)) return false;
  for (const Linear::Term& t : sum.all())
    if (!period || t.coeff % period) terms.push_back(t);
  for (const Linear::Term& t : terms)
    if (t.coeff < 0 || t.node->lo < 0) return false;
  const bool ends = !period || most(terms, place.gates) < static_cast<double>(period);
  std::erase_if(terms, [&](const Linear::Term& t) { return t.node == loop; });
  return ends && most(terms, place.gates) < static_cast<double>(step);
}

int64_t period_above(const Linear& place, UOp loop) {
  int64_t period = 0;
  for (const Linear::Term& t : place.all())
    if (t.coeff > place.coeff_of(loop) && (!period || t.coeff < period)) period = t.coeff;
  return period;
}

class Following {
 public:
  Following(UOp body, UOp loop)
      : order_(toposort(body)),
        found_{
            {loop, 1, 1}
  } {}

  std::vector<Follower> run() {
    for (size_t i = order_.size(); i-- > 0;) {
      const UOp stage = order_[i];  // its readers stand behind it
      if (!stage->is(Op::Stage) || (stage->ranges & slot_bit(found_[0].loop))) continue;
      for (Node* r : closed_ranges(stage))
        if (Follower f = follower(stage, UOp(r)); f.loop) found_.push_back(f);
    }
    return {found_.begin() + 1, found_.end()};
  }

 private:
  std::vector<UOp> order_;
  std::vector<Follower> found_;  // the loop itself first

  Follower follower(UOp stage, UOp loop) const {
    if (range_role(loop) != Role::Loop || loop->src(0)->ranges) return {};
    if (stage->ints(0) != static_cast<int64_t>(Space::Local)) return {};
    if (stage_filled_over(order_, loop) != stage) return {};
    const Place place = place_of(stage->src(1));
    const int64_t period = period_above(place.sum, loop), step = place.sum.coeff_of(loop);
    if (!is_digit(place, loop, period)) return {};
    Follower all;
    for (UOp read : order_) {
      if (!read->is(Op::Index) || read->src(0) != stage) continue;
      const Follower f = followed_by(place_of(read->src(1)), period, step, loop);
      if (!f.loop || (all.loop && (all.num != f.num || all.den != f.den))) return {};
      all = f;
    }
    if (all.loop) all.loop = loop, all.alone = closed_ranges(stage).size() == 1;
    return all;
  }

  // What the position moves with along that axis; a variable size is the same one.
  Follower followed_by(const Place& position, int64_t period, int64_t step, UOp loop) const {
    for (const Follower& f : found_) {
      const int64_t ahead = position.sum.coeff_of(f.loop);
      if (!ahead) continue;
      if (!is_digit(position, f.loop, period)) return {};
      const int64_t num = ahead * f.num, den = step * f.den, common = std::gcd(num, den);
      const bool same = f.loop->src(0) == loop->src(0) && num == den;
      const bool sized = is_const(f.loop->src(0)) && is_const(loop->src(0));
      if (!same && !sized) return {};
      return {f.loop, num / common, den / common};
    }
    return {};
  }
};

class Parting {
 public:
  Parting(UOp loop, UOp part) : loop_(loop), part_(part) {}

  void add(UOp loop, int64_t length) {
    const UOp n = loop->src(0);
    Piece p{loop, part_, {}, length};
    if (length > 1) {
      UOp size = index(length);
      if (!divides(length, n)) size = simplify(binary(Op::Min, size, n - part_ * length));
      p.inner = range(range_slot(loop), size, Role::Loop);
      p.value = part_ * length + p.inner;
    }
    pieces_.push_back(p);
  }

  UOp run(UOp body) {
    return simplify(
        map_nodes("part", body, [this](UOp n, const Mapped& now) { return changed(n, now); }));
  }

 private:
  struct Piece {
    UOp loop, value, inner;  // inner: empty if it is run once
    int64_t length;
  };
  UOp loop_, part_;
  std::vector<Piece> pieces_;

  const Piece* piece_of(UOp n) const {
    const auto at = std::ranges::find(pieces_, n, &Piece::loop);
    return at == pieces_.end() ? nullptr : &*at;
  }

  bool is_narrowed(UOp n) const {
    return n->is(Op::Stage) && std::ranges::any_of(closed_ranges(n), [&](Node* r) {
             return piece_of(UOp(r)) != nullptr;
           });
  }

  // Where it is in the memory of one part.
  UOp within(UOp place) const {
    const Gated g = split_gate(place);
    std::vector<std::pair<UOp, UOp>> whole, back,
        first{
            {part_, index(0)}
    };
    for (const Piece& p : pieces_)  // the last part is shorter, but stands at the same places
      if (p.inner && p.inner->ranges != slot_bit(p.inner)) {
        whole.emplace_back(p.inner, range(range_slot(p.inner), index(p.length), Role::Loop));
        back.emplace_back(whole.back().second, p.inner);
      }
    const UOp at = substitute(substitute(substitute(g.idx, whole), first), back);
    return gated(g.valid, simplify(at));
  }

  void add_closed(UOp r, std::vector<UOp>& src) const {
    const Piece* p = piece_of(r);
    if (!p) return src.push_back(r);
    if (r == loop_) src.push_back(part_);
    if (p->inner) src.push_back(p->inner);
  }

  UOp changed(UOp n, const Mapped& now) const {
    if (const Piece* p = piece_of(n)) return p->value;
    if (std::ranges::equal(now.src, n->src())) return n;
    std::vector<UOp> src;
    const size_t first = n->nsrc - closed_ranges(n).size();
    for (size_t i = 0; i < n->nsrc; ++i) {
      const UOp s = n->src(static_cast<uint32_t>(i));
      if (i >= first && piece_of(s))
        add_closed(s, src);
      else
        src.emplace_back(now.src[i]);
    }
    if (n->is(Op::Index) && is_narrowed(n->src(0))) src[1] = within(src[1]);
    if (!is_narrowed(n)) return make(n->op, n->dtype, src, n->arg);
    src[1] = within(src[1]);
    const int64_t size = std::min(n->ints(1), split_gate(src[1]).idx->hi + 1);
    return make(n->op, n->dtype, src, stage_arg(Space::Local, size));
  }
};

// Two dimensions of the launch as one; the second moves faster.
UOp joined(UOp body, UOp slow, UOp fast) {
  const UOp n = fast->src(0);
  const UOp both = range(range_slot(slow), simplify(slow->src(0) * n), Role::Global);
  body = change_range(body, slow, both / n, {both}, {});
  return simplify(change_range(body, fast, both % n, {}, {}));
}

UOp the_global(const Ranges& ranges) {
  const auto is_global = [](UOp r) { return range_role(r) == Role::Global; };
  const auto at = std::ranges::find_if(ranges.all, is_global);
  return at == ranges.all.end() ? UOp() : *at;
}

}  // namespace

std::vector<Follower> followers(UOp body, UOp loop) { return Following(body, loop).run(); }

bool follows(const Follower& f, UOp loop, int64_t length) {
  const int64_t own = length * f.num / f.den;
  if (length * f.num % f.den || (f.alone && own == 1)) return false;
  auto parts = [](UOp r, int64_t n) { return ceil_div(r->src(0)->hi, n); };
  return !is_const(loop->src(0)) || parts(f.loop, own) == parts(loop, length);
}

UOp apply_part(UOp body, const Action& a, const Ranges& ranges, std::string* refused) {
  const UOp loop = ranges.find(a.slot), n = loop->src(0), other = the_global(ranges);
  const int64_t length = a.amount;
  if (!may_launch(body, loop, Role::Global, refused)) return {};
  if (length < 1 || length > loop->hi) return refuse(refused, "it is one part");
  if (ranges.next_slot >= kMostRanges) return refuse(refused, "too many ranges");
  const UOp count = simplify((n + (length - 1)) / length);
  const bool takes_slot = length == 1 && !other;
  Parting parting(loop, range(takes_slot ? a.slot : ranges.next_slot, count, Role::Global));
  parting.add(loop, length);
  for (const Follower& f : followers(body, loop)) {
    if (!follows(f, loop, length)) return refuse(refused, "its parts are none of what is staged");
    parting.add(f.loop, length * f.num / f.den);
  }
  body = parting.run(body);
  if (!other || takes_slot) return body;
  const Ranges now(body);
  return joined(body, now.find(range_slot(other)), now.find(ranges.next_slot));
}

void propose_part(const Site& site, std::vector<Action>& out) {
  if (site.target.workers) return;
  for (UOp r : site.of_role(Role::Loop)) {
    out.push_back({Action::Part, range_slot(r), 1});
    for_cuts(r->hi, [&](int64_t length) { out.push_back({Action::Part, range_slot(r), length}); });
  }
}

}  // namespace mote
