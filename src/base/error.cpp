#include "base/error.h"

#include "base/number.h"

namespace mote {

static std::string no_place() { return ""; }
std::string (*error_place)() = no_place;

void append(std::string& out, double v) { out += general_text(v, 9); }

void fail(ErrorKind kind, std::string what) { throw Error(kind, std::move(what) + error_place()); }

}  // namespace mote
