#include "tensor/autocast.h"

#include <unordered_map>

namespace mote {

namespace {

thread_local DType scope_dtype = DType::none;

constexpr AutocastRow rows[] = {
#define AUTOCAST(method, precision) {#method, Precision::precision},
#include "tensor/autocast.def"
#undef AUTOCAST
};

const Precision* precision_of(std::string_view method) {
  static const auto* found = [] {
    auto* map = new std::unordered_map<std::string_view, Precision>;
    for (const AutocastRow& row : rows) map->emplace(row.method, row.precision);
    return map;
  }();
  auto it = found->find(method);
  return it == found->end() ? nullptr : &it->second;
}

bool is_cast(DType d) { return is_float(d) && d != DType::f64; }

}  // namespace

AutocastScope::AutocastScope(DType dtype) : before_(scope_dtype) { scope_dtype = dtype; }
AutocastScope::~AutocastScope() { scope_dtype = before_; }

AutocastScope autocast(DType dtype, bool enabled, Loc where) {
  Call call("autocast", where);
  expect(dtype == DType::bf16 || dtype == DType::f16, "needs bf16 or f16, got ", dtype);
  return AutocastScope(enabled ? dtype : DType::none);
}

DType autocast_dtype() { return scope_dtype; }

std::span<const AutocastRow> autocast_rows() { return rows; }

void Recast::choose(std::string_view method) {
  const Precision* precision = precision_of(method);
  if (precision && *precision != Precision::Widest)
    to_ = *precision == Precision::Low ? scope_dtype : DType::f32;
}

void Recast::choose_widest(std::string_view method, std::initializer_list<Operand> among) {
  const Precision* precision = precision_of(method);
  if (!precision || *precision != Precision::Widest) return;
  for (const Operand& o : among) {
    DType d = o.tensor && o.tensor->defined() ? o.tensor->dtype() : DType::none;
    if (is_cast(d)) to_ = to_ == DType::none ? d : promote(to_, d);
  }
}

Tensor Recast::operator()(const Tensor& t) const {
  return t.defined() && is_cast(t.dtype()) ? t.to(to_) : t;
}
std::vector<Tensor> Recast::operator()(const std::vector<Tensor>& list) const {
  std::vector<Tensor> out;
  for (const Tensor& t : list) out.push_back((*this)(t));
  return out;
}
Operand Recast::operator()(const Operand& o, Tensor& kept) const {
  if (!o.tensor) return o;
  return {kept = (*this)(*o.tensor), o.where};
}

}  // namespace mote
