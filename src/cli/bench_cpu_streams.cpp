// Rows of `mote bench cpu` that memory decides: elementwise, reductions, norms, transposes.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

constexpr int64_t kSide = 8192, kMany = kSide * kSide;  // 64M floats, 256 MB
constexpr int64_t kRows = 2048, kColumns = 8192;
double bytes_of(int64_t floats) { return 4.0 * static_cast<double>(floats); }

// ---- elementwise

Sides multiply_add_sides() {
  Array a = random(kMany), b = random(kMany), c = random(kMany), out(kMany);
  Captured ours = capture([](const std::vector<Tensor>& in) { return in[0] * in[1] + in[2]; },
                          {a.tensor({kMany}), b.tensor({kMany}), c.tensor({kMany})});
  Sides s{ours.run};
  s.flops = 2.0 * kMany;
  s.bytes = bytes_of(4 * kMany);
  s.peers = {[=] {
    in_parts(kMany, [&](int64_t at, int64_t n) {
      loops().multiply_add(a.data() + at, b.data() + at, c.data() + at, out.data() + at, n);
    });
  }};
  s.check = [=] { return compare(*ours.result, out.values(), 1e-6); };
  return s;
}

Sides chain_sides() {
  Array a = random(kMany), b = random(kMany), out(kMany);
  Captured ours = capture(
      [](const std::vector<Tensor>& in) {
        return ((in[0] * in[1] + in[0]) * 0.5f - in[1]).relu() + in[0];
      },
      {a.tensor({kMany}), b.tensor({kMany})});
  Sides s{ours.run};
  s.flops = 6.0 * kMany;
  s.bytes = bytes_of(3 * kMany);
  s.peers = {[=] {
    in_parts(kMany, [&](int64_t at, int64_t n) {
      loops().triad(a.data() + at, b.data() + at, 3, out.data() + at, n);
    });
  }};
  s.check = [=] {  // the triad's result is another: nothing reads it any more
    for (int64_t i = 0; i < kMany; ++i) {
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
  std::vector<double> out(r.over == Over::All ? 1 : kSide, r.max ? -INFINITY : 0);
  for (int64_t i = 0; i < kSide; ++i)
    for (int64_t j = 0; j < kSide; ++j) {
      const int64_t at = r.over == Over::All ? 0 : r.over == Over::Rows ? i : j;
      double& o = out[static_cast<size_t>(at)];
      const double v = a.data()[i * kSide + j];
      o = r.max ? std::max(o, v) : o + v;
    }
  return {out.begin(), out.end()};
}

Sides reduction_sides(Reduction r) {
  Array a = random(kMany, 0, 1);  // no cancellation, which would only test rounding
  Captured ours = capture(
      [r](const std::vector<Tensor>& in) {
        Axes axes = r.over == Over::All ? Axes() : r.over == Over::Rows ? Axes(1) : Axes(0);
        return r.max ? in[0].amax(axes) : in[0].sum(axes);
      },
      {a.tensor({kSide, kSide})});
  Sides s{ours.run};
  s.flops = kMany;
  s.bytes = bytes_of(kMany);
  s.peers = {[a] {
    in_parts(kMany, [&](int64_t at, int64_t n) { kept = loops().sum(a.data() + at, n); });
  }};
  s.check = [=] { return compare(*ours.result, reduced(a, r)); };
  return s;
}

// ---- normalisations

Sides softmax_sides(bool log) {
  Array x = random(kRows * kColumns, -4, 4), out(kRows * kColumns);
  Captured ours = capture(
      [log](const std::vector<Tensor>& in) {
        return log ? in[0].log_softmax(-1) : in[0].softmax(-1);
      },
      {x.tensor({kRows, kColumns})});
  Sides s{ours.run};
  s.bytes = bytes_of(2 * kRows * kColumns);
  s.missing = onednn_missing();
  if (s.missing.empty()) s.peers = {onednn_softmax(kRows, kColumns, log, x, out)};
  s.check = [=] { return compare(*ours.result, out.values()); };
  return s;
}

constexpr float kEps = 1e-5f;

Array rms_normed(const Array& x, const Array& weight) {
  Array out(x.size());
  for (int64_t i = 0; i < kRows; ++i) {
    const float* row = x.data() + i * kColumns;
    double squares = 0;
    for (int64_t j = 0; j < kColumns; ++j) squares += static_cast<double>(row[j]) * row[j];
    const double scale = 1 / std::sqrt(squares / kColumns + kEps);
    for (int64_t j = 0; j < kColumns; ++j)
      out.data()[i * kColumns + j] = static_cast<float>(row[j] * scale * weight.data()[j]);
  }
  return out;
}

// oneDNN 2 has no rms norm; its layer norm moves the same bytes.
Sides norm_sides(bool rms) {
  Array x = random(kRows * kColumns, -1, 2), weight = random(kColumns, 0.5, 2),
        bias = random(kColumns), out(kRows * kColumns);
  Captured ours = capture(
      [rms](const std::vector<Tensor>& in) {
        return rms ? in[0].rms_norm(kColumns, in[1], kEps)
                   : in[0].layer_norm(kColumns, in[1], in[2], kEps);
      },
      {x.tensor({kRows, kColumns}), weight.tensor({kColumns}), bias.tensor({kColumns})});
  Sides s{ours.run};
  s.bytes = bytes_of(2 * kRows * kColumns);
  s.missing = onednn_missing();
  if (s.missing.empty()) s.peers = {onednn_layer_norm(kRows, kColumns, kEps, x, weight, bias, out)};
  s.check = [=] {
    return rms ? compare(*ours.result, rms_normed(x, weight).values())
               : compare(*ours.result, out.values());
  };
  return s;
}

// ---- transposed copy

Sides transpose_sides() {
  Array x = random(kMany), out(kMany);
  Captured ours = capture([](const std::vector<Tensor>& in) { return in[0].t().contiguous(); },
                          {x.tensor({kSide, kSide})});
  Sides s{ours.run};
  s.bytes = bytes_of(2 * kMany);
  s.peers = {[=] {
    in_parts(kMany, [&](int64_t at, int64_t n) {
      std::memcpy(out.data() + at, x.data() + at, static_cast<size_t>(n) * 4);
    });
  }};
  s.check = [=] {
    for (int64_t i = 0; i < kSide; ++i)
      for (int64_t j = 0; j < kSide; ++j) out.data()[i * kSide + j] = x.data()[j * kSide + i];
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
