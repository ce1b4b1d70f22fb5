#include "runtime/llvm.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/flags.h"
#include "base/hash.h"
#include "base/lifetime.h"
#include "base/number.h"
#include "base/threads.h"
#include "base/utf8.h"
#include "runtime/cpu_info.h"
#include "runtime/disk_cache.h"

namespace mote {
namespace {

// The few declarations of llvm-c/*.h that are used; LLVM keeps the C interface stable.
struct Context;
struct Module;
struct Buffer;
struct Target;
struct Machine;
struct Layout;
struct PassOptions;
struct PassError;
struct Diagnostic;
using DiagnosticHandler = void (*)(Diagnostic*, void*);
using FatalHandler = void (*)(const char*);
constexpr int return_status_action = 2, reloc_pic = 2, code_model_small = 3, severity_error = 0;
enum Emit { Assembly = 0, Object = 1 };

#if defined(__aarch64__)
#define MOTE_LLVM_TARGET(what) "LLVMInitializeAArch64" what
#else
#define MOTE_LLVM_TARGET(what) "LLVMInitializeX86" what
#endif

// Every function used, one line each: member, name in the library, type.
#define MOTE_LLVM_FUNCTIONS(X)                                                             \
  X(initialize_target_info, MOTE_LLVM_TARGET("TargetInfo"), void())                        \
  X(initialize_target, MOTE_LLVM_TARGET("Target"), void())                                 \
  X(initialize_target_mc, MOTE_LLVM_TARGET("TargetMC"), void())                            \
  X(initialize_asm_printer, MOTE_LLVM_TARGET("AsmPrinter"), void())                        \
  X(initialize_asm_parser, MOTE_LLVM_TARGET("AsmParser"), void())                          \
  X(get_version, "LLVMGetVersion", void(unsigned*, unsigned*, unsigned*))                  \
  X(install_fatal_handler, "LLVMInstallFatalErrorHandler", void(FatalHandler))             \
  X(default_triple, "LLVMGetDefaultTargetTriple", char*())                                 \
  X(host_cpu, "LLVMGetHostCPUName", char*())                                               \
  X(host_features, "LLVMGetHostCPUFeatures", char*())                                      \
  X(dispose_message, "LLVMDisposeMessage", void(char*))                                    \
  X(target_from_triple, "LLVMGetTargetFromTriple", int(const char*, Target**, char**))     \
  X(create_machine, "LLVMCreateTargetMachine",                                             \
    Machine*(Target*, const char*, const char*, const char*, int, int, int))               \
  X(dispose_machine, "LLVMDisposeTargetMachine", void(Machine*))                           \
  X(create_layout, "LLVMCreateTargetDataLayout", Layout*(Machine*))                        \
  X(dispose_layout, "LLVMDisposeTargetData", void(Layout*))                                \
  X(context_create, "LLVMContextCreate", Context*())                                       \
  X(context_dispose, "LLVMContextDispose", void(Context*))                                 \
  X(set_diagnostic_handler, "LLVMContextSetDiagnosticHandler",                             \
    void(Context*, DiagnosticHandler, void*))                                              \
  X(diagnostic_severity, "LLVMGetDiagInfoSeverity", int(Diagnostic*))                      \
  X(diagnostic_text, "LLVMGetDiagInfoDescription", char*(Diagnostic*))                     \
  X(buffer_copy, "LLVMCreateMemoryBufferWithMemoryRangeCopy",                              \
    Buffer*(const char*, size_t, const char*))                                             \
  X(buffer_start, "LLVMGetBufferStart", const char*(Buffer*))                              \
  X(buffer_size, "LLVMGetBufferSize", size_t(Buffer*))                                     \
  X(buffer_dispose, "LLVMDisposeMemoryBuffer", void(Buffer*))                              \
  X(parse_ir, "LLVMParseIRInContext", int(Context*, Buffer*, Module**, char**))            \
  X(module_dispose, "LLVMDisposeModule", void(Module*))                                    \
  X(set_triple, "LLVMSetTarget", void(Module*, const char*))                               \
  X(set_layout, "LLVMSetModuleDataLayout", void(Module*, Layout*))                         \
  X(verify, "LLVMVerifyModule", int(Module*, int, char**))                                 \
  X(create_pass_options, "LLVMCreatePassBuilderOptions", PassOptions*())                   \
  X(dispose_pass_options, "LLVMDisposePassBuilderOptions", void(PassOptions*))             \
  X(run_passes, "LLVMRunPasses", PassError*(Module*, const char*, Machine*, PassOptions*)) \
  X(error_message, "LLVMGetErrorMessage", char*(PassError*))                               \
  X(dispose_error_message, "LLVMDisposeErrorMessage", void(char*))                         \
  X(emit, "LLVMTargetMachineEmitToMemoryBuffer", int(Machine*, Module*, int, char**, Buffer**))

constexpr const char* library_names[] = {
    "libLLVM.so.19.1",
    "libLLVM-19.so.1",
    "libLLVM-19.so",
    "/usr/lib/llvm-19/lib/libLLVM.so.19.1",
    "/usr/lib/llvm-19/lib/libLLVM-19.so",
    "/usr/lib64/llvm19/lib64/libLLVM.so.19.1",
    "/usr/lib/llvm19/lib/libLLVM.so.19.1",
    "/usr/local/lib/libLLVM.so.19.1",
};

std::atomic<bool> has_ended{false};
thread_local bool compiling = false;  // on this thread, so that a fatal error is ours to report

// LLVM ends the process when this returns. Its code holds no destructors that matter on the way:
// the context being compiled is leaked, everything else is intact.
void on_fatal_error(const char* reason) {
  if (compiling) fail(ErrorKind::Internal, text("[llvm] fatal error: ", reason));
}

struct Library {
#define MOTE_LLVM_MEMBER(member, name, ...) std::add_pointer_t<__VA_ARGS__> member = nullptr;
  MOTE_LLVM_FUNCTIONS(MOTE_LLVM_MEMBER)
#undef MOTE_LLVM_MEMBER
  std::string why_not;
  std::string version;

