#include "ir/size_sum.h"

#include <algorithm>

namespace mote {

namespace {

struct Term {
  UOp atom;
  int64_t factor;
};

struct Sum {
  std::vector<Term> terms;
  int64_t number = 0;

  void add(UOp u, int64_t factor) {
    if (u->is(Op::Const)) {
      number += factor * u->arg.i;
    } else if (u->is(Op::Add)) {
      add(u->src(0), factor);
      add(u->src(1), factor);
    } else if (u->is(Op::Mul) && u->src(1)->is(Op::Const)) {
      add(u->src(0), factor * u->src(1)->arg.i);
    } else {
      for (Term& t : terms)
        if (t.atom == u) return void(t.factor += factor);
      terms.push_back({u, factor});
    }
  }
  void add(const Dim& d, int64_t factor) {
    if (d.is_symbolic())
      add(d.symbol, factor);
    else
      number += factor * d.size;
  }
};

}  // namespace

Dim size_sum(const Dim& a, int64_t factor, const Dim& b, Dim (*make)(Op, const Dim&, const Dim&)) {
  Sum sum;
  sum.add(a, 1);
  sum.add(b, factor);
  std::erase_if(sum.terms, [](const Term& t) { return t.factor == 0; });
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const Term& x, const Term& y) { return x.atom->hash < y.atom->hash; });
  Dim out = 0;
  for (const Term& t : sum.terms) {
    Dim part = t.factor == 1 ? Dim(t.atom) : make(Op::Mul, Dim(t.atom), Dim(t.factor));
    out = out == Dim(0) ? part : make(Op::Add, out, part);
  }
  if (sum.terms.empty()) return sum.number;
  return sum.number ? make(Op::Add, out, Dim(sum.number)) : out;
}

}  // namespace mote
