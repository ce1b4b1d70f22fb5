#include "base/error.h"

#include <cstdio>

#include "base/utf8.h"

namespace mote {

static std::string no_place() { return ""; }
std::string (*error_place)() = no_place;

void append(std::string& out, double v) {
  char buf[32];
  std::snprintf(buf, sizeof buf, "%.9g", v);
  out += buf;
}

// Names and texts of files get into messages: what could work on a terminal does not.
void fail(ErrorKind kind, std::string what) {
  throw Error(kind, printable(what, Lines::Keep) + error_place());
}

}  // namespace mote
