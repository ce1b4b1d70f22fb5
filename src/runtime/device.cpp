#include "runtime/device.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/flags.h"
#include "ir/device_list.h"
#include "ir/provenance.h"
#include "runtime/cpu_info.h"
#include "runtime/devices.h"

namespace mote {

std::string failure_text(const Launch& launch, std::string_view why) {
  std::string made_at = place(launch.provenance);
  return text("kernel ", launch.name, made_at.empty() ? "" : ", made at ", made_at, ": ", why);
}

void host_addresses(const Launch& launch, std::vector<void*>& out) {
  out.clear();
  for (DeviceAddress a : launch.buffers) out.push_back(host_address(a));
}

std::unique_ptr<Code> Device::compile_source(const std::string&) {
  fail(ErrorKind::User, text("the device ", name(), " takes no programs as text"));
}

Token Device::copy_in(DeviceAddress to, const void* host, int64_t bytes,
                      std::span<const Token> after) {
  for (const Token& t : after) t.wait();
  if (bytes) std::memcpy(host_address(to), host, static_cast<size_t>(bytes));
  return {};
}

Token Device::copy_out(void* host, DeviceAddress from, int64_t bytes,
                       std::span<const Token> after) {
  for (const Token& t : after) t.wait();
  if (bytes) std::memcpy(host, host_address(from), static_cast<size_t>(bytes));
  return {};
}

// Of the host; large memory in large pages, which are fewer to fault in.
uint64_t Device::allocate_raw(int64_t bytes) {
  constexpr int64_t kLine = 64, kPage = 4 << 10, kHugePage = 2 << 20;
  const int64_t align = bytes < 64 << 10 ? kLine : bytes < 2 * kHugePage ? kPage : kHugePage;
  const auto whole = static_cast<size_t>((bytes + align - 1) / align * align);
  void* p = std::aligned_alloc(static_cast<size_t>(align), whole);
  if (p && align == kHugePage) madvise(p, whole, MADV_HUGEPAGE);
  return host_place(p).handle;
}

void Device::free_raw(uint64_t handle, int64_t) { std::free(host_address({handle, 0})); }
int64_t Device::memory_bytes() const { return cpu_info().memory_bytes; }

static std::atomic<uint64_t> queue_waits_so_far = 0;
uint64_t Device::queue_waits() { return queue_waits_so_far; }

void Device::limit_queue(const Token& submitted, std::shared_ptr<const void> needs) {
  constexpr size_t kMost = 64;
  if (submitted.done()) return;
  Token oldest;
  {
    std::lock_guard lock(queue_mutex_);
    queue_.push_back({submitted, std::move(needs)});
    std::erase_if(queue_, [](const Submission& s) { return s.token.done(); });
    if (queue_.size() <= kMost) return;
    oldest = queue_.front().token;
  }
  queue_waits_so_far += oldest.wait_quietly();
}

// ---- DeviceBuffer

DeviceBuffer::DeviceBuffer(uint8_t device_id, DType d, int64_t n) {
  id = next_storage_id();
  dtype = d;
  device = device_id;
  count = n;
}

Device& DeviceBuffer::device_ref() const { return mote::device(device); }

void DeviceBuffer::ensure_memory(const char* what) {
  if (!memory) memory = MemoryBlock::allocate(device_ref(), bytes(), what);
}

DeviceBuffer& device_buffer(Storage& s) { return static_cast<DeviceBuffer&>(s); }

// ---- registry

static std::atomic<bool> interpreter_opened = false;
bool interpreter_is_open() { return interpreter_opened; }

Device& device(uint8_t id) { return device(device_name(id)); }

Device& device(std::string_view given) {
  static std::mutex mutex;
  static auto* open = new std::map<std::string, std::unique_ptr<Device>, std::less<>>;
  std::string name = device_name(intern_device(given));
  std::lock_guard lock(mutex);
  if (auto it = open->find(name); it != open->end()) return *it->second;
  std::string kind = name.substr(0, name.find(':'));
  for (const DeviceRow& row : device_rows()) {
    if (kind != row.name) continue;
    std::string why_not;
    if (!row.available(&why_not))
      fail(ErrorKind::Device, text("[device] ", name, " is not available: ", why_not));
    std::unique_ptr<Device> made = row.open(name);
    int64_t limit = flag(Flag::MEMORY_MB) << 20;
    if (made->holds_data()) made->pool().set_byte_limit(limit ? limit : made->memory_bytes());
    if (made->interprets_graphs()) interpreter_opened = true;
    return *(*open->emplace(name, std::move(made)).first).second;
  }
  std::string known;
  for (const DeviceRow& row : device_rows()) known += text(known.empty() ? "" : ", ", row.name);
  fail(ErrorKind::User, text("[device] there is no device ", name, "; there are ", known));
}

}  // namespace mote