  Library();
  // Copies LLVM's string and gives it back.
  std::string take(char* message) const {
    std::string out = message ? message : "";
    if (message) dispose_message(message);
    return out;
  }

 private:
  void load();
  std::string bind(void* handle);
};

// Looks up every function; returns the first that is missing, or "".
std::string Library::bind(void* handle) {
#define MOTE_LLVM_BIND(member, name, ...)                           \
  member = reinterpret_cast<decltype(member)>(dlsym(handle, name)); \
  if (!member) return name;
  MOTE_LLVM_FUNCTIONS(MOTE_LLVM_BIND)
#undef MOTE_LLVM_BIND
  return "";
}

Library::Library() {
  load();
  const std::string& given = flag_text(Flag::LIBLLVM);
  if (!given.empty() && !why_not.empty())
    std::fprintf(stderr, "mote: warning: MOTE_LIBLLVM=%s is not used: %s\n",
                 printable(given).c_str(), printable(why_not).c_str());
}

void Library::load() {
  void* handle = nullptr;
  const std::string& given = flag_text(Flag::LIBLLVM);
  std::vector<std::string> names(std::begin(library_names), std::end(library_names));
  if (!given.empty()) names = {given};
  for (const std::string& name : names) {
    // Never closed: LLVM registers exit handlers. Lazy: binding its 30,000 symbols at once costs
    // time.
    handle = dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (handle) break;
  }
  if (!handle) {
    why_not = given.empty()
                  ? text("LLVM 19 not found (tried ", library_names[0], ", ", library_names[2],
                         ", /usr/lib/llvm-19/lib): install libllvm19")
                  : text("LLVM 19 not found (tried only LIBLLVM=", given, "): install libllvm19");
    return;
  }
  if (const std::string missing = bind(handle); !missing.empty()) {
    why_not = text("this libLLVM has no ", missing, ": install libllvm19");
    return;
  }
  unsigned major = 0, minor = 0, patch = 0;
  get_version(&major, &minor, &patch);
  version = text(major, ".", minor, ".", patch);
  initialize_target_info();
  initialize_target();
  initialize_target_mc();
  initialize_asm_printer();
  initialize_asm_parser();
  install_fatal_handler(on_fatal_error);
  // LLVM has registered its destructors while it was loaded; this runs before them.
  std::atexit([] { has_ended = true; });
  keep_loaded();
}

const Library& library() {
  static const auto& loaded = *new Library;
  return loaded;
}

const Library& need_library() {
  const Library& llvm = library();
  if (!llvm.why_not.empty()) fail(ErrorKind::Device, text("[llvm] ", llvm.why_not));
  return llvm;
}

// A target machine costs as much as compiling a small kernel, and is not for several threads: keep
// one each.
struct ThreadMachine {
  std::string key;
  Machine* machine = nullptr;

  ~ThreadMachine() { drop(); }
  void drop() {
    if (machine) library().dispose_machine(std::exchange(machine, nullptr));
    key.clear();
  }

