#include "render/expand.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "render/access.h"
#include "render/arithmetic.h"
#include "render/edges.h"

namespace mote {

namespace {

// The registers of a statement with the tile ranges `open` expanded and the others at 0.
struct Form {
  TileSet open = 0;
  std::vector<Value> values;
  // Scalars that meet vectors are needed as vectors too, of as many lanes.
  struct Splat {
    int lanes;
    std::vector<Value> values;
  };
  std::vector<Splat> splats;
};

bool is_spelt_in_place(UOp u) { return u->is(Op::Const) || (u->is(Op::Range) && !is_loop(u)); }
// A loop that is run once or not at all.
bool is_branch(UOp u) { return !is_launched(u) && !is_const(u->src(0)) && u->src(0)->hi <= 1; }
// An asynchronous copy from memory to memory.
bool is_copy(UOp store) {
  return store->arg.i == 2 && store->src(0)->is(Op::Index) && store->src(1)->is(Op::Load) &&
         store->src(1)->src(0)->is(Op::Index);
}

class Expander {
 public:
  Expander(const Program& program, Writer& writer)
      : program_(program),
        writer_(writer),
        arithmetic_{writer},
        tiles_(program),
        edges_(edge_tests(program, tiles_)) {}

  void run() {
    std::span<Node* const> statements = program_.linear->src();
    for (const auto& [loop, tests] : edges_)
      for (const EdgeTest& t : tests)
        for (Node* side : t.less->src()) need(UOp(side), 0, 1);
    for (size_t i = statements.size(); i-- > 0;) demand(UOp(statements[i]));
    define_vars();
    for (size_t i = 0; i < statements.size(); ++i) {
      write(UOp(statements[i]));
      if (const auto edge = edges_.find(statements[i]); edge != edges_.end())
        i = write_both_ways(edge->second, i + 1);
    }
  }

 private:
  // A loop's body without its edges, for the rounds that have none, and as it is; up to its End.
  size_t write_both_ways(const std::vector<EdgeTest>& tests, size_t first) {
    std::span<Node* const> statements = program_.linear->src();
    size_t end = first;
    while (statements[end]->op != Op::End) ++end;
    std::unordered_set<const Node*> compared;
    for (const EdgeTest& t : tests)
      for (Node* side : t.less->src())
        for (UOp n : toposort(UOp(side))) compared.insert(n.get());
    for (size_t i = first; i < end; ++i)
      if (compared.count(statements[i])) write(UOp(statements[i]));
    writer_.open_if(has_no_edge(tests));
    for (const EdgeTest& t : tests) assumed_[t.less.get()] = t.outcome;
    arithmetic_.chooses = true;
    for (size_t i = first; i < end; ++i) write(UOp(statements[i]));
    assumed_.clear();
    arithmetic_.chooses = false;
    writer_.open_else();
    for (size_t i = first; i < end; ++i) write(UOp(statements[i]));
    writer_.close_if();
    return end - 1;
  }

  Value has_no_edge(const std::vector<EdgeTest>& tests) {
    std::optional<Value> all;
    for (const EdgeTest& t : tests) {
      const DType dtype = t.less->src(0)->dtype;
      const Value reach = writer_.literal(scalar(dtype, t.reach), 1);
      auto first = [&](uint32_t side) { return value(t.less->src(side), 0, tiles_.origin(), 1); };
      const Value last = alu(Op::Add, dtype, std::array{first(0), reach}, true);
      Value one = alu(Op::Lt, DType::boolean, std::array{last, first(1)}, false);
      if (!t.outcome) {
        const Value yes = writer_.literal(scalar(DType::boolean, int64_t{1}), 1);
        one = alu(Op::Xor, DType::boolean, std::array{one, yes}, false);
      }
      all = all ? alu(Op::And, DType::boolean, std::array{*all, one}, false) : one;
    }
    return *all;
  }

  TileAccess access(UOp statement, UOp index, UOp gate) {
    return access_of(tiles_, statement, index, gate);
  }
  static UOp gate_of(UOp u, uint32_t i) { return u->nsrc > i ? u->src(i) : UOp(); }
  bool is_vector(TileSet set) const { return tiles_.lane(set) != 0; }

  // ---- what is needed, from the last statement to the first

