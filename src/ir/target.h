// What a device is, in numbers: the only thing the compiler knows about it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/dtype.h"
#include "ir/ops.h"

namespace mote {

// A product of tiles by a group of lanes (tensor cores). Where a register of a lane is in a tile:
// each bit of the lane's number adds a step, and so does each bit of the register's.
struct Fragment {
  struct Step {
    int row, column;
  };
  struct Layout {
    std::vector<Step> lane, reg;
    int registers() const { return 1 << reg.size(); }
    Step at(int lane_number, int register_number) const;
  };
  const char* name;
  int rows, columns, depth, lanes;
  DType factor, sum;
  Layout a, b, c;  // rows x depth, depth x columns, rows x columns
  bool a_staged = false, b_staged = false;  // read from memory of the block, not from registers
  bool pending = false;                     // the result is there after a Wait
};

// Its fields are the rows of target.def, from which also text and hash are made.
struct Target {
  std::string name;  // for messages and cache keys
#define FIELD(type, field, value, meaning) type field = value;
#include "ir/target.def"
#undef FIELD

  bool has(DType d) const { return dtypes >> static_cast<int>(d) & 1; }
};

// "cpu threads=8 parallel_results=8 ...", for people and for keys: equal for equal targets only.
std::string to_string(const Target& target);

// The targets of the devices that a program uses, by their ids.
class Targets {
 public:
  Targets() = default;
  explicit Targets(const Target& one) { add(0, one); }
  void add(uint8_t device, const Target& target) {
    if (by_id_.size() <= device) by_id_.resize(size_t{device} + 1);
    by_id_[device] = &target;
    if (!by_id_[0]) by_id_[0] = &target;
  }
  // Where a value lives that names no device, and where only one is known: the first one's.
  const Target& operator[](uint8_t device) const {
    return *(device < by_id_.size() && by_id_[device] ? by_id_[device] : by_id_[0]);
  }

 private:
  std::vector<const Target*> by_id_;
};

}  // namespace mote
