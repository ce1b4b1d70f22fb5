#include "test/odd_devices.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "base/error.h"
#include "runtime/devices.h"

namespace mote {

namespace {

std::atomic<int64_t> kernels_until_failure{-1};
// Opened first: devices are opened one at a time.
Device *cpu = nullptr, *interpreter = nullptr;

struct Task {
  std::function<void()> work;
  std::vector<Token> after;
  Token done = Token::pending();
  std::chrono::steady_clock::time_point not_before;
  bool is_ready() const {
    return std::chrono::steady_clock::now() >= not_before &&
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
    t.not_before = std::chrono::steady_clock::now() + std::chrono::microseconds(random_() % 400);
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
      if (it != tasks_.end()) {
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
  Token copy_in(void* to, const void* host, int64_t bytes, std::span<const Token> after) override {
    return pool_.add([=] { std::memcpy(to, host, static_cast<size_t>(bytes)); }, after);
  }
  Token copy_out(void* host, const void* from, int64_t bytes,
                 std::span<const Token> after) override {
    return pool_.add([=] { std::memcpy(host, from, static_cast<size_t>(bytes)); }, after);
  }

  void* allocate_raw(int64_t bytes) override {
    void* p = Device::allocate_raw(bytes);
    if (p) std::memset(p, 0xa5, static_cast<size_t>(bytes));
    return p;
  }
  void free_raw(void* p, int64_t bytes) override {
    std::memset(p, 0x5a, static_cast<size_t>(bytes));
    Device::free_raw(p, bytes);
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
    return true;
  }();
}

void fail_late_kernel(int64_t skip) { kernels_until_failure = skip; }

}  // namespace mote
