// CPU: kernels compiled in this process by LLVM, or by the system's C compiler where LLVM is
// missing (or asked for with CC=1). NULL: the same, but for memory and execution.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/build_id.h"
#include "base/byte_lists.h"
#include "base/error.h"
#include "base/flags.h"
#include "base/integers.h"
#include "base/lifetime.h"
#include "base/threads.h"
#include "ir/freedoms.h"
#include "ir/provenance.h"
#include "render/render.h"
#include "runtime/c_compiler.h"
#include "runtime/cpu_info.h"
#include "runtime/devices.h"
#include "runtime/disk_cache.h"
#include "runtime/elf.h"
#include "runtime/llvm.h"

namespace mote {

namespace {

using KernelFunction = void(void** buffers, const int64_t* vars, int64_t begin, int64_t end);

struct CpuCode : Code {
  std::vector<uint8_t> made_of;
  std::string name;
  LoadedObject object;
  KernelFunction* entry;
  std::vector<Scratch> scratch;
  CpuCode(std::vector<uint8_t> from, std::string kernel, std::vector<Scratch> own)
      : made_of(std::move(from)),
        name(std::move(kernel)),
        object(made_of),
        entry(object.function<KernelFunction>(name)),
        scratch(std::move(own)) {}

  void run(std::span<void* const> buffers, const int64_t* vars, int64_t begin, int64_t end) const;
};

// A worker's own memory: grows to what its largest kernel needs and stays.
class WorkerMemory {
 public:
  ~WorkerMemory() { std::free(data_); }
  std::byte* at_least(int64_t bytes) {
    if (bytes <= bytes_) return data_;
    std::free(data_);
    bytes_ = round_up(bytes, kPage);
    data_ = static_cast<std::byte*>(std::aligned_alloc(kPage, static_cast<size_t>(bytes_)));
    if (!data_) bytes_ = 0;
    check(data_, "[CPU] out of memory: ", bytes, " bytes requested (a kernel's own memory)");
    madvise(data_, static_cast<size_t>(bytes_), MADV_HUGEPAGE);
    return data_;
  }

 private:
  static constexpr int64_t kPage = 2 << 20;
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

void CpuCode::run(std::span<void* const> buffers, const int64_t* vars, int64_t begin,
                  int64_t end) const {
  if (scratch.empty()) return entry(const_cast<void**>(buffers.data()), vars, begin, end);
  auto& memory = PerThread<WorkerMemory>::get();
  // A line between two of them, so that equal places of both are not in one cache set.
  auto padded = [](const Scratch& s) { return round_up(s.bytes, kCacheLine) + kCacheLine; };
  int64_t bytes = 0;
  for (const Scratch& s : scratch) bytes += padded(s);
  std::byte* at = memory.at_least(bytes);
  // NaNs, so that tests see whoever reads what nobody wrote.
  if (flag(Flag::SPEC)) std::memset(at, 0xff, static_cast<size_t>(bytes));
  std::vector<void*> all(buffers.begin(), buffers.end());
  for (const Scratch& s : scratch) {
    all.resize(std::max(all.size(), static_cast<size_t>(s.slot) + 1));
    all[static_cast<size_t>(s.slot)] = at;
    at += padded(s);
  }
  entry(all.data(), vars, begin, end);
}

bool use_c() {
  return flag(Flag::CC) || !llvm_summary() || (llvm_has_ended() && c_compiler_available());
}

class Cpu : public Device {
 public:
  explicit Cpu(std::string name) : Device(std::move(name), cpu_target()), c_target_(target_) {
    c_target_.dtypes &= ~(1u << static_cast<int>(DType::f16));  // C has no portable name for it
    if (target_.vector_bytes < 64) c_target_.dots = {};  // the compiler's header has other names
    c_target_.fuses_itself = true;  // lane by lane a call is no match for -ffp-contract
    if (int64_t n = flag(Flag::THREADS)) set_thread_count(static_cast<int>(n));
  }

  const Target& target() const override { return use_c() ? c_target_ : target_; }

  std::string render(const Program& p) override {
    return use_c() ? render_c(p, target()) : render_llvm(p, target());
  }

  std::unique_ptr<Code> compile(const std::string& text, const Program& p) override {
    return compile(text, p, use_c());
  }

  // The compiler says what is wrong with a text, the loader which function is missing.
  std::unique_ptr<Code> compile_source(const std::string& text) override {
    std::string why_not;
    check(c_compiler_available(&why_not), "a program in C needs a C compiler: ", why_not);
    Program p;
    p.name = "mote_entry";
    return compile(text, p, true);
  }

