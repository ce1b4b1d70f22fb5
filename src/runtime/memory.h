// Memory of devices: addresses, blocks with the work that touches them, and a pool per device.
//
// A block whose last user is gone goes back to its device's pool at once, together with the tokens
// of work that still touches it. Whoever gets the memory next waits for them as for any other work
// that it depends on. The host waits for memory only if there is no other left.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/token.h"

namespace mote {

class Device;

// A place in a device's memory: a handle that the device gave, and bytes from its start. Only the
// device knows what a handle is.
struct DeviceAddress {
  uint64_t handle = 0;  // 0: none
  int64_t offset = 0;
  DeviceAddress operator+(int64_t bytes) const { return {handle, offset + bytes}; }
};
// Where a device is on the host (Device::on_host), a handle is an address.
inline DeviceAddress host_place(const void* p) { return {reinterpret_cast<uint64_t>(p), 0}; }
inline std::byte* host_address(DeviceAddress a) {
  return reinterpret_cast<std::byte*>(a.handle) + a.offset;
}

class MemoryBlock;

// What one device has taken from the system: memory in use, and memory kept for whoever asks next,
// because new memory costs more than what most kernels do with it. At most a quarter of what
// somebody gets is more than was asked for. What is kept goes back to the system before both
// together pass the limit, or the most that was in use at once, and when the system has no more.
// Thread-safe.
class MemoryPool {
 public:
  explicit MemoryPool(Device& device) : device_(device) {}
  int64_t byte_limit() const { return locked(byte_limit_); }
  void set_byte_limit(int64_t bytes);
  int64_t live_bytes() const { return locked(live_bytes_); }  // as they were asked for
  int64_t most_used_bytes() const { return locked(most_used_); }
  int64_t kept_bytes() const { return locked(kept_bytes_); }
  int64_t allocations() const { return locked(allocations_); }  // how often the system was asked

 private:
  friend class MemoryBlock;
  struct Kept {
    uint64_t handle;
    std::vector<Token> uses;  // that were under way
    bool is_idle() const;
  };
  struct Holder {
    const char* what;
    uint32_t provenance;
  };
  int64_t locked(const int64_t& value) const;
  // A Device error says what was asked for, what is live and kept, and who holds most.
  void take(MemoryBlock& block, const char* what);
  void give_back(MemoryBlock& block);
  bool reuse(MemoryBlock& block);
  bool allocate(MemoryBlock& block);
  void trim(int64_t most_kept);
  std::string state_text() const;

  Device& device_;
  mutable std::mutex mutex_;  // of all below
  int64_t byte_limit_ = INT64_MAX;
  int64_t live_bytes_ = 0, used_bytes_ = 0, kept_bytes_ = 0, most_used_ = 0, allocations_ = 0;
  std::multimap<int64_t, Kept> kept_;                       // by size, the oldest first
  std::multimap<int64_t, Holder, std::greater<>> holders_;  // live blocks by size
};

// A block of device memory.
class MemoryBlock {
 public:
  static std::shared_ptr<MemoryBlock> allocate(Device& device, int64_t bytes, const char* what);
  // Memory of the caller's, who may use it again when the last user is gone: that waits for the
  // work which touches it.
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
  friend class MemoryPool;
  struct Use {
    Token token;
    bool only_reads;
  };
  MemoryBlock(Device& device, DeviceAddress at, int64_t bytes)
      : device_(device), address_(at), bytes_(bytes) {}
  void spoil();
  Device& device_;
  DeviceAddress address_;
  int64_t bytes_;
  int64_t capacity_ = 0;  // as the pool has it
  bool borrowed_ = false;
  decltype(MemoryPool::holders_)::iterator holder_;
  void (*deleter_)(void*) = nullptr;
  void* context_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<Use> uses_;
};

}  // namespace mote
