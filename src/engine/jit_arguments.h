// The arguments of a captured function: what they must be, and where they are in memory.
#pragma once
#include <mote/fields.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/flat.h"
#include "ir/storage.h"

namespace mote {

struct NamedSym {
  std::string name;
  Sym symbol;
};
// What was found in arguments or results, in the order of the walk.
struct Walked {
  std::vector<NamedTensor> tensors;
  std::vector<NamedSym> symbols;
  std::vector<std::pair<std::string, bool>> switches;  // `training` of the structs on the way
  void clear() { tensors.clear(), symbols.clear(), switches.clear(); }
};

// A size or a bound expression without the values of its variables, which are added to `values`; a
// User error where they contradict each other.
Flat without_values(UOp expression, VarValues& values);

// Arguments as they were in the capture.
class ArgumentSpecs {
 public:
  explicit ArgumentSpecs(const Walked& arguments);
  // A User error that names the argument which is not as it was. Gives the variables' values.
  VarValues check(const Walked& arguments);
  const VarValues& values() const { return values_; }  // of the capture

 private:
  struct TensorSpec {
    std::string path;
    bool defined = false, marked = false;
    DType dtype = DType::none;
    uint8_t device = 0;
    const Shape* shape = nullptr;  // interned, kept for good
    size_t bound = 0;              // variables with values in it
  };
  struct SymbolSpec {
    std::string path;
    Flat flat;
    size_t bound = 0;
    Sym seen;  // the latest that was found to be alike, and its values
    VarValues values;
  };
  std::vector<TensorSpec> tensors_;
  std::vector<SymbolSpec> symbols_;
  VarValues values_;
};

// Not a view, or one of all elements in the order in which they are stored.
bool is_whole_in_order(const Tensor& t);
// The tensor under a view, or t.
const Tensor& root_of(const Tensor& t);
// The Buffer under a root's value; {} when something is pending.
UOp buffer_under(const TensorImpl& root);

}  // namespace mote