  void need(UOp u, TileSet open, int lanes) {
    if (is_spelt_in_place(u)) return;
    open &= tiles_.of(u);
    std::vector<Form>& forms = forms_[u];
    auto f = std::ranges::find(forms, open, &Form::open);
    if (f == forms.end()) f = forms.insert(f, Form{open, {}, {}});
    if (lanes == 1 || is_vector(open)) return;
    if (std::ranges::find(f->splats, lanes, &Form::Splat::lanes) == f->splats.end())
      f->splats.push_back({lanes, {}});
  }
  void need_all(UOp u, int lanes) { need(u, ~TileSet{0}, lanes); }

  void need_access(const TileAccess& a) {
    need(a.position, a.position_open, tiles_.lanes(a.position_open));
    if (a.gate) need_all(a.gate, tiles_.lanes(tiles_.of(a.gate)));
  }

  void demand(UOp u) {
    if (u->is(Op::Store)) return demand_store(u);
    if (u->is(Op::Fetch)) return need_access(access(u, u->src(0), {}));
    if (u->is(Op::Barrier) || u->is(Op::Wait)) return;
    if (is_loop(u)) return need_all(u->src(0), 1);
    if (forms_[u].empty()) return;
    if (u->is(Op::Reduce))
      return need_all(u->src(0), tiles_.lanes(tiles_.of(u->src(0)) | reduced(u)));
    if (u->is(Op::Load)) {
      if (u->src(0)->is(Op::Index)) need_access(access(u, u->src(0), gate_of(u, 1)));
      return;
    }
    if (u->is(Op::Fragment)) {
      for (uint32_t i = 0; i < 3; ++i) need_all(u->src(i), 1);
      return;
    }
    for (size_t i = 0; i < forms_[u].size(); ++i)
      for (Node* s : u->src()) {
        const TileSet open = forms_[u][i].open;
        need(UOp(s), open, tiles_.lanes(open));
      }
  }

  void demand_store(UOp u) {
    UOp value = u->src(1);
    if (is_copy(u)) {
      need_access(access(u, u->src(0), gate_of(u, 2)));
      return need_access(access(value, value->src(0), gate_of(value, 1)));
    }
    if (!u->src(0)->is(Op::Index))
      return need_all(value, tiles_.lanes(tiles_.of(without_effects(u->src(0)))));
    TileAccess a = access(u, u->src(0), gate_of(u, 2));
    need_access(a);
    const TileSet all = tiles_.of(u);
    auto by_vectors = [&](const TileAccess& x) {
      return is_contiguous(x) || paired_axis(tiles_, x, all) >= 0 ||
             transposed_axis(tiles_, x, all) >= 0;
    };
    const bool whole = by_vectors(a) || by_vectors(without_gate(a));
    need_all(value, whole || is_vector(tiles_.of(value)) ? a.lanes : 1);
  }

  TileSet reduced(UOp u) {
    TileSet set = 0;
    for (Node* r : u->src().subspan(1)) {
      ensure(r->op == Op::Range && !is_loop(UOp(r)), "render: a Reduce over a loop");
      set |= tiles_.of(UOp(r));
    }
    return set;
  }

  // ---- writing, in order

  void write(UOp u) {
    if (u->is(Op::Store)) return write_store(u);
    if (u->is(Op::Fetch)) return write_fetch(u);
    if (u->is(Op::End)) return close_loops(u);
    if (u->is(Op::Barrier)) return writer_.barrier();
    if (u->is(Op::Wait)) return writer_.wait(u->ints(1));
    if (is_loop(u)) return open_loop(u);
    if (forms_[u].empty()) return;
    for (size_t i = 0; i < forms_[u].size(); ++i) {
      Form& f = forms_[u][i];
      f.values.clear();
      if (const auto known = assumed_.find(u.get()); known != assumed_.end())
        write_known(f, known->second);
      else if (u->is(Op::Reduce))
        write_reduce(u, f);
      else if (u->is(Op::Fragment))
        write_fragment(u, f);
      else if (!u->is(Op::Load))
        write_alu(u, f);
      else if (u->src(0)->is(Op::Index))
        write_load(u, f);
      else
        write_read(u, f);
      add_splats(f);
    }
  }

  void write_known(Form& f, bool truth) {
    const Value one = writer_.literal(scalar(DType::boolean, int64_t{truth}), tiles_.lanes(f.open));
    f.values.assign(static_cast<size_t>(tiles_.registers(f.open)), one);
  }

  void add_splats(Form& f) {
    for (Form::Splat& s : f.splats) {
      s.values.clear();
      for (const Value& v : f.values)
        s.values.push_back(v.literal ? writer_.literal(*v.literal, s.lanes)
                                     : writer_.splat(v, s.lanes));
    }
  }

