#include "engine/jit_arguments.h"

#include <algorithm>

#include "base/error.h"
#include "engine/goals.h"
#include "tensor/impl.h"

namespace mote {

namespace {

// Equal but for the values of variables, which are added.
bool same_shape(const Shape& now, const Shape& then, VarValues& values) {
  if (!now.symbolic) return &now == &then || now.dims == then.dims;
  if (now.rank() != then.rank()) return false;
  for (int i = 0; i < now.rank(); ++i) {
    if (now[i].is_symbolic() != then[i].is_symbolic() || now[i].size != then[i].size) return false;
    VarValues ignored;
    if (now[i].is_symbolic() &&
        !(without_values(now[i].symbol, values) == without_values(then[i].symbol, ignored)))
      return false;
  }
  return true;
}

[[noreturn]] void changed(const std::string& path, const std::string& what) {
  fail(ErrorKind::User, text("[jit] argument ", path, ": ", what,
                             "; arguments must be like those of the capture (reset() "
                             "starts over)"));
}

// The values that one argument gives to variables, among those of the others.
void add_values(VarValues& all, const VarValues& own, const std::string& path, size_t bound) {
  if (own.size() < bound) changed(path, "a variable without a value, it was bound to one");
  for (const auto& [name, value] : own) add_value(all, name, value, "jit", "the arguments");
}

const char* word(bool defined) { return defined ? "a tensor" : "undefined"; }

}  // namespace

Flat without_values(UOp expression, VarValues& values) {
  if (!expression) return {};
  FlatInputs inputs;
  Flat flat = Flattener().run({&expression, 1}, &inputs);
  for (const auto& [name, value] : inputs.values)
    add_value(values, name, value, "jit", "the arguments");
  return flat;
}

const Tensor& root_of(const Tensor& t) { return t.impl()->base.defined() ? t.impl()->base : t; }

UOp buffer_under(const TensorImpl& root) {
  UOp leaf = whole_version(root.value);
  return leaf && leaf->is(Op::Buffer) && !leaf->realized.load(std::memory_order_acquire) ? leaf
                                                                                         : UOp();
}

bool is_whole_in_order(const Tensor& t) {
  if (!t.impl()->base.defined()) return true;
  UOp at = t.impl()->chain;
  while (at->is(Op::Reshape) && !at->shape->symbolic) at = at->src(0);
  return at->is(Op::Param);
}

ArgumentSpecs::ArgumentSpecs(const Walked& arguments) {
  for (const NamedTensor& a : arguments.tensors) {
    TensorSpec spec{a.name};
    if ((spec.defined = a.tensor.defined())) {
      spec.marked = a.tensor.impl()->marked;
      spec.dtype = a.tensor.dtype();
      spec.device = a.tensor.impl()->device;
      spec.shape = &shape_of(a.tensor);
      VarValues own;
      same_shape(*spec.shape, *spec.shape, own);
      add_values(values_, own, a.name, spec.bound = own.size());
    }
    tensors_.push_back(std::move(spec));
  }
  for (const NamedSym& s : arguments.symbols) {
    VarValues own;
    symbols_.push_back({s.name, without_values(UOp(s.symbol.node()), own), 0, {}, {}});
    add_values(values_, own, s.name, symbols_.back().bound = own.size());
  }
}

VarValues ArgumentSpecs::check(const Walked& arguments) {
  VarValues values;
  for (size_t i = 0; i < std::min(tensors_.size(), arguments.tensors.size()); ++i) {
    const TensorSpec& then = tensors_[i];
    const auto& [path, now] = arguments.tensors[i];
    if (path != then.path) changed(path, text("a tensor where ", then.path, " was"));
    if (now.defined() != then.defined)
      changed(path, text(word(now.defined()), ", it was ", word(then.defined)));
    if (!then.defined) continue;
    if (now.dtype() != then.dtype)
      changed(path, text("dtype ", now.dtype(), ", it was ", then.dtype));
    if (now.impl()->device != then.device)
      changed(path, text("on ", now.device(), ", it was on ", device_name(then.device)));
    VarValues own;
    if (!same_shape(shape_of(now), *then.shape, own))
      changed(path, text("shape ", shape_of(now), ", it was ", *then.shape));
    add_values(values, own, path, then.bound);
    if (now.impl()->marked != then.marked)
      changed(path, text("requires_grad_(", now.impl()->marked, "), it was ", then.marked));
  }
  if (arguments.tensors.size() > tensors_.size())
    changed(arguments.tensors[tensors_.size()].name,
            text("a tensor more; there were ", tensors_.size()));
  if (arguments.tensors.size() < tensors_.size())
    changed(tensors_[arguments.tensors.size()].path,
            text("missing; there are ", arguments.tensors.size(), " tensors of ", tensors_.size()));
  mote::check(arguments.symbols.size() == symbols_.size(), "[jit] ", arguments.symbols.size(),
              " variables in the arguments, there were ", symbols_.size());
  for (size_t i = 0; i < symbols_.size(); ++i) {
    const auto& [path, now] = arguments.symbols[i];
    SymbolSpec& then = symbols_[i];
    if (path != then.path || now.node() != then.seen.node()) {
      VarValues own;
      if (path != then.path || !(without_values(UOp(now.node()), own) == then.flat))
        changed(path, text("the expression ", now.to_string(), " is not that of the capture"));
      then.seen = now, then.values = std::move(own);
    }
    add_values(values, then.values, path, then.bound);
  }
  for (const auto& [name, value] : values_)
    mote::check(find_value(values, name), "[jit] the variable ", name,
                " is not bound to a value in the arguments");
  return values;
}

}  // namespace mote
