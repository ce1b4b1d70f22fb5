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
  void clear() { tensors.clear(), symbols.clear(); }
};

using Values = std::vector<std::pair<std::string, int64_t>>;  // of variables, by name

// A size or a bound expression without the values of its variables, which are added to `values`; a
// User error where they contradict each other.
Flat without_values(UOp expression, Values& values);

// Arguments as they were in the capture.
class ArgumentSpecs {
 public:
  explicit ArgumentSpecs(const Walked& arguments);
  // A User error that names the argument which is not as it was. Gives the variables' values.
  Values check(const Walked& arguments) const;
  // The same for which of the tensors share memory; by position, null: undefined.
  void check_aliases(const Walked& arguments, const std::vector<Storage*>& storages) const;
  void set_aliases(const std::vector<Storage*>& storages);
  const Values& values() const { return values_; }  // of the capture

 private:
  struct TensorSpec {
    std::string path;
    bool defined = false, marked = false;
    DType dtype = DType::none;
    uint8_t device = 0;
    const Shape* shape = nullptr;  // interned, kept for good
    size_t bound = 0;              // variables with values in it
    size_t same_as = 0;            // the first argument with the same memory
  };
  struct SymbolSpec {
    std::string path;
    Flat flat;
    size_t bound = 0;
  };
  std::vector<TensorSpec> tensors_;
  std::vector<SymbolSpec> symbols_;
  Values values_;
};

// Not a view, or one of all elements in the order in which they are stored.
bool is_whole_in_order(const Tensor& t);
// The error for an argument that is written and is not.
[[noreturn]] void refuse_written_view(const std::string& path);
// A tensor that is whole and in order in memory of its own (or of what it is the whole of): t, or a
// copy of a view. Nothing runs: realize what is pending.
Tensor in_one_piece(const Tensor& t);
// The tensor under a view, or t.
const Tensor& root_of(const Tensor& t);
// The Buffer under a root's value; {} when something is pending.
UOp buffer_under(const TensorImpl& root);

}  // namespace mote
