// No environment changes results: the locale, the floating-point environment that other libraries
// set, small stacks, fork, settings. Each case runs in a process of its own and is compared with a
// plain one. What needs a program of its own (before main, after it, plugins) is in
// lifetime_test.cpp, what the command-line program meets in surroundings_test.cpp.
#include <doctest/doctest.h>
#include <fenv.h>
#include <locale.h>
#include <mote/data.h>
#include <mote/mote.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <locale>
#include <thread>

#include "base/error.h"
#include "base/flags.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/threads.h"
#include "cli/plot.h"
#include "io/json.h"
#include "ir/dtype.h"
#include "ops_table.h"
#include "optimize/optimize.h"
#include "runtime/cpu_info.h"
#include "test/process.h"

using namespace mote;
namespace fs = std::filesystem;

namespace {

// Lines of a child's output that begin with "result: ".
std::string results_of(const Ran& ran) {
  REQUIRE_MESSAGE(ran.status == 0, ran.output);
  std::string out;
  for (size_t at = 0; (at = ran.output.find("result: ", at)) != ran.output.npos;) {
    const size_t end = std::min(ran.output.find('\n', at), ran.output.size());
    out += ran.output.substr(at, end - at) + "\n";
    at = end;
  }
  REQUIRE_MESSAGE(!out.empty(), ran.output);
  return out;
}

void tell(const std::string& what, const std::string& value) {
  const std::string line = "result: " + what + " " + value + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

uint64_t bits_of(const Tensor& t) {
  std::vector<char> bytes(static_cast<size_t>(t.nbytes()));
  t.copy_out(bytes.data(), t.nbytes());
  return hash_bytes(bytes.data(), bytes.size());
}

// ---- the locale

struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\1"; }
};

void take_locale() {
  const std::string wanted = std::getenv("TEST_LOCALE");
  if (wanted == "c++") std::locale::global(std::locale(std::locale::classic(), new Comma));
  if (wanted != "c") return;
  REQUIRE(setlocale(LC_ALL, "comma.utf8"));
  char written[8];
  std::snprintf(written, sizeof written, "%.1f", 1.5);
  REQUIRE(std::string(written) == "1,5");
}

// A system locale with a decimal comma: the one without a language, one character changed.
bool make_comma_locale(const Folder& folder) {
  const fs::path from = "/usr/lib/locale/C.utf8", to = folder.path / "comma.utf8";
  if (!fs::exists(from / "LC_NUMERIC")) return false;
  fs::copy(from, to, fs::copy_options::recursive);
  std::fstream file(to / "LC_NUMERIC", std::ios::in | std::ios::out | std::ios::binary);
  uint32_t head[3] = {};  // magic, number of strings, place of the first: the decimal point
  file.read(reinterpret_cast<char*>(head), sizeof head);
  file.seekp(head[2]);
  file.put(',');
  return file.good();
}

std::string values_text(const Tensor& t) {
  std::string out;
  for (double v : t.to_vector<double>()) out += " " + hex_text(v);
  return out;
}

}  // namespace

TEST_CASE("in a child: numbers as text" * doctest::skip()) {
  take_locale();
  Tensor x = from_data(std::vector<float>{0.5f, -1.25f, 1e-7f, 12345.678f, 1e9f}, {5});
  for (int c : {0, 1}) {
    FlagScope compiler(Flag::CC, c);
    tell("products by LLVM and by C", values_text(x * 3.3 + 1234567.25));
    tell("curves", values_text((x * 1e-3).exp() + x.abs().sqrt() * 0.1));
    tell("in half", values_text(x.to(float16) * 1.7));
  }
  tell("printed", (x / 3).to_string() + x.to(float64).to_string() + full({}, 1234.5).to_string());
  tell("in bfloat16", (x / 3).to(bfloat16).to_string());
  tell("in a message", text(1.5, " ", 1e-9, " ", 123456789.0, " ", 1234567));
  JsonWriter json;
  json.begin('[').value(0.1).value(1e300).value(int64_t{1234567}).end();
  tell("json", json.text());
  const data::Images digits = data::digits(64, 1);
  tell("digits", hex_text(hash_bytes(digits.pixels.data(), digits.pixels.size()), 16));
  tell("actions", to_string(parse_actions("split 0 1024 upcast; stage 1 0 2+1+3; order 0 1 2")));
  const std::vector<float> losses = {2.5f, 1.75f, 1.5f, 0.125f};
  const std::string plot = loss_plot(losses, "loss");
  tell("plot", hex_text(hash_bytes(plot.data(), plot.size()), 16));
  tell("caches", text(cpu_info().l1d_bytes, " ", cpu_info().l2_bytes, " ", cpu_info().line_bytes));
  double number = 0;
  tell("read", text(read_number("1.5", number), number, read_number("1,5", number)));
}

