// Devices for tests.
//
// LATE runs the CPU's code, but on threads of its own, after random delays and in any order that
// the tokens allow. Memory is filled with rubbish when it is taken and given back, so that whoever
// does not wait is found out.
// NARROW interprets lowered kernels as INTERP_PROGRAM does, but is described as a device with at
// most 8 buffers per kernel and no 64-bit types.
// TIGHT runs the CPU's code, made for caches of a few KB: small kernels are blocked and packed
// there as large ones are elsewhere.
// PARTED runs it too, as if kernels and memory cost nothing: sums of little are made of partial
// sums there as those of much are elsewhere.
// FAR runs it in memory that the host cannot address: its handles are numbers. FAR and FAR:1 reach
// each other.
#pragma once
#include <cstdint>

namespace mote {

void add_odd_devices();  // they are known by name from now on
// The LATE kernel started after `skip` further ones fails; -1: none.
void fail_late_kernel(int64_t skip);
// LATE starts nothing while it is held. That ends after 10 s, for whoever waits in vain.
void hold_late(bool hold);
struct FarCopies {
  int64_t direct, through_host;
};
FarCopies far_copies();  // so far, of all FAR devices

}  // namespace mote
