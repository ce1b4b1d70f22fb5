// What a device can do. One file per device implements this; everything else reads its Target.
//
// The interface is asynchronous: submit and the copies return at once with a token; work waits for
// the tokens it is given, host reads wait themselves. Memory is handed on with the tokens of its
// last uses (memory.h). Errors surface where the token is waited for, with the kernel's name and
// the user's line. A device may complete at once (CPU, NULL) or late and in any order that the
// tokens allow. All functions are thread-safe.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "ir/storage.h"
#include "ir/target.h"
#include "runtime/memory.h"
#include "runtime/token.h"

namespace mote {

class Device;

// Code ready to run; shared by the kernel cache and every launch that has not run yet.
class Code {
 public:
  virtual ~Code() = default;
};

// One run of a kernel.
struct Launch {
  std::shared_ptr<const Code> code;  // keeps `name` as well
  std::vector<DeviceAddress> buffers;   // by Param slot
  std::vector<int64_t> vars;     // as Program::vars
  int64_t extent = 1;            // of the Thread range
  bool threaded = false;
  const char* name = "";
  uint32_t provenance = 0;
};
// Launches in order. A list may be submitted again; until the token of its last submission is done
// nobody changes it, afterwards the device no longer looks at it.
using LaunchList = std::shared_ptr<const std::vector<Launch>>;

// The buffers of a launch, for a device on the host.
void host_addresses(const Launch& launch, std::vector<void*>& out);

// What the token of a launch that failed should say: the kernel's name, the user's line and why.
std::string failure_text(const Launch& launch, std::string_view why);

class Device {
 public:
  Device(std::string name, Target target) : name_(std::move(name)), target_(std::move(target)) {}
  virtual ~Device() = default;
  const std::string& name() const { return name_; }
  std::string kind() const { return name_.substr(0, name_.find(':')); }  // of CPU:1: CPU
  virtual const Target& target() const { return target_; }  // with the flags as they are now

  virtual std::string about() const { return ""; }  // one line for people

  // Text of a lowered kernel, and code from text. Both may be called from several threads.
  virtual std::string render(const Program& program) = 0;
  virtual std::unique_ptr<Code> compile(const std::string& text, const Program& program) = 0;

  // Code from a program of the user's; a User error where this device takes none, and with the
  // compiler's words where it is wrong. It defines
  // void mote_entry(void** buffers, const int64_t*, int64_t, int64_t).
  virtual std::unique_ptr<Code> compile_source(const std::string& text);

  // Code that this device compiled, as bytes of which another process makes it again where the
  // target, the compiler and the build are the same; empty: there are none.
  virtual std::vector<uint8_t> saved(const Code&) const { return {}; }
  virtual std::unique_ptr<Code> restored(std::span<const uint8_t>) { return {}; }

  // Work, in order, after the tokens given.
  virtual Token submit(LaunchList list, std::span<const Token> after) = 0;
  virtual Token copy_in(DeviceAddress to, const void* host, int64_t bytes,
                        std::span<const Token> after);
  virtual Token copy_out(void* host, DeviceAddress from, int64_t bytes,
                         std::span<const Token> after);
  // From memory of another device, with nothing in between. Empty: this one does not reach it.
  virtual std::optional<Token> copy_from(DeviceAddress, Device&, DeviceAddress, int64_t,
                                         std::span<const Token>) {
    return {};
  }
  virtual void synchronize() {}
  // Asked before work that reads this memory is submitted: a Device error where it is gone.
  virtual void check_readable(DeviceAddress, int64_t) const {}

  // A handle of new memory, 64-byte aligned; 0 when the device has none left. NULL devices hand out
  // addresses that nothing may touch. Called by the pool, one at a time; what it frees is idle.
  virtual uint64_t allocate_raw(int64_t bytes);
  virtual void free_raw(uint64_t handle, int64_t bytes);
  virtual int64_t memory_bytes() const;                   // that there are
  virtual bool holds_data() const { return true; }        // false: nothing can be read back
  virtual bool computes() const { return true; }          // false: it is only copied from
  virtual bool on_host() const { return true; }           // the host can address its memory
  virtual bool has_queue() const { return false; }        // work waits for its tokens there
  virtual bool interprets_graphs() const { return false; } // evaluates the unscheduled graph

  // Work was submitted that ends with this token, and needs memory of the host until then. Waits
  // for the oldest if too much is under way.
  void limit_queue(const Token& submitted, std::shared_ptr<const void> needs = {});
  static uint64_t queue_waits();  // of all devices
  MemoryPool& pool() { return pool_; }

 protected:
  std::string name_;
  Target target_;

 private:
  std::mutex queue_mutex_;
  struct Submission {
    Token token;
    std::shared_ptr<const void> needs;
  };
  std::deque<Submission> queue_;  // under way, the oldest first
  MemoryPool pool_{*this};
};

// The storage behind Buffer nodes: memory that appears when it is first needed.
class DeviceBuffer : public Storage {
 public:
  DeviceBuffer(uint8_t device_id, DType d, int64_t n);
  Device& device_ref() const;
  int64_t bytes() const { return count * size_of(dtype); }
  bool allocated() const { return memory != nullptr; }
  void ensure_memory(const char* what);
  std::shared_ptr<MemoryBlock> memory;
};
DeviceBuffer& device_buffer(Storage& s);

// Devices by name ("CPU", "CPU:1", "INTERP", "NULL", "DISK"); opened once, kept for good.
// User error for unknown names, Device error (with the package to install) for unavailable ones.
Device& device(std::string_view name);
Device& device(uint8_t id);
bool interpreter_is_open();  // some device that interprets graphs
struct DeviceRow {
  const char* name;
  bool (*available)(std::string* why_not);
  std::unique_ptr<Device> (*open)(const std::string& name);
};
std::span<const DeviceRow> device_rows();

}  // namespace mote
