# Writes OUT, a C++ file that lists the devices that FILES define: each line that begins with
# MOTE_DEVICE(name) defines one. The file is touched only when the list changes.
cmake_minimum_required(VERSION 3.21)
list(SORT FILES)
foreach(file IN LISTS FILES)
  file(STRINGS ${file} lines REGEX "^MOTE_DEVICE\\([a-z_0-9]+\\)")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^MOTE_DEVICE\\(([a-z_0-9]+)\\).*" "\\1" name "${line}")
    string(APPEND declared "extern const DeviceRow ${name};\n")
    string(APPEND listed "${name}, ")
  endforeach()
endforeach()
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "runtime/devices.h"

namespace mote {
${declared}
std::vector<DeviceRow> built_devices() { return {${listed}}; }
}  // namespace mote
]])