  static const std::vector<Value>& splats(const Form& f, int lanes) {
    auto s = std::ranges::find(f.splats, lanes, &Form::Splat::lanes);
    ensure(s != f.splats.end(), "render: no vector of ", lanes, " was asked for");
    return s->values;
  }

  // One register of u at a point, where the tile ranges in `open` are expanded.
  Value value(UOp u, TileSet open, const Point& at, int lanes) {
    open &= tiles_.of(u);
    if (u->is(Op::Const)) return writer_.literal(scalar_of(u), lanes);
    if (is_spelt_in_place(u)) {
      if (is_vector(open)) return writer_.lane_numbers(u->dtype, lanes);
      const int64_t position = open ? at[static_cast<size_t>(tiles_.number(u))] : 0;
      return writer_.literal(scalar(u->dtype, position), lanes);
    }
    auto f = std::ranges::find(forms_[u], open, &Form::open);
    ensure(f != forms_[u].end(), "render: no such form of ", name(u->op));
    const std::vector<Value>& from = lanes == 1 || is_vector(open) ? f->values : splats(*f, lanes);
    const auto k = static_cast<size_t>(tiles_.rank(open, at));
    ensure(k < from.size(), "render: ", name(u->op), " is used before it is computed");
    return from[k];
  }
  Value whole_value(UOp u, const Point& at, int lanes) { return value(u, ~TileSet{0}, at, lanes); }

  Value alu(Op op, DType dtype, std::span<const Value> src, bool exact) {
    return arithmetic_.alu(op, dtype, src, exact);
  }

  void write_alu(UOp u, Form& f) {
    const bool exact = is_exact(u) || is_float(u->dtype);
    std::vector<Value> src(u->nsrc);
    Point at = tiles_.origin();
    do {
      for (uint32_t i = 0; i < u->nsrc; ++i)
        src[i] = value(u->src(i), f.open, at, tiles_.lanes(f.open));
      f.values.push_back(u->is(Op::Shuffle) ? writer_.of_lane(src[0], src[1])
                                            : alu(u->op, u->dtype, src, exact));
    } while (tiles_.advance(f.open, at));
  }

  // Each product of tiles: the ranges of its registers stand inside of all others.
  void write_fragment(UOp u, Form& f) {
    ensure(u->ints(1) == 0, "render: factors that are places");
    const TileSet own = tiles_.of(u->src(3));
    f.values.resize(static_cast<size_t>(tiles_.registers(f.open)));
    Point at = tiles_.origin();
    auto registers = [&](uint32_t source) {
      std::vector<Value> out;
      const TileSet over = tiles_.of(u->src(source + 3));
      do out.push_back(whole_value(u->src(source), at, 1));
      while (tiles_.advance(over, at));
      return out;
    };
    do {
      std::vector<Value> sums =
          writer_.multiply_tiles(u->ints(0), registers(0), registers(1), registers(2));
      size_t r = 0;
      do f.values[static_cast<size_t>(tiles_.rank(f.open, at))] = sums[r++];
      while (tiles_.advance(own, at));
    } while (tiles_.advance(f.open & ~own, at));
  }

  void write_reduce(UOp u, Form& f) {
    const Op op = static_cast<Op>(u->ints(0));
    const TileSet over = reduced(u);
    const int lanes = tiles_.lanes(over | tiles_.of(u->src(0)));
    Point at = tiles_.origin();
    do {
      std::vector<Value> values;
      do values.push_back(whole_value(u->src(0), at, lanes));
      while (tiles_.advance(over, at));
      const Value all = arithmetic_.fold(op, values);
      f.values.push_back(is_vector(over) ? arithmetic_.fold_lanes(op, all) : all);
    } while (tiles_.advance(f.open, at));
  }

  // ---- memory

