// CUDA, CUDA:1, ...: NVIDIA's GPUs, with nothing but their driver (docs/plans/0010-cuda.md).
//
// All work of a device is in one stream, so that what was submitted before is done before. Tokens
// are events in it. Other devices' tokens are waited for on the host.
#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "render/render.h"
#include "runtime/cuda_driver.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"

namespace mote {

namespace {

using cuda::driver;

constexpr int kOldest = 75;
constexpr int64_t kStaged = 4 << 20;        // bytes that are copied at a time
constexpr int64_t kUsualShared = 48 << 10;  // bytes that a block gets unasked

struct CudaCode : Code {
  cuda::Context context;
  cuda::Module module = nullptr;
  cuda::Function function = nullptr, unaligned = nullptr;  // null: the first takes all
  GridLaunch grid;
  explicit CudaCode(cuda::Context c) : context(c) {}
  ~CudaCode() override {
    if (module && !driver().use_context(context)) driver().unload_module(module);
  }
};

// The events of a stream; they are used again.
class Stream {
 public:
  void open(cuda::Context context) {
    context_ = context;
    driver().check(driver().make_stream(&stream_, cuda::kNonBlocking), "a stream");
  }
  cuda::Context context() const { return context_; }
  cuda::Stream get() const { return stream_; }

  cuda::Event mark() {
    const cuda::Event e = take();
    driver().check(driver().record(e, stream_), "an event");
    return e;
  }
  void give_back(cuda::Event e) {
    std::lock_guard lock(mutex_);
    free_.push_back(e);
  }

 private:
  cuda::Event take() {
    std::lock_guard lock(mutex_);
    cuda::Event e = nullptr;
    if (free_.empty()) {
      driver().check(driver().make_event(&e, cuda::kNoTiming), "an event");
    } else {
      e = free_.back();
      free_.pop_back();
    }
    return e;
  }

  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  std::mutex mutex_;
  std::vector<cuda::Event> free_;
};

// The end of what is in the stream now; of launches, what was launched.
class Marked : public QueuedWork {
 public:
  Marked(Stream& stream, LaunchList list)
      : stream_(stream), event_(stream.mark()), list_(std::move(list)) {}
  ~Marked() override { stream_.give_back(event_); }

  bool is_over() override {
    return driver().use_context(stream_.context()) || driver().query(event_) != cuda::kNotReady;
  }
  std::string end() override {
    driver().use_context(stream_.context());
    const cuda::Result r = driver().wait_for_event(event_);
    return r ? error_text(driver().words(r)) : "";
  }
  const void* queue() const override { return &stream_; }

 private:
  // A fault ends all work of the process on the GPU, and does not say whose it was.
  std::string error_text(const std::string& words) const {
    const std::string why = words + "; the GPU does nothing more for this process";
    if (!list_ || list_->empty()) return text("a copy, or work before it: ", why);
    if (list_->size() == 1) return failure_text(list_->front(), why);
    return text("one of ", list_->size(), " kernels, the first of them ",
                failure_text(list_->front(), why), " (DEBUG=2 runs them one by one)");
  }

  Stream& stream_;
  cuda::Event event_;
  LaunchList list_;
};

// Memory of the host that the GPU reads and writes by itself, in two halves: one is filled while
// the other is on its way.
class Staging {
 public:
  struct Half {
    std::byte* bytes = nullptr;
    std::shared_ptr<Marked> last;  // that used it
  };
  Half& next() {
    if (!halves_[0].bytes)
      for (Half& h : halves_) {
        void* p = nullptr;
        driver().check(driver().allocate_pinned(&p, kStaged), "memory of the host for copies");
        h.bytes = static_cast<std::byte*>(p);
      }
    Half& h = halves_[turn_ ^= 1];
    finish(h);
    return h;
  }
  static void finish(Half& h) {
    if (!h.last) return;
    const std::string error = std::exchange(h.last, nullptr)->end();
    if (!error.empty()) fail(ErrorKind::Device, "[CUDA] " + error);
  }
  std::mutex mutex;  // of one copy at a time

