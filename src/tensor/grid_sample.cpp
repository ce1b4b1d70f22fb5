// Reading pictures at any place, and the places that an affine map gives.
#include <cmath>

#include "tensor/gather.h"
#include "tensor/impl.h"
#include "tensor/operators.h"

namespace mote {

namespace {

enum class Edge { Zeros, Border, Reflection };

struct Sampler {
  Tensor x;  // (N, C, elements)
  std::vector<int64_t> plane;
  Edge edge;
  bool align_corners;

  // Folded at the outermost elements' centres, or at their outer edges.
  Tensor reflected(const Tensor& at, int64_t size) const {
    const double low = align_corners ? 0 : -0.5, span = static_cast<double>(size - align_corners);
    if (span == 0) return at * 0;
    Tensor far = (at - low).abs(), turns = (far / span).detach().floor(), rest = far - turns * span;
    return where(turns.fmod(2).eq(0), rest, span - rest) + low;
  }
  Tensor kept(const Tensor& at, int64_t size) const {
    if (edge == Edge::Zeros) return at;
    Tensor folded = edge == Edge::Reflection ? reflected(at, size) : at;
    return folded.hardtanh(0, static_cast<double>(size - 1));  // slope 0 at the ends
  }
  // From -1 ... 1 to elements.
  Tensor elements(const Tensor& at, int64_t size) const {
    const auto n = static_cast<double>(size);
    return align_corners ? (at + 1) * ((n - 1) / 2) : ((at + 1) * n - 1) * 0.5;
  }
  // The elements at whole places, 0 outside of the picture: (N, C, places).
  Tensor read(const std::vector<Tensor>& places) const {
    Tensor flat, inside;
    for (size_t d = 0; d < plane.size(); ++d) {
      const auto last = static_cast<double>(plane[d] - 1);
      const Tensor& at = places[d];
      Tensor here = (at >= 0) & (at <= last), index = where(here, at, 0).detach().to_long();
      inside = d ? inside & here : here;
      flat = d ? flat * plane[d] + index : index;
    }
    std::vector<Dim> dims = {dims_of(x)[0], dims_of(x)[1], dims_of(flat)[1]};
    Tensor values = gather_at(x, 2, broadcast_tensor(flat.unsqueeze(1), dims));
    return where(inside.unsqueeze(1), values, 0);
  }
};

// The sum over the neighbours on all axes of weight * element.
struct Neighbour {
  Tensor place, weight;
};
Tensor weighted(const Sampler& s, const std::vector<std::vector<Neighbour>>& axes) {
  size_t combinations = 1;
  for (const auto& axis : axes) combinations *= axis.size();
  Tensor sum;
  for (size_t n = 0; n < combinations; ++n) {
    std::vector<Tensor> places;
    Tensor weight;
    size_t rest = n;
    for (const auto& axis : axes) {
      const Neighbour& own = axis[rest % axis.size()];
      rest /= axis.size();
      places.push_back(own.place);
      weight = weight.defined() ? weight * own.weight : own.weight;
    }
    Tensor part = s.read(places) * weight.unsqueeze(1);
    sum = sum.defined() ? sum + part : part;
  }
  return sum;
}

std::vector<Neighbour> linear(const Tensor& at) {
  Tensor low = at.detach().floor(), part = at - low;
  return {
      {low,     1 - part},
      {low + 1, part    }
  };
}

// Keys' kernel with a = -0.75.
std::vector<Neighbour> cubic(const Sampler& s, const Tensor& at, int64_t size) {
  constexpr double k = -0.75;
  Tensor low = at.detach().floor(), t = at - low;
  auto inner = [&](const Tensor& d) { return ((k + 2) * d - (k + 3)) * d * d + 1; };
  auto outer = [&](const Tensor& d) { return ((k * d - 5 * k) * d + 8 * k) * d - 4 * k; };
  Tensor weights[] = {outer(t + 1), inner(t), inner(1 - t), outer(2 - t)};
  std::vector<Neighbour> out;
  for (int i = 0; i < 4; ++i) out.push_back({s.kept(low + (i - 1), size).detach(), weights[i]});
  return out;
}

Edge edge_of(const char* padding_mode) {
  const std::string mode = word(padding_mode, "padding_mode");
  expect(mode == "zeros" || mode == "border" || mode == "reflection",
         "padding_mode is zeros, border or reflection, got ", mode);
  return mode == "zeros" ? Edge::Zeros : mode == "border" ? Edge::Border : Edge::Reflection;
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const char* mode, const char* padding_mode,
                   bool align_corners, Loc where) {
  Call call("grid_sample", where);
  expect_defined(x);
  expect_defined(grid, "the grid");
  const int64_t spatial = x.dim() - 2;
  expect((spatial == 2 || spatial == 3) && grid.dim() == x.dim() && grid.size(-1) == spatial &&
             grid.size(0) == x.size(0),
         "needs an input (N, C, H, W) and a grid (N, h, w, 2), or (N, C, D, H, W) and "
         "(N, d, h, w, 3), got shapes ",
         x, " and ", grid);
  expect(x.is_floating_point() && grid.dtype() == x.dtype(), "needs floats of one dtype, got ",
         x.dtype(), " and ", grid.dtype());
  const std::string how = word(mode, "the mode");
  const bool is_cubic = how == "bicubic" && spatial == 2;
  expect(how == "bilinear" || how == "nearest" || is_cubic, "mode ", how, " does not fit ", spatial,
         " spatial axes; there are bilinear, nearest", spatial == 2 ? " and bicubic" : "");
  std::vector<int64_t> plane = x.shape(), out = grid.shape();
  plane.erase(plane.begin(), plane.begin() + 2);
  out.pop_back();
  out.insert(out.begin() + 1, x.size(1));
  const DType wide = accumulator(x.dtype());
  const Sampler s{x.to(wide).flatten(2), plane, edge_of(padding_mode), align_corners};
  std::vector<std::vector<Neighbour>> axes;
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t size = plane[static_cast<size_t>(d)];
    // The grid names the last axis first.
    Tensor at = s.elements(grid.select(-1, spatial - 1 - d).flatten(1).to(wide), size);
    if (is_cubic) {
      axes.push_back(cubic(s, at, size));
    } else if (at = s.kept(at, size); how == "nearest") {
      Tensor near = at.round().detach();
      axes.push_back({
          {near, near.ones_like()}
      });
    } else {
      axes.push_back(linear(at));
    }
  }
  return weighted(s, axes).reshape(out).to(x.dtype());
}

Tensor affine_grid(const Tensor& theta, const Ints& size, bool align_corners, Loc where) {
  Call call("affine_grid", where);
  expect_defined(theta, "theta");
  const auto spatial = static_cast<int64_t>(size.list.size()) - 2;
  expect(spatial == 2 || spatial == 3, "needs a size (N, C, H, W) or (N, C, D, H, W), got ",
         size.list);
  expect(theta.dim() == 3 && theta.size(0) == size.list[0] && theta.size(1) == spatial &&
             theta.size(2) == spatial + 1 && theta.is_floating_point(),
         "needs floats (", size.list[0], ", ", spatial, ", ", spatial + 1, "), got ", theta.dtype(),
         " of shape ", theta);
  std::vector<int64_t> plane(size.list.begin() + 2, size.list.end());
  std::vector<Tensor> places;
  for (int64_t d = spatial; d-- > 0;) {  // the last axis first
    const int64_t n = plane[static_cast<size_t>(d)];
    expect(n > 0, "needs sizes > 0, got ", size.list);
    const double edge = align_corners ? 1 : 1 - 1 / static_cast<double>(n);
    Tensor along = n > 1 ? linspace(-edge, edge, n, {theta.dtype(), theta.device()})
                         : zeros({1}, {theta.dtype(), theta.device()});
    std::vector<int64_t> shape(plane.size(), 1);
    shape[static_cast<size_t>(d)] = n;
    places.push_back(along.reshape(shape).expand(plane).flatten());
  }
  places.push_back(places[0].ones_like());
  std::vector<int64_t> out = {size.list[0]};
  out.insert(out.end(), plane.begin(), plane.end());
  out.push_back(spatial);
  return stack(places, 1).matmul(theta.mT()).reshape(out);
}

}  // namespace mote
