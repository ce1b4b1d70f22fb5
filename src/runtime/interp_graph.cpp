#include "runtime/interp_graph.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "ir/flat.h"
#include "ir/graph.h"
#include "ir/grid.h"
#include "ir/storage.h"

namespace mote {

namespace {

using Sizes = std::vector<int64_t>;
using Array = std::shared_ptr<const HostArray>;

// f(T()) where T is the unsigned integer as wide as an element.
template <class F>
void with_element(DType dtype, F f) {
  switch (size_of(dtype)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}

HostArray gather(const HostArray& from, const Grid& places) {
  HostArray to(from.dtype, places.shape());
  with_element(from.dtype, [&]<class T>(T) {
    T* q = to.data<T>();
    places.for_rows([&](int64_t place, StridedAxis row) {
      const T* p = from.data<T>() + place;
      for (int64_t i = 0; i < row.size; ++i) *q++ = p[i * row.stride];
    });
  });
  return to;
}

HostArray pad(const HostArray& a, const Sizes& amounts) {
  Sizes shape = a.shape;
  for (size_t i = 0; i < shape.size(); ++i) {
    ensure(amounts[2 * i] >= 0 && amounts[2 * i + 1] >= 0, "interp: Pad by ", amounts);
    shape[i] += amounts[2 * i] + amounts[2 * i + 1];
  }
  Grid places(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    places.first += amounts[2 * i] * places.axes[i].stride;
    places.axes[i].size = a.shape[i];
  }
  HostArray out(a.dtype, shape);
  const int64_t size = size_of(a.dtype);
  const std::byte* from = a.bytes.data();
  places.for_rows([&](int64_t place, StridedAxis row) {
    std::memcpy(out.bytes.data() + place * size, from, static_cast<size_t>(row.size * size));
    from += row.size * size;
  });
  return out;
}

HostArray move_elements(Op op, const HostArray& a, const Sizes& list) {
  if (op == Op::Pad) return pad(a, list);
  Grid places(a.shape);
  ensure(places.move(op, list), "interp: ", name(op), " of ", a.shape, " to ", list);
  return gather(a, places);
}

HostArray reduce(Op op, const HostArray& a, std::span<const int64_t> axes) {
  Sizes shape = a.shape;
  for (int64_t axis : axes) shape[static_cast<size_t>(axis)] = 1;
  HostArray out(a.dtype, shape);
  const Scalar start = identity_of(op, a.dtype);
  for (int64_t i = 0, n = out.count(); i < n; ++i) out.set(i, start);
  Grid places(shape);
  for (size_t i = 0; i < shape.size(); ++i) places.axes[i].size = a.shape[i];
  for (int64_t axis : axes) places.axes[static_cast<size_t>(axis)].stride = 0;
  int64_t next = 0;
  places.for_rows([&](int64_t place, StridedAxis row) {
    for (int64_t i = 0; i < row.size; ++i, place += row.stride) {
      const Scalar values[] = {out.at(place), a.at(next++)};
      out.set(place, eval(op, a.dtype, values));
    }
  });
  return out;
}

class Interpreter {
 public:
  explicit Interpreter(const GraphReader& reader) : reader_(reader) {}

  std::vector<HostArray> run(std::span<const UOp> roots) {
    std::vector<UOp> all(roots.begin(), roots.end());
    const std::vector<UOp> order = toposort(with_sizes(all), [](UOp u) { return !buffer_of(u); });
    for (UOp u : order) for_sources(u, [&](UOp s) { ++readers_[s.get()]; });
    for (UOp u : roots) ++readers_[u.get()];
    for (UOp u : order) {
      values_[u.get()] = std::make_shared<const HostArray>(value(u));
      for_sources(u, [&](UOp s) { drop(s); });
      if (!readers_.count(u.get())) values_.erase(u.get());
    }
    std::vector<HostArray> out;
    for (UOp u : roots) out.push_back(*values_.at(u.get()));
    return out;
  }

 private:
  // The Buffer a node is read from instead of being computed.
  static UOp buffer_of(UOp u) { return tensor_graph::realized_in(u); }

  // What value(u) asks for: its sources, or the sizes of the array to read.
  template <class F>
  static void for_sources(UOp u, F f) {
    if (buffer_of(u)) {
      for (const Dim& d : u->shape->dims)
        if (d.is_symbolic()) f(d.symbol);
      return;
    }
    for (Node* s : u->src()) f(UOp(s));
    if (u->is(Op::After))
      for (Node* effect : u->src().subspan(1))
        for (Node* s : effect->src()) f(UOp(s));
  }

  // Symbolic sizes of realized nodes are no sources of theirs, so they come first as roots.
  static std::vector<UOp> with_sizes(const std::vector<UOp>& roots) {
    std::vector<UOp> all;
    for (UOp u : toposort(roots, [](UOp n) { return !buffer_of(n); }))
      if (buffer_of(u)) for_sources(u, [&](UOp s) { all.push_back(s); });
    all.insert(all.end(), roots.begin(), roots.end());
    return all;
  }

  void drop(UOp u) {
    auto it = readers_.find(u.get());
    if (--it->second) return;
    if (u->dtype == DType::index && u->shape->rank() == 0) return;  // a size: any view may ask
    readers_.erase(it);
    values_.erase(u.get());
  }

  const HostArray& of(UOp u) const { return *values_.at(u.get()); }
  int64_t size(const Dim& d) const { return d.symbol ? of(d.symbol).at(0).i : d.size; }
  DType held(DType d) const { return reader_.floats_as_f64 && is_float(d) ? DType::f64 : d; }

  HostArray value(UOp u) const {
    if (UOp b = buffer_of(u)) return realized(u, *b->arg.storage);
    if (has(u->op, Movement)) return move_elements(u->op, of(u->src(0)), list_of(u));
    if (has(u->op, Alu)) return elementwise(u);
    switch (u->op) {
      case Op::Const: return constant(u);
      case Op::Var: return variable(u);
      case Op::Iota: return iota(list_of(u)[0]);
      case Op::Buffer: return read(*u->arg.storage, {u->arg.storage->count});
      case Op::Reduce: {
        std::span<const int64_t> list = u->ints();
        return reduce(static_cast<Op>(list[0]), of(u->src(0)), list.subspan(1));
      }
      case Op::Contiguous:
      case Op::Detach:
      case Op::Given:
      case Op::Check:  // whoever asked for the graph looks at it
      case Op::Copy: return of(u->src(0));
      case Op::Store: return {};  // After applies it
      case Op::After: return after(u);
      default: ensure(false, "interp: ", name(u->op), " in a tensor graph");
    }
    return {};
  }

  Sizes list_of(UOp u) const {
    Sizes out;
    uint32_t extra = u->is(Op::Iota) ? 0 : 1;
    for (int64_t v : u->ints()) out.push_back(v == kSymbolic ? of(u->src(extra++)).at(0).i : v);
    return out;
  }

  HostArray constant(UOp u) const {
    HostArray out(held(u->dtype), {});
    Scalar s = scalar_of(u);
    s.dtype = out.dtype;
    out.set(0, s);
    return out;
  }

  HostArray variable(UOp u) const {
    check(u->ints(2) != 0, "the variable ", u->arg.object->str, " has no value bound to it");
    HostArray out(DType::index, {});
    out.set(0, scalar(DType::index, u->ints(3)));
    return out;
  }

  static HostArray iota(int64_t length) {
    HostArray out(DType::index, {length});
    for (int64_t i = 0; i < length; ++i) out.data<int64_t>()[i] = i;
    return out;
  }

  HostArray realized(UOp u, const Storage& s) const {
    HostArray most = read(s, room_for(u->shape->dims));
    if (!u->shape->symbolic) return most;
    Grid places(most.shape);
    for (size_t i = 0; i < most.shape.size(); ++i) places.axes[i].size = size(u->shape->dims[i]);
    return gather(most, places);
  }

  HostArray read(const Storage& s, Sizes shape) const {
    HostArray out(s.dtype, std::move(shape));
    ensure(out.count() <= s.count, "interp: a storage of ", s.count, " read as ", out.shape);
    std::span<const std::byte> content = reader_.bytes_of(s);
    if (content.empty()) return convert(std::move(out), held(s.dtype));
    ensure(content.size() >= out.bytes.size(), "interp: a storage of ", s.count, " ", s.dtype,
           " has ", content.size(), " bytes");
    std::memcpy(out.bytes.data(), content.data(), out.bytes.size());
    if (s.dtype == DType::boolean)
      for (std::byte& b : out.bytes) b = std::byte{b != std::byte{0}};
    return convert(std::move(out), held(s.dtype));
  }

  static HostArray convert(HostArray a, DType dtype) {
    if (a.dtype == dtype) return a;
    const HostArray* src[] = {&a};
    return map_elements(Op::Cast, dtype, src);
  }

  HostArray elementwise(UOp u) const {
    if (u->is(Op::Bitcast)) {
      const HostArray bits = convert(of(u->src(0)), u->src(0)->dtype);
      const HostArray* src[] = {&bits};
      return convert(map_elements(Op::Bitcast, u->dtype, src), held(u->dtype));
    }
    const HostArray* src[3] = {};
    for (uint32_t i = 0; i < u->nsrc; ++i) src[i] = &of(u->src(i));
    return map_elements(u->op, held(u->dtype), {src, u->nsrc});
  }

  HostArray after(UOp u) const {
    HostArray content = of(u->src(0));
    for (uint32_t i = 1; i < u->nsrc; ++i) {
      ensure(u->src(i)->is(Op::Store), "interp: After an effect of ", name(u->src(i)->op));
      store(u->src(i), u->src(0), &content);
    }
    return content;
  }

  void store(UOp s, UOp version, HostArray* content) const {
    const HostArray places = positions(s->src(0), version, content->shape);
    const HostArray& source = of(s->src(1));
    const HostArray* gate = s->nsrc > 2 ? &of(s->src(2)) : nullptr;
    const int64_t size = size_of(content->dtype);
    ensure(source.dtype == content->dtype && (source.shape.empty() || source.shape == places.shape),
           "interp: Store of ", source.dtype, source.shape, " to ", content->dtype, places.shape);
    for (int64_t i = 0, n = places.count(); i < n; ++i) {
      if (gate && !gate->at(gate->shape.empty() ? 0 : i).i) continue;
      std::memcpy(content->bytes.data() + places.data<int64_t>()[i] * size,
                  source.bytes.data() + (source.shape.empty() ? 0 : i) * size,
                  static_cast<size_t>(size));
    }
  }

  // For each element of the view, its place in the version below it.
  HostArray positions(UOp view, UOp version, const Sizes& shape) const {
    std::vector<UOp> chain;
    for (; view != version; view = view->src(0)) {
      ensure(has(view->op, Movement) && !view->is(Op::Pad), "interp: Store to a view with ",
             name(view->op));
      chain.push_back(view);
    }
    HostArray out(DType::index, shape);
    for (int64_t i = 0, n = out.count(); i < n; ++i) out.data<int64_t>()[i] = i;
    for (size_t i = chain.size(); i-- > 0;)
      out = move_elements(chain[i]->op, out, list_of(chain[i]));
    return out;
  }

  const GraphReader& reader_;
  std::unordered_map<const Node*, Array> values_;
  std::unordered_map<const Node*, int64_t> readers_;  // still to come
};

}  // namespace

std::vector<HostArray> interpret(std::span<const UOp> roots, const GraphReader& reader) {
  return Interpreter(reader).run(roots);
}

HostArray interpret(UOp root, const GraphReader& reader) {
  return std::move(interpret(std::span<const UOp>(&root, 1), reader)[0]);
}

}  // namespace mote
