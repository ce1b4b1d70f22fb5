#include "nn/flat.h"

#include <algorithm>

#include "engine/realize.h"
#include "nn/module_call.h"
#include "runtime/device.h"

namespace mote::nn {

namespace {

struct Part {
  int64_t begin, count;
  UOp value;  // in the shape it was computed in
};

// The parts of a sum of padded parts and of the gradient so far; nothing where it is another sum.
struct Sum {
  std::vector<Part> parts;  // last first: that is the order in which backward makes them
  bool continues = false;   // the gradient so far is one term
  bool in_parts = true;

  Sum(UOp sum, UOp so_far) {
    std::vector<UOp> rest = {sum};
    while (!rest.empty()) {
      UOp n = rest.back();
      rest.pop_back();
      if (n->is(Op::Add))
        rest.insert(rest.end(), {n->src(0), n->src(1)});
      else if (n == so_far && !continues)
        continues = true;
      else
        add(n);
    }
    std::ranges::sort(parts, std::greater<>(), &Part::begin);
    int64_t covered = 0, end = sum->shape->count();
    for (const Part& p : parts) {
      in_parts &= p.begin + p.count <= end;
      end = p.begin;
      covered += p.count;
    }
    in_parts &= continues || covered == sum->shape->count();
  }

 private:
  void add(UOp n) {
    if (!n->is(Op::Pad)) {
      in_parts = false;
      return;
    }
    UOp value = n->src(0);
    int64_t count = value->shape->count();
    while (value->is(Op::Reshape) && !value->src(0)->shape->symbolic) value = value->src(0);
    parts.push_back({list_dims(n)[0].size, count, value});
  }
};

// One leaf of all parameters, which have one dtype.
Tensor join(const std::vector<Tensor>& parameters) {
  int64_t count = 0;
  const Tensor& first = parameters[0];
  for (const Tensor& p : parameters) count += p.numel();
  Tensor joined = unset(count, {first.dtype(), first.device()});
  std::vector<Tensor> parts;
  int64_t at = 0;
  for (const Tensor& p : parameters) {
    parts.push_back(joined.narrow(0, at, p.numel()).view(p.sizes()));
    at += p.numel();
  }
  if (device(first.impl()->device).holds_data()) {
    for (size_t i = 0; i < parts.size(); ++i) parts[i].assign(parameters[i].detach());
    joined.realize();
  }
  parameter(joined);
  for (size_t i = 0; i < parts.size(); ++i) become_view(parameters[i], parts[i]);
  return joined;
}

}  // namespace

std::vector<Tensor> join_parameters(std::vector<Tensor>& parameters) {
  std::vector<std::vector<Tensor>> by_dtype;
  for (const Tensor& p : parameters) {
    expect(p.device() == parameters[0].device(), "flat needs parameters of one device, got ",
           parameters[0].device(), " and ", p.device());
    auto like = std::ranges::find(by_dtype, p.dtype(), [](auto& l) { return l[0].dtype(); });
    (like == by_dtype.end() ? by_dtype.emplace_back() : *like).push_back(p);
  }
  std::vector<Tensor> leaves, joined;
  for (const std::vector<Tensor>& alike : by_dtype) {
    leaves.push_back(alike.size() > 1 ? join(alike) : alike[0]);
    if (alike.size() > 1) joined.push_back(leaves.back());
  }
  parameters = std::move(leaves);
  return joined;
}

void gather_gradient(const Tensor& joined) {
  Tensor grad = joined.grad();
  Ref node = node_of(grad), so_far;
  UOp sum = node;
  const bool adds = grad.impl()->storage;
  Tensor into = adds ? grad : unset(joined.sizes(), {joined.dtype(), joined.device()});
  if (adds) {  // backward has written the sum to the gradient so far as a whole
    UOp store = node->is(Op::After) ? node->src(1) : UOp();
    if (!store || store->src(1)->shape != node->shape) return;
    so_far = Ref(store->src(0));
    sum = store->src(1);
  }
  Sum terms(sum, so_far);
  if (adds && !(terms.in_parts && terms.continues)) return;
  if (adds) into.impl()->value = so_far;
  for (const Part& p : terms.parts) {
    if (!terms.in_parts) break;
    Tensor value = make_value(Ref(p.value), joined);
    Tensor place = into.narrow(0, p.begin, p.count).view(value.sizes());
    place.assign(adds ? place + value : value);
  }
  if (!terms.in_parts) into.assign(grad);
  joined.impl()->grad = into;
}

}  // namespace mote::nn
