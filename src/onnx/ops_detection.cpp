// Regions and boxes. Which boxes are left is decided on the host.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "onnx/ops.h"

namespace mote::onnx {

namespace {

struct Box {
  double y0, x0, y1, x1;
  double area() const { return (y1 - y0) * (x1 - x0); }
};

Box box_at(const std::vector<double>& all, size_t i, bool centred) {
  const double* b = &all[4 * i];
  if (centred) return {b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
  return {std::min(b[0], b[2]), std::min(b[1], b[3]), std::max(b[0], b[2]), std::max(b[1], b[3])};
}

double overlap(const Box& a, const Box& b) {
  const double h = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  const double w = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (h <= 0 || w <= 0) return 0;
  return h * w / (a.area() + b.area() - h * w);
}

Outputs non_max_suppression(Call& c) {
  const std::vector<int64_t> shape = c.x(1).shape();  // (batch, classes, boxes)
  expect(shape.size() == 3 && c.x(0).dim() == 3, "boxes and scores must have 3 axes");
  const std::vector<double> boxes = c.reals(0), scores = c.reals(1);
  const int64_t most = c.has(2) ? c.ints(2).at(0) : 0;
  const double most_overlap = c.has(3) ? c.reals(3).at(0) : 0;
  const double least_score = c.has(4) ? c.reals(4).at(0) : -INFINITY;
  const bool centred = c.i("center_point_box", 0) != 0;
  const auto count = static_cast<size_t>(shape[2]);
  std::vector<int64_t> out;
  for (int64_t b = 0; b < shape[0]; ++b) {
    const std::vector<double> own(boxes.begin() + b * shape[2] * 4,
                                  boxes.begin() + (b + 1) * shape[2] * 4);
    for (int64_t cls = 0; cls < shape[1]; ++cls) {
      const double* score = &scores[static_cast<size_t>((b * shape[1] + cls) * shape[2])];
      std::vector<size_t> order(count), kept;
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](size_t i, size_t j) { return score[i] > score[j]; });
      for (const size_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most || score[i] <= least_score) break;
        const Box box = box_at(own, i, centred);
        const bool is_new = std::none_of(kept.begin(), kept.end(), [&](size_t k) {
          return overlap(box, box_at(own, k, centred)) > most_overlap;
        });
        if (!is_new) continue;
        kept.push_back(i);
        out.insert(out.end(), {b, cls, static_cast<int64_t>(i)});
      }
    }
  }
  const auto rows = static_cast<int64_t>(out.size() / 3);
  return {rows ? c.constant(out, {rows, 3}) : zeros({0, 3}, c.options(DType::i64))};
}

// The two pixels next to a point along an axis, and their shares; outside the image none.
struct Between {
  int64_t low = 0, high = 0;
  double low_share = 0, high_share = 0;
};

Between between(double at, int64_t size) {
  if (at < -1 || at > static_cast<double>(size)) return {};
  at = std::max(at, 0.0);
  const auto low = static_cast<int64_t>(at);
  if (low >= size - 1) return {size - 1, size - 1, 1, 0};
  const double part = at - static_cast<double>(low);
  return {low, low + 1, 1 - part, part};
}

struct Samples {
  std::vector<int64_t> place;
  std::vector<float> weight;
};

