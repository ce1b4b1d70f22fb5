// What the modules are written with.
#pragma once
#include <mote/nn.h>

#include "tensor/impl.h"

namespace mote::nn {

// Opened by every module's call: the user's line and the module's name for the nodes made inside.
class ModuleCall {
 public:
  ModuleCall(const char* module, const Loc& where) : call_(module, where), module_(module) {}

 private:
  ProgramCall call_;
  ModuleScope module_;
};

// Of a module being made: none of its sizes may be negative.
void expect_sizes(std::initializer_list<int64_t> sizes);
void expect_sizes(std::span<const int64_t> sizes);
// A setting, and one that also must be < 1; NaN is neither.
void expect_at_least_0(double value, const char* what);
void expect_below_1(double value, const char* what);

// A parameter uniform in +-bound, normal, or full of one number.
Tensor uniform_parameter(const Sizes& shape, double bound, const Options& o);
Tensor normal_parameter(const Sizes& shape, double std, const Options& o);
Tensor full_parameter(const Sizes& shape, double value, const Options& o);
// As full_parameter, but not marked.
Tensor full_buffer(const Sizes& shape, double value, const Options& o);
// Memory of its own whose elements are not set.
Tensor unset(const Sizes& shape, const Options& o);

}  // namespace mote::nn