  Machine* get(const CpuTarget& target) {
    const Library& llvm = need_library();
    std::string wanted = describe(target);
    if (machine && key == wanted) return machine;
    drop();
    Target* found = nullptr;
    char* message = nullptr;
    if (llvm.target_from_triple(target.triple.c_str(), &found, &message) != 0)
      fail(ErrorKind::Device, text("[llvm] target ", target.triple, ": ", llvm.take(message)));
    machine = llvm.create_machine(found, target.triple.c_str(), target.cpu.c_str(),
                                  target.features.c_str(), target.codegen_level, reloc_pic,
                                  code_model_small);
    if (!machine) fail(ErrorKind::Device, text("[llvm] cannot compile for ", wanted));
    key = std::move(wanted);
    return machine;
  }
};

ThreadMachine& thread_machine() { return PerThread<ThreadMachine>::get(); }

// One compilation, in a context of its own.
class Compilation {
 public:
  Compilation(std::string_view ir_text, const CpuTarget& target)
      : llvm_(need_library()),
        text_(ir_text),
        target_(target),
        machine_(thread_machine().get(target)) {
    context_ = llvm_.context_create();
    llvm_.set_diagnostic_handler(context_, collect, this);
    compiling = true;
  }

  ~Compilation() {
    const bool fatal = !std::exchange(finished_, true);
    compiling = false;
    if (fatal) {  // LLVM was left in the middle of its work: do not touch what it was working on
      thread_machine().machine = nullptr;
      thread_machine().drop();
      return;
    }
    if (module_) llvm_.module_dispose(module_);
    llvm_.context_dispose(context_);
  }

  std::vector<uint8_t> run(Emit what) {
    std::vector<uint8_t> out;
    finished_ = false;
    std::string problem = parse();
    if (problem.empty()) problem = run_passes();
    if (problem.empty()) problem = emit(what, out);
    if (problem.empty()) problem = diagnostics_;
    finished_ = true;
    if (!problem.empty()) fail(ErrorKind::Internal, text("[llvm] ", problem));
    return out;
  }

 private:
  static void collect(Diagnostic* diagnostic, void* self) {
    auto& compilation = *static_cast<Compilation*>(self);
    const Library& llvm = compilation.llvm_;
    const std::string message = llvm.take(llvm.diagnostic_text(diagnostic));
    if (llvm.diagnostic_severity(diagnostic) == severity_error)
      compilation.diagnostics_ += message + "\n";
  }

  // Each step returns what went wrong, or "".
  std::string parse() {
    char* message = nullptr;
    // parse_ir takes the buffer over; its message quotes the line.
    Buffer* buffer = llvm_.buffer_copy(text_.data(), text_.size(), "kernel");
    if (llvm_.parse_ir(context_, buffer, &module_, &message) != 0) {
      module_ = nullptr;
      return "the IR does not parse: " + llvm_.take(message);
    }
    const bool broken = llvm_.verify(module_, return_status_action, &message) != 0;
    std::string problem = llvm_.take(message);  // always given, empty if all is well
    return broken ? "the IR is not valid: " + problem : "";
  }

  std::string run_passes() {
    llvm_.set_triple(module_, target_.triple.c_str());
    Layout* layout = llvm_.create_layout(machine_);
    llvm_.set_layout(module_, layout);
    llvm_.dispose_layout(layout);
    if (target_.passes.empty()) return "";
    PassOptions* options = llvm_.create_pass_options();
    PassError* error = llvm_.run_passes(module_, target_.passes.c_str(), machine_, options);
    llvm_.dispose_pass_options(options);
    if (!error) return "";
    char* message = llvm_.error_message(error);
    std::string problem =
        text("passes \"", target_.passes, "\": ", static_cast<const char*>(message));
    llvm_.dispose_error_message(message);
    return problem;
  }

  std::string emit(Emit what, std::vector<uint8_t>& out) {
    char* message = nullptr;
    Buffer* buffer = nullptr;
    if (llvm_.emit(machine_, module_, what, &message, &buffer) != 0)
      return "code generation: " + llvm_.take(message);
    const char* start = llvm_.buffer_start(buffer);
    out.assign(start, start + llvm_.buffer_size(buffer));
    llvm_.buffer_dispose(buffer);
    return "";
  }

