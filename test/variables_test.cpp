// Sizes that are variables: random programs at values of every class against the reference
// interpreter, compilations counted, gradients, captured functions, search.
#include <doctest/doctest.h>
#include <mote/models.h>
#include <mote/modules.h>
#include <mote/mote.h>
#include <mote/search.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/flags.h"
#include "base/integers.h"
#include "base/random.h"
#include "engine/realize.h"
#include "ir/flat.h"
#include "test/amount.h"
#include "test/odd_devices.h"
#include "test/process.h"

using namespace mote;

namespace {

constexpr int64_t kMost = 300, kWide = 5;  // classes end at 1, 17 and 300

// A program about rows of which there are n: every value is (n, kWide).
struct RowProgram {
  std::string listing;
  std::vector<std::function<Tensor(const std::vector<Tensor>&, const Size& n)>> steps;
  bool derives = false;
};

struct Call {
  const char* name;
  Tensor (*run)(const Tensor& a, const Tensor& b, const Size& n);
};

Tensor filter(const Tensor& like) {
  return (arange(kWide * kWide * 3, {DType::f32, like.device()}) * 0.7f)
      .sin()
      .reshape({kWide, kWide, 3});
}

const Call calls[] = {
    {"a + b",                      [](const Tensor& a, const Tensor& b, const Size&) { return a + b; }              },
    {"a * b.tanh()",               [](const Tensor& a, const Tensor& b, const Size&) { return a * b.tanh(); }       },
    {"a - b.mean(0)",              [](const Tensor& a, const Tensor& b, const Size&) { return a - b.mean(0); }      },
    {"a.softmax(0)",               [](const Tensor& a, const Tensor&,   const Size&) { return a.softmax(0); }       },
    {"a.softmax(1)",               [](const Tensor& a, const Tensor&,   const Size&) { return a.softmax(1); }       },
    {"a.layer_norm",
     [](const Tensor& a,                               const Tensor&,   const Size&) { return a.layer_norm(kWide); }},
    {"a (b'a)",                    [](const Tensor& a, const Tensor& b,
     const Size&) { return a.matmul(b.t().matmul(a)).tanh(); }                                                      },
    {"(a b') b",                   [](const Tensor& a, const Tensor& b,
     const Size&) { return a.matmul(b.t()).softmax(-1).matmul(b); }                                                 },
    {"causal attention",
     [](const Tensor& a,                               const Tensor& b, const Size&) {
       return a.unsqueeze(0)
           .scaled_dot_product_attention(b.unsqueeze(0), a.unsqueeze(0), {.is_causal = true})
           .squeeze(0);
     }                                       },
    {"a.cumsum(0)",                [](const Tensor& a, const Tensor&,   const Size&) { return a.cumsum(0) * 0.1f; } },
    {"a.flip(0)",                  [](const Tensor& a, const Tensor&,   const Size&) { return a.flip({0}); }        },
    {"a.conv1d",
     [](const Tensor& a,                               const Tensor&,   const Size&) {
       return a.t().unsqueeze(0).conv1d(filter(a), {}, {.padding = 1}).squeeze(0).t() * 0.3f;
     }                                         },
    {"a of twice as many, halved",
     [](const Tensor& a,                               const Tensor& b, const Size& n) {
       return cat({a, b}, 0).reshape({n, 2 * kWide}).narrow(1, 2, kWide);
     }                                       },
    {"a, padded and cut",
     [](const Tensor& a,                               const Tensor&,   const Size& n) {
       return a.pad({0, 0, 2, 1}).narrow(0, 1, n);
     }                                         },
    {"a above b's largest",        [](const Tensor& a, const Tensor& b,
     const Size&) { return where(a > b.amax(0) * 0.5f, a, b); }                                                     },
    {"a by position",
     [](const Tensor& a,                               const Tensor&,   const Size& n) {
       return a * (ones({n, 1}, {DType::f32, a.device()}).cumsum(0) * 0.01f);
     }                                         },
    {"std over all",
     [](const Tensor& a,                               const Tensor& b, const Size&) { return a / (b.std() + 1); }  },
};

RowProgram generate(uint64_t seed) {
  Random random(seed, 0);
  RowProgram p;
  p.derives = random.below(3) == 0;
  const auto count = 1 + random.below(5);
  for (int64_t i = 0; i < count; ++i) {
    const Call& call = calls[random.below(std::size(calls))];
    const auto a = static_cast<size_t>(random.below(i + 2)),
               b = static_cast<size_t>(random.below(i + 2));
    p.listing += text("t", i + 2, " = ", call.name, " with a = t", a, ", b = t", b, "\n");
    p.steps.push_back(
        [=](const std::vector<Tensor>& t, const Size& n) { return call.run(t[a], t[b], n); });
  }
  return p;
}

Tensor rows(const std::string& device, double step) {
  return (arange(kMost * kWide, {DType::f64, device}) * step)
      .sin()
      .to(DType::f32)
      .reshape({kMost, kWide})
      .contiguous()
      .realize();
}

struct DefaultDevice {
  std::string before = default_device();
  explicit DefaultDevice(const std::string& name) { set_default_device(name); }
  ~DefaultDevice() { set_default_device(before); }
};

// The last value and, of some programs, its gradient with respect to all rows.
std::vector<Tensor> results(const RowProgram& p, const std::string& device, const Size& n) {
  const DefaultDevice scope(device);
  Tensor x = rows(device, 0.37), y = rows(device, 0.61);
  std::vector<Tensor> t = {x.narrow(0, 0, n), y.narrow(0, 0, n)};
  for (const auto& step : p.steps) t.push_back(step(t, n));
  std::vector<Tensor> out = {t.back()};
  if (p.derives) out.push_back(t.back().square().sum().gradient({x}, {}, true)[0]);
  realize(out);
  return out;
}

double difference(const Tensor& got, const Tensor& wanted) {
  const std::vector<double> a = got.to(DType::f64).to_vector<double>(),
                            b = wanted.to(DType::f64).to_vector<double>();
  if (a.size() != b.size()) return HUGE_VAL;
  double most = 0, scale = 1;
  for (double v : b) scale = std::max(scale, std::abs(v));
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = std::abs(a[i] - b[i]);
    if (!(off <= most)) most = off;
  }
  return most / scale;
}

