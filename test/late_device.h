// LATE: a device for tests. It runs the CPU's code, but on threads of its own, after random delays
// and in any order that the tokens allow. Memory is filled with rubbish when it is taken and given
// back, so that whoever does not wait is found out.
#pragma once
#include <cstdint>

namespace mote {

void add_late_device();  // known as "LATE" and "LATE:n" from now on
// The kernel started after `skip` further ones fails; -1: none.
void fail_late_kernel(int64_t skip);

}  // namespace mote
