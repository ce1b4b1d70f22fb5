// Whether a module trains, for those who must notice that it changed.
#include <mote/nn.h>

#include <mutex>
#include <unordered_map>

#include "base/hash.h"
#include "tensor/handles.h"

namespace mote {

namespace {

// Plain bools that were ever changed, by address. One that takes the place of another counts as the
// same.
struct PlainSwitches {
  std::mutex mutex;
  std::unordered_map<const bool*, bool> now;
  std::atomic<uint64_t> changed{0};  // a mix of the addresses of those that are not as at first
};
PlainSwitches& plain() {
  static auto* all = new PlainSwitches;
  return *all;
}

}  // namespace

void retain(SwitchCell* cell) { cell->refs.fetch_add(1, std::memory_order_relaxed); }
void release(SwitchCell* cell) {
  if (cell->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) delete cell;
}

Switch::Switch(bool on) : cell_(new SwitchCell) { cell_->on = on; }
Switch::~Switch() { release(cell_); }
Switch& Switch::operator=(bool on) {
  cell_->on = on;
  return *this;
}
bool Switch::peek() const { return cell_->on; }
Switch::operator bool() const {
  if (handle_listener) handle_listener->read(*cell_);
  return cell_->on;
}

void note_plain_switch(const bool& which, bool now) {
  PlainSwitches& all = plain();
  std::lock_guard lock(all.mutex);
  if (which == now && !all.now.contains(&which)) return;
  bool& known = all.now.try_emplace(&which, which).first->second;
  if (known != now) all.changed ^= mix(reinterpret_cast<uintptr_t>(&which), 0);
  known = now;
}
uint64_t plain_switches() { return plain().changed.load(); }

}  // namespace mote
