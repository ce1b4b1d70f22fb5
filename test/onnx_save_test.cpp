// Functions of tensors saved as ONNX models: what is in the file, what mote and ONNX Runtime make
// of it.
#include <doctest/doctest.h>
#include <mote/models.h>
#include <mote/mote.h>
#include <mote/onnx.h>

#include "cli/bench_onnx.h"
#include "onnx/compare.h"
#include "onnx/values.h"
#include "test/error_of.h"
#include "test/process.h"

using namespace mote;

namespace {

std::map<std::string, int64_t> operators_of(const std::string& path) {
  std::map<std::string, int64_t> out;
  const onnx::Model model(path);
  for (const onnx::OpCount& op : model.operators()) out[op.name] = op.count;
  return out;
}

PlainTensor plain(const Tensor& t) {
  PlainTensor out{onnx::type_of(t.dtype()), t.shape(), {}};
  out.bytes.resize(static_cast<size_t>(t.nbytes()));
  t.contiguous().copy_out(out.bytes.data(), t.nbytes());
  return out;
}

// What is wrong with the saved model's results, in mote and (where it is there) in ONNX Runtime.
std::string difference_to(const std::string& path, const std::vector<Tensor>& inputs,
                          const Tensor& wanted, const onnx::Tolerance& tolerance = {1e-3, 1e-4}) {
  const onnx::Model model(path);
  const std::vector<onnx::Value> values(inputs.begin(), inputs.end());
  for (int again = 0; again < 3; ++again)
    if (std::string wrong = onnx::difference(model.run(values)[0], wanted, tolerance);
        !wrong.empty())
      return "mote: " + wrong;
  if (!onnx_runtime_missing().empty()) {
    MESSAGE("skipped: " << onnx_runtime_missing());
    return "";
  }
  RuntimeModel theirs(path, 1);
  std::vector<PlainTensor> in;
  for (const Tensor& t : inputs) in.push_back(plain(t));
  theirs.set_inputs(in);
  theirs.run();
  const std::string wrong =
      onnx::difference(onnx_bench::tensor_of(theirs.take()[0]), wanted, tolerance);
  return wrong.empty() ? "" : "ONNX Runtime: " + wrong;
}

}  // namespace

TEST_CASE("onnx: a saved net has an operator for each call") {
  Folder folder;
  const std::string path = folder / "net.onnx";
  manual_seed(3);
  models::MnistNet net;
  const Tensor x = randn({2, 1, 28, 28});
  eval(net);
  onnx::save(path, net, {x});
  const auto ops = operators_of(path);
  CHECK(ops.at("Conv") == 4);
  CHECK(difference_to(path, {x}, net(x)) == "");
}

TEST_CASE("onnx: what is saved gives the same again") {
  Folder folder;
  const std::string path = folder / "f.onnx";
  manual_seed(5);
  const Tensor x = randn({2, 3, 8, 8}), w = randn({4, 3, 3, 3}), turned = randn({3, 2, 3, 3}),
               m = randn({8, 5}), rows = randn({7, 4}), at = tensor<int64_t>({1, 6, 0});
  struct Row {
    const char* name;
    const char* op;
    std::function<Tensor(const Tensor&)> f;
  };
  // clang-format off
  const Row all[] = {
      {"conv", "Conv", [&](const Tensor& t) {
         return t.conv2d(w, {}, {.stride = {2, 1}, .padding = {1, 2}, .dilation = 2});
       }},
      {"conv_transpose", "ConvTranspose", [&](const Tensor& t) {
         return t.conv_transpose2d(turned, {},
                                   {.stride = 2, .padding = 1, .output_padding = 1});
       }},
      {"linear", "MatMul", [&](const Tensor& t) { return t.linear(m.t(), arange(5) * 0.5f); }},
      {"max_pool", "MaxPool", [](const Tensor& t) {
         return t.max_pool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true});
       }},
      {"avg_pool", "AveragePool",
       [](const Tensor& t) { return t.avg_pool2d(2, {.stride = 2, .padding = 1}); }},
      {"layer_norm", "LayerNormalization",
       [](const Tensor& t) { return t.layer_norm({8, 8}, ones({8, 8}) * 2, {}); }},
      {"batch_norm", "BatchNormalization", [](const Tensor& t) {
         return t.batch_norm(ones({3}), ones({3}) * 4, {}, {}, {.training = false});
       }},
      {"softmax", "Softmax", [](const Tensor& t) { return t.softmax(1); }},
      {"log_softmax", "LogSoftmax", [](const Tensor& t) { return t.log_softmax(-1); }},
      {"gelu", "Gelu", [](const Tensor& t) { return t.gelu() + t.gelu("tanh"); }},
      {"gather", "Gather",
       [&](const Tensor& t) { return at.embedding(rows).sum() + t.index_select(3, at); }},
      {"cat", "Concat", [](const Tensor& t) { return cat({t, t.sigmoid().relu()}, 2); }},
      {"movement", "Transpose", [](const Tensor& t) {
         return (t.permute({0, 2, 3, 1}).flip({1}).narrow(1, 2, 5) - 3).flatten(1).pad({1, 2});
       }},
      {"mean", "ReduceMean", [](const Tensor& t) { return t.mean({2, 3}) - t.amax({2, 3}); }},
      {"elementwise", "Where", [](const Tensor& t) {
         return where(t < 0, t.exp() / 3, (t + 1).log().sqrt()).tanh() * t.abs();
       }},
      {"flat", "Reshape", [](const Tensor& t) { return t.flatten() * 2; }},
      {"attention", "MatMul", [](const Tensor& t) {
         return t.scaled_dot_product_attention(t, t, {.is_causal = true});
       }},
  };
  // clang-format on
  for (const Row& row : all) {
    CAPTURE(std::string(row.name));
    onnx::save(path, [&](const Tensor& t) { return row.f(t); }, {x});
    const auto ops = operators_of(path);
    CHECK_MESSAGE(ops.contains(row.op), "no " << row.op);
    CHECK(difference_to(path, {x}, row.f(x)) == "");
  }
  onnx::save(path, [](const Tensor& a, const Tensor& b) { return a.matmul(b) * 2; }, {x, m});
  CHECK(difference_to(path, {x, m}, x.matmul(m) * 2) == "");
}

