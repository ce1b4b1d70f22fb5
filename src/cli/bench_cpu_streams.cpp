// Rows of `mote bench cpu` that memory decides: elementwise, reductions, norms, transposes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

int64_t side() { return sized(8192); }
int64_t many() { return side() * side(); }  // 64M floats, 256 MB
int64_t height() { return sized(2048); }
int64_t width() { return sized(8192); }
double bytes_of(int64_t floats) { return 4.0 * static_cast<double>(floats); }

// ---- elementwise

Sides multiply_add_sides() {
  Array a = random(many()), b = random(many()), c = random(many()), out(many());
  Captured ours = capture([](const std::vector<Tensor>& in) { return in[0] * in[1] + in[2]; },
                          {a.tensor({many()}), b.tensor({many()}), c.tensor({many()})});
  Sides s{ours};
  s.flops = 2.0 * static_cast<double>(many());
  s.bytes = bytes_of(4 * many());
  s.peers = {[=] {
    in_parts(many(), [&](int64_t at, int64_t n) {
      loops().multiply_add(a.data() + at, b.data() + at, c.data() + at, out.data() + at, n);
    });
  }};
  s.check = [=] { return compare(*ours.result, out.values(), 1e-6); };
  return s;
}

Sides chain_sides() {
  Array a = random(many()), b = random(many()), out(many());
  Captured ours = capture(
      [](const std::vector<Tensor>& in) {
        return ((in[0] * in[1] + in[0]) * 0.5f - in[1]).relu() + in[0];
      },
      {a.tensor({many()}), b.tensor({many()})});
  Sides s{ours};
  s.flops = 6.0 * static_cast<double>(many());
  s.bytes = bytes_of(3 * many());
  s.peers = {[=] {
    in_parts(many(), [&](int64_t at, int64_t n) {
      loops().triad(a.data() + at, b.data() + at, 3, out.data() + at, n);
    });
  }};
  s.check = [=] {  // the triad's result is another: nothing reads it any more
    for (int64_t i = 0; i < many(); ++i) {
      const float x = a.data()[i], y = b.data()[i];
      out.data()[i] = std::max((x * y + x) * 0.5f - y, 0.0f) + x;
    }
    return compare(*ours.result, out.values(), 1e-5);
  };
  return s;
}

// ---- reductions

enum class Over { All, Rows, Columns };  // one result; one per row; one per column
struct Reduction {
  bool max;
  Over over;
};

std::vector<float> reduced(const Array& a, Reduction r) {
  const auto count = static_cast<size_t>(r.over == Over::All ? 1 : side());
  std::vector<double> out(count, r.max ? -INFINITY : 0);
  for (int64_t i = 0; i < side(); ++i)
    for (int64_t j = 0; j < side(); ++j) {
      const int64_t at = r.over == Over::All ? 0 : r.over == Over::Rows ? i : j;
      double& o = out[static_cast<size_t>(at)];
      const double v = a.data()[i * side() + j];
      o = r.max ? std::max(o, v) : o + v;
    }
  return {out.begin(), out.end()};
}

Sides reduction_sides(Reduction r) {
  Array a = random(many(), 0, 1);  // no cancellation, which would only test rounding
  Captured ours = capture(
      [r](const std::vector<Tensor>& in) {
        Axes axes = r.over == Over::All ? Axes() : r.over == Over::Rows ? Axes(1) : Axes(0);
        return r.max ? in[0].amax(axes) : in[0].sum(axes);
      },
      {a.tensor({side(), side()})});
  Sides s{ours};
  s.flops = static_cast<double>(many());
  s.bytes = bytes_of(many());
  s.peers = {[a] {
    in_parts(many(), [&](int64_t at, int64_t n) { kept = loops().sum(a.data() + at, n); });
  }};
  s.check = [=] { return compare(*ours.result, reduced(a, r)); };
  return s;
}

// ---- normalisations

Sides softmax_sides(bool log) {
  Array x = random(height() * width(), -4, 4), out(height() * width());
  Captured ours = capture(
      [log](const std::vector<Tensor>& in) {
        return log ? in[0].log_softmax(-1) : in[0].softmax(-1);
      },
      {x.tensor({height(), width()})});
  Sides s{ours};
  s.bytes = bytes_of(2 * height() * width());
  s.missing = onednn_missing();
  if (s.missing.empty()) s.peers = {onednn_softmax(height(), width(), log, x, out)};
  s.check = [=] { return compare(*ours.result, out.values()); };
  return s;
}

