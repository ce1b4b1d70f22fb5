#include "test/odd_devices.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "runtime/devices.h"

namespace mote {

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<int64_t> kernels_until_failure{-1};
std::atomic<Clock::time_point> held_until{};
// Opened first: devices are opened one at a time.
Device *cpu = nullptr, *interpreter = nullptr;

struct Task {
  std::function<void()> work;
  std::vector<Token> after;
  Token done = Token::pending();
  Clock::time_point not_before;
  bool is_ready() const {
    return Clock::now() >= not_before &&
           std::ranges::all_of(after, [](const Token& t) { return t.done(); });
  }
};

// Threads that take any task that is ready.
class Pool {
 public:
  Pool() {
    for (int i = 0; i < 3; ++i) std::thread([this] { serve(); }).detach();
  }

  Token add(std::function<void()> work, std::span<const Token> after) {
    std::lock_guard lock(mutex_);
    Task t;
    t.work = std::move(work);
    t.after.assign(after.begin(), after.end());
    t.not_before = Clock::now() + std::chrono::microseconds(random_() % 400);
    tasks_.push_back(t);
    changed_.notify_one();
    return t.done;
  }

 private:
  void serve() {
    for (;;) {
      Task t = next();
      std::string error;
      try {
        for (const Token& earlier : t.after) earlier.wait();
        t.work();
      } catch (const std::exception& e) { error = e.what(); }
      t.done.complete(error);
    }
  }

