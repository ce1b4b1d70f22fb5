#include "runtime/c_compiler.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <thread>

#include "base/error.h"
#include "runtime/elf.h"

using namespace mote;

static constexpr const char* sum_text = R"(
float sum(const float* x, long n) {
  float total = 0;
  for (long i = 0; i < n; ++i) total += x[i];
  return total;
}
)";

TEST_SUITE("c_compiler") {
  TEST_CASE("compiles, loads and runs") {
    std::string why;
    if (!c_compiler_available(&why)) {
      MESSAGE("skipped: " << why);
      return;
    }
    CHECK(c_compiler_version().find("-O2") != std::string::npos);
    const LoadedObject object(c_compile(sum_text));
    const float x[] = {1, 2, 3.5f};
    CHECK(object.function<float(const float*, long)>("sum")(x, 3) == 6.5f);
    CHECK_THROWS_AS(object.symbol("product"), Error);
  }

  TEST_CASE("constants, tables, statics and external calls are relocated") {
    if (!c_compiler_available()) return;
    const LoadedObject object(c_compile(R"(
double fmod(double, double);
void* memset(void*, int, unsigned long);
static const double table[4] = {0.5, 1.5, 2.5, 3.5};
static int calls = 7;
static double* cells[2];
static double zeroed[100];
__attribute__((noinline)) static double pick(int i) { return table[i & 3]; }
double kernel(int i, double x) {
  ++calls, cells[0] = zeroed;
  return fmod(x, pick(i)) + calls + *cells[0];
}
void clear(char* p, unsigned long n) { memset(p, 3, n); }
typedef float v16 __attribute__((vector_size(64), aligned(4)));
void scale(float* p) { *(v16*)p = *(v16*)p * 2.25f + 1.0f; }
)"));
    CHECK(object.function<double(int, double)>("kernel")(1, 4.0) == std::fmod(4.0, 1.5) + 8);
    CHECK(object.function<double(int, double)>("kernel")(2, 4.0) == std::fmod(4.0, 2.5) + 9);
    char p[300] = {};
    object.function<void(char*, unsigned long)>("clear")(p, 299);
    CHECK(p[298] == 3);
    CHECK(p[299] == 0);
    float v[16];
    for (int i = 0; i < 16; ++i) v[i] = static_cast<float>(i);
    object.function<void(float*)>("scale")(v);
    for (int i = 0; i < 16; ++i) CHECK(v[i] == i * 2.25f + 1);
  }

  TEST_CASE("absolute 32-bit relocations load in low memory") {
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (!c_compiler_available()) return;
    const LoadedObject object(
        c_compile("static const int t[4] = {1, 2, 3, 4}; int pick(long i) { return t[i & 3]; }",
                  {"-fno-pic", "-fno-pie", "-mcmodel=small"}));
    CHECK(object.function<int(long)>("pick")(2) == 3);
#endif
  }

  TEST_CASE("floats are IEEE, but products may fuse") {
    if (!c_compiler_available()) return;
    const LoadedObject object(
        c_compile("float f(float a, float b) { return (a + b) - a; }\n"
                  "int isnan_(float a) { return a != a; }"));
    CHECK(object.function<float(float, float)>("f")(1e8f, 1.0f) == 0.0f);
    CHECK(object.function<int(float)>("isnan_")(NAN) == 1);
  }

  TEST_CASE("a mistake in the text is an Internal error with the line") {
    if (!c_compiler_available()) return;
    try {
      c_compile("int f(void) {\n  return nowhere;\n}\n");
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::Internal);
      const std::string what = error.what();
      CHECK(what.find("<stdin>:2") != std::string::npos);
      CHECK(what.find("return nowhere") != std::string::npos);
    }
  }

  TEST_CASE("several threads compile at once") {
    if (!c_compiler_available()) return;
    std::thread threads[3];
    float results[3] = {};
    for (int t = 0; t < 3; ++t)
      threads[t] = std::thread([&results, t] {
        const LoadedObject object(
            c_compile("float f(float x) { return x + " + std::to_string(t) + "; }"));
        results[t] = object.function<float(float)>("f")(10);
      });
    for (auto& thread : threads) thread.join();
    for (int t = 0; t < 3; ++t) CHECK(results[t] == 10 + t);
  }
}
