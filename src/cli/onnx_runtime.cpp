#include "cli/onnx_runtime.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "onnx/values.h"

namespace mote {

namespace {

namespace fs = std::filesystem;
using Handle = void*;
using Status = Handle;  // null: no error

constexpr uint32_t kVersion = 13;  // of the interface; later libraries have it
constexpr int kErrors = 3, kAllOptimisations = 99, kArena = 1, kDefaultMemory = 0;

// The interface is a table of functions that only grows at its end: these are places in it.
enum Place : size_t {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetOptimisation = 23,
  kSetThreads = 24,
  kSetNodeThreads = 25,
  kInputCount = 30,
  kOutputCount = 31,
  kInputName = 36,
  kOutputName = 37,
  kCreateTensor = 49,
  kTensorData = 51,
  kElementType = 60,
  kRank = 61,
  kDims = 62,
  kElementCount = 64,
  kTypeAndShape = 65,
  kCpuMemory = 69,
  kAllocatorFree = 76,
  kAllocator = 78,
  kReleaseStatus = 93,
  kReleaseMemory = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseTypeAndShape = 99,
  kReleaseOptions = 100
};

struct Base {
  void* const* (*table)(uint32_t version);
  const char* (*version)();
};

// Where npm put the library, or "".
std::string installed_path() {
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  if (!cache && !home) return {};
  const fs::path root = (cache ? fs::path(cache) : fs::path(home) / ".cache") / "mote-peers" /
                        "node_modules/onnxruntime-node/bin";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const fs::path file = entry.path() / "linux/x64/libonnxruntime.so.1";
    if (fs::exists(file, error)) return file.string();
  }
  return {};
}

struct Library {
  std::string missing;
  void* const* table = nullptr;
  Handle environment = nullptr, allocator = nullptr;

  Library() {
    void* opened = dlopen("libonnxruntime.so.1", RTLD_NOW | RTLD_LOCAL);
    if (const std::string path = opened ? "" : installed_path(); !path.empty())
      opened = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    using GetBase = const Base* (*)();
    const auto base = reinterpret_cast<GetBase>(opened ? dlsym(opened, "OrtGetApiBase") : nullptr);
    if (base) table = base()->table(kVersion);
    if (!table) {
      missing = opened ? "this ONNX Runtime is too old" : "no ONNX Runtime (npm onnxruntime-node)";
      return;
    }
    call<int, const char*, Handle*>(kCreateEnv, kErrors, "mote", &environment);
    call<Handle*>(kAllocator, &allocator);
  }

  template <class... A>
  auto function(Place place) const {
    return reinterpret_cast<Status (*)(A...)>(table[place]);
  }
  template <class... A>
  void call(Place place, A... arguments) const {
    const Status status = function<A...>(place)(arguments...);
    if (!status) return;
    const auto message = reinterpret_cast<const char* (*)(Status)>(table[kGetErrorMessage]);
    const std::string what = text("[ONNX Runtime] ", message(status));
    release(kReleaseStatus, status);
    fail(ErrorKind::Device, what);
  }
  void release(Place place, Handle handle) const {
    if (handle) reinterpret_cast<void (*)(Handle)>(table[place])(handle);
  }
};
const Library& library() {
  static const Library* const it = new Library;
  return *it;
}

std::vector<std::string> names(Handle session, Place count, Place name) {
  const Library& l = library();
  size_t n = 0;
  l.call<Handle, size_t*>(count, session, &n);
  std::vector<std::string> out;
  for (size_t i = 0; i < n; ++i) {
    char* one = nullptr;
    l.call<Handle, size_t, Handle, char**>(name, session, i, l.allocator, &one);
    out.emplace_back(one);
    l.call<Handle, void*>(kAllocatorFree, l.allocator, one);
  }
  return out;
}

std::vector<const char*> pointers(const std::vector<std::string>& list) {
  std::vector<const char*> out;
  for (const std::string& s : list) out.push_back(s.c_str());
  return out;
}

}  // namespace

std::string onnx_runtime_missing() { return library().missing; }

RuntimeModel::RuntimeModel(const std::string& path, int threads) {
  const Library& l = library();
  check(l.missing.empty(), l.missing);
  l.call<Handle*>(kCreateSessionOptions, &options_);
  l.call<Handle, int>(kSetOptimisation, options_, kAllOptimisations);
  l.call<Handle, int>(kSetThreads, options_, threads);
  l.call<Handle, int>(kSetNodeThreads, options_, 1);
  l.call<Handle, const char*, Handle, Handle*>(kCreateSession, l.environment, path.c_str(),
                                               options_, &session_);
  l.call<int, int, Handle*>(kCpuMemory, kArena, kDefaultMemory, &memory_);
  input_names_ = names(session_, kInputCount, kInputName);
  output_names_ = names(session_, kOutputCount, kOutputName);
}

RuntimeModel::~RuntimeModel() {
  const Library& l = library();
  drop_outputs();
  for (Handle v : inputs_) l.release(kReleaseValue, v);
  l.release(kReleaseMemory, memory_);
  l.release(kReleaseSession, session_);
  l.release(kReleaseOptions, options_);
}

void RuntimeModel::drop_outputs() {
  for (Handle v : outputs_) library().release(kReleaseValue, v);
  outputs_.assign(output_names_.size(), nullptr);
}

void RuntimeModel::set_inputs(std::vector<PlainTensor> inputs) {
  const Library& l = library();
  check(inputs.size() == input_names_.size(), "[ONNX Runtime] the model has ", input_names_.size(),
        " inputs, but ", inputs.size(), " are given");
  for (Handle v : inputs_) l.release(kReleaseValue, v);
  inputs_.assign(inputs.size(), nullptr);
  data_ = std::move(inputs);
  for (size_t i = 0; i < data_.size(); ++i) {
    PlainTensor& t = data_[i];
    l.call<Handle, void*, size_t, const int64_t*, size_t, int, Handle*>(
        kCreateTensor, memory_, t.bytes.data(), t.bytes.size(), t.shape.data(), t.shape.size(),
        t.type, &inputs_[i]);
  }
}

void RuntimeModel::run() {
  drop_outputs();
  const std::vector<const char*> in = pointers(input_names_), out = pointers(output_names_);
  library()
      .call<Handle, Handle, const char* const*, const Handle*, size_t, const char* const*, size_t,
            Handle*>(kRun, session_, nullptr, in.data(), inputs_.data(), inputs_.size(), out.data(),
                     out.size(), outputs_.data());
}

std::vector<PlainTensor> RuntimeModel::take() const {
  const Library& l = library();
  std::vector<PlainTensor> out;
  for (Handle v : outputs_) {
    Handle form = nullptr;
    l.call<Handle, Handle*>(kTypeAndShape, v, &form);
    PlainTensor t;
    size_t rank = 0, count = 0;
    l.call<Handle, int*>(kElementType, form, &t.type);
    l.call<Handle, size_t*>(kRank, form, &rank);
    t.shape.resize(rank);
    l.call<Handle, int64_t*, size_t>(kDims, form, t.shape.data(), rank);
    l.call<Handle, size_t*>(kElementCount, form, &count);
    l.release(kReleaseTypeAndShape, form);
    void* data = nullptr;
    l.call<Handle, void**>(kTensorData, v, &data);
    const auto* bytes = static_cast<const char*>(data);
    const auto bits = static_cast<size_t>(onnx::element_of(t.type).bits);
    check(bits >= 8, "[ONNX Runtime] a result has elements of ", bits, " bits");
    t.bytes.assign(bytes, bytes + count * bits / 8);
    out.push_back(std::move(t));
  }
  return out;
}

}  // namespace mote