  Task next() {
    std::unique_lock lock(mutex_);
    for (;;) {
      std::ranges::shuffle(tasks_, random_);
      auto it = std::ranges::find_if(tasks_, &Task::is_ready);
      if (it != tasks_.end() && Clock::now() >= held_until.load()) {
        Task t = std::move(*it);
        tasks_.erase(it);
        return t;
      }
      if (tasks_.empty())
        changed_.wait(lock);
      else
        changed_.wait_for(lock, std::chrono::microseconds(50));
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Task> tasks_;
  std::mt19937 random_{1};
};

class Late : public Device {
 public:
  explicit Late(std::string name)
      : Device(std::move(name), cpu_target()), cpu_(*cpu), pool_(*new Pool) {
    target_.name = "late";
  }

  std::string render(const Program& p) override { return cpu_.render(p); }
  std::unique_ptr<Code> compile(const std::string& text, const Program& p) override {
    return cpu_.compile(text, p);
  }

  Token submit(LaunchList list, std::span<const Token> after) override {
    return pool_.add(
        [this, list = std::move(list)] {
          for (const Launch& l : *list) {
            if (kernels_until_failure.load() >= 0 && kernels_until_failure.fetch_sub(1) == 0)
              throw Error(ErrorKind::Device, failure_text(l, "no more ink"));
            cpu_.submit(std::make_shared<const std::vector<Launch>>(1, l), {}).wait();
          }
        },
        after);
  }
  Token copy_in(DeviceAddress to, const void* host, int64_t bytes,
                std::span<const Token> after) override {
    return pool_.add([=] { std::memcpy(host_address(to), host, static_cast<size_t>(bytes)); },
                     after);
  }
  Token copy_out(void* host, DeviceAddress from, int64_t bytes,
                 std::span<const Token> after) override {
    return pool_.add([=] { std::memcpy(host, host_address(from), static_cast<size_t>(bytes)); },
                     after);
  }

  bool has_queue() const override { return true; }
  uint64_t allocate_raw(int64_t bytes) override {
    const uint64_t handle = Device::allocate_raw(bytes);
    if (handle) std::memset(host_address({handle, 0}), 0xa5, static_cast<size_t>(bytes));
    return handle;
  }
  void free_raw(uint64_t handle, int64_t bytes) override {
    std::memset(host_address({handle, 0}), 0x5a, static_cast<size_t>(bytes));
    Device::free_raw(handle, bytes);
  }

 private:
  Device& cpu_;
  Pool& pool_;  // never ends: its threads may outlive main
};

class Narrow : public Device {
 public:
  explicit Narrow(std::string name) : Device(std::move(name), interpreter->target()) {
    target_.name = "narrow";
    target_.max_buffers = 8;
    for (DType d : {DType::i64, DType::u64, DType::f64})
      target_.dtypes &= ~(1u << static_cast<int>(d));
  }
  std::string render(const Program& p) override { return interpreter->render(p); }
  std::unique_ptr<Code> compile(const std::string& text, const Program& p) override {
    return interpreter->compile(text, p);
  }
  Token submit(LaunchList list, std::span<const Token> after) override {
    for (const Launch& l : *list)
      if (l.buffers.size() > 8) throw Error(ErrorKind::Device, "more than 8 buffers");
    return interpreter->submit(std::move(list), after);
  }
};

// The CPU's code, made for another description.
class OnCpu : public Device {
 public:
  explicit OnCpu(std::string name) : Device(std::move(name), cpu_target()) {
    target_.threads = 2;
  }
  std::string render(const Program& p) override { return cpu->render(p); }
  std::unique_ptr<Code> compile(const std::string& text, const Program& p) override {
    return cpu->compile(text, p);
  }
  Token submit(LaunchList list, std::span<const Token> after) override {
    return cpu->submit(std::move(list), after);
  }
};

// Its handles are numbers, and what they stand for is known here only.
std::atomic<int64_t> direct_copies{0}, host_copies{0};

class Far : public OnCpu {
 public:
  explicit Far(std::string name) : OnCpu(std::move(name)) { target_.name = "far"; }
  bool on_host() const override { return false; }
  uint64_t allocate_raw(int64_t bytes) override {
    std::lock_guard lock(mutex_);
    memories_[++latest_].resize(static_cast<size_t>(bytes) + 64);
    return latest_;
  }
  void free_raw(uint64_t handle, int64_t) override {
    std::lock_guard lock(mutex_);
    memories_.erase(handle);
  }
  Token submit(LaunchList list, std::span<const Token> after) override {
    std::vector<Launch> here = *list;
    for (Launch& l : here)
      for (DeviceAddress& a : l.buffers) a = resolved(a);
    return cpu->submit(std::make_shared<const std::vector<Launch>>(std::move(here)), after);
  }
  Token copy_in(DeviceAddress to, const void* host, int64_t bytes,
                std::span<const Token> after) override {
    ++host_copies;
    return cpu->copy_in(resolved(to), host, bytes, after);
  }
  std::optional<Token> copy_from(DeviceAddress to, Device& other, DeviceAddress from,
                                 int64_t bytes, std::span<const Token> after) override {
    auto* far = dynamic_cast<Far*>(&other);
    if (!far) return {};
    ++direct_copies;
    return cpu->copy_in(resolved(to), host_address(far->resolved(from)), bytes, after);
  }
  Token copy_out(void* host, DeviceAddress from, int64_t bytes,
                 std::span<const Token> after) override {
    ++host_copies;
    return cpu->copy_out(host, resolved(from), bytes, after);
  }

 private:
  DeviceAddress resolved(DeviceAddress a) {
    std::lock_guard lock(mutex_);
    auto start = reinterpret_cast<uint64_t>(memories_.at(a.handle).data());
    return {(start + 63) / 64 * 64, a.offset};
  }
  std::mutex mutex_;
  std::map<uint64_t, std::vector<std::byte>> memories_;
  uint64_t latest_ = 0;
};

class Tight : public OnCpu {
 public:
  explicit Tight(std::string name) : OnCpu(std::move(name)) {
    target_.name = "tight";
    target_.l1_bytes = 1 << 10, target_.l2_bytes = 4 << 10, target_.cache_bytes = 16 << 10;
  }
};

class Parted : public OnCpu {
 public:
  explicit Parted(std::string name) : OnCpu(std::move(name)) {
    target_.name = "parted";
    target_.parallel_results = 2, target_.streams = 2;
    target_.launch_cost = 0, target_.byte_cost = 0.01;
  }
};

template <class T>
std::unique_ptr<Device> open(const std::string& name) {
  return std::unique_ptr<Device>(new T(name));
}
bool always(std::string*) { return true; }

}  // namespace

void add_odd_devices() {
  [[maybe_unused]] static const bool once = [] {
    cpu = &device("CPU");
    interpreter = &device("INTERP_PROGRAM");
    add_device({"LATE", always, open<Late>});
    add_device({"NARROW", always, open<Narrow>});
    add_device({"TIGHT", always, open<Tight>});
    add_device({"PARTED", always, open<Parted>});
    add_device({"FAR", always, open<Far>});
    return true;
  }();
}

void fail_late_kernel(int64_t skip) { kernels_until_failure = skip; }

FarCopies far_copies() { return {direct_copies, host_copies}; }

void hold_late(bool hold) {
  held_until = hold ? Clock::now() + std::chrono::seconds(10) : Clock::time_point{};
}

}  // namespace mote
