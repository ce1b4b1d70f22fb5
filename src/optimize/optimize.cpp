#include "optimize/optimize.h"

#include "base/flags.h"
#include "optimize/moves.h"

namespace mote {

UOp apply_all(UOp body, std::span<const Action> list, std::string* refused) {
  for (const Action& a : list)
    if (!(body = apply(body, a, refused))) return {};
  return body;
}

Tuned default_actions(UOp body, const Target& target) {
  constexpr int64_t kMostDrawn = 16;
  if (flag(Flag::NOOPT)) return {body, {}};
  if (const int64_t draw = flag(Flag::DRAW)) {
    std::vector<Action> drawn = draw_actions(body, target, static_cast<uint64_t>(draw / kMostDrawn),
                                             static_cast<int>(draw % kMostDrawn));
    return {apply_all(body, drawn), std::move(drawn)};
  }
  return choose_actions(body, target);
}

}  // namespace mote
