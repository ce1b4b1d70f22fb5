// How this thread's floats round. Other code in the process may have set a rounding mode, flushing
// of subnormals or trapping exceptions; results must not depend on it.
#pragma once
#include <cstdint>

namespace mote {

// The default environment (to nearest even, subnormals kept, no traps) until destroyed; then what
// was before. Opened by every public call and by every thread of the pool. Costs two nanoseconds
// where the environment is the default one.
class FloatEnvironment {
 public:
#if defined(__x86_64__)
  FloatEnvironment() : before_(__builtin_ia32_stmxcsr()) {
    if ((before_ & ~sticky) != default_word) [[unlikely]]
      __builtin_ia32_ldmxcsr(default_word);
  }
  ~FloatEnvironment() {
    if ((before_ & ~sticky) != default_word) [[unlikely]]
      __builtin_ia32_ldmxcsr(before_);
  }

 private:
  static constexpr uint32_t sticky = 0x3f, default_word = 0x1f80;
  uint32_t before_;
#elif defined(__aarch64__)
  FloatEnvironment() {
    asm volatile("mrs %0, fpcr" : "=r"(before_));
    if (before_ != 0) [[unlikely]]
      asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
  }
  ~FloatEnvironment() {
    if (before_ != 0) [[unlikely]]
      asm volatile("msr fpcr, %0" : : "r"(before_));
  }

 private:
  uint64_t before_;
#else
  FloatEnvironment() = default;
#endif

 public:
  FloatEnvironment(const FloatEnvironment&) = delete;
};

}  // namespace mote