// A region's cells, each with `most` samples of four pixels; what it has fewer repeats its last.
void add_region(Samples& out, const double* roi, int64_t image, const std::vector<int64_t>& shape,
                const int64_t (&cells)[2], int64_t ratio, double offset, double scale, int64_t most,
                bool averages) {
  double begin[2], each[2];
  int64_t grid[2];
  for (size_t d = 0; d < 2; ++d) {
    begin[d] = roi[1 - d] * scale - offset;
    double extent = roi[3 - d] * scale - offset - begin[d];
    if (offset == 0) extent = std::max(extent, 1.0);
    each[d] = extent / static_cast<double>(cells[d]);
    grid[d] = ratio > 0 ? ratio : static_cast<int64_t>(std::ceil(each[d]));
  }
  const int64_t count = std::max<int64_t>(grid[0] * grid[1], 1);
  for (int64_t cell = 0; cell < cells[0] * cells[1]; ++cell)
    for (int64_t s = 0; s < most; ++s) {
      const int64_t own = std::min(s, count - 1);
      Between b[2];
      for (size_t d = 0; d < 2; ++d) {
        const int64_t at = d ? cell % cells[1] : cell / cells[1];
        const int64_t step =
            d ? own % std::max<int64_t>(grid[1], 1) : own / std::max<int64_t>(grid[1], 1);
        b[d] = between(
            begin[d] + each[d] * (static_cast<double>(at) +
                                  (static_cast<double>(step) + 0.5) / static_cast<double>(grid[d])),
            shape[d + 2]);
      }
      const double share = averages ? (s < count ? 1.0 / static_cast<double>(count) : 0) : 1;
      for (int corner = 0; corner < 4; ++corner) {
        const int64_t y = corner & 2 ? b[0].high : b[0].low, x = corner & 1 ? b[1].high : b[1].low;
        const double wy = corner & 2 ? b[0].high_share : b[0].low_share;
        const double wx = corner & 1 ? b[1].high_share : b[1].low_share;
        out.place.push_back((image * shape[2] + y) * shape[3] + x);
        out.weight.push_back(static_cast<float>(share * wy * wx));
      }
    }
}

Outputs roi_align(Call& c) {
  const Tensor x = c.x(0);
  const std::vector<double> rois = c.reals(1);
  const std::vector<int64_t> images = c.ints(2), shape = x.shape();
  const int64_t cells[2] = {c.i("output_height", 1), c.i("output_width", 1)};
  const int64_t ratio = c.i("sampling_ratio", 0);
  const double scale = c.f("spatial_scale", 1);
  const bool half = c.s("coordinate_transformation_mode",
                        c.opset() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  const std::string mode = c.s("mode", "avg");
  const bool averages = mode == "avg" || mode == "AVG";
  expect(rois.size() == 4 * images.size() && shape.size() == 4, "a region needs 4 numbers");
  int64_t most = ratio * ratio;
  for (size_t i = 0; ratio <= 0 && i < images.size(); ++i) {
    int64_t count = 1;
    for (size_t d = 0; d < 2; ++d) {
      const double extent = (rois[4 * i + 3 - d] - rois[4 * i + 1 - d]) * scale;
      const double grid = (half ? extent : std::max(extent, 1.0)) / static_cast<double>(cells[d]);
      count *= std::max<int64_t>(static_cast<int64_t>(std::ceil(grid)), 1);
    }
    most = std::max(most, count);
  }
  const auto regions = static_cast<int64_t>(images.size());
  if (regions == 0) return {zeros({0, shape[1], cells[0], cells[1]}, c.options(x.dtype()))};
  Samples all;
  for (size_t i = 0; i < images.size(); ++i) {
    expect(images[i] >= 0 && images[i] < shape[0], "batch_indices has ", images[i]);
    add_region(all, &rois[4 * i], images[i], shape, cells, ratio, half ? 0.5 : 0, scale, most,
               averages);
  }
  const Tensor pixels = x.permute({0, 2, 3, 1}).reshape({-1, shape[1]});
  const Tensor weight = c.constant(all.weight, {all.weight.size(), 1}).cast(x.dtype());
  const Tensor read = pixels.index_select(0, c.constant(all.place)) * weight;
  const Tensor cut = read.reshape({regions, cells[0], cells[1], 4 * most, shape[1]});
  return {(averages ? cut.sum({3}) : cut.amax({3})).permute({0, 3, 1, 2})};
}

constexpr OpRow rows[] = {
    {"NonMaxSuppression", 10, non_max_suppression},
    {"RoiAlign",          10, roi_align          },
};

}  // namespace

OpTable detection_ops() { return rows; }

}  // namespace mote::onnx
