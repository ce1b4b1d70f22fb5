// Loops chosen: actions on the ranges of one kernel.
//
// Takes a kernel body as schedule/ gives it, in the current arena, and gives the same kernel with
// other loops. An action replaces a range by expressions of new ranges (split: r = outer*n + inner)
// or changes its role or place; every action is legal or refused with a reason, and prints as text
// that parses back. The order of loops is the order of slots, a Global range outermost. What must
// hold whatever actions came before is said in legal.cpp, and held against what each of them gives.
//
//   split 2 8 upcast     the range of slot 2 becomes outer*8 + inner, inner a tile axis
//   merge 1 2            the ranges of slots 1 and 2 become one where no position needs / or % more
//   order 3 1 2          of these loops the range of slot 3 stands outermost, that of 2 innermost:
//                        they exchange their slots
//   global 0             slot 0 is shared out and stands outermost, as a dimension of the launch
//   local 3              slot 3 is shared out to the workers of a block
//   group 2              so is the reduce range of slot 2: workers fold together
//   share 5 3            the range of slot 5, over which something is staged or folded, is shared
//                        out to the workers of slot 3; what is staged is in memory of the block
//   pad 5 4              the stage filled over slot 5 has 4 places free where that range goes on
//   swizzle 5 8          where it goes on, pieces of 8 places change their order (exclusive or)
//   deep 5 3             the stage filled over slot 5, if it is the block's, has 3 memories, and is
//                        filled 2 rounds of its loop ahead
//   copy 5               and if it is the block's, asynchronous copies fill it
//   box 5 3              the stage filled over slot 5 has 3 memories of the block, and one worker
//                        sends what fills it as a box, 2 rounds ahead
//   fragment 3 32 4 5    the product summed up over slot 5, for slots 3 and 4 of the outputs, is one
//                        of tiles that 32 lanes multiply, which take the next slot; targets have such
//                        of some sizes
//   accumulate 2         the reduce range of slot 2 becomes a loop among those of the output, which
//                        holds the sums between its rounds; `order` gives it its place
//   skip 6               reduce range of slot 6 is empty where the gate of what it folds is false
//   stream 0             stores to Param 0 go past the caches
//   fetch 1 0            what the next position of slot 0 reads of Param 1, one stretch of memory,
//                        is asked for while this one is worked on, a part in each round of the
//                        loops inside that the outputs stand in
//   fetch 1 0 2          the same, in each round of the fold over slot 2
//   ahead 1 4096         what is read of Param 1 is asked for so many bytes before it is its turn
//   stage 1 5 3          what is read from Param 1, as far as it depends on no other ranges, is
//                        held in local memory over copies of the ranges of slots 5 and 3, row-major
//                        in this order; the copies take the next slots
//   stage 1 2+4 3+5      ranges joined by + are one axis: the stretch of memory over which they
//                        move the read together, as an output's and a window's do. What the read's
//                        gate says of them is said when the stage is filled
//   stage sum 3 1        the same of the result of the kernel's only reduce
//   bound 1              loops over rows that are staged for slot 1 end where a mask hides the rest
//   divide 3             the sum over slot 3 is divided, not each of the weights in it, where these
//                        are a row of exponentials divided by their sum
//   stage_rows 1 48      slot 1 becomes outer*48 + inner, and what is staged or folded for each of
//                        its positions is staged for all of inner, each in a nest of its own
// Roles for split: loop or reduce (as the range split), upcast, unroll (of reduces), vector (where
// no value gets two of them).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "ir/build.h"
#include "ir/target.h"

namespace mote {

struct Action {
  enum Kind : uint8_t {
#define ACTION(kind, text, operands) kind,
#include "optimize/actions.def"
#undef ACTION
  } kind = Split;
  static constexpr int kKinds = Fragment + 1;
  static constexpr int kSum = -1;
  int slot = 0;                // of Stage, Stream, Fetch, Ahead: the Param's, of Stage also kSum
  int64_t amount = 0;  // of Split, StageRows: the inner range's size; of Merge: the inner slot;
                       // of Fetch: the loop's; of Ahead: bytes; of Pad, Swizzle, Deep as above
  Role role = Role::Loop;      // of Split: the inner range's
  std::vector<int> over = {};  // of Stage (~slot: joined to the one before), of Order the rest; of
                               // Fetch a slot of the fold that it stands in, none: the outputs'
  bool operator==(const Action&) const = default;
};
std::string to_string(const Action& a);
std::string to_string(std::span<const Action> list);
std::vector<Action> parse_actions(std::string_view text);  // User error on malformed text

// The body after the action, or empty with the reason it was refused. A split that does not divide
// the extent pads it: positions beyond are gated.
UOp apply(UOp body, const Action& action, std::string* refused = nullptr);
// Whether a target can run it, which apply() does not know: what is staged is an argument of the
// kernel like others, and a sum of a dtype that the target lacks is made of parts, none of which
// could wait in memory between its rounds; the factors of a product are all there at once. Where
// there are blocks, what thousands of workers stage for themselves is little, or no more than in the
// body that it was made of.
bool runs_on(UOp body, const Target& target, UOp made_of = {});
// A kernel with its loops chosen, and the actions that made it so. No body: one was refused.
struct Tuned {
  UOp body;
  std::vector<Action> actions;
};
// Loops worth trying for this kernel on this target, those that cost least (cost.h) first.
std::vector<Tuned> proposals(UOp body, const Target& target, size_t most);
Tuned choose_actions(UOp body, const Target& target);  // the first of them
// The same, or as the flags say: none (NOOPT) or random ones (DRAW).
Tuned default_actions(UOp body, const Target& target);
// All of them in order; empty where one is refused.
UOp apply_all(UOp body, std::span<const Action> list, std::string* refused = nullptr);
inline UOp optimize(UOp body, const Target& target) { return default_actions(body, target).body; }

}  // namespace mote
