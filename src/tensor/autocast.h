// Autocast's part in a tensor method: a table of methods (autocast.def), and the casts it asks for.
#pragma once
#include <mote/autocast.h>

#include <span>
#include <string_view>

#include "tensor/impl.h"

namespace mote {

enum class Precision : uint8_t { Low, Full, Widest };
struct AutocastRow {
  std::string_view method;
  Precision precision;
};
std::span<const AutocastRow> autocast_rows();

// Opened by a method that has a row, which then calls itself with what the row asks for:
//
//   Call call("matmul", where);
//   if (Recast as{call}) return as(*this).matmul(as(other), where);
//
// False outside of a scope, and in a call that another tensor method makes: the method that the
// program calls decides, whatever it is composed of.
class Recast {
 public:
  explicit Recast(const Call& call) {
    if (autocast_dtype() != DType::none && call.is_programs()) choose(call.method());
  }
  // Of a method whose row says that the widest of its operands (tensors, Operands) counts.
  template <class... T>
  Recast(const Call& call, const Operand& first, const T&... rest) {
    if (autocast_dtype() != DType::none && call.is_programs())
      choose_widest(call.method(), {first, rest...});
  }
  explicit operator bool() const { return to_ != DType::none; }
  Tensor operator()(const Tensor& t) const;
  std::vector<Tensor> operator()(const std::vector<Tensor>& list) const;
  Operand operator()(const Operand& o, Tensor& kept) const;  // refers to kept

 private:
  void choose(std::string_view method);
  void choose_widest(std::string_view method, std::initializer_list<Operand> among);

  DType to_ = DType::none;
};

}  // namespace mote
