// Names of devices, interned: a node's device is the id of a list of names ("CPU", "CPU:1",
// "CPU,CPU:1"). Thread-safe; ids are never given back.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mote {

constexpr uint8_t kNoDevice = 0, kDefaultDevice = 1;  // 1: the flag DEV's default

// Equal for all spellings of a list: upper case, "CPU:0" is "CPU", "CPU:01" is "CPU:1". User error
// on a malformed name.
uint8_t intern_device(std::string_view names);
const std::string& device_name(uint8_t id);

}  // namespace mote
