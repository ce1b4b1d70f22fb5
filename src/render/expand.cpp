#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_set>

#include "base/error.h"
#include "render/expander.h"

namespace mote {

namespace {

bool is_spelt_in_place(UOp u) { return u->is(Op::Const) || (u->is(Op::Range) && !is_loop(u)); }
// A loop that is run once or not at all.
bool is_branch(UOp u) { return !is_launched(u) && !is_const(u->src(0)) && u->src(0)->hi <= 1; }

}  // namespace

void Expander::run() {
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

// A loop's body without its edges, for the rounds that have none, and as it is; up to its End.
size_t Expander::write_both_ways(const std::vector<EdgeTest>& tests, size_t first) {
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

Value Expander::has_no_edge(const std::vector<EdgeTest>& tests) {
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

TileAccess Expander::access(UOp statement, UOp index, UOp gate) {
  return access_of(tiles_, statement, index, gate);
}
UOp Expander::gate_of(UOp u, uint32_t i) { return u->nsrc > i ? u->src(i) : UOp(); }
bool Expander::is_vector(TileSet set) const { return tiles_.lane(set) != 0; }

// ---- what is needed, from the last statement to the first

void Expander::need(UOp u, TileSet open, int lanes) {
  if (is_spelt_in_place(u)) return;
  open &= tiles_.of(u);
  std::vector<TileForm>& forms = forms_[u];
  auto f = std::ranges::find(forms, open, &TileForm::open);
  if (f == forms.end()) f = forms.insert(f, TileForm{open, {}, {}});
  if (lanes == 1 || is_vector(open)) return;
  if (std::ranges::find(f->splats, lanes, &TileForm::Splat::lanes) == f->splats.end())
    f->splats.push_back({lanes, {}});
}
void Expander::need_all(UOp u, int lanes) { need(u, ~TileSet{0}, lanes); }

void Expander::need_access(const TileAccess& a) {
  need(a.position, a.position_open, tiles_.lanes(a.position_open));
  if (a.gate) need_all(a.gate, tiles_.lanes(tiles_.of(a.gate)));
}

void Expander::demand(UOp u) {
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

void Expander::demand_store(UOp u) {
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

TileSet Expander::reduced(UOp u) {
  TileSet set = 0;
  for (Node* r : u->src().subspan(1)) {
    ensure(r->op == Op::Range && !is_loop(UOp(r)), "render: a Reduce over a loop");
    set |= tiles_.of(UOp(r));
  }
  return set;
}

// ---- writing, in order

void Expander::write(UOp u) {
  if (u->is(Op::Store)) return write_store(u);
  if (u->is(Op::Fetch)) return write_fetch(u);
  if (u->is(Op::End)) return close_loops(u);
  if (u->is(Op::Barrier)) return writer_.barrier();
  if (u->is(Op::Wait)) return writer_.wait(u->ints(1));
  if (is_loop(u)) return open_loop(u);
  if (forms_[u].empty()) return;
  for (size_t i = 0; i < forms_[u].size(); ++i) {
    TileForm& f = forms_[u][i];
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

void Expander::write_known(TileForm& f, bool truth) {
  const Value one = writer_.literal(scalar(DType::boolean, int64_t{truth}), tiles_.lanes(f.open));
  f.values.assign(static_cast<size_t>(tiles_.registers(f.open)), one);
}

void Expander::add_splats(TileForm& f) {
  for (TileForm::Splat& s : f.splats) {
    s.values.clear();
    for (const Value& v : f.values)
      s.values.push_back(v.literal ? writer_.literal(*v.literal, s.lanes)
                                   : writer_.splat(v, s.lanes));
  }
}

const std::vector<Value>& Expander::splats(const TileForm& f, int lanes) {
  auto s = std::ranges::find(f.splats, lanes, &TileForm::Splat::lanes);
  ensure(s != f.splats.end(), "render: no vector of ", lanes, " was asked for");
  return s->values;
}

// One register of u at a point, where the tile ranges in `open` are expanded.
Value Expander::value(UOp u, TileSet open, const Point& at, int lanes) {
  open &= tiles_.of(u);
  if (u->is(Op::Const)) return writer_.literal(scalar_of(u), lanes);
  if (is_spelt_in_place(u)) {
    if (is_vector(open)) return writer_.lane_numbers(u->dtype, lanes);
    const int64_t position = open ? at[static_cast<size_t>(tiles_.number(u))] : 0;
    return writer_.literal(scalar(u->dtype, position), lanes);
  }
  auto f = std::ranges::find(forms_[u], open, &TileForm::open);
  ensure(f != forms_[u].end(), "render: no such form of ", name(u->op));
  const std::vector<Value>& from = lanes == 1 || is_vector(open) ? f->values : splats(*f, lanes);
  const auto k = static_cast<size_t>(tiles_.rank(open, at));
  ensure(k < from.size(), "render: ", name(u->op), " is used before it is computed");
  return from[k];
}
Value Expander::whole_value(UOp u, const Point& at, int lanes) {
  return value(u, ~TileSet{0}, at, lanes);
}

Value Expander::alu(Op op, DType dtype, std::span<const Value> src, bool exact) {
  return arithmetic_.alu(op, dtype, src, exact);
}

void Expander::write_alu(UOp u, TileForm& f) {
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
void Expander::write_fragment(UOp u, TileForm& f) {
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

void Expander::write_reduce(UOp u, TileForm& f) {
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

// ---- registers that live across loops

std::string Expander::register_name(UOp reg, const Point& at) {
  std::string name = text("r", reg->ints(0));
  const TileSet set = tiles_.of(reg);
  return tiles_.registers(set) == 1 ? name : text(name, "_", tiles_.rank(set, at));
}

void Expander::write_register(UOp u) {
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

void Expander::write_read(UOp u, TileForm& f) {
  UOp reg = without_effects(u->src(0));
  ensure(reg->is(Op::Reg), "render: a load from ", name(reg->op));
  const int lanes = tiles_.lanes(f.open);
  Point at = tiles_.origin();
  do f.values.push_back(writer_.read_register(register_name(reg, at), u->dtype, lanes));
  while (tiles_.advance(f.open, at));
}

// ---- loops and variables

void Expander::define(UOp u, Value v) {
  if (forms_[u].empty()) return;
  TileForm& f = forms_[u].front();
  f.values = {std::move(v)};
  add_splats(f);
}

void Expander::open_loop(UOp range) {
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

void Expander::close_loops(UOp end) {
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
void Expander::define_vars() {
  if (program_.vars.empty()) return;
  for (UOp u : toposort(program_.linear)) {
    if (!u->is(Op::Var) || forms_[u].empty()) continue;
    auto same = [&](UOp v) { return v->arg.object == u->arg.object; };
    const auto found = std::ranges::find_if(program_.vars, same);
    ensure(found != program_.vars.end(), "render: the program does not list ", u->arg.object->str);
    define(u, writer_.var(static_cast<int>(found - program_.vars.begin()), u->dtype));
  }
}

Value Writer::has_no_blocks() {
  ensure(false, "render: this language has no blocks of workers");
  return {};
}

void expand(const Program& program, Writer& writer) { Expander(program, writer).run(); }

}  // namespace mote
