// Random tensor programs on the CPU, as they are, without optimisation actions and with every op
// stored, against the reference interpreter of the unscheduled graph.
#include "test/programs.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "algebra/algebra.h"
#include "base/error.h"
#include "base/flags.h"
#include "engine/kernel_cache.h"
#include "engine/realize.h"
#include "rewrite/rewrite.h"
#include "runtime/device.h"
#include "runtime/interp_graph.h"
#include "tensor/impl.h"
#include "test/amount.h"
#include "test/gpu.h"
#include "test/odd_devices.h"

using namespace mote;
using programs::Script;

namespace {

struct Variant {
  const char* name;
  const char* device;
  int64_t noopt, nofuse, cc;
  // Kernels take random actions, of a seed that each program has: at most so many.
  int64_t most_drawn = 0;
  bool strict = false;  // the same bits are wanted
  int64_t draw(const Script& p) const {
    return most_drawn ? static_cast<int64_t>(p.seed) * 16 + most_drawn : 0;
  }
};
constexpr Variant usual[] = {
    {"CPU",      "CPU",    0, 0, 0},
    {"NOOPT=1",  "CPU",    1, 0, 0},
    {"NOFUSE=1", "CPU",    0, 1, 0},
    {"INTERP",   "INTERP", 0, 0, 0}
};
// Elsewhere, and by other means.
constexpr Variant others[] = {
    {"LATE",                   "LATE",           0, 0, 0},
    {"INTERP_PROGRAM",         "INTERP_PROGRAM", 0, 0, 0},
    {"INTERP_PROGRAM NOOPT=1", "INTERP_PROGRAM", 1, 0, 0},
    {"NARROW",                 "NARROW",         0, 0, 0},
    {"TIGHT",                  "TIGHT",          0, 0, 0},
    {"PARTED",                 "PARTED",         0, 0, 0},
    {"FAR",                    "FAR",            0, 0, 0}
};
// Interpreted kernels check every access.
constexpr Variant drawn[] = {
    {"INTERP_PROGRAM", "INTERP_PROGRAM", 0, 0, 0, 15},
    {"CPU",            "CPU",            0, 0, 0, 15},
    {"CPU",            "CPU",            0, 0, 0, 4 },
    {"CPU NOFUSE=1",   "CPU",            0, 1, 0, 10},
    {"NARROW",         "NARROW",         0, 0, 0, 12},
};
// Blocks of workers.
constexpr Variant in_blocks[] = {
    {"SIMT",         "SIMT",         0, 0, 0    },
    {"SIMT_SMALL",   "SIMT_SMALL",   0, 0, 0    },
    {"SIMT_BROWSER", "SIMT_BROWSER", 0, 0, 0    },
    {"SIMT",         "SIMT",         0, 0, 0, 12},
    {"SIMT_SMALL",   "SIMT_SMALL",   0, 0, 0, 12},
    {"SIMT_BROWSER", "SIMT_BROWSER", 0, 0, 0, 8 },
};
constexpr Variant on_cuda[] = {
    {"CUDA",         "CUDA", 0, 0, 0    },
    {"CUDA NOOPT=1", "CUDA", 1, 0, 0    },
    {"CUDA",         "CUDA", 0, 0, 0, 12},
};
constexpr Variant compiled_c[] = {
    {"CC=1", "CPU", 0, 0, 1}
};
constexpr Variant of_bits[] = {
    {"STRICT=1",                "CPU",            0, 0, 0, 0,  true},
    {"STRICT=1 NOOPT=1",        "CPU",            1, 0, 0, 0,  true},
    {"STRICT=1 NOFUSE=1",       "CPU",            0, 1, 0, 0,  true},
    {"STRICT=1",                "CPU",            0, 0, 0, 15, true},
    {"STRICT=1 INTERP_PROGRAM", "INTERP_PROGRAM", 0, 0, 0, 0,  true},
};
constexpr Variant of_bits_c[] = {
    {"STRICT=1 CC=1", "CPU", 0, 0, 1, 0, true}
};

std::span<const std::byte> bytes_of(const Storage& s) {
  auto& b = device_buffer(const_cast<Storage&>(s));
  if (!b.memory) return {};
  return {host_address(b.memory->address()), static_cast<size_t>(b.bytes())};
}

struct Expected {
  std::vector<HostArray> rounded, wide;  // every op rounded to its dtype; floats in f64
  std::vector<bool> curved;              // devices have curves of their own, within some ulps
};

bool has_curve(UOp root) {
  const std::vector<UOp> order = toposort(root);
  return std::ranges::any_of(order, [](UOp n) { return has(n->op, Curve); });
}

Expected expect_of(const Script& p) {
  std::vector<Ref> nodes;
  std::vector<UOp> roots;
  for (const Tensor& t : programs::execute(p, "INTERP", false)) nodes.push_back(node_of(t));
  for (const Ref& n : nodes) roots.push_back(n);
  std::vector<bool> curved;
  for (UOp root : roots) curved.push_back(has_curve(root));
  return {interpret(roots, {bytes_of, false}), interpret(roots, {bytes_of, true}), curved};
}

double largest(const HostArray& a) {
  double most = 0;
  for (int64_t k = 0; is_float(a.dtype) && k < a.count(); ++k)
    if (double v = std::abs(a.at(k).f); std::isfinite(v)) most = std::max(most, v);
  return most;
}

// What the rounded evaluation itself is off by, and some units in the narrowest float of the
// largest value involved.
double tolerance(const Script& p, const Expected& e, size_t i) {
  const programs::Fact& fact = p.facts[i];
  if (fact.exact) return 0;
  double off = 0, scale = largest(e.wide[i]);
  for (int64_t k = 0; k < e.wide[i].count(); ++k) {
    double d = std::abs(e.wide[i].at(k).f - e.rounded[i].at(k).f);
    if (std::isfinite(d)) off = std::max(off, d);
  }
  for (int source : programs::sources(p, static_cast<int>(i)))
    scale = std::max(scale, largest(e.wide[static_cast<size_t>(source)]));
  return 16 * off + 256 * fact.eps * scale;
}

std::string compare(const Tensor& got, const Script& p, const Expected& e, size_t i, bool strict) {
  HostArray a(got.dtype(), got.shape());
  if (a.count()) got.copy_out(a.bytes.data(), got.nbytes());
  const HostArray& r = e.rounded[i];
  if (a.shape != r.shape || a.dtype != r.dtype)
    return text("another shape or dtype: ", a.shape, " ", mote::name(a.dtype), " for ", r.shape,
                " ", mote::name(r.dtype));
  const double allowed = is_float(a.dtype) ? tolerance(p, e, i) : 0;
  for (int64_t k = 0; k < a.count(); ++k) {
    const Scalar x = a.at(k), y = r.at(k);
    if (strict && !e.curved[i] && !same_bits(x, y))
      return text("t", i, " element ", k, " is ", x.f, ", expected the bits of ", y.f);
    bool same = is_float(a.dtype)
                    ? std::isnan(x.f) == std::isnan(y.f) && std::isinf(x.f) == std::isinf(y.f)
                    : x.i == y.i;
    if (same && is_float(a.dtype) && !std::isnan(x.f) && x.f != y.f)
      same = std::isfinite(x.f) && std::abs(x.f - e.wide[i].at(k).f) <= allowed;
    if (!same)
      return is_float(a.dtype) ? text("t", i, " element ", k, " is ", x.f, ", expected ", y.f, " (",
                                      e.wide[i].at(k).f, " in f64) within ", allowed)
                               : text("t", i, " element ", k, " is ", x.i, ", expected ", y.i);
  }
  return "";
}

// Empty if the program gives what it should.
std::string trouble(const Script& p, const Expected& e, const Variant& v) {
  FlagScope noopt(Flag::NOOPT, v.noopt), nofuse(Flag::NOFUSE, v.nofuse), cc(Flag::CC, v.cc);
  FlagScope draw(Flag::DRAW, v.draw(p)), strict(Flag::STRICT, v.strict);
  try {
    std::vector<Tensor> tensors = programs::execute(p, v.device, true);
    std::vector<Tensor> outputs;
    for (int o : p.outputs) outputs.push_back(tensors[static_cast<size_t>(o)]);
    if (p.together) realize(outputs);
    for (size_t k = 0; k < outputs.size(); ++k) {
      auto i = static_cast<size_t>(p.outputs[k]);
      if (std::string s = compare(outputs[k], p, e, i, v.strict); !s.empty()) return s;
    }
  } catch (const std::exception& error) { return text("throws: ", error.what()); }
  return "";
}

// A device without f64 computes it in f32, which is another measure of error.
bool has_doubles(const Script& p) {
  for (const Tensor& t : programs::execute(p, "INTERP", false))
    if (t.dtype() == DType::f64) return true;
  return false;
}

std::string trouble(const Script& p, const Variant& v) {
  try {
    if (!device(v.device).target().has(DType::f64) && has_doubles(p)) return "";
    return trouble(p, expect_of(p), v);
  } catch (const std::exception& error) { return text("the reference throws: ", error.what()); }
}

// Drops outputs and steps as long as something is wrong.
Script shrink(Script p, const Variant& v) {
  for (bool smaller = true; smaller;) {
    smaller = false;
    for (size_t k = p.outputs.size(); p.outputs.size() > 1 && k-- > 0;) {
      Script q = p;
      q.outputs.erase(q.outputs.begin() + static_cast<long>(k));
      if (trouble(q, v).empty()) continue;
      p = q;
      smaller = true;
    }
    for (size_t i = p.steps.size(); i-- > 0;) {
      auto q = programs::without(p, i);
      if (!q || trouble(*q, v).empty()) continue;
      p = *q;
      smaller = true;
      i = std::min(i, p.steps.size());
    }
  }
  return p;
}

// Fewer actions as long as something is wrong.
Variant shrink_actions(const Script& p, Variant v) {
  for (int64_t n = 1; n < v.most_drawn; ++n) {
    Variant fewer = v;
    fewer.most_drawn = n;
    if (!trouble(p, fewer).empty()) return fewer;
  }
  return v;
}

// How to do it again, and what the kernels were made with.
std::string actions_of(const Script& p, const Variant& v) {
  if (!v.most_drawn) return "";
  clear_caches();
  FlagScope nofuse(Flag::NOFUSE, v.nofuse), draw(Flag::DRAW, v.draw(p));
  FlagScope strict(Flag::STRICT, v.strict);
  trouble(p, v);
  std::string out = text("with DRAW=", v.draw(p), ":\n");
  for (const auto& [body, device, k] : known_kernels())
    out += text("  ", k->name, ": ", k->actions, "\n");
  return out;
}

// How often each rule fired while the programs ran. The rules of the algebra are tested
// one by one elsewhere (laws_test.cpp): the whole list is for long runs.
using Fires = std::unordered_map<const Rule*, uint64_t>;
void print_fires(const Fires& fires) {
  const std::vector<const Rule*>& rules = collapse_rules.rules();
  const auto fired = std::ranges::count_if(rules, [&](const Rule* r) { return fires.count(r); });
  std::printf("random programs: %td of %zu scheduling rules fired\n", fired, rules.size());
  if (!std::getenv("MOTE_SOAK")) return;
  for (const auto& [r, times] : fires)
    std::printf("%llu  %s\n", static_cast<unsigned long long>(times), text_of(*r).c_str());
}

void run_programs(uint64_t first, int64_t count, double budget_seconds,
                  std::span<const Variant> variants) {
  // MOTE_PROGRAM_SEED=5000000: this one; 5000000+300: so many from there.
  if (const char* seed = std::getenv("MOTE_PROGRAM_SEED")) {
    char* rest = nullptr;
    first = std::strtoull(seed, &rest, 0);
    count = *rest == '+' ? std::strtoll(rest + 1, nullptr, 0) : 1;
  }
  // MOTE_PROGRAM_PART=2/8: the second of eight equal parts, for machines with many cores.
  if (int part = 0, parts = 0; const char* text = std::getenv("MOTE_PROGRAM_PART")) {
    REQUIRE((std::sscanf(text, "%d/%d", &part, &parts) == 2 && part >= 1 && part <= parts));
    count /= parts;
    first += static_cast<uint64_t>((part - 1) * count);
  }
  auto start = std::chrono::steady_clock::now();
  auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  add_odd_devices();
  std::string device = default_device();
  FlagScope unchecked(Flag::CHECK, 0);  // indices out of range have a meaning then, too
  int failures = 0;
  int64_t done = 0;
  Fires fires;
  Trace trace([&](const TraceEvent& e) {
    if (e.rule) ++fires[e.rule];
  });
  for (; done < count && seconds() < budget_seconds && failures < 5; ++done) {
    if (done % 200 == 199) clear_caches();  // a process has room for some ten thousand kernels
    Script p = programs::generate(first + static_cast<uint64_t>(done));
    const double before = seconds();
    for (const Variant& v : variants) {
      std::string what = trouble(p, v);
      if (what.empty()) continue;
      ++failures;
      Script small = shrink(p, v);
      const Variant less = shrink_actions(small, v);
      FAIL_CHECK("program ", p.seed, " on ", std::string(v.name), ": ", what, "\nshrunk: ",
                 trouble(small, less), "\n", programs::list(small), actions_of(small, less));
      break;
    }
    if (double took = seconds() - before; took > 20)
      std::printf("random programs: seed %llu took %.0f s\n",
                  static_cast<unsigned long long>(p.seed), took);
  }
  set_default_device(device);
  std::printf("random programs: %lld of %lld from seed %llu in %.1f s of %.0f s\n",
              static_cast<long long>(done), static_cast<long long>(count),
              static_cast<unsigned long long>(first), seconds(), budget_seconds);
  print_fires(fires);
  CHECK(done == count);
}

// Whether some index is out of range, or a divisor 0.
bool finds_violation(const Script& p, const char* device) {
  try {
    std::vector<Tensor> tensors = programs::execute(p, device, true), outputs;
    for (int o : p.outputs) outputs.push_back(tensors[static_cast<size_t>(o)]);
    if (p.together) realize(outputs);
    for (const Tensor& t : outputs) t.to_vector<double>();
    zeros({}, {.device = device}).item<float>();  // outputs may be empty
  } catch (const Error& error) {
    const std::string_view what = error.what();
    const bool is_one = what.find("out of range") != what.npos ||
                        what.find("division by zero") != what.npos ||
                        what.find("true elements") != what.npos;
    if (!is_one) throw;
    return true;
  }
  return false;
}

void run_checked_programs(uint64_t first, int64_t count) {
  constexpr Variant kinds[] = {usual[0], usual[2], others[0], others[1], others[3]};
  add_odd_devices();
  std::string device = default_device();
  int64_t wrong = 0;
  for (int64_t i = 0; i < count; ++i) {
    FlagScope unchecked(Flag::CHECK, 0);
    const Script p = programs::generate(first + static_cast<uint64_t>(i));
    FlagScope checked(Flag::CHECK, 2);
    const bool found = finds_violation(p, "INTERP");
    wrong += found;
    const Variant& v = kinds[static_cast<size_t>(i) % std::size(kinds)];
    INFO("program ", p.seed, " on ", std::string(v.name), "\n", programs::list(p));
    FlagScope nofuse(Flag::NOFUSE, v.nofuse);
    CHECK(finds_violation(p, v.device) == found);
    if (!found) CHECK(trouble(p, v) == "");
  }
  set_default_device(device);
  std::printf("random programs: %lld from seed %llu with checks, %lld wrong\n",
              static_cast<long long>(count), static_cast<unsigned long long>(first),
              static_cast<long long>(wrong));
}

}  // namespace

