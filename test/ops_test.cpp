// Every golden case of test/goldens/{ops,more_ops}.gold.gz on every device: dtype, shape and values
// of the outputs, and the gradients of their weighted sum. To add a case: one add(...) line in
// tools/make_goldens.py or make_more_goldens.py; a new op also needs a row in one of
// test/ops_table_*.cpp.
// For work on one op: OPS=substring runs only the cases whose names contain it.
// MOTE_PROGRAM_PART=2/8 runs the second of eight parts on CUDA, for machines with many cores.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>
#include <stdexcept>

#include "base/flags.h"
#include "engine/realize.h"
#include "ir/dtype.h"
#include "ops_table.h"
#include "runtime/devices.h"
#include "runtime/llvm.h"
#include "test/amount.h"
#include "test/gpu.h"
#include "test_paths.h"

using namespace mote;
using namespace mote::test;

namespace {

// Tolerances, all of them: |got - want| <= atol + rtol * |want|, gradients as outputs. The first
// row that fits counts; a row is for an op, for one case (its name), or ("") for everything.
struct Tolerance {
  const char* whose;
  DType dtype;
  double rtol, atol;
  const char* why;
};
const Tolerance tolerances[] = {
    {"cumprod", DType::f32, 1.3e-6, 1e-4, "the gradient is a difference of long sums"},
    {"layer_norm/offset", DType::f32, 1e-5, 5e-5, "x - mean loses digits where the mean is 500"},
    {"det", DType::f32, 2e-5, 1e-5, "a product of many factors"},
    {"eigh_abs", DType::f32, 2e-5, 5e-5, "the largest eigenvalue's rounding"},
    {"eigvalsh", DType::f32, 2e-5, 5e-5, "the largest eigenvalue's rounding"},
    {"matrix_exp", DType::f32, 3e-5, 1e-4, "squarings double what rounding did"},
    {"scatter_add", DType::f16, 1e-3, 1e-3, "every sum is rounded"},
    {"", DType::f64, 1e-7, 1e-7, "torch.testing.assert_close"},
    {"", DType::f32, 1.3e-6, 1e-5, "torch.testing.assert_close"},
    {"", DType::f16, 1e-3, 1e-5, "torch.testing.assert_close"},
    {"", DType::bf16, 1.6e-2, 1e-5, "torch.testing.assert_close"},
    {"", DType::f8e4m3, 0, 0, "casts are exact"},
    {"", DType::f8e5m2, 0, 0, "casts are exact"},
};

// Ops whose results must have the right sign where they are zero.
constexpr const char* signed_zeros[] = {"neg", "positive", "abs", "ceil", "floor", "trunc", "round",
                                        "sqrt", "add", "sub", "mul", "div", "copysign", "cast"};

const Tolerance& tolerance(const GoldenCase& c, DType dtype) {
  for (const Tolerance& t : tolerances)
    if (t.dtype == dtype && (!*t.whose || c.op == t.whose || c.name == t.whose)) return t;
  throw std::runtime_error(std::string("no tolerance for ") + name(dtype));
}

bool keeps_signed_zero(const std::string& op) {
  return std::find(std::begin(signed_zeros), std::end(signed_zeros), op) != std::end(signed_zeros);
}

// One tensor of a result and what the case says about it.
struct Expected {
  std::string what;
  bool is_output;  // else a gradient
  const GoldenTensor* want;
  Tensor got;
};

// Comparison: an empty text, or what is wrong.
std::string shape_text(const std::vector<int64_t>& shape) {
  std::string out;
  for (int64_t d : shape) out += (out.empty() ? "" : ", ") + std::to_string(d);
  return "(" + out + ")";
}

std::string position_text(int64_t flat, const std::vector<int64_t>& shape) {
  std::vector<int64_t> at(shape.size());
  for (size_t k = shape.size(); k-- > 0; flat /= shape[k]) at[k] = flat % shape[k];
  return shape_text(at);
}

bool close(double got, double want, const Tolerance& t, bool signed_zero) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (std::isinf(want) || std::isinf(got)) return want == got;
  if (signed_zero && want == 0 && got == 0) return std::signbit(want) == std::signbit(got);
  return std::fabs(got - want) <= t.atol + t.rtol * std::fabs(want);
}

std::string number_text(double v) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", v);
  return text;
}

struct Mismatch {
  int64_t count = 0, first = 0;
  std::string got, want;
  void add(int64_t at, const std::string& is, const std::string& should) {
    if (count++ == 0) first = at, got = is, want = should;
  }
};

