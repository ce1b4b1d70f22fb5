// Whether a module trains, for those who must notice that it changed.
#include <mote/nn.h>

#include "tensor/handles.h"

namespace mote {

namespace {
std::atomic<uint64_t> plain_changes{0};
}

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

void note_plain_switch_changed() { plain_changes.fetch_add(1); }
uint64_t plain_switches_changed() { return plain_changes.load(); }

}  // namespace mote
