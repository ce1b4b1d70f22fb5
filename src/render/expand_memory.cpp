// How a tile is read, written and copied.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "render/expander.h"

namespace mote {

// The place of each register, and of each lane if lanes do not follow one another.
Place Expander::place(const TileAccess& a, const Point& at, std::optional<int> lane,
                      std::vector<std::string>& addresses) {
  const bool vector = is_vector(a.position_open);
  auto k = static_cast<size_t>(tiles_.rank(a.position_open, at));
  if (vector) k = k * static_cast<size_t>(a.lanes) + static_cast<size_t>(*lane);
  if (addresses.size() <= k) addresses.resize(k + 1);
  if (addresses[k].empty()) {
    Value position = value(a.position, a.position_open, at, vector ? a.lanes : 1);
    if (vector) position = writer_.slice(position, *lane, 1);
    addresses[k] = writer_.address(a.slot, a.unit, position);
  }
  int64_t offset = 0;
  const Steps& steps = tiles_.steps(a.position);
  for (TileSet rest = a.linear & ~tiles_.lane(a.linear); rest; rest &= rest - 1) {
    const int t = std::countr_zero(rest);
    offset += steps.of(t) * at[static_cast<size_t>(t)];
  }
  if (lane && !vector) offset += a.lane_step * *lane;
  const int64_t divisor = std::gcd(tiles_.divisor(a.position, a.position_open), offset);
  return {addresses[k], offset, a.dtype, a.unit, a.streamed, divisor};
}

Gate Expander::gate_lane(const Gate& gate, int lane) {
  return gate && gate->lanes > 1 ? writer_.slice(*gate, lane, 1) : gate;
}

Gate Expander::gate_value(const TileAccess& a, const Point& at) {
  if (!a.gate) return {};
  Value gate = whole_value(a.gate, at, tiles_.lanes(tiles_.of(a.gate)));
  return !assumed_.empty() && gate.literal && gate.literal->i ? Gate() : gate;
}

// Swaps blocks off the diagonal, of 1, 2, 4, ... lanes.
void Expander::transpose(std::vector<Value>& rows) {
  const int n = static_cast<int>(rows.size());
  std::vector<int> low(rows.size()), high(rows.size());
  for (int d = 1; d < n; d *= 2) {
    for (int l = 0; l < n; ++l) {
      low[static_cast<size_t>(l)] = l & d ? n + l - d : l;
      high[static_cast<size_t>(l)] = l & d ? n + l : l + d;
    }
    for (int i = 0; i < n; ++i) {
      if (i & d) continue;
      Value &a = rows[static_cast<size_t>(i)], &b = rows[static_cast<size_t>(i + d)];
      const Value first = writer_.shuffle(a, b, low);
      b = writer_.shuffle(a, b, high);
      a = first;
    }
  }
}

// Calls step for each square of lanes x lanes, `at` being its corner.
template <class Step>
void Expander::for_squares(const TileAccess& a, TileSet open, int axis, const Step& step) {
  Point at = tiles_.origin();
  do
    for (int64_t i = 0; i < tiles_.extent(axis); i += a.lanes) {
      at[static_cast<size_t>(axis)] = i;
      step(at);
      at[static_cast<size_t>(axis)] = 0;
    }
  while (tiles_.advance(open & ~(TileSet{1} << axis), at));
}

void Expander::load_transposed(const TileAccess& a, int axis, TileForm& f) {
  f.values.resize(static_cast<size_t>(tiles_.registers(f.open)));
  std::vector<std::string> addresses;
  for_squares(a, f.open, axis, [&](Point at) {
    const Gate gate = gate_value(a, at);
    std::vector<Value> rows;
    for (int l = 0; l < a.lanes; ++l) {
      const Gate one = gate_lane(gate, l);
      rows.push_back(writer_.load(place(a, at, l, addresses), a.lanes, one));
    }
    transpose(rows);
    for (const Value& v : rows) {
      f.values[static_cast<size_t>(tiles_.rank(f.open, at))] = v;
      ++at[static_cast<size_t>(axis)];
    }
  });
}

void Expander::store_transposed(const TileAccess& a, int axis, UOp u) {
  const TileSet all = tiles_.of(u);
  std::vector<std::string> addresses;
  for_squares(a, all, axis, [&](const Point& corner) {
    Point at = corner;
    std::vector<Value> rows;
    for (int l = 0; l < a.lanes; ++l, ++at[static_cast<size_t>(axis)])
      rows.push_back(whole_value(u->src(1), at, a.lanes));
    transpose(rows);
    const Gate gate = gate_value(a, corner);
    for (int l = 0; l < a.lanes; ++l) {
      const Gate one = gate_lane(gate, l);
      writer_.store(place(a, corner, l, addresses), rows[static_cast<size_t>(l)], one);
    }
  });
}

// ---- pairs: element 2 l + t of a stretch of two vectors is lane l at position t

template <class From>
Value Expander::picked(const Value& a, const Value& b, const From& from) {
  std::vector<int> lanes;
  for (int l = 0; l < a.lanes; ++l) lanes.push_back(from(l));
  return writer_.shuffle(a, b, lanes);
}

// Calls step for each of the two vectors of every pair, `at` being the pair's first position.
template <class Step>
void Expander::for_pairs(const TileAccess& a, TileSet open, int axis, const Step& step) {
  Point at = tiles_.origin();
  std::vector<std::string> addresses;
  do {
    const Gate gate = gate_value(a, at);
    Place there = place(a, at, {}, addresses);
    for (int v = 0; v < 2; ++v, there.offset += a.lanes * a.parts) {
      auto half = [&](int l) { return (v * a.lanes + l) / 2; };
      step(at, v, there, gate && gate->lanes > 1 ? picked(*gate, *gate, half) : gate);
    }
  } while (tiles_.advance(open & ~(TileSet{1} << axis), at));
}

void Expander::load_pairs(const TileAccess& a, int axis, TileForm& f) {
  f.values.resize(static_cast<size_t>(tiles_.registers(f.open)));
  Value first;
  for_pairs(a, f.open, axis, [&](Point at, int v, const Place& there, const Gate& gate) {
    const Value loaded = writer_.load(there, a.lanes, gate);
    if (v == 0) {
      first = loaded;
      return;
    }
    for (int t = 0; t < 2; ++t, ++at[static_cast<size_t>(axis)])
      f.values[static_cast<size_t>(tiles_.rank(f.open, at))] =
          picked(first, loaded, [&](int l) { return 2 * l + t; });
  });
}

void Expander::store_pairs(const TileAccess& a, int axis, UOp u) {
  for_pairs(a, tiles_.of(u), axis, [&](Point at, int v, const Place& there, const Gate& gate) {
    const Value even = whole_value(u->src(1), at, a.lanes);
    ++at[static_cast<size_t>(axis)];
    const Value odd = whole_value(u->src(1), at, a.lanes);
    writer_.store(there,
                  picked(even, odd,
                         [&](int l) {
                           const int element = v * a.lanes + l;
                           return element % 2 * a.lanes + element / 2;
                         }),
                  gate);
  });
}

// Lanes that lie a few elements apart: vectors of all that lies between, no further than the last
// lane, and the lanes picked out of them.
Value Expander::load_apart(const TileAccess& a, const Place& first, const Gate& gate) {
  const int step = static_cast<int>(a.lane_step) / a.parts, last = (a.lanes - 1) * step;
  const bool masked = gate && gate->lanes > 1;
  Value all;
  for (int begin = 0; begin <= last; begin += a.lanes) {
    const int from = std::min(begin, last + 1 - a.lanes);
    // Which lane an element of this vector is, if it is one that no vector before has.
    auto lane_at = [&](int element) {
      const int at = from + element;
      return at >= begin && at % step == 0 ? at / step : -1;
    };
    Place there = first;
    there.offset += int64_t{from} * a.parts;
    there.divisor = std::gcd(there.divisor, int64_t{from} * a.parts);
    Gate mask = gate;
    if (masked) {
      const Value none = writer_.literal(scalar(DType::boolean, int64_t{0}), a.lanes);
      mask = picked(*gate, none, [&](int e) { return lane_at(e) < 0 ? a.lanes : lane_at(e); });
    }
    const Value loaded = writer_.load(there, a.lanes, mask);
    const Value& before = begin ? all : loaded;
    all = picked(before, loaded, [&](int l) {
      const int element = l * step - from;
      return l * step >= begin && element < a.lanes ? a.lanes + element : l;
    });
  }
  return all;
}

void Expander::write_load(UOp u, TileForm& f) {
  const TileAccess a = access(u, u->src(0), gate_of(u, 1));
  if (const int axis = paired_axis(tiles_, a, f.open); axis >= 0) return load_pairs(a, axis, f);
  if (const int axis = transposed_axis(tiles_, a, f.open); axis >= 0)
    return load_transposed(a, axis, f);
  std::vector<std::string> addresses;
  Point at = tiles_.origin();
  do {
    const Gate gate = gate_value(a, at);
    if (!is_vector(f.open) || is_contiguous(a)) {
      f.values.push_back(writer_.load(place(a, at, {}, addresses), tiles_.lanes(f.open), gate));
      continue;
    }
    if (is_vector(f.open) && is_little_apart(a)) {
      f.values.push_back(load_apart(a, place(a, at, {}, addresses), gate));
      continue;
    }
    std::vector<Value> elements;
    for (int l = 0; l < a.lanes; ++l) {
      const Gate one = gate_lane(gate, l);
      elements.push_back(writer_.load(place(a, at, l, addresses), 1, one));
    }
    f.values.push_back(writer_.join(elements));
  } while (tiles_.advance(f.open, at));
}

// Of vectors the first lane's line: the others follow, or are asked for in vain.
void Expander::write_fetch(UOp u) {
  const TileAccess a = access(u, u->src(0), {});
  std::vector<std::string> addresses;
  Point at = tiles_.origin();
  do writer_.fetch(place(a, at, 0, addresses), u->arg.i == 0);
  while (tiles_.advance(tiles_.of(u), at));
}

void Expander::write_store(UOp u) {
  if (!u->src(0)->is(Op::Index)) return write_register(u);
  if (is_copy(u)) return write_copy(u);
  const TileAccess a = access(u, u->src(0), gate_of(u, 2));
  if (!a.gate || !tiles_.of(u) || !gate_value(a, tiles_.origin())) return write_to_memory(u, a);
  // Away from edges a tile is stored without masks, by one branch.
  writer_.open_if(true_everywhere(a.gate));
  write_to_memory(u, without_gate(a));
  writer_.open_else();
  write_to_memory(u, a);
  writer_.close_if();
}

void Expander::write_copy(UOp u) {
  UOp load = u->src(1);
  const TileAccess to = access(u, u->src(0), gate_of(u, 2)),
                   from = access(load, load->src(0), gate_of(load, 1));
  const TileSet all = tiles_.of(u);
  auto cuts = [&](UOp gate) { return gate && is_vector(tiles_.of(gate)); };
  const bool whole = to.lanes > 1 && is_contiguous(to) && is_contiguous(from) &&
                     !cuts(from.gate) && !cuts(to.gate);
  std::vector<std::string> there, here;
  Point at = tiles_.origin();
  do {
    const Gate gate = gate_value(to, at), filled = gate_value(from, at);
    if (whole) {
      writer_.copy(place(to, at, {}, there), place(from, at, {}, here), to.lanes, filled, gate);
      continue;
    }
    for (int l = 0; l < to.lanes; ++l)
      writer_.copy(place(to, at, l, there), place(from, at, l, here), 1, gate_lane(filled, l),
                   gate_lane(gate, l));
  } while (tiles_.advance(all, at));
}

Value Expander::true_everywhere(UOp gate) {
  const TileSet set = tiles_.of(gate);
  std::optional<Value> sum;
  Point at = tiles_.origin();
  do {
    Value one = writer_.fold(Op::And, whole_value(gate, at, tiles_.lanes(set)));
    Value pair[] = {sum.value_or(one), one};
    sum = sum ? alu(Op::And, DType::boolean, pair, false) : one;
  } while (tiles_.advance(set, at));
  return *sum;
}

void Expander::write_to_memory(UOp u, const TileAccess& a) {
  const TileSet all = tiles_.of(u);
  if (const int axis = paired_axis(tiles_, a, all); axis >= 0) return store_pairs(a, axis, u);
  if (const int axis = transposed_axis(tiles_, a, all); axis >= 0)
    return store_transposed(a, axis, u);
  const bool vector = is_vector(all);
  const bool whole = !vector || is_contiguous(a);
  std::vector<std::string> addresses;
  Point at = tiles_.origin();
  do {
    const Gate gate = gate_value(a, at);
    const bool wide = vector && (whole || is_vector(tiles_.of(u->src(1))));
    Value v = whole_value(u->src(1), at, wide ? a.lanes : 1);
    if (whole) {
      writer_.store(place(a, at, {}, addresses), v, gate);
      continue;
    }
    for (int l = 0; l < a.lanes; ++l) {
      const Gate one = gate_lane(gate, l);
      writer_.store(place(a, at, l, addresses), wide ? writer_.slice(v, l, 1) : v, one);
    }
  } while (tiles_.advance(all, at));
}

}  // namespace mote