TEST_SUITE("environment") {
  TEST_CASE("environment: no locale changes a number in kernels, files or print") {
    const std::string test = "in a child: numbers as text";
    Folder folder;
    const std::string plain = results_of(run_self("MOTE_CACHE=0 TEST_LOCALE=none", test));
    CHECK(results_of(run_self("MOTE_CACHE=0 TEST_LOCALE=c++", test)) == plain);
    if (make_comma_locale(folder))
      CHECK(results_of(run_self("MOTE_CACHE=0 TEST_LOCALE=c LOCPATH=" + folder.path.string(),
                                test)) == plain);
    else
      MESSAGE("skipped the C locale: there is no /usr/lib/locale/C.utf8");
  }
}

// ---- the floating-point environment

namespace {

// What the x86 control word can be set to by others, as rounding mode and flushing; and traps.
struct FloatMode {
  const char* name;
  int rounding;
  bool flush;
  bool traps;
};
// clang-format off
constexpr FloatMode float_modes[] = {
    {"up",             FE_UPWARD,     false, false},
    {"down",           FE_DOWNWARD,   false, false},
    {"to zero",        FE_TOWARDZERO, false, false},
    {"flush",          FE_TONEAREST,  true,  false},
    {"down and flush", FE_DOWNWARD,   true,  false},
    {"traps",          FE_TONEAREST,  false, true },
};
// clang-format on

class InMode {
 public:
  explicit InMode(const FloatMode& mode) {
    fegetenv(&before_);
    fesetround(mode.rounding);
#if defined(__x86_64__)
    if (mode.flush) __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
    if (mode.traps) feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  }
  ~InMode() { fesetenv(&before_); }

 private:
  fenv_t before_;
};

using test::Call;
using test::GoldenCase;

// Results of a golden case and of its gradients, as bytes.
std::string bytes_of_case(const GoldenCase& golden, const std::string& device) try {
  test::Call call{golden, device, {}};
  for (const test::GoldenInput& in : golden.inputs)
    call.inputs.push_back(
        from_bytes(in.value.bytes.data(), in.value.shape, in.value.dtype, device));
  manual_seed(1);
  test::Outputs all = test::find_op(golden.op)->run(call);
  Tensor loss;
  for (const Tensor& t : all) {
    if (!t.defined() || !is_float(t.dtype())) continue;
    Tensor part = (t.to(float32) * 1.1).sum();
    loss = loss.defined() ? loss + part : part;
  }
  std::vector<Tensor> targets;
  for (const Tensor& t : call.inputs)
    if (is_float(t.dtype()) && !golden.gradients.empty()) targets.push_back(t);
  if (loss.defined() && !targets.empty())
    for (const Tensor& g : loss.gradient(targets, {}, true)) all.push_back(g);
  std::string out;
  for (const Tensor& t : all) {
    const size_t at = out.size();
    out.resize(at + static_cast<size_t>(t.nbytes()));
    t.copy_out(out.data() + at, t.nbytes());
  }
  return out;
} catch (const std::exception& e) { return std::string("throws ") + e.what(); }

int stride_of_cases() {
  const char* text = std::getenv("TEST_STRIDE");
  return text ? std::atoi(text) : 1;
}

}  // namespace

// The pool's threads are started in an odd mode, and inherit it.
TEST_CASE("in a child: ops in every floating-point environment" * doctest::skip()) {
  {
    InMode odd(float_modes[4]);
    parallel_for(64, [](int64_t) {});
  }
  const test::GoldenFile goldens =
      test::read_goldens(MOTE_SOURCE_DIR "/test/goldens/ops.gold.gz");
  size_t cases = 0, runs = 0;
  for (size_t i = 0; i < goldens.cases.size(); i += static_cast<size_t>(stride_of_cases())) {
    const GoldenCase& golden = goldens.cases[i];
    for (const char* device : {"CPU", "INTERP"}) {
      const std::string plain = bytes_of_case(golden, device);
      ++cases;
      for (const FloatMode& mode : float_modes) {
        InMode odd(mode);
        const std::string got = bytes_of_case(golden, device);
        ++runs;
        const bool same = got == plain;
        CHECK_MESSAGE(same, golden.name, " on ", std::string(device), ", ", std::string(mode.name));
      }
    }
  }
  tell("cases", text(cases, " runs ", runs));
}

