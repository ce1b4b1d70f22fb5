// Rows of `mote bench cpu`: convolutions, channels before positions (NCHW) at both ends.
#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

ConvOptions options_of(const ConvShape& s) {
  return {.stride = s.stride, .padding = s.padding, .groups = s.groups};
}

// Convolving is linear in each operand: what the one has whose gradient is asked does not matter.
Tensor conv_result(const std::vector<Tensor>& in, const ConvShape& s, ConvPass pass) {
  if (pass == ConvPass::Forward) return in[0].conv2d(in[1], {}, options_of(s));
  const bool of_input = pass == ConvPass::GradInput;
  Tensor operand = of_input ? zeros({s.batch, s.in, s.size, s.size})
                            : zeros({s.out, s.in / s.groups, s.kernel, s.kernel});
  operand.requires_grad_();
  Tensor y = of_input ? operand.conv2d(in[1], {}, options_of(s))
                      : in[0].conv2d(operand, {}, options_of(s));
  return y.gradient({operand}, of_input ? in[0] : in[1])[0];
}

Sides conv_sides(ConvShape s, ConvPass pass) {
  for (int64_t* n : {&s.batch, &s.in, &s.out, &s.size, &s.groups}) *n = sized(*n);
  const Sizes input = {s.batch, s.in, s.size, s.size};
  const Sizes weight = {s.out, s.in / s.groups, s.kernel, s.kernel};
  const Sizes output = {s.batch, s.out, s.out_size(), s.out_size()};
  const bool gives_weight = pass == ConvPass::GradWeight;
  Array a = random(pass == ConvPass::GradInput ? s.output_count() : s.input_count());
  Array b = random(gives_weight ? s.output_count() : s.weight_count());
  Array out(pass == ConvPass::Forward     ? s.output_count()
            : pass == ConvPass::GradInput ? s.input_count()
                                          : s.weight_count());
  Captured ours =
      capture([s, pass](const std::vector<Tensor>& in) { return conv_result(in, s, pass); },
              {a.tensor(pass == ConvPass::GradInput ? output : input),
               b.tensor(gives_weight ? output : weight)});
  Sides sides{ours};
  sides.flops =
      2.0 * static_cast<double>(s.output_count() * (s.in / s.groups) * s.kernel * s.kernel);
  sides.bytes = 4.0 * static_cast<double>(a.size() + b.size() + out.size());
  sides.missing = onednn_missing();
  if (sides.missing.empty()) sides.peers = {onednn_conv(s, pass, a, b, out)};
  sides.check = [=] { return compare(*ours.result, out.values(), gives_weight ? 1e-3 : 1e-4); };
  return sides;
}

}  // namespace

void add_conv_rows(std::vector<Row>& rows) {
  const char* peer = "oneDNN and its reorders";
  const struct {
    const char* name;
    double bar;
    ConvShape shape;
  } forward[] = {
      {"conv-3x3-64-64-56",          0.8, {8, 64, 64, 56, 3, 1, 1}    },
      {"conv-1x1-256-64-56",         1.3, {8, 256, 64, 56, 1}         },
      {"conv-depthwise-3x3-64-56",   1.5, {8, 64, 64, 56, 3, 1, 1, 64}},
      {"conv-7x7-stride-2-3-64-224", 0.8, {8, 3, 64, 224, 7, 2, 3}    },
  };
  for (const auto& c : forward)
    rows.push_back({c.name, peer, c.bar, [c] { return conv_sides(c.shape, ConvPass::Forward); }});
  const ConvShape layers[] = {
      {512, 1,  32, 28, 5},
      {512, 32, 32, 24, 5},
      {512, 32, 64, 10, 3},
      {512, 64, 64, 8,  3}
  };
  const struct {
    const char* name;
    ConvPass pass;
  } passes[] = {
      {"forward",     ConvPass::Forward   },
      {"grad-input",  ConvPass::GradInput },
      {"grad-weight", ConvPass::GradWeight}
  };
  for (size_t i = 0; i < std::size(layers); ++i)
    for (const auto& p : passes)
      rows.push_back({"mnist-conv" + std::to_string(i + 1) + "-" + p.name, peer, 0.9,
                      [shape = layers[i], p] { return conv_sides(shape, p.pass); }});
}

}  // namespace mote::bench