 private:
  Half halves_[2];
  int turn_ = 0;
};

class Cuda : public Device {
 public:
  explicit Cuda(std::string name) : Device(std::move(name), Target()) {
    int count = 0, number = 0;
    if (const size_t colon = name_.find(':'); colon != name_.npos)
      read_number(std::string_view(name_).substr(colon + 1), number);
    driver().check(driver().device_count(&count), "the number of GPUs");
    if (number >= count)
      fail(ErrorKind::User, text("[device] there is no ", name_, ": there are ", count, " GPUs"));
    driver().check(driver().device_get(&gpu_, number), "the GPU");
    cuda::Context context = nullptr;
    driver().check(driver().retain_context(&context, gpu_), "a context");
    driver().check(driver().use_context(context), "the context");
    stream_.open(context);
    describe();
  }

  std::string render(const Program& p) override { return render_ptx(p, target_, architecture_); }

  std::unique_ptr<Code> compile(const std::string& ptx, const Program& p) override {
    use();
    auto code = std::make_unique<CudaCode>(stream_.context());
    code->grid = launch_of(p);
    std::vector<char> log(8 << 10);
    int options[] = {cuda::kJitErrorLog, cuda::kJitErrorLogBytes};
    void* values[] = {log.data(), reinterpret_cast<void*>(log.size())};
    if (const auto r = driver().load_module(&code->module, ptx.c_str(), 2, options, values)) {
      code->module = nullptr;
      fail(ErrorKind::Device, text("[CUDA] kernel ", p.name,
                                   " does not compile: ", driver().words(r), "\n", log.data()));
    }
    code->function = entry(*code, p.name);
    const std::string other = unaligned_entry(p.name);
    if (ptx.find(text(".entry ", other, "(")) != ptx.npos) code->unaligned = entry(*code, other);
    return code;
  }

  Token submit(LaunchList list, std::span<const Token> after) override {
    wait_for_others(after);
    use();
    std::lock_guard lock(order_);
    for (const Launch& l : *list) launch(l);
    return Token::of(std::make_shared<Marked>(stream_, std::move(list)));
  }

  Token copy_in(DeviceAddress to, const void* host, int64_t bytes,
                std::span<const Token> after) override {
    wait_for_others(after);
    use();
    std::lock_guard staging(staging_.mutex);
    const auto* from = static_cast<const std::byte*>(host);
    std::shared_ptr<Marked> last;
    for (int64_t done = 0; done < bytes; done += kStaged) {
      const auto n = static_cast<size_t>(std::min(kStaged, bytes - done));
      Staging::Half& half = staging_.next();
      std::memcpy(half.bytes, from + done, n);
      std::lock_guard lock(order_);
      driver().check(driver().copy_in(address(to + done), half.bytes, n, stream_.get()), "a copy");
      last = half.last = std::make_shared<Marked>(stream_, nullptr);
    }
    return last ? Token::of(last) : Token();
  }

  // The host has the values when this returns.
  Token copy_out(void* host, DeviceAddress from, int64_t bytes,
                 std::span<const Token> after) override {
    wait_for_others(after);
    use();
    std::lock_guard staging(staging_.mutex);
    auto* to = static_cast<std::byte*>(host);
    struct Part {
      Staging::Half* half;
      int64_t at, bytes;
    };
    std::vector<Part> parts;  // on their way: two at most
    auto arrive = [&] {
      const Part p = parts.front();
      parts.erase(parts.begin());
      Staging::finish(*p.half);
      std::memcpy(to + p.at, p.half->bytes, static_cast<size_t>(p.bytes));
    };
    for (int64_t done = 0; done < bytes; done += kStaged) {
      if (parts.size() == 2) arrive();
      const Part p{&staging_.next(), done, std::min(kStaged, bytes - done)};
      std::lock_guard lock(order_);
      driver().check(driver().copy_out(p.half->bytes, address(from + done),
                                       static_cast<size_t>(p.bytes), stream_.get()),
                     "a copy");
      p.half->last = std::make_shared<Marked>(stream_, nullptr);
      parts.push_back(p);
    }
    while (!parts.empty()) arrive();
    return {};
  }

  // Other libraries' work, too.
  void synchronize() override {
    use();
    driver().check(driver().wait_for_all(), "waiting for the GPU");
  }