  std::vector<uint8_t> saved(const Code& code) const override {
    const auto& c = static_cast<const CpuCode&>(code);
    ByteWriter out;
    out.list(c.name), out.list(c.scratch), out.list(c.made_of);
    return std::move(out.bytes);
  }
  std::unique_ptr<Code> restored(std::span<const uint8_t> saved) override {
    ByteReader in{saved};
    std::string name;
    std::vector<Scratch> scratch;
    std::vector<uint8_t> object;
    if (!in.list(name) || !in.list(scratch) || !in.list(object)) return {};
    return std::make_unique<CpuCode>(std::move(object), std::move(name), std::move(scratch));
  }

  std::string about() const override {
    return text(cpu_info().model, ", kernels by ",
                use_c() ? c_compiler_name() : "LLVM " + llvm_summary()->version);
  }

  Token submit(LaunchList list, std::span<const Token> after) override {
    for (const Token& t : after) t.wait();
    std::vector<void*> buffers;
    for (const Launch& l : *list) {
      host_addresses(l, buffers);
      run(l, buffers);
    }
    return {};
  }

 private:
  Target c_target_;

  std::unique_ptr<Code> compile(const std::string& text, const Program& p, bool c) const {
    std::string compiler = c ? c_compiler_version() + cpu_info().model + cpu_info().features
                             : llvm_summary()->version + llvm_summary()->host;
    std::string key = std::string(build_id()) + "\n" + compiler + "\n" + text;
    std::vector<std::string> options;
    if (c && !contracts(c_target_)) options.emplace_back("-ffp-contract=off");
    for (const std::string& o : options) key += "\n" + o;
    const bool keep = flag(Flag::CACHE);
    if (keep)
      if (auto hit = compile_cache().get(key))
        return std::make_unique<CpuCode>(std::move(*hit), p.name, p.scratch);
    std::vector<uint8_t> object =
        c ? c_compile(text, options) : llvm_compile(text, host_cpu_target());
    if (keep) compile_cache().put(key, object);
    return std::make_unique<CpuCode>(std::move(object), p.name, p.scratch);
  }

  static void run(const Launch& l, std::span<void* const> buffers) {
    const auto& code = *static_cast<const CpuCode*>(l.code.get());
    if (!l.threaded) return code.run(buffers, l.vars.data(), 0, 1);
    // More chunks than threads: a slow core takes fewer.
    int64_t chunks = std::min<int64_t>(l.extent, thread_count() > 1 ? thread_count() * 8 : 1);
    parallel_for(chunks, [&](int64_t i) {
      code.run(buffers, l.vars.data(), l.extent * i / chunks, l.extent * (i + 1) / chunks);
    });
  }
};

class Null : public Device {
 public:
  explicit Null(std::string name) : Device(std::move(name), cpu_target()) {}
  std::string render(const Program& p) override { return render_llvm(p, target_); }
  std::unique_ptr<Code> compile(const std::string&, const Program&) override {
    return std::make_unique<Code>();
  }
  Token submit(LaunchList, std::span<const Token>) override { return {}; }
  Token copy_in(DeviceAddress, const void*, int64_t, std::span<const Token>) override { return {}; }
  uint64_t allocate_raw(int64_t) override { return 64; }
  void free_raw(uint64_t, int64_t) override {}
  bool holds_data() const override { return false; }
  std::string about() const override { return "as CPU, but nothing is allocated or run"; }
};

bool cpu_available(std::string* why_not) {
  std::string no_llvm, no_c;
  if (llvm_summary() || llvm_available(&no_llvm) || c_compiler_available(&no_c)) return true;
  *why_not = no_llvm + "; " + no_c;
  return false;
}

}  // namespace

Target cpu_target() {
  const CpuInfo& info = cpu_info();
  Target t;
  t.name = "cpu";
  t.threads = flag(Flag::THREADS) ? static_cast<int>(flag(Flag::THREADS)) : info.cores;
  t.vector_bytes = info.vector_bytes;
  t.vector_registers = info.vector_registers;
  t.step_bytes = info.step_bytes;
  t.fma = info.fma;
  t.l1_bytes = info.l1d_bytes;
  t.l2_bytes = info.l2_bytes;
  t.ahead_bytes = info.ahead_bytes;
  t.cache_bytes = cache_share(info, t.threads);
  t.core_cache_bytes = cache_share(info, 1);
  auto without = [&](DType d) { t.dtypes &= ~(1u << static_cast<int>(d)); };
  for (DType d : {DType::bf16, DType::f8e4m3, DType::f8e5m2}) without(d);
  if (!info.f16c) without(DType::f16);
  if (info.avx512bf16) t.dots.add(Op::DotBF16);
  if (info.vnni) t.dots.add(Op::DotI16), t.dots.add(Op::DotU8);
  return t;
}

MOTE_DEVICE(cpu_device){"CPU", cpu_available, open_as<Cpu>};
MOTE_DEVICE(null_device){"NULL", is_always_there, open_as<Null>};

}  // namespace mote
