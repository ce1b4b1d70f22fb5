// Which axes become vectors, nest by nest. Along a vector every access stays in place or moves to the
// next element. The exceptions are few elements apart; registers are then taken apart.
#pragma once
#include <span>
#include <utility>

#include "optimize/sketch.h"

namespace mote {

struct Lanes : Sketch {
  using Sketch::Sketch;

  void begin_nest() { earlier_ = slots_.size(); }
  // Slots of this nest's vectors.
  std::span<const int> own_lanes() const { return std::span(slots_).subspan(earlier_); }

  // One vector axis for every part of the nest that shares no value with another one's.
  void choose_lanes();
  // A vector along the longest axis on which all that is read is contiguous or a few elements apart.
  bool choose_lane_apart();
  // Whether something is read a few elements apart along some axis.
  bool steps_apart() const;
  // Elements of a vector along r. An access that r does not move does not count.
  int64_t lanes(UOp r = {}) const;

 private:
  std::vector<int> slots_;
  size_t earlier_ = 0;  // of other nests

  uint64_t beside_lanes() const;
  int lane_score(UOp r, std::vector<UOp>* pairs = nullptr) const;
  UOp pair_in(const Access& a) const;
  std::pair<int64_t, double> best_width(UOp r) const;
  static double lane_speed(int64_t n, int64_t width);
  bool choose_lane();
  void choose_paired_lane();
  bool split_lane(UOp r, int64_t width);
};

}  // namespace mote
