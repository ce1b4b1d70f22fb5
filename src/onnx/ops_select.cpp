// Outputs whose sizes depend on data: these realize what they need.
#include <algorithm>
#include <map>

#include "onnx/ops.h"

namespace mote::onnx {

namespace {

Outputs non_zero(Call& c) {
  const Tensor x = c.x(0);
  c.ints(x.numel() ? x.ne(0).sum() : zeros({}, c.options(DType::i64)));  // says that it counts
  return {(x.dim() ? x : x.reshape({1})).nonzero().t()};
}

Outputs compress(Call& c) {
  Tensor x = c.x(0);
  const bool flat = !c.has("axis");
  if (flat) x = x.reshape({-1});
  const int64_t axis = flat ? 0 : axis_of(c.i("axis", 0), x.dim());
  std::vector<int64_t> kept;
  const std::vector<int64_t> condition = c.ints(1);
  for (size_t i = 0; i < condition.size(); ++i)
    if (condition[i]) kept.push_back(static_cast<int64_t>(i));
  if (kept.empty()) return {x.narrow(axis, 0, 0)};
  return {x.index_select(axis, c.constant(kept))};
}

// Which rows are equal, in the order in which they first appear or sorted.
struct Groups {
  std::vector<int64_t> first, inverse, counts;
};

Groups group(const std::vector<std::vector<double>>& rows, bool sorted) {
  std::map<std::vector<double>, size_t> seen;
  Groups g;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [it, is_new] = seen.emplace(rows[i], g.first.size());
    if (is_new) g.first.push_back(static_cast<int64_t>(i)), g.counts.push_back(0);
    g.inverse.push_back(static_cast<int64_t>(it->second));
    ++g.counts[it->second];
  }
  if (!sorted) return g;
  Groups s{.inverse = g.inverse};
  std::vector<int64_t> place(g.first.size());
  for (const auto& [row, at] : seen) {
    place[at] = static_cast<int64_t>(s.first.size());
    s.first.push_back(g.first[at]), s.counts.push_back(g.counts[at]);
  }
  for (int64_t& i : s.inverse) i = place[static_cast<size_t>(i)];
  return s;
}

Outputs unique(Call& c) {
  Tensor x = c.x(0);
  const bool flat = !c.has("axis");
  if (flat) x = x.reshape({-1});
  const int64_t axis = flat ? 0 : axis_of(c.i("axis", 0), x.dim());
  const int64_t count = x.size(axis);
  const std::vector<double> all = c.reals(x.movedim({axis}, {0}).contiguous());
  const size_t each = count ? all.size() / static_cast<size_t>(count) : 0;
  std::vector<std::vector<double>> rows;
  for (int64_t i = 0; i < count; ++i) {
    const auto from = all.begin() + static_cast<int64_t>(each) * i;
    rows.emplace_back(from, from + static_cast<int64_t>(each));
  }
  const Groups g = group(rows, c.i("sorted", 1) != 0);
  return {x.index_select(axis, c.constant(g.first)), c.constant(g.first), c.constant(g.inverse),
          c.constant(g.counts)};
}

constexpr OpRow rows[] = {
    {"NonZero",  9,  non_zero},
    {"Compress", 9,  compress},
    {"Unique",   11, unique  },
};

}  // namespace

OpTable select_ops() { return rows; }

}  // namespace mote::onnx