  uint64_t allocate_raw(int64_t bytes) override {
    use();
    cuda::Pointer p = 0;
    const cuda::Result r = driver().allocate(&p, static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    if (r == cuda::kOutOfMemory) return 0;
    driver().check(r, "memory of the GPU");
    return p;
  }
  void free_raw(uint64_t handle, int64_t) override {
    if (!driver().use_context(stream_.context())) driver().free(handle);
  }
  int64_t memory_bytes() const override { return memory_bytes_; }
  bool on_host() const override { return false; }
  bool has_queue() const override { return true; }
  std::string about() const override { return about_; }

 private:
  static cuda::Pointer address(DeviceAddress a) {
    return a.handle + static_cast<uint64_t>(a.offset);
  }
  void use() { driver().check(driver().use_context(stream_.context()), "the context"); }

  static cuda::Function entry(const CudaCode& code, const std::string& name) {
    cuda::Function f = nullptr;
    driver().check(driver().find_function(&f, code.module, name.c_str()), "the kernel");
    if (code.grid.shared_bytes > kUsualShared)
      driver().check(driver().set_attribute(f, cuda::kMaxDynamicShared,
                                            static_cast<int>(code.grid.shared_bytes)),
                     "memory of the block");
    return f;
  }

  int attribute(cuda::Attribute a) const {
    int value = 0;
    driver().check(driver().device_attribute(&value, a, gpu_), "a number of the GPU");
    return value;
  }

  void describe() {
    architecture_ = 10 * attribute(cuda::kMajor) + attribute(cuda::kMinor);
    target_ = gpu_target({.architecture = architecture_,
                          .processors = attribute(cuda::kProcessors),
                          .workers = attribute(cuda::kMaxWorkers),
                          .shared_bytes = attribute(cuda::kMaxSharedBytes),
                          .l2_bytes = attribute(cuda::kL2Bytes)});
    target_.name = text("cuda", architecture_);
    size_t bytes = 0;
    driver().check(driver().device_bytes(&bytes, gpu_), "the GPU's memory");
    memory_bytes_ = static_cast<int64_t>(bytes);
    char name[256] = "";
    driver().device_name(name, sizeof name, gpu_);
    int version = 0;
    driver().driver_version(&version);
    about_ =
        text(name, ", ", attribute(cuda::kProcessors), " processors at ",
             attribute(cuda::kClockKhz) / 1000, " MHz, memory at ",
             fixed_text(2e-6 * attribute(cuda::kMemoryKhz) * attribute(cuda::kMemoryBits) / 8, 0),
             " GB/s, driver of CUDA ", version / 1000, ".", version % 1000 / 10);
  }

  // Of its own work the stream keeps the order; of what has failed the error is this one's.
  void wait_for_others(std::span<const Token> after) const {
    for (const Token& t : after)
      if (!t.is_queued_in(&stream_)) t.wait();
  }

  void launch(const Launch& l) {
    const auto& code = static_cast<const CudaCode&>(*l.code);
    std::vector<uint64_t> values;
    for (DeviceAddress a : l.buffers) values.push_back(address(a));
    for (int64_t v : l.vars) values.push_back(static_cast<uint64_t>(v));
    std::vector<void*> arguments;
    for (uint64_t& v : values) arguments.push_back(&v);
    const bool is_aligned =
        std::ranges::all_of(l.buffers, [](DeviceAddress a) { return address(a) % kAligned == 0; });
    const GridLaunch& g = code.grid;
    auto size = [&](int64_t n) { return static_cast<unsigned>(n); };
    const cuda::Result r =
        driver().launch(code.unaligned && !is_aligned ? code.unaligned : code.function,
                        size(g.blocks[0]), size(g.blocks[1]), size(g.blocks[2]), size(g.workers), 1,
                        1, size(g.shared_bytes), stream_.get(), arguments.data(), nullptr);
    if (r) fail(ErrorKind::Device, failure_text(l, driver().words(r)));
  }

  int gpu_ = 0, architecture_ = 0;
  int64_t memory_bytes_ = 0;
  std::string about_;
  Stream stream_;
  Staging staging_;
  std::mutex order_;  // of what goes into the stream
};

bool cuda_available(std::string* why_not) {
  const cuda::Driver* found = cuda::driver(why_not);
  int gpu = 0, major = 0, minor = 0;
  if (!found) return false;
  if (found->device_get(&gpu, 0) || found->device_attribute(&major, cuda::kMajor, gpu) ||
      found->device_attribute(&minor, cuda::kMinor, gpu)) {
    *why_not = "the driver says nothing about its GPU";
    return false;
  }
  if (10 * major + minor >= kOldest) return true;
  *why_not = text("the GPU's architecture is ", major, ".", minor, "; 7.5 is the oldest supported");
  return false;
}

}  // namespace

MOTE_DEVICE(cuda_device){"CUDA", cuda_available, open_as<Cuda>};

}  // namespace mote
