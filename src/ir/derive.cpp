// Derived attributes: interval, open ranges, device, shape.
#include <algorithm>

#include "base/error.h"
#include "base/integers.h"
#include "ir/graph.h"
#include "ir/size_sum.h"
#include "ir/storage.h"

namespace mote {

namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
using Wide = __int128;

template <class W>
struct Ends {
  W lo, hi;
};
using Interval = Ends<Wide>;

// Every value of the dtype. u64 is carried as a bit pattern, so its interval is everything.
Interval whole(DType d) {
  if (d == DType::u64) return {kMin, kMax};
  return {row(d).lo, row(d).hi};
}

// A saturated end says nothing, so it reads as farther away than any finite end can bring back.
constexpr Wide kFar = Wide(1) << 65;
Interval of(const Node* n) {
  return {n->lo == kMin ? -kFar : Wide(n->lo), n->hi == kMax ? kFar : Wide(n->hi)};
}
template <class W>
bool bounded(Ends<W> a) {
  return a.lo > -kFar && a.hi < kFar;
}

Interval product(Interval a, Interval b);

template <class W>
Ends<W> corners(Ends<W> a, Ends<W> b, auto f) {
  W v[] = {f(a.lo, b.lo), f(a.lo, b.hi), f(a.hi, b.lo), f(a.hi, b.hi)};
  return {*std::min_element(v, v + 4), *std::max_element(v, v + 4)};
}

template <class W>
Ends<W> floor_mod(Ends<W> a, Ends<W> b) {
  if (b.lo <= 0) return {std::min<W>(b.lo, 0), std::max<W>(b.hi, 0)};
  if (a.lo >= 0 && a.hi < b.lo) return a;
  if (b.lo == b.hi && floor_div(a.lo, b.lo) == floor_div(a.hi, b.lo))
    return {a.lo - floor_div(a.lo, b.lo) * b.lo, a.hi - floor_div(a.lo, b.lo) * b.lo};
  return {0, b.hi - 1};
}

// Of bounded operands; the divisor is never 0.
template <class W>
Ends<W> arithmetic(Op op, Ends<W> a, Ends<W> b) {
  switch (op) {
    case Op::Add: return {a.lo + b.lo, a.hi + b.hi};
    case Op::Mul: return corners(a, b, [](W x, W y) { return x * y; });
    case Op::FloorDiv: return corners(a, b, floor_div<W>);
    default: return floor_mod(a, b);
  }
}

Wide mask_above(Wide v) {  // the smallest 2^k-1 >= v
  Wide m = 0;
  while (m < v) m = m * 2 + 1;
  return m;
}

Interval bits(Op op, Interval a, Interval b, DType d) {
  if (d == DType::boolean) {
    if (op == Op::And) return {a.lo & b.lo, a.hi & b.hi};
    if (op == Op::Or) return {a.lo | b.lo, a.hi | b.hi};
    if (a.lo == a.hi && b.lo == b.hi) return {a.lo ^ b.lo, a.lo ^ b.lo};
    return {0, 1};
  }
  if (op == Op::And && a.lo < 0 && b.lo >= 0) return {0, b.hi};
  if (op == Op::And && b.lo < 0 && a.lo >= 0) return {0, a.hi};
  if (a.lo < 0 || b.lo < 0) return whole(d);
  if (op == Op::And) return {0, std::min(a.hi, b.hi)};
  return {op == Op::Or ? std::max(a.lo, b.lo) : 0, mask_above(std::max(a.hi, b.hi))};
}

Interval compare(Op op, const Node* a, const Node* b) {
  if (is_float(a->dtype) || a->dtype == DType::u64) return {0, 1};
  if (op == Op::Lt) {
    if (a->hi < b->lo) return {1, 1};
    if (a->lo >= b->hi) return {0, 0};
    return {0, 1};
  }
  if (a->hi < b->lo || b->hi < a->lo) return {0, 0};
  if (a == b || (a->lo == a->hi && b->lo == b->hi)) return {1, 1};
  return {0, 1};
}

Interval shift(Op op, Interval a, Interval b, DType d) {
  if (b.lo < 0 || b.hi >= row(d).bits || !bounded(a)) return whole(d);
  const int least = static_cast<int>(b.lo), most = static_cast<int>(b.hi);
  if (op == Op::Shl) return {a.lo << (a.lo < 0 ? most : least), a.hi << (a.hi < 0 ? least : most)};
  return {a.lo >> (a.lo < 0 ? least : most), a.hi >> (a.hi < 0 ? most : least)};
}

Interval integer_divide(Op op, Interval a, Interval b, DType d) {
  if (b.lo <= 0 || (a.lo < 0 && !bounded(a))) return whole(d);
  if (op == Op::IDiv) return {a.lo / (a.lo < 0 ? b.lo : b.hi), a.hi / (a.hi < 0 ? b.hi : b.lo)};
  if (a.lo > -b.lo && a.hi < b.lo) return a;
  return {a.lo < 0 ? std::max(a.lo, 1 - b.hi) : 0, a.hi > 0 ? std::min(a.hi, b.hi - 1) : 0};
}

Interval product(Interval a, Interval b) {
  if (bounded(a) && bounded(b)) return arithmetic(Op::Mul, a, b);
  auto low = [](Wide x, Wide y) { return x >= kFar || y >= kFar ? kFar : x * y; };
  if (a.lo >= 0 && b.lo >= 0) return {low(a.lo, b.lo), kFar};
  return {-kFar, kFar};
}

// Of a result that is one of its sources and cannot wrap, an end that says nothing.
Interval within(DType d, Interval a) {
  if (d == DType::index) return a;
  return {std::max(a.lo, whole(d).lo), std::min(a.hi, whole(d).hi)};
}

Interval alu_interval(const Parts& p) {
  auto a = [&] { return of(p.src[0]); };
  auto b = [&] { return of(p.src[1]); };
  switch (p.op) {
    case Op::Neg: return {-a().hi, -a().lo};
    case Op::Cast:
      if (is_float(p.src[0]->dtype) || p.src[0]->dtype == DType::u64) return whole(p.dtype);
      if (p.dtype == DType::boolean)
        return {a().lo > 0 || a().hi < 0, !(a().lo == 0 && a().hi == 0)};
      return a();
    case Op::Add: return {a().lo + b().lo, a().hi + b().hi};
    case Op::Mul: return product(a(), b());
    case Op::IDiv:
    case Op::IMod: return integer_divide(p.op, a(), b(), p.dtype);
    case Op::FloorDiv:
      if ((b().lo <= 0 && b().hi >= 0) || !bounded(b())) return whole(p.dtype);
      return arithmetic(p.op, a(), b());
    case Op::FloorMod: return bounded(b()) ? arithmetic(p.op, a(), b()) : Interval{-kFar, kFar};
    case Op::Max: return within(p.dtype, {std::max(a().lo, b().lo), std::max(a().hi, b().hi)});
    case Op::Min: return within(p.dtype, {std::min(a().lo, b().lo), std::min(a().hi, b().hi)});
    case Op::And:
    case Op::Or:
    case Op::Xor: return bits(p.op, a(), b(), p.dtype);
    case Op::Shl:
    case Op::Shr: return shift(p.op, a(), b(), p.dtype);
    case Op::Lt:
    case Op::Eq: return compare(p.op, p.src[0], p.src[1]);
    case Op::Where: {
      const Node *t = p.src[1], *f = p.src[2];
      if (t->op == Op::Invalid) return of(f);  // a gated position is bounded where it is valid
      if (f->op == Op::Invalid) return of(t);
      return {std::min(t->lo, f->lo), std::max(t->hi, f->hi)};
    }
    default: return whole(p.dtype);
  }
}

bool keeps_values(Op op) { return has(op, Movement) || has(op, Moves); }

Interval interval(const Parts& p) {
  if (is_float(p.dtype) || p.dtype == DType::none) return {kMin, kMax};
  if (has(p.op, Alu)) {
    if (p.dtype == DType::u64) return {kMin, kMax};
    for (const Node* s : p.src)
      if (s->dtype == DType::u64 && p.op != Op::Where) return whole(p.dtype);
    Interval r = alu_interval(p);
    if (p.dtype == DType::index) return r;
    Interval w = whole(p.dtype);
    return r.lo < w.lo || r.hi > w.hi ? w : r;  // wraps: anything
  }
  switch (p.op) {
    case Op::Const: return {p.arg.i, p.arg.i};
    case Op::Range: return {0, std::max<Wide>(Wide(p.src[0]->hi) - 1, 0)};
    case Op::Var: return {p.arg.object->ints[0], p.arg.object->ints[1]};
    case Op::Iota: {
      int64_t n = p.arg.object->ints[0];
      return {0, std::max<Wide>(Wide(n == kSymbolic ? p.src[0]->hi : n) - 1, 0)};
    }
    case Op::Reduce:
      if (static_cast<Op>(p.arg.object->ints[0]) == Op::Max ||
          static_cast<Op>(p.arg.object->ints[0]) == Op::Min)
        return of(p.src[0]);
      return whole(p.dtype);
    case Op::Pad: return {std::min<Wide>(p.src[0]->lo, 0), std::max<Wide>(p.src[0]->hi, 0)};
    case Op::Stage: return of(p.src[0]);
    default: return keeps_values(p.op) ? of(p.src[0]) : whole(p.dtype);
  }
}

int64_t saturate(Wide v) { return static_cast<int64_t>(std::clamp<Wide>(v, kMin, kMax)); }

uint64_t bit_of(int64_t slot) { return slot < 64 ? 1ull << slot : 0; }

uint64_t open_bits(const Parts& p) {
  if (p.op == Op::Range) return bit_of(p.arg.object->ints[0]) | p.src[0]->ranges;
  const bool closes = OpSet{Op::Reduce, Op::End, Op::Stage, Op::Fragment, Op::Box}.has(p.op);
  const size_t first = p.op == Op::Fragment ? 4 : p.op == Op::Box ? 5 : 1;  // the value may be a range
  uint64_t open = 0, closed = 0;
  for (size_t i = 0; i < p.src.size(); ++i) {
    const Node* s = p.src[i];
    if (closes && i >= first && s->op == Op::Range)
      closed |= bit_of(s->ints(0)), open |= s->sources[0]->ranges;
    else open |= s->ranges;
  }
  return open & ~closed;
}

uint8_t poisoned(const Parts& p) {
  if (p.op == Op::Invalid) return Node::kPoisoned;
  if (!has(p.op, Alu)) return 0;
  uint8_t flags = 0;
  for (const Node* s : p.src) flags |= s->flags & Node::kPoisoned;
  return flags;
}

uint8_t device_of(const Parts& p) {
  if (p.op == Op::Buffer) return p.arg.storage->device;
  if (p.op == Op::Param)
    return p.arg.object->ints.size() > 3 ? static_cast<uint8_t>(p.arg.object->ints[3]) : 0;
  if (p.op == Op::Copy) return static_cast<uint8_t>(p.arg.i);
  for (const Node* s : p.src)
    if (s->device) return s->device;
  return 0;
}

std::vector<Dim> elementwise_shape(const Parts& p) {
  const Shape* shape = p.src[0]->shape;
  for (const Node* s : p.src) {
    if (!s->shape || s->shape->dims.empty()) continue;
    if (!shape || shape->dims.empty()) shape = s->shape;
    check(shape->dims == s->shape->dims, "[", name(p.op), "] shapes ", *shape, " and ", *s->shape,
          " differ");
  }
  return shape ? shape->dims : std::vector<Dim>{};
}

// Sizes of padded and cut axes; symbolic ones become index expressions of the graph being built.
Dim add(const Dim& a, const Dim& b) { return size_sum(a, 1, b, index_expression); }
Dim sub(const Dim& a, const Dim& b) { return size_sum(a, -1, b, index_expression); }

// A symbolic size that is too small for one window is looked at before: there is one.
Dim window_count(const Dim& size, int64_t reach, int64_t step) {
  Dim room = sub(size, reach);
  if (!room.is_symbolic()) return room.size / step + 1;
  if (step > 1) room = index_expression(Op::FloorDiv, room, step);
  const Dim count = add(room, 1);
  return count.is_symbolic() && count.symbol->lo < 1 ? index_expression(Op::Max, count, 1) : count;
}

}  // namespace

