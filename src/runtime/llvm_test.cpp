#include "runtime/llvm.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>

#include "base/error.h"
#include "runtime/elf.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

using namespace mote;

namespace {

// out[i] = a[i] * b[i] + 0.5, sixteen lanes at a time, with an alloca for the passes to remove.
constexpr const char* axpy_text = R"(
define void @axpy(ptr noalias %out, ptr noalias %a, ptr noalias %b, i64 %n) #0 {
entry:
  %i.addr = alloca i64
  store i64 0, ptr %i.addr
  br label %loop
loop:
  %i = load i64, ptr %i.addr
  %pa = getelementptr float, ptr %a, i64 %i
  %pb = getelementptr float, ptr %b, i64 %i
  %po = getelementptr float, ptr %out, i64 %i
  %va = load <16 x float>, ptr %pa, align 4
  %vb = load <16 x float>, ptr %pb, align 4
  %product = fmul contract <16 x float> %va, %vb
  %sum = fadd contract <16 x float> %product, splat (float 5.0e-01)
  store <16 x float> %sum, ptr %po, align 4
  %next = add i64 %i, 16
  store i64 %next, ptr %i.addr
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
attributes #0 = { nounwind "prefer-vector-width"="512" "no-trapping-math"="true" }
)";

bool missing() {
  std::string why;
  if (llvm_available(&why)) return false;
  MESSAGE("skipped: " << why);
  return true;
}

std::string message_of(std::string_view ir_text, const CpuTarget& target, ErrorKind kind) {
  try {
    llvm_compile(ir_text, target);
  } catch (const Error& error) {
    CHECK(error.kind() == kind);
    return error.what();
  }
  return "no error";
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_SUITE("llvm") {
  TEST_CASE("compiles, loads and runs with every pipeline and level") {
    if (missing()) return;
    CHECK(llvm_version().starts_with("19."));
    for (const char* passes : {"", "mem2reg", default_passes, "default<O2>"}) {
      for (int level : {0, 1, 2, 3}) {
        CpuTarget target = host_cpu_target();
        target.passes = passes;
        target.codegen_level = level;
        const LoadedObject object(llvm_compile(axpy_text, target));
        float a[64], b[64], out[64] = {};
        for (int i = 0; i < 64; ++i) a[i] = static_cast<float>(i), b[i] = 2;
        object.function<void(float*, const float*, const float*, int64_t)>("axpy")(out, a, b, 64);
        for (int i = 0; i < 64; ++i) REQUIRE(out[i] == i * 2 + 0.5f);
      }
    }
  }

  TEST_CASE("the same text gives the same bytes") {
    if (missing()) return;
    CHECK(llvm_compile(axpy_text, host_cpu_target()) == llvm_compile(axpy_text, host_cpu_target()));
  }

  TEST_CASE("vectors keep their width where LLVM prefers 256 bits") {
    if (missing() || !holds(host_cpu_target().triple, "x86_64")) return;
    for (const char* cpu : {"skylake-avx512", "icelake-server", "sapphirerapids", "znver4"}) {
      CpuTarget target = host_cpu_target();
      target.cpu = cpu;
      target.features = "";
      const std::string assembly = llvm_assembly(axpy_text, target);
      CHECK(holds(assembly, "%zmm"));
      CHECK(holds(assembly, "vfmadd"));
      CHECK(!holds(assembly, "%ymm"));
      CHECK(!holds(assembly, "(%rsp)"));
    }
  }

  TEST_CASE("calls to the C library, constant pools and globals") {
    if (missing()) return;
    const LoadedObject object(llvm_compile(R"(
@table = private constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@counter = internal global i64 41
declare double @llvm.exp.f64(double)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define double @f(i64 %i, double %x) nounwind {
  %p = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %t = load double, ptr %p
  %m = frem double %x, %t
  %e = call double @llvm.exp.f64(double %m)
  %r = fadd double %e, 1.25
  ret double %r
}
define i64 @count() nounwind {
  %old = load i64, ptr @counter
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  ret i64 %new
}
define void @fill(ptr %p, i64 %n) nounwind {
  call void @llvm.memset.p0.i64(ptr %p, i8 7, i64 %n, i1 false)
  ret void
}
)",
                                           host_cpu_target()));
    CHECK(object.function<double(int64_t, double)>("f")(1, 4.0) == std::exp(1.5) + 1.25);
    CHECK(object.function<int64_t()>("count")() == 42);
    CHECK(object.function<int64_t()>("count")() == 43);
    char p[1000] = {};
    object.function<void(char*, int64_t)>("fill")(p, 999);
    CHECK(p[998] == 7);
    CHECK(p[999] == 0);
  }

  TEST_CASE("errors carry LLVM's message and the line") {
    if (missing()) return;
    const CpuTarget host = host_cpu_target();
    const std::string syntax =
        message_of("define void @f() {\n  %x = frobnicate i32 1\n}\n", host, ErrorKind::Internal);
    CHECK(holds(syntax, "kernel:2:"));
    CHECK(holds(syntax, "%x = frobnicate i32 1"));
    const std::string invalid = message_of(
        "define i32 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i32 1, 2\n  br "
        "label %b\n"
        "b:\n  ret i32 %x\n}\n",
        host, ErrorKind::Internal);
    CHECK(holds(invalid, "does not dominate"));
    CHECK(holds(invalid, "%x = add i32 1, 2"));
    CpuTarget bad_passes = host;
    bad_passes.passes = "no-such-pass";
    CHECK(holds(message_of(axpy_text, bad_passes, ErrorKind::Internal), "no-such-pass"));
    CpuTarget bad_triple = host;
    bad_triple.triple = "nowhere-at-all";
    CHECK(holds(message_of(axpy_text, bad_triple, ErrorKind::Device), "nowhere-at-all"));
    CHECK(holds(
        message_of(
            "define void @f() {\n  call void asm sideeffect \"bogus\", \"\"()\n  ret void\n}\n",
            host, ErrorKind::Internal),
        "bogus"));
  }

  TEST_CASE("a fatal error inside code generation is an Error, and the next compilation works") {
    if (missing()) return;
#if defined(__SANITIZE_ADDRESS__)
    __lsan::ScopedDisabler expected;  // what LLVM was working on is leaked, by contract
#endif
    const char* unselectable =
        "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
        "define i32 @f() {\n  %x = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n  ret i32 %x\n}\n";
    for (int i = 0; i < 3; ++i) {
      CHECK(
          holds(message_of(unselectable, host_cpu_target(), ErrorKind::Internal), "annot select"));
      CHECK(!llvm_compile(axpy_text, host_cpu_target()).empty());
    }
  }

  TEST_CASE("several threads compile at once") {
    if (missing()) return;
    std::thread threads[4];
    int wrong[4] = {};
    for (int t = 0; t < 4; ++t)
      threads[t] = std::thread([&wrong, t] {
        for (int i = 0; i < 10; ++i) {
          const std::string ir = "define i64 @f(i64 %x) nounwind {\n  %y = add i64 %x, " +
                                 std::to_string(100 * t + i) + "\n  ret i64 %y\n}\n";
          const LoadedObject object(llvm_compile(ir, host_cpu_target()));
          wrong[t] += object.function<int64_t(int64_t)>("f")(5) != 100 * t + i + 5;
        }
      });
    for (auto& thread : threads) thread.join();
    for (int count : wrong) CHECK(count == 0);
  }
}
