#include "runtime/memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/flags.h"
#include "ir/provenance.h"
#include "runtime/device.h"

namespace mote {

// ---- MemoryPool

namespace {

constexpr int64_t kSmall = 64 << 10;  // below this malloc keeps memory itself

// Sizes are a cache line apart at first, then eight to a doubling, and at most 2 MB apart.
int64_t size_class(int64_t bytes) {
  const auto n = static_cast<uint64_t>(std::max<int64_t>(bytes, 512));
  const auto step = std::min(static_cast<int64_t>(std::bit_floor(n) / 8), int64_t{2} << 20);
  return (std::max<int64_t>(bytes, 1) + step - 1) / step * step;
}

}  // namespace

bool MemoryPool::Kept::is_idle() const { return std::ranges::all_of(uses, &Token::done); }

int64_t MemoryPool::locked(const int64_t& value) const {
  std::lock_guard lock(mutex_);
  return value;
}
void MemoryPool::set_byte_limit(int64_t bytes) {
  std::lock_guard lock(mutex_);
  byte_limit_ = bytes;
}

std::string MemoryPool::state_text() const {
  std::string out =
      text(live_bytes_, " of ", byte_limit_, " in use, ", kept_bytes_, " kept for reuse");
  int shown = 0;
  for (auto it = holders_.begin(); it != holders_.end() && shown < 3; ++it, ++shown) {
    std::string at = place(it->second.provenance);
    out += text(shown ? ", " : "; the largest: ", it->second.what, " ", it->first,
                at.empty() ? "" : " from ", at);
  }
  return out;
}

void MemoryPool::take(MemoryBlock& m, const char* what) {
  auto refuse = [&](std::string why) {
    fail(ErrorKind::Device,
         text("[", *current_method() ? current_method() : "allocate", "] out of memory on ",
              device_.name(), ": ", why, " (", what, "), ", state_text()));
  };
  m.capacity_ = size_class(m.bytes_);
  std::unique_lock lock(mutex_);
  for (;;) {
    if (m.bytes_ > byte_limit_ - live_bytes_) refuse(text(m.bytes_, " bytes requested"));
    if (reuse(m) || allocate(m)) break;
    if (kept_.empty())
      refuse(text("the system has no ", m.bytes_, " bytes left for this request"));
    const std::vector<Token> uses = kept_.rbegin()->second.uses;
    lock.unlock();
    for (const Token& t : uses) t.wait_quietly();
    lock.lock();
  }
  m.holder_ = holders_.insert({
      m.bytes_, {what, current_provenance()}
  });
  live_bytes_ += m.bytes_;
  used_bytes_ += m.capacity_;
  most_used_ = std::max(most_used_, used_bytes_);
}

// A device that waits for tokens on the host would stall it: there, new memory is better.
bool MemoryPool::reuse(MemoryBlock& m) {
  const auto end = kept_.upper_bound(std::max(m.capacity_, m.bytes_ + m.bytes_ / 3));
  auto it = kept_.lower_bound(m.capacity_);
  if (!device_.has_queue())
    it = std::find_if(it, end, [](const auto& kept) { return kept.second.is_idle(); });
  if (it == end) return false;
  m.capacity_ = it->first;
  m.address_.handle = it->second.handle;
  for (const Token& t : it->second.uses)
    if (!t.done()) m.uses_.push_back({t, false});
  kept_bytes_ -= it->first;
  kept_.erase(it);
  return true;
}

// Small memory leaves what is kept alone, unless the limit is near.
bool MemoryPool::allocate(MemoryBlock& m) {
  const int64_t room = byte_limit_ - used_bytes_ - m.capacity_,
                usual = most_used_ - used_bytes_ - m.capacity_;
  trim(m.capacity_ < kSmall ? room : std::min(room, usual));
  if (kept_bytes_ > std::max<int64_t>(room, 0)) return false;
  ++allocations_;
  m.address_.handle = device_.allocate_raw(m.capacity_);
  if (m.address_.handle || kept_.empty()) return m.address_.handle;
  trim(0);
  m.address_.handle = device_.allocate_raw(m.capacity_);
  return m.address_.handle;
}

// Gives back what nobody touches any more, the largest first.
void MemoryPool::trim(int64_t most_kept) {
  for (auto it = kept_.end(); kept_bytes_ > most_kept && it != kept_.begin();) {
    --it;
    if (!it->second.is_idle()) continue;
    device_.free_raw(it->second.handle, it->first);
    kept_bytes_ -= it->first;
    it = kept_.erase(it);
  }
}

void MemoryPool::give_back(MemoryBlock& m) {
  Kept kept{m.address_.handle, {}};
  for (const MemoryBlock::Use& u : m.uses_)
    if (!u.token.done()) kept.uses.push_back(u.token.quiet());
  std::lock_guard lock(mutex_);
  holders_.erase(m.holder_);
  live_bytes_ -= m.bytes_;
  used_bytes_ -= m.capacity_;
  const bool costs_nothing = device_.on_host() && (m.capacity_ < kSmall || !device_.holds_data());
  if (costs_nothing && kept.uses.empty()) return device_.free_raw(kept.handle, m.capacity_);
  kept_bytes_ += m.capacity_;
  kept_.emplace(m.capacity_, std::move(kept));
}

// ---- MemoryBlock

std::shared_ptr<MemoryBlock> MemoryBlock::allocate(Device& device, int64_t bytes,
                                                   const char* what) {
  auto m = std::shared_ptr<MemoryBlock>(new MemoryBlock(device, {}, bytes));
  device.pool().take(*m, what);
  if (flag(Flag::SPEC)) m->spoil();
  return m;
}

// NaNs, so that tests see whoever reads what nobody wrote. Memory that is still in use is left.
void MemoryBlock::spoil() {
  constexpr int64_t kMost = 64 << 20;  // beyond, pages that are never touched count
  if (device_.on_host() && device_.holds_data() && uses_.empty() && bytes_ <= kMost)
    std::memset(host_address(address_), 0xff, static_cast<size_t>(bytes_));
}

std::shared_ptr<MemoryBlock> MemoryBlock::borrow(Device& device, DeviceAddress at, int64_t bytes,
                                                 void (*deleter)(void*), void* context) {
  auto m = std::shared_ptr<MemoryBlock>(new MemoryBlock(device, at, bytes));
  m->deleter_ = deleter;
  m->context_ = context;
  m->borrowed_ = true;
  return m;
}

MemoryBlock::~MemoryBlock() {
  if (!borrowed_) {
    if (address_.handle) device_.pool().give_back(*this);
    return;
  }
  for (const Use& u : uses_) u.token.wait_quietly();
  if (deleter_) deleter_(context_);
}

void MemoryBlock::add_token(const Token& t, bool writes) {
  if (t.succeeded()) return;
  std::lock_guard lock(mutex_);
  std::erase_if(uses_, [](const Use& old) { return old.token.succeeded(); });
  uses_.push_back({writes ? t : t.quiet(), !writes});
}

std::vector<Token> MemoryBlock::tokens(bool to_write) const {
  std::vector<Token> out;
  append_tokens(out, to_write);
  return out;
}

void MemoryBlock::append_tokens(std::vector<Token>& out, bool to_write) const {
  std::lock_guard lock(mutex_);
  for (const Use& u : uses_)
    if (to_write || !u.only_reads) out.push_back(u.token);
}

void MemoryBlock::wait() const {
  for (const Token& t : tokens(false)) t.wait();
}

}  // namespace mote
