// The text of the error that a statement gives.
#pragma once
#include <mote/error.h>

#include <string>

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const mote::Error& e) { return e.what(); }
  return "no error";
}
