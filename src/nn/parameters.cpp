#include <algorithm>
#include <map>

#include "base/utf8.h"
#include "engine/realize.h"
#include "nn/module_call.h"
#include "runtime/device.h"

namespace mote {

bool is_parameter(const Tensor& t) { return t.defined() && t.impl()->marked; }

std::vector<NamedTensor> keep_parameters(std::vector<NamedTensor> all) {
  std::vector<NamedTensor> out;
  std::map<TensorImpl*, bool> seen;
  for (NamedTensor& n : all)
    if (is_parameter(n.tensor) && seen.emplace(n.tensor.impl(), true).second)
      out.push_back(std::move(n));
  return out;
}

void load_tensors(const std::vector<NamedTensor>& into, const std::vector<NamedTensor>& from,
                  bool strict, Loc where) {
  OuterCall call("load_state_dict", where);
  std::map<std::string, const Tensor*> given;
  for (const NamedTensor& n : from) given[n.name] = &n.tensor;
  std::vector<Tensor> loaded;
  for (const NamedTensor& n : into) {
    auto it = given.find(n.name);
    expect(it != given.end() || !strict, "no tensor is given for ", n.name);
    if (it == given.end()) continue;
    expect(it->second->shape() == n.tensor.shape(), n.name, " has shape ", n.tensor,
           " but the given one has ", *it->second);
    // Moved first: a file's tensor can do nothing else.
    Tensor(n.tensor).assign(it->second->to(n.tensor.device()).detach());
    loaded.push_back(n.tensor);
    given.erase(it);
  }
  expect(given.empty() || !strict, "the module has no tensor named ",
         given.empty() ? "" : printable(given.begin()->first));
  realize(loaded);
}

namespace nn {

namespace {

bool holds_data(const Options& o) { return mote::device(device_from(o.device)).holds_data(); }

}  // namespace

void expect_sizes(std::span<const int64_t> sizes) {
  for (int64_t n : sizes) expect(n >= 0, "sizes must not be negative, got ", n);
}
void expect_sizes(std::initializer_list<int64_t> sizes) {
  expect_sizes(std::span(sizes.begin(), sizes.size()));
}

void expect_at_least_0(double value, const char* what) {
  expect(value >= 0, "the ", what, " must be >= 0, got ", value);
}
void expect_below_1(double value, const char* what) {
  expect(value >= 0 && value < 1, "the ", what, " must be >= 0 and < 1, got ", value);
}

Tensor unset(const Sizes& shape, const Options& o) {
  std::vector<Dim> dims = to_dims(shape);
  int64_t count = 1;
  for (const Dim& d : dims) count *= numeric(d);
  DType dtype = o.dtype == DType::none ? DType::f32 : o.dtype;
  return make_stored(prim::buffer(device_from(o.device), dtype, count), dims);
}

Tensor parameter(const Tensor& x) {
  Tensor t = x;
  return t.defined() ? t.requires_grad_() : t;
}

Tensor uniform_parameter(const Sizes& shape, double bound, const Options& o) {
  return parameter(holds_data(o) ? uniform(shape, -bound, bound, o) : unset(shape, o));
}
Tensor normal_parameter(const Sizes& shape, double std, const Options& o) {
  return parameter(holds_data(o) ? normal(shape, 0, std, o) : unset(shape, o));
}
Tensor full_buffer(const Sizes& shape, double value, const Options& o) {
  return holds_data(o) ? full(shape, value, o) : unset(shape, o);
}
Tensor full_parameter(const Sizes& shape, double value, const Options& o) {
  return parameter(full_buffer(shape, value, o));
}

}  // namespace nn
}  // namespace mote
