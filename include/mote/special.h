// Special functions that are no members, PyTorch's torch.special. Those that are members (lgamma,
// digamma, erfinv, i0, xlogy, ...) are functions of mote itself.
#pragma once
#include <mote/tensor.h>

namespace mote::special {

Tensor i0e(const Tensor& x, Loc = Loc::current());  // i0(x) exp(-|x|)
Tensor i1(const Tensor& x, Loc = Loc::current());
Tensor i1e(const Tensor& x, Loc = Loc::current());
Tensor erfcx(const Tensor& x, Loc = Loc::current());      // erfc(x) exp(x^2)
Tensor entr(const Tensor& x, Loc = Loc::current());       // -x log x
Tensor ndtr(const Tensor& x, Loc = Loc::current());       // the normal distribution's area below x
Tensor log_ndtr(const Tensor& x, Loc = Loc::current());
Tensor ndtri(const Tensor& p, Loc = Loc::current());      // the inverse of ndtr
Tensor xlog1py(Operand x, Operand y, Loc = Loc::current());
Tensor zeta(Operand x, Operand q, Loc = Loc::current());  // the sum of 1 / (k + q)^x from k = 0

inline Tensor expit(const Tensor& x, Loc w = Loc::current()) { return x.sigmoid(w); }
inline Tensor gammaln(const Tensor& x, Loc w = Loc::current()) { return x.lgamma(w); }
inline Tensor psi(const Tensor& x, Loc w = Loc::current()) { return x.digamma(w); }
inline Tensor multigammaln(const Tensor& x, int64_t p, Loc w = Loc::current()) {
  return x.mvlgamma(p, w);
}

}  // namespace mote::special