// What computes with floats on the host beside the ops.
TEST_CASE("in a child: the host in every floating-point environment" * doctest::skip()) {
  auto all = [] {
    std::string out;
    manual_seed(3);
    Tensor x = rand({40, 50}), w = randn({50, 7});
    out += text(bits_of(x.matmul(w).softmax(1)), " ", x.mean().item<double>(), " ", x.to_string());
    out += text(" ", bits_of(full({3}, (int64_t{1} << 53) + 1, {.dtype = float64})));
    out += text(" ", bits_of(linspace(0.1, 0.7, 11)), " ", bits_of(arange(0.1, 2, 0.1)));
    out += text(" ", to_half(1 + 0x1p-11 + 0x1p-20).bits, " ", to_bfloat16(1.00390626).bits);
    const data::Images digits = data::digits(8, 2);
    out += text(" ", hash_bytes(digits.pixels.data(), digits.pixels.size()));
    optim::Schedule rate = optim::one_cycle_lr(0.1, 100);
    for (int step : {0, 13, 50, 99}) out += " " + hex_text(rate(step));
    double read = 0;
    read_number("0.1000000000000000055511151231257827021181583404541015625", read);
    out += hex_text(read) + fixed_text(2.5, 0) + fixed_text(1e-310, 320) + general_text(0.1, 20);
    nn::Linear layer(20, 30);
    optim::AdamW adam(parameters(layer), {.lr = 1e-3});
    auto step = jit([&](const Tensor& in) {
      Tensor loss = layer(in).square().mean();
      loss.backward();
      adam.step();
      adam.zero_grad();
      return loss;
    });
    for (double v : {0.1, 0.2, 0.3, 0.7}) out += text(" ", bits_of(step(full({4, 20}, v))));
    return out;
  };
  const std::string plain = all();
  for (const FloatMode& mode : float_modes) {
    InMode odd(mode);
    const std::string got = all();
    const bool same = got == plain;
    CHECK_MESSAGE(same, std::string(mode.name), ": ", got, " not ", plain);
  }
  {  // and the caller's own environment is as it was
    InMode odd(float_modes[1]);
    full({2}, 0.3).sum().item<float>();
    CHECK(fegetround() == FE_DOWNWARD);
  }
  tell("host", "same");
}

TEST_SUITE("environment") {
  TEST_CASE("environment: rounding modes, flushing and traps of the caller change no result") {
    const std::string threads = "MOTE_SPEC=0 MOTE_THREADS=4";
    MESSAGE(results_of(
        run_self(threads, "in a child: the host in every floating-point environment")));
    MESSAGE(results_of(run_self(threads + " TEST_STRIDE=23",
                                "in a child: ops in every floating-point environment")));
  }
}
TEST_SUITE("soak") {
  TEST_CASE("environment: every op in every floating-point environment") {
    MESSAGE(results_of(run_self("MOTE_SPEC=0 MOTE_THREADS=4",
                                "in a child: ops in every floating-point environment")));
  }
}

// ---- fork