Mismatch differing(const GoldenCase& golden, const GoldenTensor& want, const std::string& got,
                   bool signed_zero) {
  Mismatch m;
  int bytes = size_of(want.dtype);
  for (int64_t i = 0; i < want.numel(); i++) {
    const char *g = got.data() + i * bytes, *w = want.bytes.data() + i * bytes;
    if (is_float(want.dtype)) {
      double gv = load_float(want.dtype, g), wv = load_float(want.dtype, w);
      if (!close(gv, wv, tolerance(golden, want.dtype), signed_zero))
        m.add(i, number_text(gv), number_text(wv));
    } else {
      int64_t gv = load_int(want.dtype, g), wv = load_int(want.dtype, w);
      if (gv != wv) m.add(i, std::to_string(gv), std::to_string(wv));
    }
  }
  return m;
}

std::string check_kind(const Expected& e) {
  if (!e.got.defined()) return e.what + "is undefined\n";
  if (e.got.dtype() != e.want->dtype)
    return e.what + "is " + name(e.got.dtype()) + ", should be " + name(e.want->dtype) + "\n";
  std::vector<int64_t> shape = e.got.shape();
  if (shape == e.want->shape) return {};
  return e.what + "has shape " + shape_text(shape) + ", should be " + shape_text(e.want->shape) +
         "\n";
}

std::string check_values(const GoldenCase& golden, const Expected& e) {
  const GoldenTensor& want = *e.want;
  std::string bytes(want.bytes.size(), '\0');
  e.got.copy_out(bytes.data(), static_cast<int64_t>(bytes.size()));
  Mismatch m = differing(golden, want, bytes, e.is_output && keeps_signed_zero(golden.op));
  if (m.count == 0) return {};
  return e.what + position_text(m.first, want.shape) + " is " + m.got + ", should be " + m.want +
         " (" + std::to_string(m.count) + " of " + std::to_string(want.numel()) + " differ)\n";
}

// Running one case.
Call make_call(const GoldenCase& golden, const std::string& device) {
  Call call{golden, device, {}};
  for (const GoldenInput& in : golden.inputs) {
    const GoldenTensor& v = in.value;
    call.inputs.push_back(from_bytes(v.bytes.data(), v.shape, v.dtype, device));
  }
  return call;
}

void add_gradients(const Call& call, const Outputs& outputs, std::vector<Expected>& all) {
  const GoldenCase& golden = call.golden;
  if (golden.gradients.empty()) return;
  Tensor loss;
  for (size_t i = 0; i < outputs.size(); i++) {
    if (!golden.outputs[i].weight) continue;
    const GoldenTensor& w = *golden.outputs[i].weight;
    Tensor weight = from_bytes(w.bytes.data(), w.shape, w.dtype, call.device);
    Tensor part = (outputs[i] * weight).sum();
    loss = loss.defined() ? loss + part : part;
  }
  std::vector<Tensor> targets;
  std::vector<size_t> of;
  for (size_t i = 0; i < golden.gradients.size(); i++) {
    if (!golden.gradients[i]) continue;
    targets.push_back(call.inputs[i]);
    of.push_back(i);
  }
  // PyTorch gives zeros where a zero-size result depends on nothing.
  std::vector<Tensor> found = loss.gradient(targets, {}, /*allow_unused=*/true);
  for (size_t k = 0; k < of.size(); k++) {
    std::string what = "gradient of input " + std::to_string(of[k]);
    if (const std::string& role = golden.inputs[of[k]].role; !role.empty()) what += " " + role;
    all.push_back({what + " ", false, &*golden.gradients[of[k]], found[k]});
  }
}

// What the case asks for, lazily; `wrong` says what cannot be right.
std::vector<Expected> all_results(const Call& call, std::string* wrong) {
  const GoldenCase& golden = call.golden;
  Outputs outputs = find_op(golden.op)->run(call);
  std::vector<Expected> all;
  if (outputs.size() != golden.outputs.size()) {
    *wrong = std::to_string(outputs.size()) + " outputs, should be " +
             std::to_string(golden.outputs.size()) + "\n";
    return all;
  }
  for (size_t i = 0; i < outputs.size(); i++) {
    std::string what = "output " + std::to_string(i) + " ";
    all.push_back({what, true, &golden.outputs[i].value, outputs[i]});
  }
  for (const Expected& e : all) *wrong += check_kind(e);
  if (!wrong->empty()) return all;
  add_gradients(call, outputs, all);  // before anything is realized
  for (size_t i = outputs.size(); i < all.size(); i++) *wrong += check_kind(all[i]);
  return all;
}

std::vector<Tensor> tensors_of(const std::vector<Expected>& all) {
  std::vector<Tensor> tensors;
  for (const Expected& e : all) tensors.push_back(e.got);
  return tensors;
}