  const Library& llvm_;
  std::string_view text_;
  const CpuTarget& target_;
  Machine* machine_;
  Context* context_ = nullptr;
  Module* module_ = nullptr;
  std::string diagnostics_;
  bool finished_ = true;
};

}  // namespace

bool llvm_available(std::string* why_not) {
  if (why_not) *why_not = library().why_not;
  return library().why_not.empty();
}

bool llvm_has_ended() { return has_ended; }

std::string llvm_version() { return library().version; }

CpuTarget host_cpu_target() {
  static const auto& host = *new const CpuTarget([] {
    const Library& llvm = need_library();
    return CpuTarget{llvm.take(llvm.default_triple()), llvm.take(llvm.host_cpu()),
                     llvm.take(llvm.host_features()), default_passes};
  }());
  return host;
}

std::string describe(const CpuTarget& target) {
  return text(target.triple, " ", target.cpu, " [", target.features, "] passes [", target.passes,
              "] codegen ", target.codegen_level);
}

namespace {

constexpr const char* summaries = "llvm.tsv";  // in the folder of the compile cache

// What says which library would be loaded, and for which machine.
std::string summary_key() {
  const char* folders = std::getenv("LD_LIBRARY_PATH");
  const std::string all = text(flag_text(Flag::LIBLLVM), "\n", folders ? folders : "", "\n",
                               cpu_info().model, "\n", cpu_info().features);
  return hex_text(hash_bytes(all.data(), all.size()), 16);
}

// "" where there is no such file.
std::string file_stamp(const std::string& path) {
  struct stat about;
  if (stat(path.c_str(), &about) != 0) return {};
  return text(path, " ", about.st_ino, " ", about.st_size, " ", about.st_mtim.tv_sec, ".",
              about.st_mtim.tv_nsec);
}

std::string sum_of(const std::string& line) {
  return hex_text(hash_bytes(line.data(), line.size()), 16);
}

// Lines of the key, the file's stamp, which begins with its path, the two texts, and a sum of these;
// the last one of a key counts.
std::unique_ptr<LlvmSummary> remembered_summary() {
  std::istringstream file(compile_cache().read_lines(summaries).value_or(""));
  const std::string wanted = summary_key();
  std::unique_ptr<LlvmSummary> out;
  std::string stamp;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    const size_t end = std::min(line.rfind('\t'), line.size());
    if (end == line.size() || line.substr(end + 1) != sum_of(line.substr(0, end))) continue;
    std::istringstream fields(line.substr(0, end));
    std::string key, now;
    LlvmSummary found;
    std::getline(fields, key, '\t'), std::getline(fields, now, '\t');
    std::getline(fields, found.version, '\t'), std::getline(fields, found.host);
    if (key != wanted) continue;
    out = std::make_unique<LlvmSummary>(std::move(found));
    stamp = now;
  }
  if (!out || file_stamp(stamp.substr(0, stamp.find(' '))) != stamp) return {};
  return out;
}

std::unique_ptr<LlvmSummary> loaded_summary() {
  if (!llvm_available()) return {};
  auto out =
      std::make_unique<LlvmSummary>(LlvmSummary{llvm_version(), describe(host_cpu_target())});
  Dl_info where;
  if (!flag(Flag::CACHE) || !dladdr(reinterpret_cast<void*>(library().emit), &where)) return out;
  const std::string line =
      text(summary_key(), "\t", file_stamp(where.dli_fname), "\t", out->version, "\t", out->host);
  compile_cache().add_lines(summaries, text(line, "\t", sum_of(line), "\n"));
  return out;
}

}  // namespace

const LlvmSummary* llvm_summary() {
  static const LlvmSummary* const summary = [] {
    auto found = flag(Flag::CACHE) ? remembered_summary() : nullptr;
    return (found ? std::move(found) : loaded_summary()).release();
  }();
  return summary;
}

// LLVM recurses over what it compiles.
static std::vector<uint8_t> compile_on_large_stack(std::string_view ir_text,
                                                   const CpuTarget& target, Emit what) {
  if (has_ended)
    fail(ErrorKind::Device,
         "[llvm] a new kernel cannot be compiled while the program ends: LLVM is gone, and there "
         "is no C compiler; compute it once before");
  constexpr size_t enough = size_t{2} << 20;
  std::vector<uint8_t> out;
  with_stack(enough, [&] { out = Compilation(ir_text, target).run(what); });
  return out;
}

std::vector<uint8_t> llvm_compile(std::string_view ir_text, const CpuTarget& target) {
  return compile_on_large_stack(ir_text, target, Object);
}

std::string llvm_assembly(std::string_view ir_text, const CpuTarget& target) {
  const auto bytes = compile_on_large_stack(ir_text, target, Assembly);
  return {bytes.begin(), bytes.end()};
}

}  // namespace mote
