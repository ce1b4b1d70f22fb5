#include "base/error.h"

#include <cstdio>

namespace mote {

static std::string no_place() { return ""; }
std::string (*error_place)() = no_place;

void append(std::string& out, double v) {
  char buf[32];
  std::snprintf(buf, sizeof buf, "%.9g", v);
  out += buf;
}

void fail(ErrorKind kind, std::string what) { throw Error(kind, std::move(what) + error_place()); }

}  // namespace mote
