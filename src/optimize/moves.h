// Moves: the actions a kernel may take next. Search tries them, random tests draw from them, so
// that whatever a search can reach has been compared with the interpreters.
#pragma once
#include "optimize/optimize.h"

namespace mote {

// Candidates of every kind on every range and memory; apply() says which of them are legal.
std::vector<Action> candidate_actions(UOp body, const Target& target);

// Lists one step from this one: another size of a cut, or of two; an action less; one more at the
// end. They may hold actions that are refused: accepted() leaves those out.
std::vector<std::vector<Action>> neighbours(UOp body, std::span<const Action> list,
                                            const Target& target);
Tuned accepted(UOp body, std::span<const Action> list);

// A legal list of at most `most` actions; equal for equal kernels, targets and seeds. A longer one
// of the same seed starts with it.
std::vector<Action> draw_actions(UOp body, const Target& target, uint64_t seed, int most);

}  // namespace mote
