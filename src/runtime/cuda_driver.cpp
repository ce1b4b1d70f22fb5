#include "runtime/cuda_driver.h"

#include <dlfcn.h>

#include "base/error.h"

namespace mote::cuda {

std::string Driver::words(Result result) const {
  const char *name = nullptr, *meaning = nullptr;
  error_name(result, &name);
  error_text(result, &meaning);
  return text(name ? name : "an unknown error", ", ", meaning ? meaning : std::to_string(result));
}

void Driver::check(Result result, const char* what) const {
  if (result) fail(ErrorKind::Device, text("[CUDA] ", what, ": ", words(result)));
}

namespace {

struct Opened {
  Driver driver;
  std::string why_not;

  Opened() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) {
      why_not = "libcuda.so.1 not found: it comes with NVIDIA's driver";
      return;
    }
#define MOTE_CUDA_FIND(member, symbol, arguments)                                 \
  driver.member = reinterpret_cast<Result(*) arguments>(dlsym(library, #symbol)); \
  if (!driver.member) why_not = "libcuda.so.1 is too old: it has no " #symbol;
    MOTE_CUDA_FUNCTIONS(MOTE_CUDA_FIND)
#undef MOTE_CUDA_FIND
    if (!why_not.empty()) return;
    int count = 0;
    if (const Result r = driver.init(0))
      why_not = "libcuda.so.1 does not start: " + driver.words(r);
    else if (driver.device_count(&count) || !count)
      why_not = "the driver knows no GPU";
  }
};

const Opened& opened() {
  static const auto* const once = new Opened;
  return *once;
}

}  // namespace

const Driver* driver(std::string* why_not) {
  if (opened().why_not.empty()) return &opened().driver;
  if (why_not) *why_not = opened().why_not;
  return nullptr;
}
const Driver& driver() { return opened().driver; }

}  // namespace mote::cuda
