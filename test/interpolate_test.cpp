// interpolate against PyTorch (tools/make_interpolate_goldens.py) at sizes and factors where
// formulas of positions differ.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "test/error_of.h"
#include "test_paths.h"

using namespace mote;

namespace {

struct Line {
  std::string mode, kind;
  int align = 0;
  int64_t channels = 0, axes = 0, n = 0;
  double value = 0;
};

// Along the first spatial axis; the others have size 1.
std::vector<double> interpolated(const Line& l) {
  Tensor x = arange(l.n, {DType::f64, "INTERP"});
  std::vector<int64_t> shape{1, 1, l.n}, sizes{static_cast<int64_t>(l.value)};
  std::vector<double> factors{l.value};
  for (int64_t i = 1; i < l.axes; ++i) shape.push_back(1), sizes.push_back(1), factors.push_back(1);
  x = (x * x + x / 2).reshape(shape).repeat_interleave(l.channels, 1);
  InterpolateOptions o{.mode = l.mode.c_str(), .align_corners = l.align != 0};
  if (l.kind == "size")
    o.size = sizes;
  else
    o.scale_factor = factors;
  return x.interpolate(o).select(1, 0).to_vector<double>();
}

}  // namespace

// PyTorch computes the sizes from the factors, and then forgets the factors.
TEST_CASE("interpolate: recompute_scale_factor takes the factors for sizes only") {
  Tensor x = arange(21, {DType::f64}).reshape({1, 1, 3, 7}).sin();
  InterpolateOptions by_size, by_factor;
  by_size.size = {4, 10};
  by_factor.scale_factor = {1.6, 1.5};
  for (const char* mode : {"nearest", "nearest-exact", "bilinear", "bicubic", "area"}) {
    by_size.mode = by_factor.mode = mode;
    by_factor.recompute_scale_factor = false;
    const auto kept = x.interpolate(by_factor).to_vector<double>();
    by_factor.recompute_scale_factor = true;
    const auto computed = x.interpolate(by_factor).to_vector<double>();
    CHECK(computed == x.interpolate(by_size).to_vector<double>());
    CHECK((kept == computed) == (std::string(mode) == "area"));
  }
  by_size.recompute_scale_factor = true;
  const std::string error = error_of([&] { x.interpolate(by_size); });
  CHECK(error.starts_with("[interpolate] recompute_scale_factor has no meaning with an explicit"));
}

TEST_CASE("interpolate gives what PyTorch gives, by size and by any factor") {
  std::ifstream file(MOTE_SOURCE_DIR "/test/goldens/interpolate.txt");
  REQUIRE(file.good());
  int64_t lines = 0;
  for (std::string text; std::getline(file, text);) {
    if (text[0] == '#') continue;
    std::istringstream words(text);
    Line l;
    words >> l.mode >> l.align >> l.channels >> l.axes >> l.n >> l.kind >> l.value;
    std::vector<double> want, got;
    for (double v; words >> v;) want.push_back(v);
    if (want.empty()) continue;  // PyTorch gives no elements where mote gives an error
    try {
      got = interpolated(l);
    } catch (const Error& e) { text += e.what(); }
    bool same = got.size() == want.size();
    for (size_t i = 0; same && i < got.size(); ++i)
      same = std::fabs(got[i] - want[i]) <= 1e-8 * (1 + std::fabs(want[i]));
    ++lines;
    if (!same) FAIL_CHECK(text);
  }
  MESSAGE(lines << " cases");
  CHECK(lines > 1000);
}
