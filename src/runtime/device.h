// What a device can do. One file per device implements this; everything else reads its Target.
//
// The interface is asynchronous: submit and the copies return at once with a token; work waits for
// the tokens it is given, host reads wait themselves. Memory goes back to its allocator only after
// its last token (MemoryBlock below). Errors surface where the token is waited for, with the
// kernel's name and the user's line. A device may complete at once (CPU, NULL) or late and in any
// order that the tokens allow. All functions are thread-safe.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"
#include "ir/storage.h"
#include "ir/target.h"
#include "runtime/token.h"

namespace mote {

class Device;

// Code ready to run; shared by the kernel cache and every launch that has not run yet.
class Code {
 public:
  virtual ~Code() = default;
};

// A place in a device's memory: a handle that the device gave, and bytes from its start. Only the
// device knows what a handle is.
struct DeviceAddress {
  uint64_t handle = 0;  // 0: none
  int64_t offset = 0;
  DeviceAddress operator+(int64_t bytes) const { return {handle, offset + bytes}; }
  bool operator==(const DeviceAddress&) const = default;
};
// Where a device is on the host (Device::on_host), a handle is an address.
inline DeviceAddress host_place(const void* p) { return {reinterpret_cast<uint64_t>(p), 0}; }
inline std::byte* host_address(DeviceAddress a) {
  return reinterpret_cast<std::byte*>(a.handle) + a.offset;
}

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
  virtual const Target& target() const { return target_; }  // with the flags as they are now

  virtual std::string about() const { return ""; }  // one line for people

  // Text of a lowered kernel, and code from text. Both may be called from several threads.
  virtual std::string render(const Program& program) = 0;
  virtual std::unique_ptr<Code> compile(const std::string& text, const Program& program) = 0;

  // Work, in order, after the tokens given.
  virtual Token submit(LaunchList list, std::span<const Token> after) = 0;
  virtual Token copy_in(DeviceAddress to, const void* host, int64_t bytes, std::span<const Token> after);
  virtual Token copy_out(void* host, DeviceAddress from, int64_t bytes, std::span<const Token> after);
  virtual void synchronize() {}
  // Asked before work that reads this memory is submitted: a Device error where it is gone.
  virtual void check_readable(DeviceAddress, int64_t) const {}

  // A handle of new memory, 64-byte aligned; 0 when the device has none left. NULL devices hand out
  // addresses that nothing may touch.
  virtual uint64_t allocate_raw(int64_t bytes);
  virtual void free_raw(uint64_t handle, int64_t bytes);
  virtual bool holds_data() const { return true; }        // false: nothing can be read back
  virtual bool computes() const { return true; }          // false: it is only copied from
  virtual bool on_host() const { return true; }           // the host can address its memory
  virtual bool interprets_graphs() const { return false; } // evaluates the unscheduled graph

  int64_t byte_limit() const;
  void set_byte_limit(int64_t bytes);
  int64_t live_bytes() const;

 protected:
  std::string name_;
  Target target_;

 private:
  friend class MemoryBlock;
  mutable std::mutex mutex_;  // of all below
  int64_t byte_limit_ = INT64_MAX;
  int64_t live_bytes_ = 0;
  struct Holder {
    const char* what;
    uint32_t provenance;
  };
  std::multimap<int64_t, Holder, std::greater<>> holders_;  // live blocks by size, for messages
  std::string memory_text(int64_t asked, const char* what) const;
};

// A block of device memory; freed when the last user is gone and the last token is done.
class MemoryBlock {
 public:
  // Checks the device's byte limit first; the error says what was asked, what is live and the
  // largest holders.
  static std::shared_ptr<MemoryBlock> allocate(Device& device, int64_t bytes, const char* what);
  // Memory of the caller's.
  static std::shared_ptr<MemoryBlock> borrow(Device& device, DeviceAddress at, int64_t bytes,
                                        void (*deleter)(void*), void* context);
  ~MemoryBlock();
  DeviceAddress address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  Device& device() const { return device_; }
  // Work that touches this block. Later users wait for what wrote it, and get its error if it
  // failed; later writers also wait for what only read it.
  void add_token(const Token& t, bool writes);
  std::vector<Token> tokens(bool to_write) const;
  void append_tokens(std::vector<Token>& out, bool to_write) const;
  void wait() const;

 private:
  MemoryBlock(Device& device, DeviceAddress at, int64_t bytes)
      : device_(device), address_(at), bytes_(bytes) {}
  Device& device_;
  DeviceAddress address_;
  int64_t bytes_;
  void (*deleter_)(void*) = nullptr;
  void* context_ = nullptr;
  decltype(Device::holders_)::iterator holder_;  // of memory that is owned
  bool owned_ = false;
  mutable std::mutex mutex_;
  std::vector<Token> tokens_;
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