std::string run_case(const GoldenCase& golden, const std::string& device) {
  if (!find_op(golden.op)) return "no table of test/ops_table_*.cpp has this op\n";
  std::string wrong;
  std::vector<Expected> all = all_results(make_call(golden, device), &wrong);
  if (!wrong.empty()) return wrong;
  realize(tensors_of(all));
  for (const Expected& e : all) wrong += check_values(golden, e);
  return wrong;
}

std::string run_safely(const GoldenCase& golden, const std::string& device) {
  try {
    return run_case(golden, device);
  } catch (const std::exception& e) {
    return std::string("throws ") + e.what() + "\n";
  }
}

// Running all of them.
const GoldenFile& goldens() {
  static const GoldenFile file = read_goldens({"ops.gold.gz", "more_ops.gold.gz"});
  return file;
}

std::vector<const GoldenCase*> chosen_cases() {
  const char* filter = std::getenv("OPS");
  std::vector<const GoldenCase*> out;
  for (const GoldenCase& c : goldens().cases)
    if (!filter || c.name.find(filter) != std::string::npos) out.push_back(&c);
  return out;
}

void run_all(const std::string& device, std::vector<const GoldenCase*> todo = chosen_cases()) {
  size_t agree = 0;
  for (const GoldenCase* c : todo) {
    std::string wrong = run_safely(*c, device);
    agree += wrong.empty();
    CHECK_MESSAGE(wrong.empty(), device, " ", c->name, ": ", c->op, "(", c->attrs_text(), ")\n",
                  wrong);
  }
  MESSAGE(device, ": ", agree, " of ", todo.size(), " golden cases agree");
}

TEST_CASE("goldens: at least 800 cases, each named once, each with a row in the tables") {
  std::set<std::string> names;
  size_t cases = 0;
  for (const GoldenCase& c : goldens().cases) {
    CHECK_MESSAGE(names.insert(c.name).second, "twice: ", c.name);
    CHECK_MESSAGE(find_op(c.op), "no row for ", c.op);
    cases += !c.is_variant();
  }
  CHECK(cases >= 800);
  MESSAGE(goldens().header);
}

TEST_CASE("ops: CPU agrees with PyTorch") {
  std::vector<const GoldenCase*> cases = chosen_cases();
  const int64_t step = std::min<int64_t>(3, test::stride_of_cases());  // sanitized: a third
  int64_t place = 0;
  std::erase_if(cases, [&](auto&) { return place++ % step != 0; });
  run_all("CPU", cases);
}

TEST_CASE("ops: CUDA agrees with PyTorch") {
  if (!test::has_cuda()) return;
  std::vector<const GoldenCase*> cases = chosen_cases();
  if (int part = 1, parts = 1; const char* text = std::getenv("MOTE_PROGRAM_PART")) {
    REQUIRE((std::sscanf(text, "%d/%d", &part, &parts) == 2 && part >= 1 && part <= parts));
    int place = 0;
    std::erase_if(cases, [&](auto&) { return place++ % parts != part - 1; });
  }
  run_all("CUDA", cases);
}

TEST_CASE("ops: the interpreter of tensor graphs agrees with PyTorch") {
  run_all("INTERP");
}

// The text of every kernel of a case; none if it needs values while it is built.
std::vector<std::string> kernels_of(const GoldenCase& golden, const std::string& device) try {
  std::string wrong;
  std::vector<std::string> texts;
  Call call = make_call(golden, device);
  std::vector<Tensor> tensors = tensors_of(all_results(call, &wrong));
  for (const KernelReport& k : explain(tensors).kernels) texts.push_back(k.text);
  return texts;
} catch (const Error& e) {
  CHECK_MESSAGE(std::string(e.what()).find("holds no data to read back") != std::string::npos,
                e.what());
  return {};
}

std::string kernel_texts(const GoldenCase& golden, const std::string& device) {
  std::string all;
  for (const std::string& k : kernels_of(golden, device)) all += k;
  return all;
}

TEST_CASE("ops: NULL's kernels are those of CPU, byte for byte") {
  if (!llvm_available()) return;  // then CPU's are in C
  FlagScope unchecked(Flag::CHECK, 0);  // NULL holds no values to look at
  std::vector<const GoldenCase*> all = chosen_cases();
  size_t tried = 0;
  for (size_t i = 0; i < all.size(); i += 7) {
    std::string text = kernel_texts(*all[i], "NULL");
    if (text.empty()) continue;
    ++tried;
    CHECK_MESSAGE(text == kernel_texts(*all[i], "CPU"), all[i]->name);
  }
  CHECK(tried >= all.size() / 8);
}

