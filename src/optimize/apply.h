// What the applications of actions share; inside this folder.
#pragma once
#include "optimize/optimize.h"

namespace mote {

// How many actions may make: lowering gives some nests loops of their own.
constexpr int kMostRanges = kSlots - 16;

struct Ranges {
  std::vector<UOp> all;
  int next_slot = 0;
  Ranges() = default;
  explicit Ranges(std::span<const UOp> order);
  explicit Ranges(UOp body) : Ranges(toposort(body)) {}
  UOp find(int slot) const;  // empty: there is none
};

// Slots of the ranges that an index moves with, without those that only say how far others go.
uint64_t ranges_in(UOp position);

// How many positions a range has at most, 0 where that is not known here.
int64_t most_positions(UOp range);
// How many loops are chosen for: of the class of small sizes some from its middle.
int64_t usual_positions(UOp range);

// Where a range that is run as far as most_positions() has the position it is at: `skip` gives it
// the extent where(gate, n, 0), and `bound` one that depends on other loops.
UOp runs_where(UOp range);

// What lowering relies on and this body does not keep; empty: it is legal. `order`: its nodes.
std::string broken_law(UOp body, std::span<const UOp> order);

// For those who look at what comes of an action anyway: the ranges of the body are known, and the
// nodes of the new one are found once.
UOp apply(UOp body, const Ranges& ranges, const Action& a, std::vector<UOp>& order_of_new,
          std::string* refused = nullptr);
bool runs_on(UOp body, std::span<const UOp> order, const Target& target, UOp made_of);

// Whether a memory is read: what stands at one of its places is a value.
bool is_read(std::span<const UOp> order, UOp memory);

// Says why and is empty.
UOp refuse(std::string* refused, std::string why);

// The Reduce over this range; empty where there is none or several.
UOp only_reduce(UOp body, UOp range, std::string* refused);

// What the numbers of an action are.
enum Operands : uint16_t {
  OfRange = 1,       // slot: of a range; otherwise of a Param
  OrSum = 2,         // or the sum
  Cut = 4,           // amount: the size of the inner range
  SecondRange = 8,   // amount: the slot of another range
  Number = 16,       // amount
  InnerRole = 32,
  List = 64,         // one range or more
  MaybeList = 128,   // or none
  Joins = 256,       // of which some may be joined
};

// A kernel whose next action is to be found.
struct Site {
  UOp body;
  const Target& target;
  Ranges ranges;             // by slot
  std::vector<UOp> places;   // in Params, of reads and stores
  std::vector<int> stored;   // Params
  UOp sum;                   // some reduce
  bool stages = false;       // something is staged
  Site(UOp kernel, const Target& on);
  std::vector<UOp> of_role(Role role) const;
};

// Sizes worth trying for what is cut.
inline constexpr int64_t kCuts[] = {2,  3,  4,  5,  6,  7,   8,   10,  12,  14,  16, 20,
                             24, 28, 32, 48, 64, 96,  128, 192, 256, 384, 512};
void for_cuts(int64_t most, auto f) {
  for (int64_t amount : kCuts)
    if (amount <= most) f(amount);
}
inline bool is_plain(UOp r) {
  return range_role(r) == Role::Loop || range_role(r) == Role::Reduce;
}
inline int param_of(UOp place) { return static_cast<int>(place->src(0)->ints(0)); }

struct ActionRow {
  const char* text;
  uint16_t operands;
  UOp (*apply)(UOp body, const Action& a, const Ranges& ranges, std::string* refused);
  void (*propose)(const Site& site, std::vector<Action>& out);
  bool has(int some) const { return operands & some; }
};
extern const ActionRow action_rows[Action::kKinds];
inline const ActionRow& row(Action::Kind kind) { return action_rows[kind]; }

// Of actions of a range it is known that there is one.
#define ACTION(kind, text, operands)                                                       \
  UOp apply_##text(UOp body, const Action& a, const Ranges& ranges, std::string* refused); \
  void propose_##text(const Site& site, std::vector<Action>& out);
#include "optimize/actions.def"
#undef ACTION

// The range as an expression of others, which stand where it stood; `inside`: which of their
// positions exist, empty for all.
UOp change_range(UOp body, UOp from, UOp to, std::vector<UOp> ranges, UOp inside);
UOp with_role(UOp body, UOp range, Role role);
// A loop that fills a stage of which nobody reads more than the part of an output's loop that he
// works on: for a part of so many positions that many * num / den.
struct Follower {
  UOp loop;
  int64_t num = 1, den = 1;
  bool alone = false;  // the stage is filled over no other
};
std::vector<Follower> followers(UOp body, UOp loop);
// Whether it has as many parts as the loop in parts of this length, and all of them are loops.
bool follows(const Follower& follower, UOp loop, int64_t length);
// Whether an output loop may become a dimension of the launch.
bool may_launch(UOp body, UOp range, Role role, std::string* refused);
// It becomes one; empty: refused.
UOp launched(UOp body, UOp range, Role role, std::string* refused);
bool fills_stage(UOp body, UOp range);  // something is staged over it

// The range as outer*amount + inner, inner of the role and in the next slot; empty: refused.
// `whole`: the last round of a loop over a variable size is as long as the others.
UOp cut_range(UOp body, const Action& cut, const Ranges& ranges, std::string* refused,
              bool whole = false);

// What is read from a Param in dependence on all of these slots; none: refused.
std::vector<UOp> reads_of(UOp body, int param, uint64_t slots, std::string* refused);
// The same where it is one read; empty: refused.
UOp only_read(UOp body, int param, uint64_t slots, std::string* refused);

}  // namespace mote
