// Rows of `mote bench cpu`: a batch or length that is a variable, beside one that is a number.
#include <mote/jit.h>
#include <mote/nn.h>

#include "cli/bench_cpu.h"
#include "runtime/device.h"

namespace mote::bench {

namespace {

// A function of inputs of which one axis has a variable size.
struct Varying {
  const char* name;
  int64_t most;
  std::vector<std::vector<int64_t>> inputs;  // sizes, kVariable: the variable's
  std::function<Tensor(const std::vector<Tensor>&)> f;
};
constexpr int64_t kVariable = -1;

// The first n along the axes of variable size.
std::vector<Tensor> cut(const Varying& v, const std::vector<Tensor>& whole, const Size& n) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::vector<Size> begin(v.inputs[i].size(), Size(0)), end;
    for (int64_t size : v.inputs[i]) end.push_back(size == kVariable ? n : Size(size));
    out.push_back(whole[i].shrink(Sizes(begin), Sizes(end)));
  }
  return out;
}

// Both sides read the same memory.
Sides beside_number(const Varying& v, int64_t n) {
  std::vector<Tensor> whole;
  for (std::vector<int64_t> sizes : v.inputs) {
    int64_t count = 1;
    for (int64_t& size : sizes) count *= size = size == kVariable ? v.most : size;
    whole.push_back(random(count).tensor(sizes));
  }
  auto ours = [v](const std::vector<Tensor>& in, const Sym& size) { return v.f(cut(v, in, size)); };
  auto compiled = std::make_shared<Jit<decltype(ours)>>(jit(ours));
  auto result = std::make_shared<Tensor>();
  const Sym size = Variable("n", 1, v.most).bind(n);
  const Captured number =
      capture([v, n](const std::vector<Tensor>& in) { return v.f(cut(v, in, n)); }, whole);
  Sides s;
  s.ours.on = [=](const std::string& name) {
    std::vector<Tensor> there;
    for (const Tensor& t : whole) there.push_back(t.to(name));
    return v.f(cut(v, there, size)).realize();
  };
  s.ours.run = [=] {
    *result = Tensor();  // so that a replay writes where the one before it did
    *result = (*compiled)(whole, size);
    device("CPU").synchronize();
  };
  s.peers = {number.run};
  s.check = [=] { return compare(*result, number.result->to_vector<float>()); };
  return s;
}

Tensor lstm_step(const std::vector<Tensor>& in) {
  nn::LSTMCell cell;
  cell.weight_ih = in[3], cell.weight_hh = in[4];
  const nn::LSTMCell::State next = cell(in[0], {in[1], in[2]});
  return cat({next.h, next.c}, -1);
}

std::vector<Varying> functions() {
  const int64_t wide = sized(1024), batch = sized(64), n = kVariable, features = sized(512);
  const std::vector<int64_t> rows = {n, features}, weight = {4 * features, features};
  const std::vector<int64_t> heads = {12, n, 64};
  return {
      {"gemm",      wide,        {{n, wide}, {wide, wide}},          [](auto& in) { return in[0].matmul(in[1]); }},
      {"attention",
       wide,                     {heads, heads, heads},
       [](auto& in) { return in[0].scaled_dot_product_attention(in[1], in[2]); }                                 },
      {"softmax",   sized(4096), {{sized(256), n}},                  [](auto& in) { return in[0].softmax(-1); }  },
      {"lstm",      batch,       {rows, rows, rows, weight, weight}, lstm_step                                   },
  };
}

}  // namespace

void add_variable_rows(std::vector<Row>& rows) {
  for (const Varying& v : functions())
    for (int64_t part : {int64_t{1}, int64_t{4}, int64_t{64}, v.most}) {
      const int64_t n = std::max<int64_t>(1, v.most / part);
      if (part == v.most && v.most <= 64) continue;
      rows.push_back({"variable-" + std::string(v.name) + "-" + std::to_string(n) + "-of-" +
                          std::to_string(v.most),
                      "the size as a number", part == 1 ? 0.93 : 0.8,
                      [=] { return beside_number(v, n); }});
    }
}

}  // namespace mote::bench