TEST_CASE("random programs: checks find the same on all devices") {
  run_checked_programs(600'000, test::scaled<int64_t>(60));
}

TEST_CASE("many random programs with checks" * doctest::test_suite("soak")) {
  run_checked_programs(6'000'000, test::scaled<int64_t>(5000));
}

TEST_CASE("random programs give what the reference interpreter gives") {
  run_programs(1, test::scaled<int64_t>(500), 240, usual);
}

TEST_CASE("random programs on a late device and as interpreted kernels") {
  run_programs(500'000, test::scaled<int64_t>(100), 120, others);
}

TEST_CASE("random programs in blocks of workers") {
  run_programs(900'000, test::scaled<int64_t>(50), 120, in_blocks);
}

TEST_CASE("random programs on CUDA") {
  if (test::has_cuda()) run_programs(950'000, test::scaled<int64_t>(200), 240, on_cuda);
}

TEST_CASE("many random programs on CUDA" * doctest::test_suite("soak")) {
  if (test::has_cuda()) run_programs(9'000'000, test::scaled<int64_t>(2000), 3600, on_cuda);
}

TEST_CASE("many random programs in blocks of workers" * doctest::test_suite("soak")) {
  run_programs(8'000'000, test::scaled<int64_t>(2000), 3600, in_blocks);
}

TEST_CASE("random programs with random legal actions") {
  run_programs(700'000, test::scaled<int64_t>(100), 240, drawn);
}

TEST_CASE("random programs give the bits of the reference interpreter with STRICT=1") {
  run_programs(800'000, test::scaled<int64_t>(40), 120, of_bits);
}

TEST_CASE("many random programs with STRICT=1" * doctest::test_suite("soak")) {
  run_programs(5'000'000, test::scaled<int64_t>(6000), 3600, of_bits);
  run_programs(7'000'000, test::scaled<int64_t>(200), 1800, of_bits_c);
}

TEST_CASE("many random programs with random legal actions" * doctest::test_suite("soak")) {
  run_programs(4'000'000, test::scaled<int64_t>(6000), 3600, drawn);
}

TEST_CASE("many random programs" * doctest::test_suite("soak")) {
  run_programs(1'000'000, test::scaled<int64_t>(20000), 3600, usual);
}

TEST_CASE("many random programs by other means" * doctest::test_suite("soak")) {
  run_programs(2'000'000, test::scaled<int64_t>(2000), 1800, others);
  run_programs(3'000'000, test::scaled<int64_t>(200), 1800, compiled_c);
}
