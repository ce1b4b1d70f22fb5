#include "runtime/devices.h"

#include <mutex>

namespace mote {

static std::vector<DeviceRow>& rows() {
  static auto* r = new std::vector<DeviceRow>(built_devices());
  return *r;
}

std::span<const DeviceRow> device_rows() { return rows(); }
void add_device(const DeviceRow& row) { rows().push_back(row); }

}  // namespace mote
