#include "runtime/device.h"

#include <algorithm>
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

Token Device::copy_in(void* to, const void* host, int64_t bytes, std::span<const Token> after) {
  for (const Token& t : after) t.wait();
  if (bytes) std::memcpy(to, host, static_cast<size_t>(bytes));
  return {};
}

Token Device::copy_out(void* host, const void* from, int64_t bytes, std::span<const Token> after) {
  for (const Token& t : after) t.wait();
  if (bytes) std::memcpy(host, from, static_cast<size_t>(bytes));
  return {};
}

void* Device::allocate_raw(int64_t bytes) {
  size_t rounded = (static_cast<size_t>(bytes) + 63) / 64 * 64;
  return std::aligned_alloc(64, std::max<size_t>(rounded, 64));
}

void Device::free_raw(void* p, int64_t) { std::free(p); }

// ---- Memory

int64_t Device::byte_limit() const {
  std::lock_guard lock(mutex_);
  return byte_limit_;
}
void Device::set_byte_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  byte_limit_ = bytes;
}
int64_t Device::live_bytes() const {
  std::lock_guard lock(mutex_);
  return live_bytes_;
}

std::string Device::memory_text(int64_t asked, const char* what) const {
  std::string out = text("out of memory on ", name_, ": ", asked, " bytes asked for (", what, "), ",
                         live_bytes_, " of ", byte_limit_, " in use");
  int shown = 0;
  for (auto it = holders_.begin(); it != holders_.end() && shown < 3; ++it, ++shown) {
    std::string at = place(it->second.provenance);
    out += text(shown ? ", " : "; the largest: ", it->second.what, " ", it->first,
                at.empty() ? "" : " from ", at);
  }
  return out;
}

// NaNs, so that tests see whoever reads what nobody wrote.
static void spoil(MemoryBlock& m) {
  constexpr int64_t kMost = 64 << 20;  // larger ones would take pages that nobody touches
  if (m.device().on_host() && m.device().holds_data() && m.bytes() <= kMost)
    std::memset(m.data(), 0xff, static_cast<size_t>(m.bytes()));
}

// The block counts from before its memory is taken, so that threads cannot pass the limit together.
std::shared_ptr<MemoryBlock> MemoryBlock::allocate(Device& device, int64_t bytes,
                                                   const char* what) {
  auto m = std::shared_ptr<MemoryBlock>(new MemoryBlock(device, nullptr, bytes));
  std::string full;
  {
    std::lock_guard lock(device.mutex_);
    if (bytes > device.byte_limit_ - device.live_bytes_) {
      full = device.memory_text(bytes, what);
    } else {
      m->holder_ = device.holders_.insert({bytes, {what, current_provenance()}});
      m->owned_ = true;
      device.live_bytes_ += bytes;
    }
  }
  if (full.empty() && !(m->data_ = device.allocate_raw(bytes)))
    full = text("out of memory on ", device.name(), ": the system has no ", bytes,
                " bytes left that were asked for (", what, ")");
  if (!full.empty())
    fail(ErrorKind::Device,
         text("[", *current_method() ? current_method() : "allocate", "] ", full));
  if (flag(Flag::SPEC)) spoil(*m);
  return m;
}

std::shared_ptr<MemoryBlock> MemoryBlock::borrow(Device& device, void* data, int64_t bytes,
                                       void (*deleter)(void*), void* context) {
  auto m = std::shared_ptr<MemoryBlock>(new MemoryBlock(device, data, bytes));
  m->deleter_ = deleter;
  m->context_ = context;
  return m;
}

MemoryBlock::~MemoryBlock() {
  for (const Token& t : tokens_) t.wait_quietly();
  if (deleter_) deleter_(context_);
  if (!owned_) return;
  if (data_) device_.free_raw(data_, bytes_);
  std::lock_guard lock(device_.mutex_);
  device_.live_bytes_ -= bytes_;
  device_.holders_.erase(holder_);
}

void MemoryBlock::add_token(const Token& t, bool writes) {
  if (t.succeeded()) return;
  std::lock_guard lock(mutex_);
  std::erase_if(tokens_, [](const Token& old) { return old.succeeded(); });
  tokens_.push_back(writes ? t : t.quiet());
}

std::vector<Token> MemoryBlock::tokens(bool to_write) const {
  std::vector<Token> out;
  append_tokens(out, to_write);
  return out;
}

void MemoryBlock::append_tokens(std::vector<Token>& out, bool to_write) const {
  std::lock_guard lock(mutex_);
  for (const Token& t : tokens_)
    if (to_write || !t.is_quiet()) out.push_back(t);
}

void MemoryBlock::wait() const {
  for (const Token& t : tokens(false)) t.wait();
}

// ---- DeviceBuffer

DeviceBuffer::DeviceBuffer(uint8_t device_id, DType d, int64_t n) {
  id = next_storage_id();
  dtype = d;
  device = device_id;
  count = n;
}

Device& DeviceBuffer::device_ref() const { return mote::device(device); }

void* DeviceBuffer::ensure_memory(const char* what) {
  if (!memory) memory = MemoryBlock::allocate(device_ref(), bytes(), what);
  return memory->data();
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
    if (made->holds_data()) made->set_byte_limit(limit ? limit : cpu_info().memory_bytes);
    if (made->interprets_graphs()) interpreter_opened = true;
    return *(*open->emplace(name, std::move(made)).first).second;
  }
  std::string known;
  for (const DeviceRow& row : device_rows()) known += text(known.empty() ? "" : ", ", row.name);
  fail(ErrorKind::User, text("[device] there is no device ", name, "; there are ", known));
}

}  // namespace mote