TEST_CASE("onnx: a saved model holds no node that nobody reads") {
  Folder folder;
  const std::string path = folder / "difference.onnx";
  const Tensor x = randn({3, 4});
  auto f = [](const Tensor& t) { return t - t.amax(1, true); };
  onnx::save(path, f, {x});
  const auto ops = operators_of(path);
  CHECK(ops.at("Sub") == 1);
  CHECK(!ops.contains("Neg"));
  CHECK(!ops.contains("Expand"));
  CHECK(difference_to(path, {x}, f(x)) == "");
}

TEST_CASE("onnx: weights of a saved model may lie in a file of their own") {
  Folder folder;
  const std::string path = folder / "big.onnx";
  const Tensor w = randn({16, 16}), x = randn({2, 16});
  onnx::save(path, [&](const Tensor& t) { return t.matmul(w); }, {x}, {.external_above = 100});
  CHECK(std::filesystem::file_size(path + ".data") == 16 * 16 * 4);
  CHECK(std::filesystem::file_size(path) < 600);
  CHECK(difference_to(path, {x}, x.matmul(w)) == "");
}

TEST_CASE("onnx: what cannot be saved is said") {
  Folder folder;
  const std::string path = folder / "no.onnx";
  const std::string what = error_of([&] {
    onnx::save(path,
               [](const Tensor& t) {
                 return t.unfold(1, 2, 1) + randn({2, 2, 2});
               },
               {ones({2, 3})});
  });
  CAPTURE(what);
  CHECK(what.find("these have no ONNX operator") != what.npos);
  CHECK(what.find("Window of add, called at ") != what.npos);
  CHECK(what.find("random numbers of randn, called at ") != what.npos);
  CHECK(!std::filesystem::exists(path));
}

TEST_SUITE("soak") {
  TEST_CASE("onnx: ResNet and GPT, saved") {
    Folder folder;
    const std::string path = folder / "net.onnx";
    manual_seed(1);
    models::ResNet resnet = models::resnet18();
    eval(resnet);
    const Tensor x = randn({1, 3, 64, 64});
    onnx::save(path, resnet, {x});
    auto ops = operators_of(path);
    CHECK(ops.at("Conv") == 20);
    CHECK(ops.at("BatchNormalization") == 20);
    CHECK(difference_to(path, {x}, resnet(x)) == "");
    models::Gpt gpt({.layers = 2, .heads = 2, .features = 32, .context = 16, .vocabulary = 50});
    eval(gpt);
    const Tensor tokens = randint(0, 50, {1, 12});
    onnx::save(path, gpt, {tokens});
    ops = operators_of(path);
    CHECK(ops.at("LayerNormalization") == 5);
    CHECK(ops.at("Gelu") == 2);
    CHECK(ops.at("MatMul") == 2 * 6 + 1);
    CHECK(ops.at("Gather") == 1);
    CHECK(difference_to(path, {tokens}, gpt(tokens)) == "");
  }
}
