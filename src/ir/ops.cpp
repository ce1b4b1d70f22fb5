#include "ir/ops.h"

namespace mote {

const OpRow op_rows[kOps] = {
#define OP(name, arity, traits, argument, meaning) \
  {#name, arity, traits, ArgKind::argument, meaning},
#include "ir/ops.def"
#undef OP
};

OpSet ops_with(Trait trait) {
  OpSet set;
  for (int i = 0; i < kOps; ++i)
    if (op_rows[i].traits & trait) set.add(static_cast<Op>(i));
  return set;
}

}  // namespace mote
