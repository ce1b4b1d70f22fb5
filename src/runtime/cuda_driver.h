// The CUDA driver, found with dlopen: what mote calls of libcuda.so.1, in its own words.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace mote::cuda {

using Result = int;  // 0: all is well
using Context = struct ContextObject*;
using Stream = struct StreamObject*;
using Event = struct EventObject*;
using Module = struct ModuleObject*;
using Function = struct FunctionObject*;
using Pointer = uint64_t;

constexpr Result kOutOfMemory = 2, kNotReady = 600;
constexpr unsigned kNonBlocking = 1, kNoTiming = 2;
constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;
constexpr int kMaxDynamicShared = 8;  // attribute of a function

enum Attribute : int {
  kMaxWorkers = 1,
  kClockKhz = 13,
  kProcessors = 16,
  kMemoryKhz = 36,
  kMemoryBits = 37,
  kL2Bytes = 38,
  kMajor = 75,
  kMinor = 76,
  kMaxSharedBytes = 97,
};

// Every function.  FUNCTION(member, symbol, arguments)
#define MOTE_CUDA_FUNCTIONS(FUNCTION)                                                             \
  FUNCTION(init, cuInit, (unsigned))                                                              \
  FUNCTION(error_name, cuGetErrorName, (Result, const char**))                                    \
  FUNCTION(error_text, cuGetErrorString, (Result, const char**))                                  \
  FUNCTION(driver_version, cuDriverGetVersion, (int*))                                            \
  FUNCTION(device_count, cuDeviceGetCount, (int*))                                                \
  FUNCTION(device_get, cuDeviceGet, (int*, int))                                                  \
  FUNCTION(device_name, cuDeviceGetName, (char*, int, int))                                       \
  FUNCTION(device_bytes, cuDeviceTotalMem_v2, (size_t*, int))                                     \
  FUNCTION(device_attribute, cuDeviceGetAttribute, (int*, Attribute, int))                        \
  FUNCTION(retain_context, cuDevicePrimaryCtxRetain, (Context*, int))                             \
  FUNCTION(use_context, cuCtxSetCurrent, (Context))                                               \
  FUNCTION(make_stream, cuStreamCreate, (Stream*, unsigned))                                      \
  FUNCTION(wait_for_all, cuCtxSynchronize, ())                                                    \
  FUNCTION(make_event, cuEventCreate, (Event*, unsigned))                                         \
  FUNCTION(record, cuEventRecord, (Event, Stream))                                                \
  FUNCTION(query, cuEventQuery, (Event))                                                          \
  FUNCTION(wait_for_event, cuEventSynchronize, (Event))                                           \
  FUNCTION(allocate, cuMemAlloc_v2, (Pointer*, size_t))                                           \
  FUNCTION(free, cuMemFree_v2, (Pointer))                                                         \
  FUNCTION(allocate_pinned, cuMemAllocHost_v2, (void**, size_t))                                  \
  FUNCTION(copy_in, cuMemcpyHtoDAsync_v2, (Pointer, const void*, size_t, Stream))                 \
  FUNCTION(copy_out, cuMemcpyDtoHAsync_v2, (void*, Pointer, size_t, Stream))                      \
  FUNCTION(load_module, cuModuleLoadDataEx, (Module*, const void*, unsigned, int*, void**))       \
  FUNCTION(unload_module, cuModuleUnload, (Module))                                               \
  FUNCTION(find_function, cuModuleGetFunction, (Function*, Module, const char*))                  \
  FUNCTION(set_attribute, cuFuncSetAttribute, (Function, int, int))                               \
  FUNCTION(launch, cuLaunchKernel,                                                                \
           (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,       \
            Stream, void**, void**))

struct Driver {
#define MOTE_CUDA_MEMBER(member, symbol, arguments) Result(*member) arguments = nullptr;
  MOTE_CUDA_FUNCTIONS(MOTE_CUDA_MEMBER)
#undef MOTE_CUDA_MEMBER

  // Its name and what it means: "CUDA_ERROR_ILLEGAL_ADDRESS, an illegal memory access ...".
  std::string words(Result result) const;
  // A Device error that says what was tried.
  void check(Result result, const char* what) const;
};

// Opened and initialised once; null: there is none, and why.
const Driver* driver(std::string* why_not);
const Driver& driver();  // where it is known to be there

}  // namespace mote::cuda
