// Any graph as text: one node per line, sources before users, the root last.
//
//   %0 = Param f32 [0 16 global 0]
//   %1 = Range index 16 [0 loop]
//   %2 = Index f32 %0 %1
//   %3 = Load f32 %2
//   %4 = Mul f32 %3 2:f32
//
// A line is `%number = Op dtype sources [list] "string"`. A Const is written where it is used:
// `16` (an index), `true`, `2:f32`, `-0:f32`, `nan:f16`, `255:u8`; floats are exact. In a list, an
// entry that a source gives (a symbolic size) names that source: `[2 %7]`. Equal graphs print
// equally. `#` starts a comment; shapes of tensors are printed as one.
#pragma once
#include <string>
#include <string_view>

#include "ir/node.h"

namespace mote {

std::string print(UOp root);

// The node that was printed, in the current arena: the same node when it came from there. Throws a
// User error naming the line. A Buffer cannot be read back: it is memory, not text.
UOp parse(std::string_view text);

}  // namespace mote