  // The place of each register, and of each lane if lanes do not follow one another.
  Place place(const TileAccess& a, const Point& at, std::optional<int> lane,
              std::vector<std::string>& addresses) {
    const bool vector = is_vector(a.position_open);
    auto k = static_cast<size_t>(tiles_.rank(a.position_open, at));
    if (vector) k = k * static_cast<size_t>(a.lanes) + static_cast<size_t>(*lane);
    if (addresses.size() <= k) addresses.resize(k + 1);
    if (addresses[k].empty()) {
      Value position = value(a.position, a.position_open, at, vector ? a.lanes : 1);
      if (vector) position = writer_.slice(position, *lane, 1);
      addresses[k] = writer_.address(a.slot, a.dtype, position);
    }
    int64_t offset = 0;
    const Steps& steps = tiles_.steps(a.position);
    for (TileSet rest = a.linear & ~tiles_.lane(a.linear); rest; rest &= rest - 1) {
      const int t = std::countr_zero(rest);
      offset += steps.of(t) * at[static_cast<size_t>(t)];
    }
    if (lane && !vector) offset += a.lane_step * *lane;
    const int64_t divisor = std::gcd(tiles_.divisor(a.position, a.position_open), offset);
    return {addresses[k], offset, a.dtype, a.streamed, divisor};
  }

  Gate gate_lane(const Gate& gate, int lane) {
    return gate && gate->lanes > 1 ? writer_.slice(*gate, lane, 1) : gate;
  }

  Gate gate_value(const TileAccess& a, const Point& at) {
    if (!a.gate) return {};
    Value gate = whole_value(a.gate, at, tiles_.lanes(tiles_.of(a.gate)));
    return !assumed_.empty() && gate.literal && gate.literal->i ? Gate() : gate;
  }

