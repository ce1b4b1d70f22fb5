#include "base/error.h"

#include "base/number.h"
#include "base/utf8.h"

namespace mote {

static std::string no_place() { return ""; }
std::string (*error_place)() = no_place;

void append(std::string& out, double v) { out += general_text(v, 9); }

// Messages may quote names and contents of files. Control characters are escaped, so that they
// cannot change the terminal.
void fail(ErrorKind kind, std::string what) {
  throw Error(kind, printable(what, Lines::Keep) + error_place());
}

}  // namespace mote
