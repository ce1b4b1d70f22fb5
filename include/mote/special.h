// PyTorch's torch.special, as far as it is not already part of the Tensor interface (lgamma,
// digamma, erfinv, i0, xlogy, ...).
#pragma once
#include <mote/tensor.h>

namespace mote::special {

Tensor i0e(const Tensor& x, Loc = MOTE_HERE);  // i0(x) exp(-|x|)
Tensor i1(const Tensor& x, Loc = MOTE_HERE);
Tensor i1e(const Tensor& x, Loc = MOTE_HERE);
Tensor erfcx(const Tensor& x, Loc = MOTE_HERE);      // erfc(x) exp(x^2)
Tensor entr(const Tensor& x, Loc = MOTE_HERE);       // -x log x
Tensor ndtr(const Tensor& x, Loc = MOTE_HERE);       // the normal distribution's area below x
Tensor log_ndtr(const Tensor& x, Loc = MOTE_HERE);
Tensor ndtri(const Tensor& p, Loc = MOTE_HERE);      // the inverse of ndtr
Tensor xlog1py(Operand x, Operand y, Loc = MOTE_HERE);
Tensor zeta(Operand x, Operand q, Loc = MOTE_HERE);  // the sum of 1 / (k + q)^x from k = 0

inline Tensor expit(const Tensor& x, Loc w = MOTE_HERE) { return x.sigmoid(w); }
inline Tensor gammaln(const Tensor& x, Loc w = MOTE_HERE) { return x.lgamma(w); }
inline Tensor psi(const Tensor& x, Loc w = MOTE_HERE) { return x.digamma(w); }
inline Tensor multigammaln(const Tensor& x, int64_t p, Loc w = MOTE_HERE) {
  return x.mvlgamma(p, w);
}

}  // namespace mote::special