// Most indices are small: what is made of them needs no wide integers.
static bool is_near(const Parts& p) {
  constexpr int64_t kNear = int64_t{1} << 31;
  auto near = [](const Node* n) { return n->lo > -kNear && n->hi < kNear; };
  if (p.dtype != DType::index) return false;
  const bool divides = p.op == Op::FloorDiv || p.op == Op::FloorMod;
  if (!divides && p.op != Op::Add && p.op != Op::Mul) return false;
  return near(p.src[0]) && near(p.src[1]) && (!divides || p.src[1]->lo > 0);
}

Derived derive(const Parts& p) {
  int64_t lo, hi;
  if (is_near(p)) {
    auto ends = [](const Node* n) { return Ends<int64_t>{n->lo, n->hi}; };
    const Ends<int64_t> i = arithmetic(p.op, ends(p.src[0]), ends(p.src[1]));
    lo = i.lo, hi = i.hi;
  } else {
    const Interval i = interval(p);
    lo = saturate(i.lo), hi = saturate(i.hi);
  }
  return {lo, hi, open_bits(p), device_of(p), poisoned(p)};
}

std::vector<Dim> list_dims(const Parts& p) {
  std::vector<Dim> out;
  out.reserve(p.arg.object->ints.size());
  size_t extra = p.op == Op::Iota ? 0 : 1;
  for (int64_t v : p.arg.object->ints) out.push_back(v == kSymbolic ? Dim(UOp(p.src[extra++])) : v);
  return out;
}

