// docs/ir.md, made from the tables of ops and dtypes.
#pragma once
#include <string>

namespace mote {

std::string op_doc();

}  // namespace mote