  // Swaps blocks off the diagonal, of 1, 2, 4, ... lanes.
  void transpose(std::vector<Value>& rows) {
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
  void for_squares(const TileAccess& a, TileSet open, int axis, const Step& step) {
    Point at = tiles_.origin();
    do
      for (int64_t i = 0; i < tiles_.extent(axis); i += a.lanes) {
        at[static_cast<size_t>(axis)] = i;
        step(at);
        at[static_cast<size_t>(axis)] = 0;
      }
    while (tiles_.advance(open & ~(TileSet{1} << axis), at));
  }

  void load_transposed(const TileAccess& a, int axis, Form& f) {
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

  void store_transposed(const TileAccess& a, int axis, UOp u) {
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
  Value picked(const Value& a, const Value& b, const From& from) {
    std::vector<int> lanes;
    for (int l = 0; l < a.lanes; ++l) lanes.push_back(from(l));
    return writer_.shuffle(a, b, lanes);
  }

  // Calls step for each of the two vectors of every pair, `at` being the pair's first position.
  template <class Step>
  void for_pairs(const TileAccess& a, TileSet open, int axis, const Step& step) {
    Point at = tiles_.origin();
    std::vector<std::string> addresses;
    do {
      const Gate gate = gate_value(a, at);
      Place there = place(a, at, {}, addresses);
      for (int v = 0; v < 2; ++v, there.offset += a.lanes) {
        auto half = [&](int l) { return (v * a.lanes + l) / 2; };
        step(at, v, there, gate && gate->lanes > 1 ? picked(*gate, *gate, half) : gate);
      }
    } while (tiles_.advance(open & ~(TileSet{1} << axis), at));
  }

  void load_pairs(const TileAccess& a, int axis, Form& f) {
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

  void store_pairs(const TileAccess& a, int axis, UOp u) {
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

  void write_load(UOp u, Form& f) {
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
      std::vector<Value> elements;
      for (int l = 0; l < a.lanes; ++l) {
        const Gate one = gate_lane(gate, l);
        elements.push_back(writer_.load(place(a, at, l, addresses), 1, one));
      }
      f.values.push_back(writer_.join(elements));
    } while (tiles_.advance(f.open, at));
  }

  // Of vectors the first lane's line: the others follow, or are asked for in vain.
  void write_fetch(UOp u) {
    const TileAccess a = access(u, u->src(0), {});
    std::vector<std::string> addresses;
    Point at = tiles_.origin();
    do writer_.fetch(place(a, at, 0, addresses), u->arg.i == 0);
    while (tiles_.advance(tiles_.of(u), at));
  }

  void write_store(UOp u) {
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

  void write_copy(UOp u) {
    UOp load = u->src(1);
    const TileAccess to = access(u, u->src(0), gate_of(u, 2)),
                     from = access(load, load->src(0), gate_of(load, 1));
    const TileSet all = tiles_.of(u);
    const bool whole =
        to.lanes > 1 && is_contiguous(to) && is_contiguous(from) && !from.gate && !to.gate;
    std::vector<std::string> there, here;
    Point at = tiles_.origin();
    do {
      if (whole) {
        writer_.copy(place(to, at, {}, there), place(from, at, {}, here), to.lanes, {}, {});
        continue;
      }
      const Gate gate = gate_value(to, at), filled = gate_value(from, at);
      for (int l = 0; l < to.lanes; ++l)
        writer_.copy(place(to, at, l, there), place(from, at, l, here), 1, gate_lane(filled, l),
                     gate_lane(gate, l));
    } while (tiles_.advance(all, at));
  }

  Value true_everywhere(UOp gate) {
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

  void write_to_memory(UOp u, const TileAccess& a) {
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

  // ---- registers that live across loops

  std::string register_name(UOp reg, const Point& at) {
    std::string name = text("r", reg->ints(0));
    const TileSet set = tiles_.of(reg);
    return tiles_.registers(set) == 1 ? name : text(name, "_", tiles_.rank(set, at));
  }

  void write_register(UOp u) {
    UOp reg = without_effects(u->src(0));
    ensure(reg->is(Op::Reg), "render: a store to ", name(reg->op));
    const TileSet set = tiles_.of(reg);
    const int lanes = tiles_.lanes(set);
    const bool fresh = std::ranges::find(declared_, reg) == declared_.end();
    if (fresh) declared_.push_back(reg);
    Point at = tiles_.origin();
    do {
      std::string name = register_name(reg, at);
      if (fresh) writer_.declare_register(name, reg->dtype, lanes);
      writer_.write_register(name, whole_value(u->src(1), at, lanes));
    } while (tiles_.advance(set, at));
  }

  void write_read(UOp u, Form& f) {
    UOp reg = without_effects(u->src(0));
    ensure(reg->is(Op::Reg), "render: a load from ", name(reg->op));
    const int lanes = tiles_.lanes(f.open);
    Point at = tiles_.origin();
    do f.values.push_back(writer_.read_register(register_name(reg, at), u->dtype, lanes));
    while (tiles_.advance(f.open, at));
  }

  // ---- loops and variables

  void define(UOp u, Value v) {
    if (forms_[u].empty()) return;
    Form& f = forms_[u].front();
    f.values = {std::move(v)};
    add_splats(f);
  }

  void open_loop(UOp range) {
    open_.push_back(range);
    UOp extent = range->src(0);
    Value end = value(extent, 0, tiles_.origin(), 1);
    if (is_launched(range)) {
      end.dtype = range->dtype;
      return define(range, writer_.open_launched(launched_++, end, !is_const(extent)));
    }
    Value begin = writer_.literal(scalar(range->dtype, int64_t{0}), 1);
    if (is_branch(range)) {
      Value pair[] = {begin, end};
      writer_.open_if(alu(Op::Lt, DType::boolean, pair, false));
      return define(range, begin);
    }
    define(range, writer_.open_loop(begin, end, extent->lo < 1));
  }

  void close_loops(UOp end) {
    for (uint32_t i = end->nsrc; i-- > 1;) {
      if (!is_loop(end->src(i))) continue;
      ensure(!open_.empty() && open_.back() == end->src(i), "render: loops close in another order");
      open_.pop_back();
      if (is_launched(end->src(i)))
        writer_.close_launched();
      else if (is_branch(end->src(i)))
        writer_.close_if();
      else
        writer_.close_loop();
    }
  }

  // A Var is the same variable in whatever integer dtype it is used.
  void define_vars() {
    if (program_.vars.empty()) return;
    for (UOp u : toposort(program_.linear)) {
      if (!u->is(Op::Var) || forms_[u].empty()) continue;
      auto same = [&](UOp v) { return v->arg.object == u->arg.object; };
      const auto found = std::ranges::find_if(program_.vars, same);
      ensure(found != program_.vars.end(), "render: the program does not list ",
             u->arg.object->str);
      define(u, writer_.var(static_cast<int>(found - program_.vars.begin()), u->dtype));
    }
  }

  const Program& program_;
  Writer& writer_;
  Arithmetic arithmetic_;
  Tiles tiles_;
  Memo<std::vector<Form>> forms_;
  std::vector<UOp> declared_, open_;
  int launched_ = 0;  // dimensions of the launch that were opened
  std::map<const Node*, std::vector<EdgeTest>> edges_;
  std::unordered_map<const Node*, bool> assumed_;  // outcomes of comparisons
};

}  // namespace

Value Writer::has_no_blocks() {
  ensure(false, "render: this language has no blocks of workers");
  return {};
}

void expand(const Program& program, Writer& writer) { Expander(program, writer).run(); }

}  // namespace mote
