#include "ir/size_sum.h"

#include <algorithm>

#include "base/error.h"
#include "ir/provenance.h"

namespace mote {

namespace {

template <class... A>
[[noreturn]] void refuse(const A&... parts) {
  fail(ErrorKind::User, text("[", current_method(), "] ", parts...));
}

struct Term {
  UOp atom;
  int64_t factor;
};

struct Sum {
  std::vector<Term> terms;
  int64_t number = 0;

  void add(UOp u, int64_t factor) {
    if (u->is(Op::Const)) {
      number = size_add(number, size_mul(factor, u->arg.i));
    } else if (u->is(Op::Add)) {
      add(u->src(0), factor);
      add(u->src(1), factor);
    } else if (u->is(Op::Mul) && u->src(1)->is(Op::Const)) {
      add(u->src(0), size_mul(factor, u->src(1)->arg.i));
    } else {
      for (Term& t : terms)
        if (t.atom == u) return void(t.factor = size_add(t.factor, factor));
      terms.push_back({u, factor});
    }
  }
  void add(const Dim& d, int64_t factor) {
    if (d.is_symbolic())
      add(d.symbol, factor);
    else
      number = size_add(number, size_mul(factor, d.size));
  }
};

}  // namespace

int64_t size_add(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) refuse("a size of ", a, " + ", b, " is too large");
  return sum;
}

int64_t size_mul(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) refuse("a size of ", a, " x ", b, " is too large");
  return product;
}

void check_sizes(std::span<const Dim> dims) {
  int64_t count = 1;
  for (const Dim& d : dims) {
    if (d.size < 0) refuse("the shape ", dims, " has a negative size");
    if (__builtin_mul_overflow(count, std::max<int64_t>(d.size, 1), &count))
      refuse("the shape ", dims, " has too many elements");
  }
}

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
