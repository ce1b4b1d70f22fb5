#include "tensor/operators.h"

namespace mote::terse {

#define MOTE_DEFINE(sign, name)                                                                \
  Tensor name(const Tensor& a, const Tensor& b) { return mote::name(Operand(a), Operand(b)); } \
  Tensor name(const Tensor& a, double b) { return mote::name(Operand(a), Operand(b)); }        \
  Tensor name(double a, const Tensor& b) { return mote::name(Operand(a), Operand(b)); }        \
  Tensor name(const Tensor& a, int64_t b) { return mote::name(Operand(a), Operand(b)); }       \
  Tensor name(int64_t a, const Tensor& b) { return mote::name(Operand(a), Operand(b)); }
MOTE_OPERATORS(MOTE_DEFINE)
#undef MOTE_DEFINE

Tensor where(const Tensor& c, const Tensor& a, const Tensor& b) {
  return mote::where(c, Operand(a), Operand(b));
}
Tensor where(const Tensor& c, const Tensor& a, double b) {
  return mote::where(c, Operand(a), Operand(b));
}
Tensor where(const Tensor& c, double a, const Tensor& b) {
  return mote::where(c, Operand(a), Operand(b));
}
Tensor where(const Tensor& c, const Tensor& a, int64_t b) {
  return mote::where(c, Operand(a), Operand(b));
}
Tensor where(const Tensor& c, int64_t a, const Tensor& b) {
  return mote::where(c, Operand(a), Operand(b));
}

}  // namespace mote::terse