constexpr float kEps = 1e-5f;

Array rms_normed(const Array& x, const Array& weight) {
  Array out(x.size());
  for (int64_t i = 0; i < height(); ++i) {
    const float* row = x.data() + i * width();
    double squares = 0;
    for (int64_t j = 0; j < width(); ++j) squares += static_cast<double>(row[j]) * row[j];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(width()) + kEps);
    for (int64_t j = 0; j < width(); ++j)
      out.data()[i * width() + j] = static_cast<float>(row[j] * scale * weight.data()[j]);
  }
  return out;
}

// oneDNN 2 has no rms norm; its layer norm moves the same bytes.
Sides norm_sides(bool rms) {
  Array x = random(height() * width(), -1, 2), weight = random(width(), 0.5, 2),
        bias = random(width()), out(height() * width());
  Captured ours = capture(
      [rms](const std::vector<Tensor>& in) {
        return rms ? in[0].rms_norm(width(), in[1], kEps)
                   : in[0].layer_norm(width(), in[1], in[2], kEps);
      },
      {x.tensor({height(), width()}), weight.tensor({width()}), bias.tensor({width()})});
  Sides s{ours};
  s.bytes = bytes_of(2 * height() * width());
  s.missing = onednn_missing();
  if (s.missing.empty())
    s.peers = {onednn_layer_norm(height(), width(), kEps, x, weight, bias, out)};
  s.check = [=] {
    return rms ? compare(*ours.result, rms_normed(x, weight).values())
               : compare(*ours.result, out.values());
  };
  return s;
}

// ---- transposed copy

Sides transpose_sides() {
  Array x = random(many()), out(many());
  Captured ours = capture([](const std::vector<Tensor>& in) { return in[0].t().contiguous(); },
                          {x.tensor({side(), side()})});
  Sides s{ours};
  s.bytes = bytes_of(2 * many());
  s.peers = {[=] {
    in_parts(many(), [&](int64_t at, int64_t n) {
      std::memcpy(out.data() + at, x.data() + at, static_cast<size_t>(n) * 4);
    });
  }};
  s.check = [=] {
    for (int64_t i = 0; i < side(); ++i)
      for (int64_t j = 0; j < side(); ++j) out.data()[i * side() + j] = x.data()[j * side() + i];
    return compare(*ours.result, out.values(), 0);
  };
  return s;
}

}  // namespace

void add_stream_rows(std::vector<Row>& rows) {
  const char *triad = "triad loop, regular stores", *read = "read loop, one stream";
  rows.push_back({"muladd-64m", triad, 0.97, multiply_add_sides});
  rows.push_back({"chain-of-6-64m", triad, 0.97, chain_sides});
  const struct {
    const char* name;
    Reduction reduction;
  } reductions[] = {
      {"sum-all-64m",     {false, Over::All}    },
      {"sum-rows-64m",    {false, Over::Rows}   },
      {"sum-columns-64m", {false, Over::Columns}},
      {"max-all-64m",     {true, Over::All}     },
      {"max-rows-64m",    {true, Over::Rows}    },
      {"max-columns-64m", {true, Over::Columns} },
  };
  for (const auto& r : reductions)
    rows.push_back({r.name, read, 0.95, [r] { return reduction_sides(r.reduction); }});
}

void add_norm_rows(std::vector<Row>& rows) {
  rows.push_back({"softmax-2048x8192", "oneDNN", 1.2, [] { return softmax_sides(false); }});
  rows.push_back({"log-softmax-2048x8192", "oneDNN", 1.2, [] { return softmax_sides(true); }});
  rows.push_back({"layer-norm-2048x8192", "oneDNN", 1, [] { return norm_sides(false); }});
  rows.push_back({"rms-norm-2048x8192", "oneDNN layer norm", 1, [] { return norm_sides(true); }});
}

void add_copy_rows(std::vector<Row>& rows) {
  rows.push_back({"transpose-8192", "memcpy", 0.6, transpose_sides});
}

}  // namespace mote::bench
