# Writes OUT, a C++ file that defines mote::build_id(): a hash over SEED and the FILES' names
# (relative to ROOT) and contents. The file is touched only when the hash changes.
cmake_minimum_required(VERSION 3.21)
list(SORT FILES)
set(text "${SEED}\n")
foreach(file IN LISTS FILES)
  file(SHA256 ${file} hash)
  file(RELATIVE_PATH name ${ROOT} ${file})
  string(APPEND text "${name} ${hash}\n")
endforeach()
string(SHA256 id "${text}")
string(SUBSTRING ${id} 0 32 id)
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "base/build_id.h"

namespace mote {
const char* build_id() { return "${id}"; }
}  // namespace mote
]])
