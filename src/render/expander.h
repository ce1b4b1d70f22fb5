// The walk of expand.h, statement by statement: inside this folder.
#pragma once
#include <map>
#include <unordered_map>

#include "render/access.h"
#include "render/arithmetic.h"
#include "render/edges.h"
#include "render/expand.h"

namespace mote {

// The registers of a statement with the tile ranges `open` expanded and the others at 0.
struct TileForm {
  TileSet open = 0;
  std::vector<Value> values;
  // Scalars that meet vectors are needed as vectors too, of as many lanes.
  struct Splat {
    int lanes;
    std::vector<Value> values;
  };
  std::vector<Splat> splats;
};

// An asynchronous copy from memory to memory.
inline bool is_copy(UOp store) {
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

  void run();

 private:
  size_t write_both_ways(const std::vector<EdgeTest>& tests, size_t first);
  Value has_no_edge(const std::vector<EdgeTest>& tests);
  TileAccess access(UOp statement, UOp index, UOp gate);
  static UOp gate_of(UOp u, uint32_t i);
  bool is_vector(TileSet set) const;
  void need(UOp u, TileSet open, int lanes);
  void need_all(UOp u, int lanes);
  void need_access(const TileAccess& a);
  void demand(UOp u);
  void demand_store(UOp u);
  TileSet reduced(UOp u);
  void write(UOp u);
  void write_known(TileForm& f, bool truth);
  void add_splats(TileForm& f);
  static const std::vector<Value>& splats(const TileForm& f, int lanes);
  Value value(UOp u, TileSet open, const Point& at, int lanes);
  Value whole_value(UOp u, const Point& at, int lanes);
  Value alu(Op op, DType dtype, std::span<const Value> src, bool exact);
  void write_alu(UOp u, TileForm& f);
  void write_fragment(UOp u, TileForm& f);
  void write_reduce(UOp u, TileForm& f);
  std::string register_name(UOp reg, const Point& at);
  void write_register(UOp u);
  void write_read(UOp u, TileForm& f);
  void define(UOp u, Value v);
  void open_loop(UOp range);
  void close_loops(UOp end);
  void define_vars();

  // Memory (expand_memory.cpp).
  Place place(const TileAccess& a, const Point& at, std::optional<int> lane,
              std::vector<std::string>& addresses);
  Gate gate_lane(const Gate& gate, int lane);
  Gate gate_value(const TileAccess& a, const Point& at);
  void transpose(std::vector<Value>& rows);
  template <class Step>
  void for_squares(const TileAccess& a, TileSet open, int axis, const Step& step);
  void load_transposed(const TileAccess& a, int axis, TileForm& f);
  void store_transposed(const TileAccess& a, int axis, UOp u);
  template <class From>
  Value picked(const Value& a, const Value& b, const From& from);
  template <class Step>
  void for_pairs(const TileAccess& a, TileSet open, int axis, const Step& step);
  void load_pairs(const TileAccess& a, int axis, TileForm& f);
  void store_pairs(const TileAccess& a, int axis, UOp u);
  Value load_apart(const TileAccess& a, const Place& first, const Gate& gate);
  void write_load(UOp u, TileForm& f);
  void write_fetch(UOp u);
  void write_store(UOp u);
  void write_copy(UOp u);
  Value true_everywhere(UOp gate);
  void write_to_memory(UOp u, const TileAccess& a);

  const Program& program_;
  Writer& writer_;
  Arithmetic arithmetic_;
  Tiles tiles_;
  Memo<std::vector<TileForm>> forms_;
  std::vector<UOp> declared_, open_;
  int launched_ = 0;  // dimensions of the launch that were opened
  std::map<const Node*, std::vector<EdgeTest>> edges_;
  std::unordered_map<const Node*, bool> assumed_;  // outcomes of comparisons
};

}  // namespace mote