// The interpreter of kernels, described as a device with few buffers and no 64-bit types.
void add_small_device() {
  static const bool added = [] {
    add_device({"SMALL", [](std::string*) { return true; }, [](const std::string& name) {
                  Target t = cpu_target();
                  t.name = "small";
                  t.threads = 1;
                  t.max_buffers = 8;
                  for (DType d : {DType::i64, DType::u64, DType::f64})
                    t.dtypes &= ~(1u << static_cast<int>(d));
                  return open_interp_program(name, t);
                }});
    return true;
  }();
  (void)added;
}

// Without f64 its values are computed as f32: right to 24 bits, and only in f32's range.
bool needs_doubles(const GoldenCase* c) {
  // Their intermediate results are beyond f32.
  if (c->name == "acosh/special" || c->name == "hypot/large") return true;
  // Made of series and bits of f64.
  for (const char* op : {"digamma", "erfcx", "erfinv", "frexp", "i0", "i0e", "i1", "i1e", "lgamma",
                         "log_ndtr", "mvlgamma", "ndtr", "ndtri", "polygamma", "zeta"})
    if (c->op == op) return true;
  auto is_double = [](const auto& t) { return t.value.dtype == DType::f64; };
  return std::ranges::any_of(c->inputs, is_double) || std::ranges::any_of(c->outputs, is_double);
}

TEST_CASE("ops: every tenth case on the interpreter of kernels") {
  std::vector<const GoldenCase*> all = chosen_cases(), some;
  for (size_t i = 0; i < all.size(); i += 10) some.push_back(all[i]);
  run_all("INTERP_PROGRAM", some);
}

TEST_CASE("ops: a device with 8 buffers per kernel and no 64-bit types agrees with PyTorch") {
  add_small_device();
  std::vector<const GoldenCase*> cases = chosen_cases();
  std::erase_if(cases, needs_doubles);
  int64_t place = 0;  // sanitized runs leave most out
  std::erase_if(cases, [&](auto&) { return place++ % test::stride_of_cases() != 0; });
  run_all("SMALL", cases);
}

// Distinct kernels of every so many cases, as the assembler of NVIDIA's toolkit sees them.
void assemble_kernels(int architecture, const std::string& name, size_t step) {
  if (ptxas().empty()) {
    MESSAGE("skipped: there is no ptxas here");
    return;
  }
  constexpr size_t kAtOnce = 100;
  const std::string device = ptx_device(architecture);
  const std::vector<const GoldenCase*> cases = chosen_cases();
  std::set<std::string> seen;
  std::vector<std::string> kernels;
  for (size_t i = 0; i < cases.size(); i += step)
    for (const std::string& k : kernels_of(*cases[i], device))
      if (seen.insert(k).second) kernels.push_back(k);
  CHECK(kernels.size() >= cases.size() / step / 2);
  for (size_t i = 0; i < kernels.size(); i += kAtOnce) {
    const auto some = std::span(kernels).subspan(i, std::min(kAtOnce, kernels.size() - i));
    CHECK_MESSAGE(assemble_ptx(some, name) == "", name);
  }
  MESSAGE(name, ": ", kernels.size(), " kernels");
}

TEST_CASE("ops: kernels in PTX are assembled") { assemble_kernels(90, "sm_90a", 12); }

// Every so many of the cases, on all three descriptions of GPUs.
void run_in_blocks(size_t step) {
  size_t first = 0;
  for (const char* name : {"SIMT", "SIMT_SMALL", "SIMT_BROWSER"}) {
    std::vector<const GoldenCase*> all = chosen_cases(), some;
    if (!device(name).target().has(DType::f64)) std::erase_if(all, needs_doubles);
    for (size_t i = first++; i < all.size(); i += step) some.push_back(all[i]);
    run_all(name, some);
  }
}

TEST_CASE("ops: some cases in blocks of workers") { run_in_blocks(2 * test::stride_of_cases()); }

TEST_SUITE_BEGIN("soak");

TEST_CASE("ops: all cases in blocks of workers") { run_in_blocks(1); }

TEST_CASE("ops: all kernels in PTX are assembled, and some for each architecture") {
  assemble_kernels(90, "sm_90a", 1);
  assemble_kernels(75, "sm_75", 10);
  assemble_kernels(80, "sm_80", 10);
  assemble_kernels(86, "sm_86", 10);
  assemble_kernels(89, "sm_89", 10);
  assemble_kernels(100, "sm_100a", 10);
}

TEST_CASE("ops: CPU through the C compiler agrees with PyTorch") {
  FlagScope c_compiler(Flag::CC, 1);
  run_all("CPU");
}

TEST_CASE("ops: the interpreter of kernels agrees with PyTorch") {
  run_all("INTERP_PROGRAM");
}

TEST_SUITE_END();

}  // namespace
