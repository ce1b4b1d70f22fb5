#include "ir/flat.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/byte_lists.h"
#include "base/error.h"
#include "base/hash.h"
#include "ir/eval.h"
#include "ir/memo.h"
#include "ir/provenance.h"
#include "ir/size_sum.h"
#include "ir/storage.h"

namespace mote {

namespace {

class Writer {
 public:
  uint32_t add(Op op, DType dtype, Arg arg, std::span<const uint32_t> src, uint32_t provenance) {
    provenance_.push_back(provenance);
    words_.push_back(static_cast<uint64_t>(op) | static_cast<uint64_t>(dtype) << 8 |
                     static_cast<uint64_t>(src.size()) << 16);
    words_.push_back(static_cast<uint64_t>(arg.i));
    for (size_t i = 0; i < src.size(); i += 2)
      words_.push_back(src[i] | (i + 1 < src.size() ? static_cast<uint64_t>(src[i + 1]) << 32 : 0));
    return count_++;
  }
  Flat finish() {
    Flat flat{std::move(words_), 0, std::move(provenance_)};
    flat.hash = hash_bytes(flat.words.data(), flat.words.size() * sizeof(uint64_t));
    return flat;
  }

 private:
  std::vector<uint64_t> words_;
  std::vector<uint32_t> provenance_;
  uint32_t count_ = 0;
};

// A Store's target, movement down to a version, says where to write: what that view was realized to
// does not stand for it.
bool names_place(UOp user, uint32_t source, bool user_is_place) {
  return source == 0 && (user->is(Op::Store) || user_is_place);
}

// A variable without its value, which becomes an input.
uint32_t write_bound(UOp var, bool classed, Writer& out, FlatInputs& inputs) {
  const std::string& name = var->arg.object->str;
  const int64_t value = var->ints(3);
  add_value(inputs.values, name, value, current_method(), "what is realized together");
  SizeClass among{var->ints(0), var->ints(1)};
  if (classed) {
    among = size_class(among, value);
    inputs.classes.emplace_back(name, among);
  }
  if (among.lo == among.hi) return out.add(Op::Const, var->dtype, Arg::of(value), {}, 0);
  int64_t ints[] = {among.lo, among.hi, 0, 0};
  return out.add(Op::Var, var->dtype, Arg::of(intern_arg(ints, name)), {}, 0);
}

}  // namespace

SizeClass size_class(SizeClass all, int64_t value) {
  const double root = std::sqrt(std::max<double>(static_cast<double>(all.hi), 0));
  const int64_t few = std::max(kFew, static_cast<int64_t>(root));
  if (value <= 1) return {all.lo, std::min<int64_t>(all.hi, 1)};
  return value <= few ? SizeClass{std::max<int64_t>(all.lo, 2), std::min(all.hi, few)}
                      : SizeClass{std::max(all.lo, few + 1), all.hi};
}

const int64_t* find_value(const VarValues& values, std::string_view name) {
  auto it = std::ranges::find(values, name, &VarValues::value_type::first);
  return it == values.end() ? nullptr : &it->second;
}

void add_value(VarValues& values, const std::string& name, int64_t value, const char* method,
               const char* what) {
  const int64_t* known = find_value(values, name);
  if (!known) return void(values.emplace_back(name, value));
  check(*known == value, "[", method, "] the variable ", name, " is bound to both ", *known,
        " and ", value, " in ", what);
}

Flat flatten_graph(UOp root) {
  Writer out;
  std::vector<uint32_t> src;
  MemoLease<uint32_t> lease;
  Memo<uint32_t>& number = *lease;
  for (UOp n : toposort(root)) {
    src.clear();
    for (Node* s : n->src()) src.push_back(number[UOp(s)]);
    number[n] = out.add(n->op, n->dtype, n->arg, src, n->provenance);
  }
  return out.finish();
}

static uint32_t write_buffer(UOp n, uint32_t slot, Space space, Writer& out) {
  const Storage& s = *n->arg.storage;
  int64_t ints[] = {slot, s.count, static_cast<int64_t>(space), s.device};
  return out.add(Op::Param, n->dtype, Arg::of(intern_arg(ints)), {}, 0);
}

Flat Flattener::run(std::span<const UOp> roots, FlatInputs* inputs) {
  Writer out;
  MemoLease<uint32_t> numbers_lease, places_lease;  // 0: not written yet
  Memo<uint32_t>&number = *numbers_lease, &place_number = *places_lease;
  std::unordered_map<const Storage*, uint32_t> slots;
  // Other threads may realize a node between the two visits: what stands for it is asked once.
  struct Visit {
    UOp node;
    bool place;
    UOp stand;  // empty: the first visit
  };
  std::vector<Visit> stack;
  std::vector<uint32_t> src;
  auto write = [&](UOp n, bool place) -> uint32_t {
    if (n->is(Op::Buffer)) {
      const Storage& s = *n->arg.storage;
      auto [it, fresh] = slots.try_emplace(&s, static_cast<uint32_t>(inputs->buffers.size()));
      if (fresh) inputs->buffers.push_back(n);
      inputs->torn |= inputs->buffers[it->second] != n;
      return write_buffer(n, it->second, is_scratch(s) ? Space::Local : Space::Global, out);
    }
    if (n->is(Op::Var) && n->ints(2)) return write_bound(n, by_size_class(), out, *inputs);
    src.clear();
    for (uint32_t i = 0; i < n->nsrc; ++i)
      src.push_back((names_place(n, i, place) ? place_number : number)[n->src(i)] - 1);
    return out.add(n->op, n->dtype, n->arg, src, n->provenance);
  };
  std::vector<UOp> all;
  auto ask_for = [&](std::span<const UOp> more) {
    all.insert(all.end(), more.begin(), more.end());
    for (size_t i = more.size(); i-- > 0;) stack.push_back({more[i], false, {}});
  };
  auto is_left = [&] {
    if (stack.empty()) ask_for(further_roots());
    return !stack.empty();
  };
  ask_for(roots);
  while (is_left()) {
    auto [n, asked_as_place, stand] = stack.back();
    stack.pop_back();
    auto& numbers = asked_as_place ? place_number : number;
    if (numbers[n]) continue;
    const bool place = asked_as_place && has(n->op, Movement);
    if (!stand) {
      stand = place ? n : forward(n);
      if (stand == n && n->is(Op::Given)) stand = n->src(0);  // derivatives were taken before
      stack.push_back({n, asked_as_place, stand});
      if (stand != n)
        stack.push_back({stand, false, {}});
      else if (!n->is(Op::Buffer))
        for (uint32_t i = n->nsrc; i-- > 0;)
          stack.push_back({n->src(i), names_place(n, i, place), {}});
      continue;
    }
    numbers[n] = stand != n ? number[stand] : write(n, place) + 1;
  }
  src.clear();
  for (UOp root : all) src.push_back(number[root] - 1);
  out.add(Op::Sink, DType::none, Arg::of(intern_arg({})), src, 0);
  return out.finish();
}

std::vector<int64_t> room_for(std::span<const Dim> dims) {
  struct ByClass : Flattener {
    bool by_size_class() override { return true; }
  };
  std::vector<int64_t> out;
  for (const Dim& d : dims) {
    out.push_back(d.size);
    if (!d.is_symbolic()) continue;
    if (d.symbol->is(Op::Var)) {
      const SizeClass all{d.symbol->lo, d.symbol->hi};
      if (d.symbol->ints(2)) out.back() = size_class(all, d.symbol->ints(3)).hi;
      continue;
    }
    Arena arena;
    ArenaScope scope(arena);
    FlatInputs inputs;
    out.back() = unflatten_graph(ByClass().run({&d.symbol, 1}, &inputs))->src(0)->hi;
  }
  return out;
}

int64_t count_with_room(const Shape& shape) {
  if (!shape.symbolic) return shape.count();
  int64_t count = 1;
  for (int64_t size : room_for(shape.dims)) count = size_mul(count, size);
  return count;
}

// What `one` makes of each node, sources first; of the last.
template <class T>
static T folded(const Flat& flat, auto one) {
  std::vector<T> made, src;
  const std::vector<uint64_t>& w = flat.words;
  for (size_t at = 0; at < w.size();) {
    auto op = static_cast<Op>(w[at] & 0xff);
    auto dtype = static_cast<DType>(w[at] >> 8 & 0xff);
    size_t nsrc = w[at] >> 16;
    Arg arg = Arg::of(static_cast<int64_t>(w[at + 1]));
    at += 2;
    src.clear();
    for (size_t i = 0; i < nsrc; ++i)
      src.push_back(made[w[at + i / 2] >> (i % 2 * 32) & 0xffffffff]);
    at += (nsrc + 1) / 2;
    made.push_back(one(Parts{op, dtype, {}, arg}, src, made.size()));
  }
  return made.back();
}

namespace {

bool holds_object(uint64_t head) {
  return row(static_cast<Op>(head & 0xff)).arg == ArgKind::Object;
}

}  // namespace

std::vector<uint8_t> portable(const Flat& flat) {
  ByteWriter out;
  const std::vector<uint64_t>& w = flat.words;
  for (size_t at = 0; at < w.size();) {
    out.number(w[at]);
    if (!holds_object(w[at])) {
      out.number(w[at + 1]);
    } else {
      const ArgObject* object = Arg::of(static_cast<int64_t>(w[at + 1])).object;
      out.number(object != nullptr);
      if (object) out.list(object->ints), out.list(object->str);
    }
    const size_t end = at + 2 + ((w[at] >> 16) + 1) / 2;
    for (at += 2; at < end; ++at) out.number(w[at]);
  }
  return std::move(out.bytes);
}

bool read_portable(std::span<const uint8_t> bytes, Flat& flat) {
  flat = {};
  std::vector<uint64_t>& w = flat.words;
  uint64_t nodes = 0;
  for (ByteReader in{bytes}; !in.rest.empty(); ++nodes) {
    uint64_t head, arg = 0;
    if (!in.number(head) || (head & 0xff) >= kOps) return false;
    if (!holds_object(head)) {
      if (!in.number(arg)) return false;
    } else {
      uint8_t is_there;
      if (!in.number(is_there)) return false;
      std::vector<int64_t> ints;
      std::string name;
      if (is_there && (!in.list(ints) || !in.list(name))) return false;
      if (is_there) arg = static_cast<uint64_t>(Arg::of(intern_arg(ints, name)).i);
    }
    w.push_back(head), w.push_back(arg);
    const uint64_t sources = head >> 16;
    for (uint64_t i = 0; i < sources; i += 2) {
      uint64_t pair;
      if (!in.number(pair)) return false;
      if ((pair & 0xffffffff) >= nodes || (i + 1 < sources && pair >> 32 >= nodes)) return false;
      w.push_back(pair);
    }
  }
  flat.hash = hash_bytes(w.data(), w.size() * sizeof(uint64_t));
  return nodes > 0;
}

UOp unflatten_graph(const Flat& flat) {
  return folded<UOp>(flat, [&](const Parts& p, std::span<const UOp> src, size_t number) {
    UOp made = make(p.op, p.dtype, src, p.arg);
    uint32_t from = number < flat.provenance.size() ? flat.provenance[number] : 0;
    if (from) made.get()->provenance = from;
    return made;
  });
}

int64_t value_of(const Flat& expression, std::span<const std::string> names,
                 std::span<const int64_t> values) {
  return folded<Scalar>(expression,
                        [&](const Parts& p, std::span<const Scalar> src, size_t) {
                          if (p.op == Op::Const) return scalar(p.dtype, p.arg.i);
                          if (p.op != Op::Var) return eval(p.op, p.dtype, src);
                          const auto at =
                              std::ranges::find(names, p.arg.object->str) - names.begin();
                          return scalar(p.dtype, values[static_cast<size_t>(at)]);
                        })
      .i;
}

}  // namespace mote
