// Random tensor programs: small lists of calls of the public interface, made from a seed. A program
// can be run on any device, printed as a C++-like listing, and shrunk while it keeps failing.
//
// What is known of every value decides how results are compared. `exact` values are integers small
// enough that every order of evaluation gives the same bits; only they are compared, rounded or
// used as positions, so that no decision hangs on rounding. Inexact floats are only combined by
// continuous functions.
#pragma once
#include <mote/mote.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mote::programs {

// One call. Its result is tensor number `its own position`; a write's result is its target again.
struct Step {
  int row = 0;             // which call: position in the table
  std::vector<int> in;     // tensors, by number
  std::vector<int64_t> n;  // sizes, axes, choices
};

struct Fact {
  bool exact = true;
  bool smooth = true;  // no kink was evaluated where rounding could move it
  double bound = 0;    // of the finite values
  double eps = 0;      // of the narrowest float that went into it
  int root = -1;       // the tensor whose memory it may share
};

struct Script {
  uint64_t seed = 0;
  std::vector<Step> steps;
  std::vector<Fact> facts;   // one per step
  std::vector<int> outputs;  // tensors that are compared
  bool together = false;     // outputs are realized in one go
};

Script generate(uint64_t seed);
std::string list(const Script& p);

// All tensors of the program, built on `device`. With `effects`, the steps that only change when
// and where things are computed (realize, a hop to another device and back) are done too.
std::vector<Tensor> execute(const Script& p, const std::string& device, bool effects);

// The tensors that went into tensor `of`, and those that share memory with one of them.
std::set<int> sources(const Script& p, int of);

// The program without step i and all that need it; empty if nothing to compare is left.
std::optional<Script> without(const Script& p, size_t i);

}  // namespace mote::programs
