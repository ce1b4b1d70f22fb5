#include "base/lifetime.h"

#include <cxxabi.h>
#include <dlfcn.h>

extern "C" void* __dso_handle;  // NOLINT: the platform's name for the object this is linked into

namespace mote {

void at_thread_exit(void (*drop)(void*)) { abi::__cxa_thread_atexit(drop, nullptr, &__dso_handle); }

void keep_loaded() {
  [[maybe_unused]] static void* const kept = [] {
    Dl_info here{};
    const bool found = dladdr(reinterpret_cast<void*>(&keep_loaded), &here) != 0;
    // Null for the program itself, which nobody closes.
    return found ? dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) : nullptr;
  }();
}

}  // namespace mote
