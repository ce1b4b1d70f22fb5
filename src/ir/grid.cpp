#include "ir/grid.h"

namespace mote {

namespace {

int64_t count_of(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (int64_t n : sizes) count *= n;
  return count;
}

}  // namespace

std::vector<StridedAxis> merged(std::span<const StridedAxis> axes) {
  std::vector<StridedAxis> out;
  for (const StridedAxis& a : axes) {
    if (a.size == 1) continue;
    if (!out.empty() && out.back().stride == a.stride * a.size)
      out.back() = {out.back().size * a.size, a.stride};
    else
      out.push_back(a);
  }
  return out;
}

Grid::Grid(std::span<const int64_t> sizes) : axes(sizes.size()) {
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) axes[i] = {sizes[i], stride};
}

std::vector<int64_t> Grid::shape() const {
  std::vector<int64_t> out;
  for (const StridedAxis& a : axes) out.push_back(a.size);
  return out;
}

bool Grid::move(Op op, std::span<const int64_t> list) {
  switch (op) {
    case Op::Reshape: {
      const std::vector<int64_t> before = shape();
      const Grid in_order(before);
      for (size_t i = 0; i < axes.size(); ++i)
        if (axes[i].size != 1 && axes[i].stride != in_order.axes[i].stride) return false;
      axes = Grid(list).axes;
      return count_of(list) == count_of(before);
    }
    case Op::Permute: {
      const std::vector<StridedAxis> before = axes;
      for (size_t i = 0; i < list.size(); ++i) axes[i] = before[static_cast<size_t>(list[i])];
      return true;
    }
    case Op::Expand:
      if (axes.empty()) axes.resize(list.size(), {1, 0});
      for (size_t i = 0; i < list.size(); ++i) {
        if (axes[i].size == list[i]) continue;
        if (axes[i].size != 1) return false;
        axes[i] = {list[i], 0};
      }
      return true;
    case Op::Shrink:
      for (size_t i = 0; i < axes.size(); ++i) {
        const int64_t begin = list[2 * i], end = list[2 * i + 1];
        if (begin < 0 || begin > end || end > axes[i].size) return false;
        first += begin * axes[i].stride;
        axes[i].size = end - begin;
      }
      return true;
    case Op::Flip:
      for (int64_t axis : list) {
        StridedAxis& a = axes[static_cast<size_t>(axis)];
        first += (a.size - 1) * a.stride;
        a.stride = -a.stride;
      }
      return true;
    case Op::Window: {
      StridedAxis& a = axes[static_cast<size_t>(list[0])];
      const int64_t size = list[1], step = list[2], dilation = list[3];
      if (size <= 0 || step <= 0 || (size - 1) * dilation >= a.size) return false;
      const StridedAxis inside = {size, a.stride * dilation};
      a = {(a.size - (size - 1) * dilation - 1) / step + 1, a.stride * step};
      axes.push_back(inside);
      return true;
    }
    default: return false;
  }
}

}  // namespace mote
