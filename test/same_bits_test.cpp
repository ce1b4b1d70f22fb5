// The same bits whatever the number of threads: each case in a process with one, two and many.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <cstdio>
#include <filesystem>
#include <sstream>

#include "base/hash.h"
#include "nn/training_step.h"
#include "test/process.h"

using namespace mote;

namespace {

uint64_t bits(const Tensor& t) {
  std::vector<char> bytes(static_cast<size_t>(t.nbytes()));
  t.copy_out(bytes.data(), t.nbytes());
  return hash_bytes(bytes.data(), bytes.size());
}

void print_bits(const char* name, const std::vector<Tensor>& results) {
  uint64_t all = 0;
  for (const Tensor& t : results) all = mix(all, bits(t));
  std::printf("bits of %s: %016llx\n", name, static_cast<unsigned long long>(all));
}

Tensor values(const Sizes& shape) { return rand(shape).realize() - 0.5f; }

std::vector<Tensor> steps_of_training() {
  models::MnistNet net;
  optim::Adam adam(parameters(net));
  Tensor images = rand({48, 1, 28, 28}).realize(), labels = randint(0, 10, {48}).realize();
  std::vector<Tensor> out;
  for (int i = 0; i < 3; ++i) {
    out = training_step(net, adam, images, labels);
    realize(out);
  }
  return out;
}

std::vector<Tensor> gradients_of_conv(int64_t batch, int64_t channels, int64_t size) {
  Tensor x = values({batch, channels, size, size}).requires_grad_();
  Tensor w = values({24, channels, 3, 3}).requires_grad_();
  Tensor y = x.conv2d(w, {}, {.padding = 1});
  std::vector<Tensor> out = y.gradient({x, w}, values(y.shape()));
  out.push_back(y);
  return out;
}

// Of 64 rows the first n, n a variable.
std::vector<Tensor> of_first_rows(int64_t n) {
  Sym rows = Variable("n", 1, 64).bind(n);
  Tensor x = values({64, 24}), y = values({64, 24}).requires_grad_();
  Tensor a = x.shrink({0, 0}, {rows, 24}), b = y.shrink({0, 0}, {rows, 24});
  Tensor attended = y.matmul(a.t()).softmax(-1).matmul(b);
  return {attended,
          attended.square().sum().gradient({y})[0],
          a.t().matmul(b),
          a.softmax(0).square().sum(0),
          (a.matmul(x.t()).relu() * 2).sum(0),
          (a * b).exp().amax(0)};
}

std::vector<Tensor> sums_into(int64_t results) {
  Tensor x = values({results, 60'000});
  return {x.sum(1), (x * x).mean(1), x.t().sum(0), x.amax(1), x.softmax(1), x.logsumexp(1)};
}

}  // namespace

TEST_SUITE("same bits") {
  TEST_CASE("in a child: results as hashes" * doctest::skip()) {
    manual_seed(7);
    print_bits("training", steps_of_training());
    Tensor rows = values({300, 1000});
    print_bits("softmax", {rows.softmax(1), rows.softmax(0), rows.log_softmax(1)});
    print_bits("norms", {rows.layer_norm(1000), rows.rms_norm(1000), rows.std(1)});
    Tensor many = values({10'000'000});
    print_bits("sums of all", {many.sum(), many.square().mean(), many.reshape({2500, 4000}).sum()});
    for (int64_t results : {1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 33}) {
      const std::string name = "sums into " + std::to_string(results);
      print_bits(name.c_str(), sums_into(results));
    }
    for (auto [m, k, n] : {std::array<int64_t, 3>{333, 257, 129}, {1000, 777, 333}, {65, 2049, 7},
                           {7, 3000, 700}, {4, 4096, 4}, {600, 64, 600}, {31, 31, 31}, {30, 8, 1000}, {4, 7, 299},
                           {16, 4, 3000}, {22, 13, 51}}) {
      Tensor a = values({m, k}), b = values({k, n}), at = values({k, m}), bt = values({n, k});
      const std::string name = "matmul " + std::to_string(m) + "x" + std::to_string(k);
      print_bits(name.c_str(), {matmul(a, b), matmul(at.t(), b), matmul(a, bt.t()),
                                matmul(a, b).relu().sum(0), matmul(a, b).softmax(1)});
    }
    for (DType narrow : {bfloat16, float16}) {
      Tensor a = values({300, 257}).to(narrow), b = values({257, 130}).to(narrow),
             w = values({24, 16, 3, 3}).to(narrow);
      print_bits("narrow products",
                 {matmul(a, b), matmul(b.t(), a.t()), matmul(a, b).relu().sum(0),
                  values({3, 16, 20, 20}).to(narrow).conv2d(w, {}, {.padding = 1})});
    }
    Tensor x = values({3000});
    print_bits("products by vectors", {values({2000, 3000}).mv(x), values({3000, 2000}).t().mv(x)});
    Tensor wide = values({2048, 3000});
    print_bits("columns", {wide.sum(0), wide.amax(0), (wide * wide).mean(0), wide.softmax(0)});
    for (auto [n, c, k] : {std::array<int64_t, 3>{256, 32, 400}, {512, 24, 400}, {512, 33, 208}}) {
      const std::string name = "channels " + std::to_string(c);
      Tensor batch = values({n, c, k});
      print_bits(name.c_str(), {batch.sum({0, 2}), (batch * batch).mean({0, 2}), batch.var({0, 2})});
    }
    print_bits("conv of many", gradients_of_conv(256, 16, 16));
    print_bits("conv of few", gradients_of_conv(2, 16, 24));
    print_bits("conv of many small", gradients_of_conv(200, 24, 5));
    Tensor q = values({6, 150, 32}), k = values({6, 150, 32}), v = values({6, 150, 32});
    print_bits("attention", {q.scaled_dot_product_attention(k, v)});
    print_bits("scan", {rows.cumsum(1), rows.cumsum(0)});
    print_bits("order", {rows.median(0).values, rows.kthvalue(3, 1).values, rows.sort(0).values,
                         rows.histc(9), rows.quantile(0.3, 1), randperm(5000)});
    Tensor at = randint(-700, 700, {5000}).realize(), written = values({5000, 40});
    print_bits("writes at computed places",
               {values({700, 40}).index_add(0, at, written),
                values({700}).scatter_add(0, at, written.select(1, 0)),
                values({40, 700}).index_add(1, at, written.t()),
                values({700, 40}).index_copy(0, at, written)});
    for (int64_t n : {1, 3, 40, 64}) print_bits("a variable length", of_first_rows(n));
  }

  TEST_CASE("one thread or many: the same bits") {
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    std::vector<std::string> hashes;
    for (int threads : {1, 2, 3, 16}) {
      Ran ran = run("env MOTE_THREADS=" + std::to_string(threads) + " MOTE_SPEC=0 " + self +
                    " --no-skip --test-case='in a child: results as hashes'");
      REQUIRE(ran.status == 0);
      std::istringstream lines(ran.output);
      hashes.emplace_back();
      for (std::string line; std::getline(lines, line);)
        if (line.starts_with("bits of ")) hashes.back() += line + "\n";
    }
    CHECK(!hashes[0].empty());
    for (const std::string& others : hashes) CHECK(hashes[0] == others);
  }
}