std::vector<Dim> list_dims(UOp n) { return list_dims({n->op, n->dtype, n->src(), n->arg}); }

namespace {

std::vector<Dim> movement_shape(const Parts& p) {
  std::vector<Dim> out = p.src[0]->shape->dims;
  switch (p.op) {
    case Op::Reshape:
    case Op::Expand: return list_dims(p);
    case Op::Permute: {
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = p.src[0]->shape->dims[static_cast<size_t>(p.arg.object->ints[i])];
      return out;
    }
    case Op::Window: {
      const std::vector<int64_t>& w = p.arg.object->ints;
      Dim& d = out[static_cast<size_t>(w[0])];
      d = window_count(d, size_add(size_mul(w[1] - 1, w[3]), 1), w[2]);
      out.emplace_back(w[1]);
      return out;
    }
    case Op::Pad:
    case Op::Shrink: {
      std::vector<Dim> list = list_dims(p);
      for (size_t i = 0; i < out.size(); ++i)
        out[i] = p.op == Op::Pad ? add(add(out[i], list[2 * i]), list[2 * i + 1])
                                 : sub(list[2 * i + 1], list[2 * i]);
      return out;
    }
    default: return out;
  }
}

}  // namespace

const Shape* shared_shape(const Parts& p) {
  if (!has(p.op, Alu)) return nullptr;
  const Shape* shape = nullptr;
  for (const Node* s : p.src) {
    if (!s->shape) return nullptr;
    if (s->shape->dims.empty()) {
      if (!shape) shape = s->shape;
    } else if (!shape || shape->dims.empty()) {
      shape = s->shape;
    } else if (shape != s->shape) {
      return nullptr;
    }
  }
  return shape;
}

std::vector<Dim> derive_shape(const Parts& p) {
  if (has(p.op, Movement)) return movement_shape(p);
  switch (p.op) {
    case Op::Buffer: return {Dim(p.arg.storage->count)};
    case Op::Param: return {Dim(p.arg.object->ints[1])};
    case Op::Iota: return list_dims(p);
    case Op::Source: return {p.arg.object->ints.begin(), p.arg.object->ints.end()};
    case Op::Reduce: {
      if (!p.src[0]->shape) return {};
      std::vector<Dim> out = p.src[0]->shape->dims;
      for (size_t i = 1; i < p.arg.object->ints.size(); ++i)
        out[static_cast<size_t>(p.arg.object->ints[i])] = Dim(1);
      return out;
    }
    default: break;
  }
  if (has(p.op, Alu)) return elementwise_shape(p);
  const bool shows = has(p.op, Moves) || p.op == Op::After;
  return shows && p.src[0]->shape ? p.src[0]->shape->dims : std::vector<Dim>{};
}

}  // namespace mote
