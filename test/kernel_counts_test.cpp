// How many kernels programs become, and how much work the estimator sees in them.
#include <doctest/doctest.h>

#include <algorithm>

#include "engine/realize.h"

#include <mote/mote.h>

#include "test/odd_devices.h"

using namespace mote;

namespace {

const Options on_null{.device = "NULL"};

struct Bounds {
  size_t kernels;
  double ops, bytes;  // at most
};

void check_counts(const char* what, std::vector<Tensor> outputs, Bounds most) {
  ScheduleReport r = explain(outputs);
  CAPTURE(std::string(what));
  std::string names;
  for (const KernelReport& k : r.kernels) names += k.name + " ";
  CAPTURE(names);
  CHECK(r.kernels.size() <= most.kernels);
  CHECK(r.total.ops <= most.ops);
  CHECK(r.total.bytes <= most.bytes);
}

// In memory, so that nothing is folded away.
Tensor input(const Sizes& shape) { return empty(shape, on_null).realize(); }

}  // namespace

TEST_SUITE("kernel counts") {
  TEST_CASE("elementwise chains and siblings are one kernel") {
    Tensor a = input({512, 512}), b = input({512, 512}), c = input({512}), d = input({512, 512});
    const double n = 512 * 512;
    check_counts("chain", {((a + b) * 2 - b).relu() * a}, {1, 9 * n, 4 * 3 * n * 1.01});
    check_counts("siblings", {a + b + c, a + b + d}, {1, 4 * n, 4 * 6 * n});
    // What is the same for a whole row is no operand that such a sum uses again.
    Tensor far = a - c.unsqueeze(1);
    check_counts("sums of rows", {a.sum(1), (far * b).sum(1)}, {1, 5 * n, 4 * 2.1 * n});
  }

  TEST_CASE("an expression that is used again at the same place counts once") {
    Tensor a = input({512, 512}), x = a;
    for (int i = 0; i < 14; ++i) x = x * x + x;  // 2^14 uses of `a` if each path counted
    const double n = 512 * 512;
    check_counts("squares", {x}, {1, 28 * n, 4 * 2.1 * n});
    Tensor wide = empty({512, 512}, {.dtype = DType::f64, .device = "NULL"}).realize();
    check_counts("acosh", {wide.acosh()}, {1, 1000 * n, 8 * 2.1 * n});
  }

  TEST_CASE("nearest by a whole factor reads no index") {
    Tensor x = input({4, 8, 32, 32});
    InterpolateOptions options;
    options.size = {96, 64};
    options.mode = "nearest";
    const double n = 4 * 8 * 96 * 64;
    check_counts("x3, x2", {x.interpolate(options)}, {1, n, 4 * 1.2 * n});
  }

  TEST_CASE("epilogues join the reduce before them") {
    Tensor x = input({256, 512}), w = input({512, 384}), b = input({384});
    check_counts("matmul+bias+relu", {(matmul(x, w) + b).relu()},
                 {1, 2.05 * 256 * 512 * 384, 4.1 * (256 * 512 + 512 * 384 + 256 * 384)});
    Tensor i = input({8, 16, 20, 20}), k = input({32, 16, 3, 3}), kb = input({32});
    const double macs = 8.0 * 32 * 18 * 18 * 16 * 9;
    check_counts("conv+bias+relu", {conv2d(i, k, kb).relu()}, {1, 2.05 * macs, 4.0 * 200000});
  }

  TEST_CASE("a sum of products has loops of its own") {
    Tensor x = input({256, 512}), w = input({512, 64}), m = input({256, 64, 4});
    const double macs = 256.0 * 512 * 64, n = 256 * 64;
    // As in the gradient of a pool: the sums are spread out, and divided by a count.
    ScheduleReport spread = explain(std::vector{matmul(x, w).unsqueeze(-1) * m});
    REQUIRE(spread.kernels.size() == 2);
    CHECK(spread.kernels[1].estimate.ops <= 4 * n);
    ScheduleReport divided = explain(std::vector{matmul(x, w) / m.sum(-1)});
    REQUIRE(divided.kernels.size() == 2);
    CHECK(std::min(divided.kernels[0].estimate.ops, divided.kernels[1].estimate.ops) <= 5 * n);
    CHECK(divided.total.ops <= 2.1 * macs);
  }

  TEST_CASE("pools of windows that touch, and their gradients, ask for each element once") {
    Tensor x = input({32, 16, 20, 20}).requires_grad_();
    const double n = 32 * 16 * 400;
    Tensor y = x.max_pool2d(2);
    ScheduleReport forward = explain(std::vector{y});
    ScheduleReport back = explain(y.gradient({x}, input({32, 16, 10, 10})));
    for (const ScheduleReport& report : {forward, back})
      for (const KernelReport& k : report.kernels)
        CHECK_MESSAGE(k.name.find("_v") != std::string::npos, k.name, " has no vectors");
    CHECK(back.total.ops <= 6 * n);
    CHECK(back.total.bytes <= 5 * 4 * n);
  }

  TEST_CASE("sums that are summed up further and used otherwise, too, are not made again") {
    add_odd_devices();
    auto narrow = [](const Sizes& shape) { return empty(shape, {.device = "NARROW"}).realize(); };
    std::vector<Tensor> parameters, outputs;
    auto parameter = [&](const Sizes& shape) {
      parameters.push_back(narrow(shape).requires_grad_());
      return parameters.back();
    };
    auto normed = [&](const Tensor& y) {
      const Sizes channels{y.size(1)};
      const Tensor mean = narrow(channels), var = narrow(channels), weight = parameter(channels);
      const Tensor out = y.batch_norm(mean, var, weight, parameter(channels), {.training = true});
      outputs.insert(outputs.end(), {mean, var});
      return out;
    };
    constexpr int kBlocks = 2;
    constexpr double kPositions = 8 * 28 * 28, kNarrow = 16, kWide = 96;
    Tensor x = narrow({8, 16, 28, 28});
    for (int i = 0; i < kBlocks; ++i) {
      Tensor y = normed(x.conv2d(parameter({96, 16, 1, 1}))).relu6();
      y = normed(y.conv2d(parameter({96, 1, 3, 3}), {}, {.padding = 1, .groups = 96})).relu6();
      x = x + normed(y.conv2d(parameter({16, 96, 1, 1})));
    }
    const std::vector<Tensor> gradients = x.gradient(parameters, narrow({8, 16, 28, 28}));
    outputs.insert(outputs.end(), gradients.begin(), gradients.end());
    // Each has two gradients. Few arguments leave little room to store what is in between.
    const double products = kBlocks * kPositions * kWide * (2 * kNarrow + 9);
    CHECK(explain(outputs).total.ops <= 14.5 * products);
  }

  TEST_CASE("folds share a kernel only where they lose no tile") {
    auto folds = [](const std::vector<Tensor>& outputs) {
      const std::vector<KernelReport> all = explain(outputs).kernels;
      return std::ranges::count_if(all, [](const KernelReport& k) { return k.name[0] == 'r'; });
    };
    Tensor x = input({256, 512}), y = input({256, 512}), k = input({512, 128}), v = input({512, 128});
    CHECK(folds({matmul(x, k), matmul(x, v)}) == 2);
    CHECK(folds({matmul(x, k).silu() * matmul(x, v)}) == 2);
    CHECK(folds({matmul(x, k).tanh() * matmul(y, v)}) == 2);
    // The last one is made where it is used.
    CHECK(explain(std::vector{matmul(x, k).silu() * matmul(x, v)}).kernels.size() == 2);
    // Less is lost than a launch costs.
    Tensor a = input({8, 8}), b = input({8, 8}), c = input({8, 8});
    CHECK(folds({matmul(a, b), matmul(a, c)}) == 1);
    CHECK(folds({matmul(a, b).silu() * matmul(a, c)}) == 1);
    // Rows are read as memory lies, columns only from near caches in one pass.
    Tensor rows = input({4096, 1024}), few = input({64, 1024});
    CHECK(folds({rows.sum(1), rows.square().sum(1)}) == 1);
    CHECK(folds({few.sum(0), few.square().sum(0)}) == 1);
    CHECK(folds({rows.amax(0), rows.square().amax(0)}) >= 2);
    CHECK(folds({(rows - rows.mean(0)).square().sum(0)}) >= 2);
    // Both products are right, with loops of their own in one kernel.
    Tensor m = arange(0, 12).to(float32).reshape({3, 4}).contiguous();
    Tensor left = matmul(m, m.t()), right = matmul(m, (m * 2).contiguous().t());
    realize({left, right});
    CHECK((left * 2).to_vector<float>() == right.to_vector<float>());
  }

  TEST_CASE("a weight that is used several times gets its gradient product by product") {
    Tensor w = input({128, 256}).requires_grad_(), sum;
    constexpr int kTimes = 40;
    for (int i = 0; i < kTimes; ++i) {
      Tensor y = matmul(input({32, 128}), w).tanh();
      sum = sum.defined() ? sum + y : y;
    }
    const double macs = 32.0 * 128 * 256;
    ScheduleReport r = explain(sum.gradient({w}, input({32, 256})));
    int products = 0;
    for (const KernelReport& k : r.kernels) {
      CHECK(k.estimate.ops < 3.1 * macs);
      products += k.estimate.ops > 1.9 * macs;
    }
    CHECK(products == 2 * kTimes);
    CHECK(r.total.ops <= 2 * kTimes * 2.2 * macs);
  }

  TEST_CASE("softmax and norms") {
    Tensor x = input({256, 1024}), w = input({1024}), m = input({512, 256});
    const double n = 256 * 1024;
    // One exponential for each element: it is kept while its row is worked on.
    check_counts("softmax", {x.softmax(-1)}, {1, 5.1 * n, 4 * 3.1 * n});
    check_counts("log_softmax", {x.log_softmax(-1)}, {1, 6.1 * n, 4 * 4.1 * n});
    check_counts("layer_norm", {x.layer_norm({1024})}, {1, 8.1 * n, 4 * 4.1 * n});
    check_counts("rms_norm", {x.rms_norm({1024}, w)}, {1, 4.1 * n, 4 * 3.1 * n});
    check_counts("matmul and softmax", {matmul(m, x).softmax(-1)},
                 {2, 2.02 * 512 * 256 * 1024, 4 * (2.1 * n + 6 * 512 * 1024)});
  }

  TEST_CASE("attention is one kernel that keeps its scores") {
    const double rows = 12 * 1024, scores = rows * 1024;
    Tensor q = input({1, 12, 1024, 64}), k = input({1, 12, 1024, 64}), v = input({1, 12, 1024, 64});
    const Bounds most{1, 4 * 64 * scores + 12 * scores, 4 * 4.1 * rows * 64};
    check_counts("attention", {q.scaled_dot_product_attention(k, v)}, most);
    check_counts("causal", {q.scaled_dot_product_attention(k, v, {.is_causal = true})}, most);
    // What all rows read does not stay near: the product is better done by itself.
    check_counts("norm and matrix",
                 {matmul(input({256, 1024}).layer_norm({1024}), input({1024, 4096}))},
                 {2, 2.1 * 256 * 1024 * 4096, 4 * 1.3e7});
    check_counts("long", {input({1, 1, 65536, 64}).scaled_dot_product_attention(
                             input({1, 1, 65536, 64}), input({1, 1, 65536, 64}))},
                 {3, 1.3e12, 1.1e11});
  }

  TEST_CASE("sums that threads cannot share out are made of partial sums") {
    auto kernels = [](const std::vector<Tensor>& outputs) { return explain(outputs).kernels.size(); };
    Tensor x = input({4096, 4096}), v = input({4096});
    // Each column has few bytes of every row.
    const double n = 4096 * 4096;
    check_counts("columns", {x.sum(0)}, {2, 1.01 * n, 4.1 * n});
    CHECK(kernels({x.sum(0)}) == 2);
    CHECK(kernels({x.t().mv(v)}) == 2);
    CHECK(kernels({(x.amax(0) + v).relu()}) == 2);
    CHECK(kernels({input({1024, 1 << 16}).sum(0)}) == 1);  // not near enough to be added to
    CHECK(kernels({x.sum(1)}) == 1);
    CHECK(kernels({x.mv(v)}) == 1);
    CHECK(kernels({input({64, 64}).sum(0)}) == 1);
    add_odd_devices();
    CHECK(kernels({empty({64, 64}, {.device = "PARTED"}).realize().sum(0)}) == 2);
    // All gradients of weights are made of all pictures; statistics of a channel of its own ones.
    Tensor images = input({256, 16, 20, 20}), w = input({32, 16, 3, 3}).requires_grad_();
    Tensor y = images.conv2d(w);
    CHECK(kernels(y.gradient({w}, input({256, 32, 18, 18}))) == 2);
    CHECK(kernels({images.sum({0, 2, 3})}) == 1);
    // There would be too much to fold, or it is little beside the products.
    CHECK(kernels({matmul(input({1024, 1024}), input({1024, 1024}))}) == 1);
    CHECK(kernels({matmul(input({64, 4096}), input({4096, 4096}))}) == 1);
    CHECK(kernels({matmul(input({1024, 1 << 14}), input({1024, 1 << 14}).t())}) == 1);
  }

  TEST_CASE("gradients of a normalised batch are made in few passes") {
    const double n = 256 * 32 * 20 * 20;
    Tensor x = input({256, 32, 20, 20}), k = input({32, 32, 1, 1}).requires_grad_();
    Tensor w = input({32}).requires_grad_(), b = input({32}).requires_grad_();
    Tensor y = x.conv2d(k).relu().batch_norm({}, {}, w, b, {.training = true});
    std::vector<Tensor> all = y.gradient({w, b, k}, input({256, 32, 20, 20}));
    all.push_back(y);
    check_counts("batch norm", all, {7, 170 * n, 4 * 16.6 * n});
  }

  TEST_CASE("an embedding reads only the rows asked for") {
    Tensor table = input({50257, 64});
    Tensor ids = empty({4, 16}, {.dtype = int64, .device = "NULL"}).realize();
    const double rows = 4 * 16 * 64;
    check_counts("embedding", {embedding(ids, table)}, {1, 8 * rows, 4 * 8 * rows});
  }

  TEST_CASE("sort and cumsum do bounded work") {
    check_counts("sort(1024)", {input({1024}).sort().values}, {3, 2500.0 * 1024, 2e6});
    check_counts("cumsum(4096)", {input({4096}).cumsum(0)}, {2, 40.0 * 4096, 1e5});
    check_counts("sort(2^20)", {input({1 << 20}).sort().values}, {200, 2500.0 * (1 << 20), 6e9});
    check_counts("cumsum(2^24)", {input({1 << 24}).cumsum(0)}, {40, 8.0 * (1 << 24), 6e8});
  }

  TEST_CASE("what is realized is not computed again") {
    Tensor a = full({64, 64}, 2, {.device = "CPU"}).contiguous(), b = matmul(a, a);
    b.realize();
    Tensor c = b + 1;
    ScheduleReport r = explain(std::vector<Tensor>{c});
    CHECK(r.kernels.size() == 1);
    CHECK(r.total.ops <= 64 * 64);
  }
}