void run_programs(uint64_t first, int64_t count, std::initializer_list<const char*> devices) {
  add_odd_devices();
  const Variable n("n", 1, kMost);
  for (int64_t i = 0; i < count; ++i) {
    if (i % 100 == 99) clear_caches();
    const RowProgram p = generate(first + static_cast<uint64_t>(i));
    INFO("seed ", first + static_cast<uint64_t>(i), "\n", p.listing);
    for (int64_t value : {1, 2, 16, 17, 18, 33, 64, 299, 300}) {
      if ((i + value) % 3) continue;
      CAPTURE(value);
      const std::vector<Tensor> wanted = results(p, "INTERP", n.bind(value));
      for (const char* device : devices) {
        CAPTURE(std::string(device));
        const std::vector<Tensor> got = results(p, device, n.bind(value));
        for (size_t k = 0; k < got.size(); ++k) CHECK(difference(got[k], wanted[k]) < 2e-4);
      }
    }
  }
}

uint64_t compiled() { return engine_counts().kernels_compiled; }

Tensor attended(const Tensor& x) {
  return x.matmul(x.t()).softmax(-1).matmul(x).layer_norm(x.size(-1));
}

}  // namespace

TEST_SUITE("variables") {
  TEST_CASE("classes: one, few, many; each value is of one") {
    const SizeClass all{1, 1024};
    CHECK(size_class(all, 1) == SizeClass{1, 1});
    CHECK(size_class(all, 2) == SizeClass{2, 32});
    CHECK(size_class(all, 32) == SizeClass{2, 32});
    CHECK(size_class(all, 33) == SizeClass{33, 1024});
    CHECK(size_class({0, 1023}, 0) == SizeClass{0, 1});
    CHECK(size_class({1, 8}, 8) == SizeClass{2, 8});
    CHECK(size_class({100, 200}, 150) == SizeClass{100, 200});
    for (int64_t hi : {1, 2, 15, 16, 17, 40, 300, 5000})
      for (int64_t v = 1; v <= hi; ++v) {
        const SizeClass c = size_class({1, hi}, v);
        CHECK(c.has(v));
        CHECK(size_class({1, hi}, c.lo) == c);
        CHECK(size_class({1, hi}, c.hi) == c);
      }
  }

  TEST_CASE("random programs give what the reference interpreter gives") {
    run_programs(1, test::scaled<int64_t>(60), {"CPU"});
    run_programs(1000, test::scaled<int64_t>(12), {"INTERP_PROGRAM", "TIGHT", "PARTED"});
  }

  TEST_CASE("random programs with random legal actions") {
    for (uint64_t seed = 1; seed <= test::scaled<uint64_t>(24); ++seed) {
      FlagScope draw(Flag::DRAW, static_cast<int64_t>(seed * 16 + 12));
      run_programs(2000 + seed, 2, {"CPU", "INTERP_PROGRAM"});
    }
  }

  TEST_CASE("many random programs" * doctest::test_suite("soak")) {
    run_programs(100'000, test::scaled<int64_t>(2000), {"CPU", "INTERP_PROGRAM"});
  }

  TEST_CASE("no value is compiled for but the first of its class") {
    clear_caches();
    const Variable n("n", 1, 200);
    Tensor x = rand({200, 24}).realize();
    std::vector<uint64_t> fresh;
    for (int64_t value : {200, 1, 7, 2, 14, 15, 100, 199, 3, 1, 13}) {
      const uint64_t before = compiled();
      attended(x.narrow(0, 0, n.bind(value))).realize();
      if (compiled() > before) fresh.push_back(static_cast<uint64_t>(value));
    }
    CHECK(fresh == std::vector<uint64_t>{200, 1, 7});
  }

  TEST_CASE("loops of a variable size are cut, staged and made of vectors") {
    const Variable n("n", 1, 512);
    Tensor a = rand({512, 512}).realize(), b = rand({512, 512}).realize();
    const ScheduleReport report = explain(std::vector{a.narrow(0, 0, n.bind(300)).matmul(b)});
    REQUIRE(report.kernels.size() == 1);
    CHECK(report.kernels[0].name.find("_v16") + report.kernels[0].name.find("_v8") +
              report.kernels[0].name.find("_v4") !=
          3 * std::string::npos);
    CHECK(report.kernels[0].name.find("_u") != std::string::npos);
  }

  TEST_CASE("memory is that of the class") {
    const Variable n("n", 1, 1024);
    Tensor x = rand({1024, 8}).realize();
    auto bytes = [&](int64_t value) {
      return explain(std::vector{x.narrow(0, 0, n.bind(value)) * 2}).new_bytes;
    };
    CHECK(bytes(1) == 8 * 4);
    CHECK(bytes(5) == 32 * 8 * 4);
    CHECK(bytes(500) == 1024 * 8 * 4);
  }

  TEST_CASE("a captured function of a variable length compiles nothing new") {
    clear_caches();
    const Variable n("length", 1, 256);
    Tensor x = rand({256, 16}).realize();
    int called = 0;
    auto f = jit([&](const Tensor& all, const Sym& length) {
      ++called;
      return attended(all.narrow(0, 0, length)).sum(0);
    });
    auto check = [&](int64_t value) {
      const std::vector<float> got = f(x, n.bind(value)).to_vector<float>();
      const std::vector<float> wanted =
          attended(x.narrow(0, 0, n.bind(value))).sum(0).to_vector<float>();
      CHECK(got == wanted);
    };
    for (int64_t value : {1, 1, 5, 6, 100, 101}) check(value);
    CHECK(called == 6);
    const uint64_t before = compiled();
    for (int64_t value = 1; value <= 256; value += value < 20 ? 1 : 13) check(value);
    for (int64_t value : {256, 1, 16, 17, 2, 255}) check(value);
    CHECK(compiled() == before);
    CHECK(called == 6);
  }

  TEST_CASE("gradients of a captured training step with a variable batch") {
    const Variable n("batch", 1, 64);
    nn::Linear net(12, 3);
    Tensor data = rand({64, 12}).realize();
    auto loss = [&](const Tensor& x) { return net(x).tanh().square().mean(); };
    auto step = jit([&](const Tensor& all, const Sym& batch) {
      return loss(all.narrow(0, 0, batch)).gradient({net.weight})[0];
    });
    for (int64_t value : {64, 64, 17, 40, 1, 1, 1, 9, 10, 12, 33}) {
      const std::vector<float> got = step(data, n.bind(value)).to_vector<float>();
      const std::vector<float> wanted =
          loss(data.narrow(0, 0, value)).gradient({net.weight})[0].to_vector<float>();
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] == doctest::Approx(wanted[i]).epsilon(1e-3));
    }
  }

  TEST_CASE("sums of much into little are made in parts") {
    constexpr int64_t kMuch = 400'000;
    const Variable n("n", 1, kMuch);
    Tensor x = (arange(kMuch, {DType::f32}) * 0.3f).sin().realize();
    Tensor wide = x.reshape({kMuch / 16, 16});
    for (int64_t value : {1, 600, 5000, 49'999, 50'000, 50'001, 399'999, 400'000}) {
      CAPTURE(value);
      const Sym size = n.bind(value);
      Tensor cut = x.narrow(0, 0, size), number = x.narrow(0, 0, value);
      CHECK(difference(cut.sum(), number.to(DType::f64).sum()) < 1e-4);
      CHECK(difference(cut.amax() * 3, number.amax() * 3) == 0);
      const int64_t rows = ceil_div(value, 16);
      const Sym some = Variable("rows", 1, kMuch / 16).bind(rows);
      CHECK(difference(wide.narrow(0, 0, some).sum(0), wide.narrow(0, 0, rows).sum(0)) < 1e-5);
    }
    CHECK(explain(std::vector{x.narrow(0, 0, n.bind(300'000)).sum()}).kernels.size() == 2);
  }

  TEST_CASE("in a child: a variable product searched" * doctest::skip()) {
    const Variable n("n", 1, 96), m("m", 1, 64);
    Tensor a, b;
    auto product = [&](int64_t rows, int64_t columns) {
      return a.narrow(0, 0, n.bind(rows)).matmul(b.narrow(1, 0, m.bind(columns)));
    };
    // A busy machine takes longer. What was searched is not searched again, so sizes change too.
    SearchReport report;
    double seconds = 0.3;
    for (int64_t k = 80; k < 84 && report.tried <= report.kernels; ++k, seconds *= 3) {
      a = rand({96, k}).realize(), b = rand({k, 64}).realize();
      product(90, 60).realize();
      report = search(seconds);
    }
    CHECK(report.kernels > 0);
    CHECK(report.tried > report.kernels);
    for (int64_t rows : {18, 33, 90, 96})
      for (int64_t columns : {17, 40, 64})
        CHECK(difference(product(rows, columns),
                         a.narrow(0, 0, rows).matmul(b.narrow(1, 0, columns))) < 1e-4);
    std::printf("searched\n");
  }
  TEST_CASE("search takes kernels with several variables") {
    Folder folder;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    const Ran ran = mote::run("env MOTE_CACHE_DIR=" + (folder / "cache") + " " + self +
                              " --no-skip --test-case='in a child: a variable product searched'");
    CHECK_MESSAGE(ran.status == 0, ran.output);
    CHECK(has(ran, "searched"));
  }

  TEST_CASE("attention modules and a GPT take sequences of variable length") {
    manual_seed(6);
    const Variable n("n", 1, 24);
    nn::TransformerEncoder encoder(1, 8, 2, {.dim_feedforward = 16, .batch_first = true});
    nn::TransformerDecoder decoder(1, 8, 2, {.dim_feedforward = 16, .batch_first = true});
    nn::MultiheadAttention attention(8, 2,
                                     nn::MultiheadOptions{
                                         .add_bias_kv = true, .add_zero_attn = true, .batch_first = true});
    models::GptConfig config{.layers = 1, .heads = 2, .features = 8, .context = 24, .vocabulary = 9};
    models::Gpt gpt(config);
    eval(encoder), eval(decoder);
    const Tensor all = randn({2, 24, 8}).realize(), tokens = randint(0, 9, {2, 24}).realize();
    const Tensor lengths = tensor({3, 20});
    auto outputs = [&](const Size& size) {
      Tensor x = all.narrow(1, 0, size);
      Tensor padding = (arange(24).unsqueeze(0) >= lengths.unsqueeze(1)).narrow(1, 0, size);
      return std::vector{encoder(x, {.is_causal = true}), encoder(x, {.key_padding_mask = padding}),
                         decoder(x, all), attention.attend(x, x, x, {.is_causal = true}).output,
                         gpt(tokens.narrow(1, 0, size))};
    };
    for (int64_t size : {1, 2, 23}) {
      const std::vector<Tensor> wanted = outputs(size), got = outputs(n.bind(size));
      for (size_t i = 0; i < wanted.size(); ++i) {
        INFO("size ", size, ", output ", i);
        CHECK(difference(got[i], wanted[i]) < 1e-5);
      }
    }
  }

  TEST_CASE("two variables in one kernel") {
    clear_caches();
    const Variable n("n", 1, 100), m("m", 1, 80);
    Tensor a = rand({100, 32}).realize(), b = rand({80, 32}).realize();
    uint64_t before = 0;
    for (int round = 0; round < 2; ++round) {
      for (int64_t rows : {1, 9, 60, 100})
        for (int64_t columns : {1, 4, 40}) {
          Tensor wanted = a.narrow(0, 0, rows).matmul(b.narrow(0, 0, columns).t()).softmax(1);
          Tensor got =
              a.narrow(0, 0, n.bind(rows)).matmul(b.narrow(0, 0, m.bind(columns)).t()).softmax(1);
          CHECK(difference(got, wanted) < 1e-5);
        }
      if (round) CHECK(compiled() == before);
      before = compiled();
    }
  }
}
