// Places in memory at equal distances along each axis, and what movement ops show of them.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/ops.h"

namespace mote {

struct StridedAxis {
  int64_t size, stride;
};
// The fewest axes that show the same places in the same order.
std::vector<StridedAxis> merged(std::span<const StridedAxis> axes);

// Position p is at first + the sum of p[i] * axes[i].stride.
struct Grid {
  std::vector<StridedAxis> axes;
  int64_t first = 0;

  Grid() = default;
  explicit Grid(std::span<const int64_t> sizes);  // all places, row-major
  std::vector<int64_t> shape() const;
  // What the op, with numbers as its list, shows of these places. False where the result is no
  // grid, or the list does not fit.
  bool move(Op op, std::span<const int64_t> list);
  // f(place of its first element, axis) for every row along the last axis, in row-major order.
  template <class F>
  void for_rows(F f) const {
    if (std::ranges::count(axes, 0, &StridedAxis::size)) return;
    const StridedAxis row = axes.empty() ? StridedAxis{1, 1} : axes.back();
    std::vector<int64_t> at(axes.empty() ? 0 : axes.size() - 1, 0);
    for (int64_t place = first;;) {
      f(place, row);
      size_t i = at.size();
      for (; i-- > 0; at[i] = 0, place -= axes[i].stride * axes[i].size) {
        place += axes[i].stride;
        if (++at[i] < axes[i].size) break;
      }
      if (i == SIZE_MAX) return;
    }
  }
};

}  // namespace mote