namespace {

// AddressSanitizer: its allocator's locks are not released in the child of a fork: one that another thread held hangs.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kForksWhileOthersAllocate = false;
#else
constexpr bool kForksWhileOthersAllocate = true;
#endif

enum Child : int { Right = 0, Refused = 1, Wrong = 2 };  // and none of them: it hung or crashed

int compute_in_child() {
  alarm(20);
  try {
    Tensor x = arange(Number(1000), {.dtype = DType::f32});
    if ((x * 2).sum().item<float>() != 999000) return Wrong;
    if ((x.reshape({10, 100}).matmul(x.reshape({100, 10}))).max().item<float>() <= 0) return Wrong;
  } catch (const Error& e) {
    return std::string(e.what()).find("forked while another thread") != std::string::npos ? Refused
                                                                                          : Wrong;
  }
  return Right;
}

int status_of_child() {
  std::fflush(nullptr);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(compute_in_child());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE_MESSAGE(WIFEXITED(status), "the child died of signal ", WTERMSIG(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("in a child: fork" * doctest::skip()) {
  CHECK(status_of_child() == Right);  // before the first call
  compute_in_child();
  CHECK(status_of_child() == Right);  // with a pool that is asleep
  alarm(0);
  if (!kForksWhileOthersAllocate) return tell("children", "right, with no other threads");
  std::atomic<bool> stop{false};
  std::atomic<int> made{0};
  std::vector<std::thread> others;
  for (int t = 0; t < 2; ++t)
    others.emplace_back([&, t] {  // kernels that are new, and tensors that die
      for (int i = 0; !stop; ++i, ++made)
        (full({4 + i % 40 + t}, 1.5) * i + rand({4 + i % 40 + t})).sum().item<float>();
    });
  int counts[3] = {};
  for (int i = 0; i < 40; ++i) {
    const int status = status_of_child();
    REQUIRE((status == Right || status == Refused));
    ++counts[status];
  }
  stop = true;
  for (std::thread& t : others) t.join();
  CHECK(status_of_child() == Right);  // they are done
  CHECK(made > 0);
  tell("children", text("right ", counts[Right], " refused ", counts[Refused]));
}

TEST_SUITE("environment") {
#if !defined(__SANITIZE_THREAD__)  // which allows no new threads in the child of a threaded process
  TEST_CASE("environment: the child of a fork computes or is told why not, and never hangs") {
    MESSAGE(results_of(run_self("MOTE_THREADS=4", "in a child: fork")));
  }
#endif
}

// ---- stacks

namespace {

// f on a thread with so much stack.
void on_stack(size_t bytes, void (*f)()) {
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  pthread_t thread;
  auto run = [](void* given) -> void* {
    try {
      reinterpret_cast<void (*)()>(given)();
    } catch (const std::exception& e) { tell("throws", e.what()); }
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, reinterpret_cast<void*>(f)) == 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

void deep_and_wide() {
  Tensor x = zeros({4}).contiguous();
  for (int i = 0; i < 100'000; ++i) x = x + 1;
  tell("chain", text(x.to_vector<int>()));
  x = {};
  Tensor w = full({8}, 0.5).realize().requires_grad_(), y = w;
  for (int i = 0; i < 2'000; ++i) y = y * 0.999 + (i % 100 == 99 ? y.sum() * 1e-4 : y * 1e-4);
  y.sum().backward();
  tell("gradient", hex_text(w.grad().sum().item<double>()));
  Tensor view = arange(Number(24), {.dtype = DType::f32}).reshape({2, 3, 4}).contiguous();
  for (int i = 0; i < 2'000; ++i) view = view.transpose(0, 2).transpose(0, 2);
  tell("views", hex_text(view.sum().item<double>()));
  Tensor image = rand({2, 3, 8, 8});
  nn::Conv2d conv(3, 4, 3);
  tell("network", text(conv(image).relu().flatten(1).log_softmax(1).shape()));
  for (int c : {0, 1}) {
    FlagScope compiler(Flag::CC, c);
    FlagScope uncached(Flag::CACHE, 0);
    Tensor z = full({37}, 0.25);
    for (int i = 0; i < (c ? 3 : 60); ++i) z = z.sin() + z * 0.5;
    tell("kernel", hex_text(z.sum().item<double>()));
  }
}

}  // namespace

TEST_CASE("in a child: graphs on a small stack" * doctest::skip()) {
  manual_seed(5);
  deep_and_wide();
  manual_seed(5);
  on_stack(size_t{64} << 10, deep_and_wide);
}

TEST_SUITE("environment") {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose frames are larger
  TEST_CASE("environment: a stack of 64 KB is enough for graphs of 100,000 nodes") {
    const std::string results = results_of(run_self("MOTE_SPEC=0 MOTE_THREADS=2",
                                                    "in a child: graphs on a small stack",
                                                    "ulimit -s 256;"));
    const size_t half = results.size() / 2;
    CHECK(results.substr(0, half) == results.substr(half));
    CHECK(results.find("throws") == std::string::npos);
  }
#endif
}
