// What a device is, in numbers: the only thing the compiler knows about it.
#pragma once
#include <cstdint>
#include <string>

#include "ir/dtype.h"
#include "ir/ops.h"

namespace mote {

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

}  // namespace mote
