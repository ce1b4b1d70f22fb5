// Which tile ranges a value depends on, and how: what turns a tile into registers.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/memo.h"
#include "ir/program.h"

namespace mote {

// Bit t: the t-th tile range of the program, by slot.
using TileSet = uint64_t;

// One position of every tile range.
using Point = std::vector<int64_t>;

// A position as a function of the tile ranges: value + sum of step[t] * t over the linear ones.
struct Steps {
  TileSet nonlinear = 0;
  std::vector<int64_t> step;  // by tile range; empty: all 0
  int64_t of(int t) const { return step.empty() ? 0 : step[static_cast<size_t>(t)]; }
};

// True if an integer value cannot have wrapped, by its interval.
bool is_exact(UOp u);
// A cast that keeps the value, for values that are what their interval says.
bool keeps_value(UOp from, DType to);

class Tiles {
 public:
  explicit Tiles(const Program& program);

  // Vector axes; no value depends on two of them. A Vector range whose extent is no power of two, or
  // 1, is an ordinary one.
  TileSet lane(TileSet set) const { return set & lanes_; }
  int lanes(TileSet set) const;  // of a value with these tile ranges: 1 if it is no vector

  TileSet of(UOp u);            // of a statement or an operand of one
  const Steps& steps(UOp u);    // of an integer one
  // What divides an integer value at any position of the ranges `open`, the other tile ranges being
  // at 0; 0: the value is 0.
  int64_t divisor(UOp u, TileSet open);
  int number(UOp range) const;  // of a tile range
  int64_t extent(int number) const { return extents_[static_cast<size_t>(number)]; }

  // Registers of a value with these tile ranges: one per point, vectors if the lane is among them.
  int64_t registers(TileSet set) const;
  int64_t rank(TileSet set, const Point& at) const;  // row-major, the lane left out
  // The next point of the set in order; false after the last, with the set's entries back at 0.
  bool advance(TileSet set, Point& at) const;
  Point origin() const { return Point(ranges_.size(), 0); }

 private:
  void note(UOp statement);
  Steps combine_steps(UOp u);

  std::vector<UOp> ranges_;
  std::vector<int64_t> extents_;
  TileSet lanes_ = 0;
  Memo<std::optional<TileSet>> sets_;
  Memo<Steps> steps_;
  Steps constant_;
};

}  // namespace mote
