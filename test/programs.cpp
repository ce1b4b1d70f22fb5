#include "test/programs.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "base/hash.h"

namespace mote::programs {

std::set<int> sources(const Script& p, int of) {
  std::set<int> out;
  std::vector<int> stack{of};
  auto add = [&](int i) {
    if (out.insert(i).second) stack.push_back(i);
  };
  while (!stack.empty()) {
    const auto at = static_cast<size_t>(stack.back());
    stack.pop_back();
    for (int in : p.steps[at].in) add(in);
    for (size_t i = 0; i < p.steps.size(); ++i)
      if (p.facts[i].root == p.facts[at].root) add(static_cast<int>(i));
  }
  return out;
}

namespace {

constexpr int64_t kMaxCount = 2000;
constexpr size_t kMaxRank = 5;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(mix(seed, 0x5eed)) {}
  uint64_t word() { return state_ = mix(state_, 0x2545f4914f6cdd1dull); }
  int64_t pick(int64_t lo, int64_t hi) {  // both included
    return lo + static_cast<int64_t>(word() >> 11) % (hi - lo + 1);
  }
  bool chance(double p) { return static_cast<double>(word() >> 11) < p * 0x1p53; }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[pick(0, static_cast<int64_t>(list.size()) - 1)];
  }

 private:
  uint64_t state_;
};

double epsilon(DType d) {
  switch (d) {
    case DType::f64: return 0x1p-53;
    case DType::f32: return 0x1p-24;
    case DType::f16: return 0x1p-11;
    case DType::bf16: return 0x1p-8;
    default: return 0;
  }
}
double largest_exact(DType d) { return is_float(d) ? 0.25 / epsilon(d) : 0x1p62; }
double largest_int(DType d) {
  return std::ldexp(1, d == DType::boolean ? 0 : 8 * size_of(d) - (is_signed(d) ? 1 : 0));
}

// What a program is made in: its tensors so far, lazily built.
struct Maker {
  Random random;
  Script program;
  std::vector<Tensor> tensors;
  bool realized = false;
  bool derives = false;  // a program about gradients: nothing is realized on the way
  // Most leaves of a program have these sizes and this dtype, so that they can meet.
  std::vector<int64_t> usual_sizes;
  DType usual_dtype = DType::none;

  explicit Maker(uint64_t seed) : random(seed) {
    for (int i = 0; i < 3; ++i) usual_sizes.push_back(size());
    derives = random.chance(0.4);
  }
  int64_t pick(int64_t lo, int64_t hi) { return random.pick(lo, hi); }
  const Tensor& at(int i) const { return tensors[static_cast<size_t>(i)]; }
  const Fact& fact(int i) const { return program.facts[static_cast<size_t>(i)]; }
  std::vector<int64_t> shape(int i) const { return at(i).shape(); }
  int64_t rank(int i) const { return at(i).dim(); }

  // A tensor that satisfies `fits`, later ones more often; -1 if none does.
  template <class F>
  int find(F fits) {
    const auto n = static_cast<int64_t>(tensors.size());
    for (int tries = 0; tries < 12 && n; ++tries) {
      const auto i = static_cast<int>(std::max({pick(0, n - 1), pick(0, n - 1), pick(0, n - 1)}));
      if (fits(i)) return i;
    }
    return -1;
  }
  int any() {
    return find([](int) { return true; });
  }
  int of_rank(int64_t least) {
    return find([&](int i) { return rank(i) >= least; });
  }
  int floats() {
    return find([&](int i) { return is_float(at(i).dtype()); });
  }
  int integers() {
    return find([&](int i) { return is_int(at(i).dtype()); });
  }
  int bools() {
    return find([&](int i) { return at(i).dtype() == DType::boolean; });
  }
  // Decisions may hang on it.
  int decided() {
    return find([&](int i) { return fact(i).exact; });
  }
  int64_t axis(int i) { return pick(0, rank(i) - 1); }
  int64_t size() { return random.one_of<int64_t>({1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 33, 70}); }
  int64_t usual_size() {
    return random.chance(0.15) ? 1 : random.chance(0.1) ? size() : usual_sizes[random.word() % 3];
  }
  std::vector<int64_t> sizes() {
    std::vector<int64_t> out;
    int64_t count = 1;
    for (int64_t r = pick(0, 4); r-- > 0 && count < 300;) {
      out.push_back(random.chance(0.01) ? 0 : usual_size());
      count *= std::max<int64_t>(out.back(), 1);
    }
    return out;
  }
};

using In = const Tensor&;
using Given = std::vector<Tensor>;     // a step's tensors
using Numbers = std::vector<int64_t>;  // and its numbers
using Proposal = std::optional<Fact>;  // empty: does not fit

Fact join(std::initializer_list<Fact> facts) {
  Fact out;
  for (const Fact& f : facts) {
    out.exact &= f.exact;
    out.smooth &= f.smooth;
    out.bound = std::max(out.bound, f.bound);
    out.eps = std::max(out.eps, f.eps);
  }
  return out;
}

Fact bounded(Fact f, double bound) {
  f.bound = bound;
  return f;
}
Fact inexact(Fact f, double bound) {
  f.exact = false;
  return bounded(f, bound);
}
// Of a kinked function: its derivative jumps where rounding could move the value.
Fact kinked(Fact f) {
  f.smooth &= f.exact;
  return f;
}

struct Row {
  const char* name;
  int weight;
  Proposal (*propose)(Maker& m, Step& s);
  Tensor (*run)(const Given& t, const Numbers& n);
};

// ---- leaves

std::vector<double> values(int64_t kind, int64_t seed, int64_t count) {
  Random random(static_cast<uint64_t>(seed));
  std::vector<double> out;
  for (int64_t i = 0; i < count; ++i) {
    double v = kind == 1 ? std::ldexp(static_cast<double>(random.pick(-2048, 2048)), -10)
                         : static_cast<double>(random.pick(-4, 4));
    if (kind == 2 && random.chance(0.1))
      v = random.one_of({NAN, (float)INFINITY, -(float)INFINITY});
    out.push_back(v);
  }
  return out;
}

Numbers tail(const Numbers& n, size_t from) {
  return {n.begin() + static_cast<long>(from), n.end()};
}
int64_t product(const Numbers& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}
DType to_dtype(int64_t n) { return static_cast<DType>(n); }

DType random_dtype(Maker& m) {
  if (m.usual_dtype != DType::none && m.random.chance(0.6)) return m.usual_dtype;
  return m.random.one_of({DType::f32, DType::f32, DType::f32, DType::i32, DType::i32, DType::i64,
                          DType::boolean, DType::u8, DType::i8, DType::u32, DType::i16, DType::f64,
                          DType::f16, DType::bf16});
}

Proposal propose_data(Maker& m, Step& s) {
  const DType d = random_dtype(m);
  const int64_t kind = is_float(d) ? m.random.one_of<int64_t>({0, 1, 1, 2}) : 0;
  s.n = {static_cast<int64_t>(d), kind, m.pick(0, 1 << 20)};
  for (int64_t v : m.sizes()) s.n.push_back(v);
  return Fact{.exact = kind != 1, .bound = 4, .eps = epsilon(d)};
}
Tensor run_data(const Given&, const Numbers& n) {
  Numbers dims = tail(n, 3);
  return from_data(values(n[1], n[2], product(dims)), dims).to(to_dtype(n[0])).contiguous();
}

Proposal propose_arange(Maker& m, Step& s) {
  const DType d = m.random.one_of({DType::i32, DType::i64, DType::f32});
  s.n = {static_cast<int64_t>(d), m.pick(1, 40)};
  return Fact{.bound = 40};
}
Tensor run_arange(const Given&, const Numbers& n) {
  return arange(n[1], {.dtype = to_dtype(n[0])});
}

Proposal propose_full(Maker& m, Step& s) {
  s.n = {static_cast<int64_t>(random_dtype(m)), m.pick(0, 3)};
  for (int64_t v : m.sizes()) s.n.push_back(v);
  return Fact{.bound = 3};
}
Tensor run_full(const Given&, const Numbers& n) { return full(tail(n, 2), n[1], to_dtype(n[0])); }

Proposal propose_random(Maker& m, Step& s) {
  s.n = {m.pick(0, 2)};
  for (int64_t v : m.sizes()) s.n.push_back(v);
  return Fact{.exact = s.n[0] == 2, .bound = 8};
}
Tensor run_random(const Given&, const Numbers& n) {
  Numbers dims = tail(n, 1);
  return n[0] == 0 ? rand(dims) : n[0] == 1 ? randn(dims) : randint(-5, 5, dims);
}

// ---- movement

Proposal same(Maker& m, const Step& s) { return m.fact(s.in[0]); }

// A view shares memory with what it looks at.
Proposal view_of(Maker& m, const Step& s) { return m.fact(s.in[0]); }
Proposal fresh(Maker& m, const Step& s) {
  Fact f = m.fact(s.in[0]);
  f.root = -1;
  return f;
}

Proposal propose_reshape(Maker& m, Step& s) {
  s.in = {m.any()};
  if (s.in[0] < 0) return {};
  Numbers dims;
  for (int64_t left = product(m.shape(s.in[0])); left > 1 && dims.size() < kMaxRank;) {
    Numbers divisors;
    for (int64_t d = 1; d <= left; ++d)
      if (left % d == 0) divisors.push_back(d);
    dims.push_back(
        divisors[static_cast<size_t>(m.pick(0, static_cast<int64_t>(divisors.size()) - 1))]);
    left /= dims.back();
    if (dims.size() + 1 == kMaxRank || m.random.chance(0.2)) dims.push_back(left), left = 1;
  }
  if (product(m.shape(s.in[0])) == 0) dims = {0};
  s.n = dims;
  return view_of(m, s);
}

Proposal propose_permute(Maker& m, Step& s) {
  s.in = {m.of_rank(2)};
  if (s.in[0] < 0) return {};
  for (int64_t i = 0; i < m.rank(s.in[0]); ++i) s.n.push_back(i);
  for (size_t i = s.n.size(); i-- > 1;)
    std::swap(s.n[i], s.n[static_cast<size_t>(m.pick(0, static_cast<int64_t>(i)))]);
  return view_of(m, s);
}

Proposal propose_slice(Maker& m, Step& s) {
  s.in = {m.of_rank(1)};
  if (s.in[0] < 0) return {};
  const int64_t a = m.axis(s.in[0]), size = m.shape(s.in[0])[static_cast<size_t>(a)];
  const int64_t begin = m.pick(0, size), end = m.pick(begin, size);
  s.n = {a, begin, end, m.random.one_of<int64_t>({1, 1, 1, 2, 3})};
  if (m.random.chance(0.15)) s.n = {a, end - 1, begin - size - 1, -m.pick(1, 2)};
  return view_of(m, s);
}
Tensor run_slice(const Given& t, const Numbers& n) {
  std::vector<Index> index(static_cast<size_t>(n[0]), Index(Slice()));
  index.push_back(Slice(n[1], n[2], n[3]));
  return t[0].index(index);
}

Proposal propose_axis(Maker& m, Step& s) {
  s.in = {m.of_rank(1)};
  if (s.in[0] < 0) return {};
  s.n = {m.axis(s.in[0])};
  return view_of(m, s);
}
Proposal propose_select(Maker& m, Step& s) {
  Proposal f = propose_axis(m, s);
  if (!f) return {};
  const int64_t size = m.shape(s.in[0])[static_cast<size_t>(s.n[0])];
  if (size == 0) return {};
  s.n.push_back(m.pick(-size, size - 1));
  return f;
}
Proposal propose_expand(Maker& m, Step& s) {
  s.in = {m.find([&](int i) {
    auto d = m.shape(i);
    return std::ranges::count(d, 1) || d.size() < kMaxRank;
  })};
  if (s.in[0] < 0) return {};
  s.n = m.shape(s.in[0]);
  for (int64_t& v : s.n)
    if (v == 1 && m.random.chance(0.7)) v = m.size();
  if (s.n.size() < kMaxRank && m.random.chance(0.5)) s.n.insert(s.n.begin(), m.size());
  return view_of(m, s);
}
Proposal propose_unsqueeze(Maker& m, Step& s) {
  s.in = {m.any()};
  if (s.in[0] < 0) return {};
  s.n = {m.pick(0, m.rank(s.in[0]))};
  return view_of(m, s);
}
Proposal propose_diagonal(Maker& m, Step& s) {
  s.in = {m.of_rank(2)};
  if (s.in[0] < 0) return {};
  s.n = {m.pick(-2, 2), 0, m.rank(s.in[0]) - 1};
  return view_of(m, s);
}
Proposal propose_unfold(Maker& m, Step& s) {
  Proposal f = propose_axis(m, s);
  if (!f) return {};
  const int64_t size = m.shape(s.in[0])[static_cast<size_t>(s.n[0])];
  if (size < 2) return {};
  s.n.push_back(m.pick(1, std::min<int64_t>(size, 4)));
  s.n.push_back(m.pick(1, 3));
  return f;
}
Proposal propose_axis_copy(Maker& m, Step& s) {
  return propose_axis(m, s) ? fresh(m, s) : Proposal();
}
Proposal propose_pad(Maker& m, Step& s) {
  s.in = {m.of_rank(1)};
  if (s.in[0] < 0) return {};
  Proposal f = fresh(m, s);
  s.n = {m.pick(0, 5), m.pick(0, 2)};
  const int64_t axes = m.pick(1, std::min<int64_t>(m.rank(s.in[0]), 2));
  for (int64_t i = 0; i < 2 * axes; ++i) s.n.push_back(m.pick(0, 3));
  return bounded(*f, std::max(f->bound, 2.0));
}
Tensor run_pad(const Given& t, const Numbers& n) {
  const char* modes[] = {"constant", "constant", "constant", "reflect", "replicate", "circular"};
  return t[0].pad(tail(n, 2), modes[n[0]], n[0] < 3 ? n[1] : 0);
}
Proposal propose_join(Maker& m, Step& s) {
  const int first = m.of_rank(1);
  if (first < 0) return {};
  s.n = {m.axis(first)};
  s.in = {first};
  Fact f = join({m.fact(first)});
  for (int64_t k = m.pick(1, 3); k-- > 0;) {
    int other = m.find([&](int i) {
      auto a = m.shape(first), b = m.shape(i);
      if (a.size() != b.size()) return false;
      a[static_cast<size_t>(s.n[0])] = b[static_cast<size_t>(s.n[0])];
      return a == b;
    });
    if (other < 0) other = first;
    s.in.push_back(other);
    f = join({f, m.fact(other)});
  }
  return f;
}
Proposal propose_stack(Maker& m, Step& s) {
  const int first = m.any();
  if (first < 0 || m.rank(first) >= static_cast<int64_t>(kMaxRank)) return {};
  const int other = m.find([&](int i) { return m.shape(i) == m.shape(first); });
  s.in = {first, other < 0 ? first : other};
  s.n = {m.pick(0, m.rank(first))};
  return join({m.fact(s.in[0]), m.fact(s.in[1])});
}
Proposal propose_roll(Maker& m, Step& s) {
  if (!propose_axis(m, s)) return {};
  s.n.push_back(m.pick(-3, 3));
  return fresh(m, s);
}
Proposal propose_repeat(Maker& m, Step& s) {
  s.in = {m.any()};
  if (s.in[0] < 0) return {};
  for (int64_t i = 0; i < m.rank(s.in[0]); ++i) s.n.push_back(m.pick(1, 3));
  return fresh(m, s);
}
Proposal propose_triangle(Maker& m, Step& s) {
  s.in = {m.of_rank(2)};
  if (s.in[0] < 0) return {};
  s.n = {m.pick(0, 1), m.pick(-2, 2)};
  return fresh(m, s);
}

// ---- elementwise

struct Unary {
  const char* name;
  enum { Exact, Kink, Jump, Smooth, Grows } kind;  // Jump: only of exact values
  Tensor (*call)(In x);
};
// clang-format off
const Unary unaries[] = {
    {"neg", Unary::Exact, [](In x) { return -x; }},
    {"neg", Unary::Exact, [](In x) { return 0 - x; }},
    {"abs", Unary::Kink, [](In x) { return x.abs(); }},
    {"relu", Unary::Kink, [](In x) { return x.relu(); }},
    {"sign", Unary::Jump, [](In x) { return x.sign(); }},
    {"floor", Unary::Jump, [](In x) { return x.floor(); }},
    {"round", Unary::Jump, [](In x) { return (x / 4).round(); }},
    {"logical_not", Unary::Jump, [](In x) { return x.logical_not(); }},
    {"isnan", Unary::Jump, [](In x) { return x.isnan(); }},
    {"isfinite", Unary::Jump, [](In x) { return x.isfinite(); }},
    {"bitwise_not", Unary::Exact, [](In x) { return x.bitwise_not(); }},
    {"sin", Unary::Smooth, [](In x) { return x.sin(); }},
    {"cos", Unary::Smooth, [](In x) { return x.cos(); }},
    {"tanh", Unary::Smooth, [](In x) { return x.tanh(); }},
    {"sigmoid", Unary::Smooth, [](In x) { return x.sigmoid(); }},
    {"erf", Unary::Smooth, [](In x) { return x.erf(); }},
    {"sqrt(x*x + 1)", Unary::Grows, [](In x) { return (x * x + 1).sqrt(); }},
    {"log(x*x + 1)", Unary::Grows, [](In x) { return (x * x + 1).log(); }},
    {"1 / (x*x + 1)", Unary::Smooth, [](In x) { return (x * x + 1).reciprocal(); }},
    {"exp(tanh)", Unary::Grows, [](In x) { return x.tanh().exp(); }},
    {"gelu", Unary::Grows, [](In x) { return x.gelu(); }},
};
// clang-format on
Proposal propose_unary(Maker& m, Step& s) {
  s.n = {m.pick(0, std::ssize(unaries) - 1)};
  const Unary& u = unaries[s.n[0]];
  s.in = {u.kind == Unary::Jump ? m.decided() : m.any()};
  if (s.in[0] < 0) return {};
  Fact f = *fresh(m, s);
  switch (u.kind) {
    case Unary::Exact: return bounded(f, f.bound + 1);
    case Unary::Kink: return kinked(f);
    case Unary::Jump: return f;
    case Unary::Smooth: return inexact(f, 1);
    default: return inexact(f, f.bound + 3);
  }
}
Tensor run_unary(const Given& t, const Numbers& n) { return unaries[n[0]].call(t[0]); }

struct Binary {
  const char* name;
  enum { Sum, Product, Kink, Jump, Whole, Ratio } kind;  // Whole: of integers
  Tensor (*call)(In a, In b);
};
// clang-format off
const Binary binaries[] = {
    {"a + b", Binary::Sum, [](In a, In b) { return a + b; }},
    {"a - b", Binary::Sum, [](In a, In b) { return a - b; }},
    {"a * b", Binary::Product, [](In a, In b) { return a * b; }},
    {"a * b + a", Binary::Product, [](In a, In b) { return a * b + a; }},
    {"maximum", Binary::Kink, [](In a, In b) { return a.maximum(b); }},
    {"minimum", Binary::Kink, [](In a, In b) { return a.minimum(b); }},
    {"a < b", Binary::Jump, [](In a, In b) { return a < b; }},
    {"a <= b", Binary::Jump, [](In a, In b) { return a <= b; }},
    {"a == b", Binary::Jump, [](In a, In b) { return a == b; }},
    {"a != b", Binary::Jump, [](In a, In b) { return a != b; }},
    {"floor_divide", Binary::Whole, [](In a, In b) { return a.floor_divide(b); }},
    {"remainder", Binary::Whole, [](In a, In b) { return a % b; }},
    {"fmod", Binary::Whole, [](In a, In b) { return a.fmod(b); }},
    {"div trunc", Binary::Whole, [](In a, In b) { return a.div(b, "trunc"); }},
    {"a & b", Binary::Whole, [](In a, In b) { return a & b; }},
    {"a | b", Binary::Whole, [](In a, In b) { return a | b; }},
    {"a ^ b", Binary::Whole, [](In a, In b) { return a ^ b; }},
    {"a << b", Binary::Whole, [](In a, In b) { return a << b; }},
    {"a >> b", Binary::Whole, [](In a, In b) { return a >> b; }},
    {"a / (b*b + 1)", Binary::Ratio, [](In a, In b) { return a / (b * b + 1); }},
    {"a / 64 * sin(b + 1)", Binary::Ratio, [](In a, In b) { return a / 64 * (b + 1).sin(); }},
};
// clang-format on
bool broadcasts(Numbers a, Numbers b) {
  std::ranges::reverse(a);
  std::ranges::reverse(b);
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (a[i] != b[i] && a[i] != 1 && b[i] != 1) return false;
  return true;
}
Proposal propose_binary(Maker& m, Step& s) {
  s.n = {m.pick(0, std::ssize(binaries) - 1)};
  const Binary& b = binaries[s.n[0]];
  auto fits = [&](int i) {
    return b.kind == Binary::Whole ? !is_float(m.at(i).dtype())
                                   : b.kind != Binary::Jump || m.fact(i).exact;
  };
  const int x = m.find(fits);
  if (x < 0) return {};
  const int y = m.find([&](int i) { return fits(i) && broadcasts(m.shape(x), m.shape(i)); });
  if (y < 0) return {};
  s.in = {x, y};
  Fact f = join({m.fact(x), m.fact(y)});
  switch (b.kind) {
    case Binary::Sum: return bounded(f, m.fact(x).bound + m.fact(y).bound);
    case Binary::Product: return bounded(f, (m.fact(x).bound + 1) * (m.fact(y).bound + 1));
    case Binary::Kink: return kinked(f);
    case Binary::Jump: return bounded(f, 1);
    case Binary::Whole: return bounded(f, 0x1p62);
    default: return inexact(f, m.fact(x).bound);
  }
}
Tensor run_binary(const Given& t, const Numbers& n) { return binaries[n[0]].call(t[0], t[1]); }

Proposal propose_number(Maker& m, Step& s) {
  s.in = {m.any()};
  if (s.in[0] < 0) return {};
  s.n = {m.pick(0, 5), m.pick(-3, 5)};
  Fact f = *fresh(m, s);
  if (s.n[0] == 4) return kinked(bounded(f, std::max(f.bound, 5.0)));
  if (s.n[0] == 5) return f.exact ? Proposal(bounded(f, 1)) : Proposal();
  return bounded(f, (f.bound + 5) * 5);
}
Tensor run_number(const Given& t, const Numbers& n) {
  const Tensor& x = t[0];
  switch (n[0]) {
    case 0: return x + n[1];
    case 1: return n[1] - x;
    case 2: return x * n[1];
    case 3: return x * n[1] + n[1];
    case 4: return x.clamp(n[1], n[1] + 2);
    default: return x < n[1];
  }
}
Proposal propose_where(Maker& m, Step& s) {
  const int c = m.bools(), a = m.any();
  if (c < 0 || a < 0 || !broadcasts(m.shape(c), m.shape(a))) return {};
  const int b = m.find([&](int i) {
    return broadcasts(m.shape(i), m.shape(a)) && broadcasts(m.shape(i), m.shape(c));
  });
  if (b < 0) return {};
  s.in = {c, a, b};
  return join({m.fact(a), m.fact(b)});
}
Proposal propose_masked_fill(Maker& m, Step& s) {
  const int c = m.bools(), a = m.any();
  if (c < 0 || a < 0) return {};
  s.in = {a, c};
  s.n = {m.pick(0, 3)};
  return bounded(*fresh(m, s), std::max(m.fact(a).bound, 3.0));
}
Proposal propose_cast(Maker& m, Step& s) {
  s.in = {m.any()};
  if (s.in[0] < 0) return {};
  const DType to = random_dtype(m);
  if (!is_float(to) && !m.fact(s.in[0]).exact) return {};
  s.n = {static_cast<int64_t>(to)};
  Fact f = m.fact(s.in[0]);
  if (is_float(to)) f.smooth &= is_float(m.at(s.in[0]).dtype()) || f.exact;
  return to == DType::boolean ? bounded(f, 1) : f;
}

// ---- reductions and scans

struct Fold {
  const char* name;
  enum { Sum, Pick, Prod, Decide, Mean } kind;
  Tensor (*call)(In x, int64_t axis, bool keep);
};
// clang-format off
const Fold folds[] = {
    {"sum", Fold::Sum, [](In x, int64_t a, bool k) { return x.sum(a, k); }},
    {"sum", Fold::Sum, [](In x, int64_t a, bool k) { return x.sum(a, k); }},
    {"sum(all)", Fold::Sum, [](In x, int64_t, bool k) { return x.sum({}, k); }},
    {"amax", Fold::Pick, [](In x, int64_t a, bool k) { return x.amax(a, k); }},
    {"amin", Fold::Pick, [](In x, int64_t a, bool k) { return x.amin(a, k); }},
    {"prod", Fold::Prod, [](In x, int64_t a, bool k) { return x.prod(a, k); }},
    {"any", Fold::Decide, [](In x, int64_t a, bool k) { return x.any(a, k); }},
    {"all", Fold::Decide, [](In x, int64_t a, bool k) { return x.all(a, k); }},
    {"argmax", Fold::Decide, [](In x, int64_t a, bool k) { return x.argmax(a, k); }},
    {"argmin", Fold::Decide, [](In x, int64_t a, bool k) { return x.argmin(a, k); }},
    {"count_nonzero", Fold::Decide, [](In x, int64_t a, bool) { return x.count_nonzero(a); }},
    {"mean", Fold::Mean, [](In x, int64_t a, bool k) { return x.mean(a, k); }},
    {"var", Fold::Mean, [](In x, int64_t a, bool k) { return x.var(a, 0, k) / 16; }},
    {"logsumexp", Fold::Mean, [](In x, int64_t a, bool k) { return x.logsumexp(a, k) / 4; }},
    {"softmax", Fold::Mean, [](In x, int64_t a, bool) { return x.softmax(a); }},
    {"log_softmax", Fold::Mean, [](In x, int64_t a, bool) { return x.log_softmax(a) / 4; }},
    {"cumsum", Fold::Sum, [](In x, int64_t a, bool) { return x.cumsum(a); }},
    {"cummax", Fold::Pick, [](In x, int64_t a, bool) { return x.cummax(a).values; }},
    {"sort", Fold::Pick, [](In x, int64_t a, bool k) { return x.sort(a, k).values; }},
    {"argsort", Fold::Decide, [](In x, int64_t a, bool k) { return x.argsort(a, k); }},
    {"max", Fold::Decide, [](In x, int64_t a, bool k) { return x.max(a, k).indices; }},
};
// clang-format on
Proposal propose_fold(Maker& m, Step& s) {
  const int64_t which = m.pick(0, std::ssize(folds) - 1);
  const Fold& fold = folds[which];
  s.in = {m.find(
      [&](int i) { return m.rank(i) >= 1 && (fold.kind != Fold::Decide || m.fact(i).exact); })};
  if (s.in[0] < 0) return {};
  s.n = {which, m.axis(s.in[0]), m.pick(0, 1)};
  Fact f = *fresh(m, s);
  const auto shape = m.shape(s.in[0]);
  const double size = static_cast<double>(shape[static_cast<size_t>(s.n[1])]);
  switch (fold.kind) {
    case Fold::Sum:
      return bounded(f, f.bound * (which == 2 ? static_cast<double>(product(shape)) : size));
    case Fold::Pick: return kinked(f);
    case Fold::Prod: return size > 5 ? Proposal() : Proposal(bounded(f, std::pow(f.bound, size)));
    case Fold::Decide: return bounded(f, size);
    default: return inexact(f, std::max(4.0, f.bound * f.bound));
  }
}
Tensor run_fold(const Given& t, const Numbers& n) {
  return folds[n[0]].call(t[0], n[1], n[2] != 0);
}

// ---- products and windows

Proposal propose_matmul(Maker& m, Step& s) {
  const int a = m.of_rank(1);
  if (a < 0) return {};
  const int64_t k = m.shape(a).back();
  const int b = m.find([&](int i) {
    auto d = m.shape(i);
    return !d.empty() && d[d.size() == 1 ? 0 : d.size() - 2] == k;
  });
  if (b < 0 || m.at(a).dtype() != m.at(b).dtype()) return {};
  s.in = {a, b};
  Fact f = join({m.fact(a), m.fact(b)});
  return bounded(f, m.fact(a).bound * m.fact(b).bound * static_cast<double>(k));
}
Proposal propose_outer_matmul(Maker& m, Step& s) {
  s.in = {m.of_rank(2)};
  if (s.in[0] < 0) return {};
  Fact f = *fresh(m, s);
  return bounded(f, f.bound * f.bound * static_cast<double>(m.shape(s.in[0]).back()));
}
Proposal propose_conv(Maker& m, Step& s) {
  s.in = {m.find([&](int i) {
    auto d = m.shape(i);
    return d.size() == 4 && d[1] <= 8 && d[2] >= 2 && d[3] >= 2 && is_float(m.at(i).dtype());
  })};
  if (s.in[0] < 0) return {};
  s.n = {m.pick(1, 4), m.pick(1, 3), m.pick(1, 2), m.pick(0, 1), m.pick(0, 1 << 20)};
  Fact f = *fresh(m, s);
  return bounded(f, f.bound * 4 * static_cast<double>(m.shape(s.in[0])[1] * s.n[1] * s.n[1]));
}
Tensor run_conv(const Given& t, const Numbers& n) {
  Numbers dims{n[0], t[0].size(1), n[1], n[1]};
  Tensor weight = from_data(values(0, n[4], product(dims)), dims).to(t[0].dtype());
  return t[0].conv2d(weight.to(t[0].device()), {}, {.stride = n[2], .padding = n[3]});
}
Proposal propose_pool(Maker& m, Step& s) {
  s.in = {m.find([&](int i) { return m.rank(i) >= 3 && is_float(m.at(i).dtype()); })};
  if (s.in[0] < 0) return {};
  s.n = {m.pick(0, 1), m.pick(1, 3), m.pick(1, 2)};
  Fact f = *fresh(m, s);
  return s.n[0] ? kinked(f) : inexact(f, f.bound);
}
Tensor run_pool(const Given& t, const Numbers& n) {
  return n[0] ? t[0].max_pool2d(n[1], {.stride = n[2]}) : t[0].avg_pool2d(n[1], {.stride = n[2]});
}

// Larger pieces, of floats.
struct Layer {
  const char* name;
  int64_t rank;  // at least; where the call wants it exactly, it refuses
  enum { Exact, Kink, Smooth } kind;
  double growth;
  Tensor (*call)(In x);
};
// Scores are kept small: of large ones, softmax makes much of a rounding error. Values that a mask
// hides are finite: whether 0 times another is NaN is not said (docs/semantics.md).
Tensor attend(In x, bool causal) {
  Tensor small = x.tanh() * 2, values = causal ? mote::where(x.isfinite(), x, 0) : x;
  return small.scaled_dot_product_attention(small, values, AttentionOptions{.is_causal = causal});
}
Tensor lower_triangle(In x) { return mote::where(x.ones_like().tril() == 1, x, -INFINITY); }
Tensor spread(In x) {
  Tensor weight = full({x.size(1), 2, 2, 2}, 1).to(x.dtype());
  return x.conv_transpose2d(weight, {}, {.stride = 2});
}
// Whether a value that is computed twice is computed in the same way, however it is fused.
Tensor attains_maximum(In x) {
  Tensor y = x * x.sin() + x;
  return (y == y.amax(-1, true)).any(-1);
}
// clang-format off
const Layer layers[] = {
    {"layer_norm", 1, Layer::Smooth, 1, [](In x) { return x.layer_norm(x.size(-1), {}, {}, 1.0); }},
    {"rms_norm", 1, Layer::Smooth, 1, [](In x) { return x.rms_norm(x.size(-1), {}, 1.0); }},
    {"group_norm", 3, Layer::Smooth, 1, [](In x) { return x.group_norm(1, {}, {}, 1.0); }},
    {"attention", 2, Layer::Smooth, 1, [](In x) { return attend(x, false); }},
    {"causal attention", 2, Layer::Smooth, 1,
     [](In x) { return attend(x, true); }},
    {"masked softmax", 2, Layer::Smooth, 1, [](In x) { return lower_triangle(x).softmax(-1); }},
    {"cross_entropy", 2, Layer::Smooth, 2,
     [](In x) { return x.cross_entropy(arange(x.size(0)) % x.size(1)); }},
    {"mse_loss", 1, Layer::Smooth, 4, [](In x) { return x.mse_loss(x.roll(1, 0)) / 16; }},
    {"conv1d", 3, Layer::Exact, 40,
     [](In x) { return x.conv1d(x.full_like(0.5)(0, None, Slice(), Slice(0, 2))); }},
    {"conv_transpose2d", 4, Layer::Exact, 40, [](In x) { return spread(x); }},
    {"nearest", 3, Layer::Exact, 1, [](In x) { return x.interpolate({.scale_factor = 2}); }},
    {"logcumsumexp", 1, Layer::Smooth, 2, [](In x) { return x.logcumsumexp(-1) / 2; }},
    {"topk", 1, Layer::Kink, 1, [](In x) { return x.topk((x.size(-1) + 1) / 2).values; }},
    {"einsum", 2, Layer::Exact, 200, [](In x) { return einsum("...ij,...kj->...ik", {x, x}); }},
    {"dropout", 0, Layer::Exact, 2, [](In x) { return x.dropout(0.5); }},
    {"glu", 1, Layer::Smooth, 1, [](In x) { return x.glu(); }},
    {"repeat_interleave", 1, Layer::Exact, 1, [](In x) { return x.repeat_interleave(2, -1); }},
    {"attained maximum", 1, Layer::Exact, 1, [](In x) { return attains_maximum(x); }},
    {"cumprod", 1, Layer::Smooth, 1, [](In x) { return x.tanh().cumprod(-1); }},
};
// clang-format on
Proposal propose_layer(Maker& m, Step& s) {
  s.n = {m.pick(0, std::ssize(layers) - 1)};
  const Layer& layer = layers[s.n[0]];
  s.in = {m.find([&](int i) {
    return is_float(m.at(i).dtype()) && m.rank(i) >= layer.rank && m.at(i).numel() > 0;
  })};
  if (s.in[0] < 0) return {};
  Fact f = *fresh(m, s);
  const double bound = (f.bound + 1) * layer.growth * (layer.growth > 100 ? f.bound : 1);
  if (layer.kind == Layer::Smooth) return inexact(f, bound);
  return layer.kind == Layer::Kink ? kinked(f) : bounded(f, bound);
}

// ---- indexing

// Positions from any integers: mostly in range, counting from the end where negative.
Tensor positions(const Tensor& t, int64_t size) {
  Tensor p = t.to(int64);
  return (p % (2 * std::max<int64_t>(size, 1))) - size;
}
Proposal propose_index_select(Maker& m, Step& s) {
  const int i = m.find([&](int t) { return m.rank(t) == 1 && is_int(m.at(t).dtype()); });
  const int x = m.of_rank(1);
  if (i < 0 || x < 0) return {};
  s.in = {x, i};
  s.n = {m.axis(x)};
  return fresh(m, s);
}
Tensor run_index_select(const Given& t, const Numbers& n) {
  return t[0].index_select(n[0], positions(t[1], t[0].size(n[0])));
}
Proposal propose_gather(Maker& m, Step& s) {
  const int x = m.of_rank(1);
  if (x < 0) return {};
  const int i = m.find([&](int t) { return m.rank(t) == m.rank(x) && is_int(m.at(t).dtype()); });
  if (i < 0) return {};
  s.in = {x, i};
  s.n = {m.axis(x)};
  return fresh(m, s);
}
Tensor run_gather(const Given& t, const Numbers& n) {
  return t[0].gather(n[0], positions(t[1], t[0].size(n[0])));
}
Proposal propose_take(Maker& m, Step& s) {
  const int x = m.of_rank(1), i = m.integers();
  if (i < 0 || x < 0) return {};
  s.in = {x, i};
  return fresh(m, s);
}
Tensor run_take(const Given& t, const Numbers&) {
  return t[0].index({positions(t[1], t[0].size(0))});
}
// A tensor, positions on one of its axes and what is written there.
bool finds_writes(Maker& m, Step& s) {
  const int x = m.of_rank(1);
  if (x < 0) return false;
  const int i = m.find([&](int t) { return m.rank(t) == m.rank(x) && is_int(m.at(t).dtype()); });
  if (i < 0) return false;
  const int v =
      m.find([&](int t) { return m.shape(t) == m.shape(i) && m.at(t).dtype() == m.at(x).dtype(); });
  s.in = {x, i, v};
  s.n = {m.axis(x)};
  return v >= 0;
}
Proposal propose_scatter_add(Maker& m, Step& s) {
  if (!finds_writes(m, s)) return {};
  const Fact x = m.fact(s.in[0]), v = m.fact(s.in[2]);
  return bounded(join({x, v}), x.bound + v.bound * static_cast<double>(product(m.shape(s.in[2]))));
}
Proposal propose_scatter(Maker& m, Step& s) {
  if (!finds_writes(m, s)) return {};
  return join({m.fact(s.in[0]), m.fact(s.in[2])});
}
Tensor run_scatter(const Given& t, const Numbers& n) {
  return t[0].scatter(n[0], positions(t[1], t[0].size(n[0])), t[2]);
}
Proposal propose_scatter_extremum(Maker& m, Step& s) {
  if (!finds_writes(m, s)) return {};
  s.n.insert(s.n.end(), {m.pick(0, 1), m.pick(0, 1)});
  return kinked(join({m.fact(s.in[0]), m.fact(s.in[2])}));
}
Tensor run_scatter_extremum(const Given& t, const Numbers& n) {
  return t[0].scatter_reduce(n[0], positions(t[1], t[0].size(n[0])), t[2],
                             n[1] ? "amax" : "amin", n[2] != 0);
}
Tensor run_scatter_add(const Given& t, const Numbers& n) {
  return t[0].scatter_add(n[0], positions(t[1], t[0].size(n[0])), t[2]);
}
Proposal propose_one_hot(Maker& m, Step& s) {
  s.in = {m.integers()};
  if (s.in[0] < 0) return {};
  s.n = {m.pick(1, 9)};
  return bounded(*fresh(m, s), 1);
}

// ---- writes

// Everything that shares the target's memory may now hold the value.
Proposal written(Maker& m, int target, const Fact& value) {
  Fact f = join({m.fact(target), value});
  f.root = m.fact(target).root;
  for (Fact& other : m.program.facts)
    if (other.root == f.root) {
      const int root = other.root;
      other = join({other, value});
      other.root = root;
    }
  return f;
}
bool can_hold(Maker& m, int target, int value) {
  const DType to = m.at(target).dtype();
  if (!is_float(to) && !m.fact(value).exact) return false;
  return m.fact(value).bound <= largest_exact(to) || !m.fact(target).exact || !is_float(to);
}
Proposal propose_assign(Maker& m, Step& s) {
  const int x = m.any();
  if (x < 0) return {};
  const int y = m.find([&](int i) { return broadcasts(m.shape(x), m.shape(i)); });
  if (y < 0 || !can_hold(m, x, y)) return {};
  s.in = {x, y};
  return written(m, x, m.fact(y));
}
Proposal propose_add_to(Maker& m, Step& s) {
  const int x = m.any();
  if (x < 0) return {};
  const int y = m.find([&](int i) { return broadcasts(m.shape(x), m.shape(i)); });
  if (y < 0) return {};
  Fact f = join({m.fact(x), m.fact(y)});
  f.bound = m.fact(x).bound + m.fact(y).bound;
  if (is_float(m.at(x).dtype()) && f.exact && f.bound > largest_exact(m.at(x).dtype())) return {};
  s.in = {x, y};
  return written(m, x, f);
}
Proposal propose_set_slice(Maker& m, Step& s) {
  if (!propose_slice(m, s)) return {};
  const int x = s.in[0], y = m.any();
  if (!can_hold(m, x, y)) return {};
  s.in.push_back(y);
  return written(m, x, m.fact(y));
}
Tensor run_set_slice(const Given& t, const Numbers& n) {
  run_slice(t, n).assign(t[1]);
  return t[0];
}
Proposal propose_fill(Maker& m, Step& s) {
  const int x = m.any();
  if (x < 0) return {};
  s.in = {x};
  s.n = {m.pick(0, 3)};
  return written(m, x, Fact{.bound = 3});
}
Proposal propose_put(Maker& m, Step& s) {
  const int x = m.of_rank(1);
  const int i = m.find([&](int t) { return m.rank(t) == 1 && is_int(m.at(t).dtype()); });
  if (x < 0 || i < 0) return {};
  s.in = {x, i};
  s.n = {m.pick(0, 3), m.pick(0, 1)};
  Fact f = m.fact(x);
  f.bound += 3 * static_cast<double>(m.shape(i)[0]);
  if (is_float(m.at(x).dtype()) && f.exact && f.bound > largest_exact(m.at(x).dtype())) return {};
  return written(m, x, f);
}
Tensor run_put(const Given& t, const Numbers& n) {
  Tensor x = t[0];
  x.index_put_({positions(t[1], x.size(0))}, n[0], n[1] != 0);
  return x;
}

// ---- gradients, and what only changes when and where things are computed

Proposal propose_gradient(Maker& m, Step& s) {
  if (m.realized) return {};
  auto fits = [&](int i) { return is_float(m.at(i).dtype()) && m.fact(i).smooth; };
  const int loss = m.find(fits);
  if (loss < 0) return {};
  const std::set<int> below = sources(m.program, loss);
  const int target = m.find([&](int i) { return fits(i) && below.count(i); });
  if (target < 0) return {};
  s.in = {loss, target};
  Fact f = join({m.fact(loss), m.fact(target)});
  return inexact(f, 1e3);
}
Tensor run_gradient(const Given& t, const Numbers&) {
  return t[0].sum().gradient({t[1]}, {}, true)[0];
}
Proposal propose_realize(Maker& m, Step& s) {
  s.in = {m.any()};
  if (s.in[0] < 0 || m.derives) return {};
  m.realized = true;
  return same(m, s);
}
Proposal propose_clone(Maker& m, Step& s) {
  s.in = {m.any()};
  return s.in[0] < 0 ? Proposal() : fresh(m, s);
}
// Elsewhere and back is another value than a clone to derivatives: no gradient is asked of it.
Proposal propose_hop(Maker& m, Step& s) {
  Proposal f = propose_clone(m, s);
  if (f) f->smooth = false;
  return f;
}
Proposal propose_alias(Maker& m, Step& s) {
  s.in = {m.any()};
  return s.in[0] < 0 ? Proposal() : view_of(m, s);
}

// clang-format off
const Row rows[] = {
    {"data", 2, propose_data, run_data},
    {"arange", 1, propose_arange, run_arange},
    {"full", 1, propose_full, run_full},
    {"random", 1, propose_random, run_random},
    {"reshape", 4, propose_reshape,
     [](const Given& t, const Numbers& n) { return t[0].reshape(n); }},
    {"permute", 3, propose_permute,
     [](const Given& t, const Numbers& n) { return t[0].permute(n); }},
    {"slice", 4, propose_slice, run_slice},
    {"select", 2, propose_select,
     [](const Given& t, const Numbers& n) { return t[0].select(n[0], n[1]); }},
    {"expand", 3, propose_expand, [](const Given& t, const Numbers& n) { return t[0].expand(n); }},
    {"unsqueeze", 1, propose_unsqueeze,
     [](const Given& t, const Numbers& n) { return t[0].unsqueeze(n[0]); }},
    {"diagonal", 1, propose_diagonal,
     [](const Given& t, const Numbers& n) { return t[0].diagonal(n[0], n[1], n[2]); }},
    {"unfold", 1, propose_unfold,
     [](const Given& t, const Numbers& n) { return t[0].unfold(n[0], n[1], n[2]); }},
    {"flip", 2, propose_axis_copy,
     [](const Given& t, const Numbers& n) { return t[0].flip(n[0]); }},
    {"pad", 3, propose_pad, run_pad},
    {"cat", 3, propose_join, [](const Given& t, const Numbers& n) { return cat(t, n[0]); }},
    {"stack", 1, propose_stack, [](const Given& t, const Numbers& n) { return stack(t, n[0]); }},
    {"roll", 2, propose_roll,
     [](const Given& t, const Numbers& n) { return t[0].roll(n[1], n[0]); }},
    {"repeat", 1, propose_repeat, [](const Given& t, const Numbers& n) { return t[0].repeat(n); }},
    {"triangle", 1, propose_triangle,
     [](const Given& t, const Numbers& n) { return n[0] ? t[0].tril(n[1]) : t[0].triu(n[1]); }},
    {"unary", 8, propose_unary, run_unary},
    {"binary", 14, propose_binary, run_binary},
    {"number", 5, propose_number, run_number},
    {"where", 3, propose_where,
     [](const Given& t, const Numbers&) { return mote::where(t[0], t[1], t[2]); }},
    {"masked_fill", 1, propose_masked_fill,
     [](const Given& t, const Numbers& n) { return t[0].masked_fill(t[1], n[0]); }},
    {"cast", 4, propose_cast,
     [](const Given& t, const Numbers& n) { return t[0].cast(to_dtype(n[0])); }},
    {"fold", 10, propose_fold, run_fold},
    {"matmul", 3, propose_matmul, [](const Given& t, const Numbers&) { return t[0].matmul(t[1]); }},
    {"x @ x.mT", 1, propose_outer_matmul,
     [](const Given& t, const Numbers&) { return t[0].matmul(t[0].mT()); }},
    {"conv2d", 2, propose_conv, run_conv},
    {"pool2d", 2, propose_pool, run_pool},
    {"layer", 8, propose_layer,
     [](const Given& t, const Numbers& n) { return layers[n[0]].call(t[0]); }},
    {"index_select", 2, propose_index_select, run_index_select},
    {"gather", 1, propose_gather, run_gather},
    {"take", 2, propose_take, run_take},
    {"scatter_add", 1, propose_scatter_add, run_scatter_add},
    {"scatter", 1, propose_scatter, run_scatter},
    {"scatter extremum", 1, propose_scatter_extremum, run_scatter_extremum},
    {"one_hot", 1, propose_one_hot,
     [](const Given& t, const Numbers& n) { return t[0].to(int64).one_hot(n[0]); }},
    {"assign", 3, propose_assign,
     [](const Given& t, const Numbers&) { Tensor x = t[0]; x.assign(t[1]); return x; }},
    {"add_", 3, propose_add_to,
     [](const Given& t, const Numbers&) { Tensor x = t[0]; x.add_(t[1]); return x; }},
    {"set slice", 4, propose_set_slice, run_set_slice},
    {"fill_", 1, propose_fill,
     [](const Given& t, const Numbers& n) { Tensor x = t[0]; x.fill_(n[0]); return x; }},
    {"index_put_", 1, propose_put, run_put},
    {"gradient", 6, propose_gradient, run_gradient},
    {"clone", 1, propose_clone, [](const Given& t, const Numbers&) { return t[0].clone(); }},
    {"contiguous", 1, propose_alias,
     [](const Given& t, const Numbers&) { return t[0].contiguous(); }},
    {"detach", 1, propose_alias, [](const Given& t, const Numbers&) { return t[0].detach(); }},
    {"realize", 3, propose_realize, [](const Given& t, const Numbers&) { return t[0]; }},
    {"hop", 1, propose_hop, [](const Given& t, const Numbers&) { return t[0].clone(); }},
};
// clang-format on

bool is_named(const Step& s, std::string_view name) { return rows[s.row].name == name; }

Tensor run_step(const Step& s, const std::vector<Tensor>& so_far) {
  Given given;
  for (int i : s.in) given.push_back(so_far[static_cast<size_t>(i)]);
  return rows[s.row].run(given, s.n);
}

int row_named(std::string_view name) {
  int row = 0;
  while (rows[row].name != name) ++row;
  return row;
}

int random_row(Random& random) {
  int64_t total = 0;
  for (const Row& r : rows) total += r.weight;
  int64_t at = random.pick(0, total - 1);
  int row = 0;
  while ((at -= rows[row].weight) >= 0) ++row;
  return row;
}

// Too large, too many, or beyond what its dtype can tell apart.
bool acceptable(const Tensor& t, Fact& f) {
  if (t.numel() > kMaxCount || t.dim() > static_cast<int64_t>(kMaxRank)) return false;
  const DType d = t.dtype();
  if (!is_float(d)) {
    f.exact = true;
    f.bound = std::min(f.bound, largest_int(d));
    return true;
  }
  f.eps = std::max(f.eps, epsilon(d));
  if (f.bound > largest_exact(d)) f.exact = false;
  return f.bound <= (epsilon(d) > 0x1p-20 ? 500 : 1e6);
}

bool add_step(Maker& m, int row) {
  Step s;
  s.row = row;
  const std::vector<Fact> before = m.program.facts;
  Proposal f = rows[row].propose(m, s);
  if (!f) return m.program.facts = before, false;
  try {
    Tensor t = run_step(s, m.tensors);
    const bool is_write = f->root >= 0 && !s.in.empty() && t.impl() == m.at(s.in[0]).impl();
    if (!acceptable(t, *f) && !is_write) return m.program.facts = before, false;
    if (f->root < 0) f->root = static_cast<int>(m.tensors.size());
    m.tensors.push_back(t);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::Internal) throw;
    return m.program.facts = before, false;
  }
  m.program.steps.push_back(s);
  m.program.facts.push_back(*f);
  return true;
}

void choose_outputs(Maker& m) {
  std::set<int> used, wanted;
  for (size_t i = 0; i < m.program.steps.size(); ++i) {
    const Step& s = m.program.steps[i];
    used.insert(s.in.begin(), s.in.end());
    const std::string_view name = rows[s.row].name;
    if (name == "assign" || name == "add_" || name == "set slice" || name == "index_put_")
      wanted.insert(static_cast<int>(i)), wanted.insert(s.in[0]);
    if (m.random.chance(0.15)) wanted.insert(static_cast<int>(i));
  }
  for (int i = 0; i < static_cast<int>(m.program.steps.size()); ++i)
    if (!used.count(i)) wanted.insert(i);
  m.program.outputs.assign(wanted.begin(), wanted.end());
  m.program.together = m.random.chance(0.5);
}

}  // namespace

Script generate(uint64_t seed) {
  manual_seed(seed);
  Maker m(seed);
  m.program.seed = seed;
  m.usual_dtype = m.derives ? m.random.one_of({DType::f32, DType::f32, DType::f64, DType::bf16})
                            : random_dtype(m);
  for (int64_t leaves = m.pick(2, 4); leaves-- > 0;) add_step(m, 0);
  for (int64_t steps = m.pick(2, 18), tries = 0; steps > 0 && tries < 400; ++tries)
    if (add_step(m, random_row(m.random))) --steps;
  for (int64_t tries = m.derives ? m.pick(1, 20) : 0; tries > 0; --tries)
    add_step(m, row_named("gradient"));
  choose_outputs(m);
  return m.program;
}

std::vector<Tensor> execute(const Script& p, const std::string& device, bool effects) {
  set_default_device(device);
  manual_seed(p.seed);
  std::vector<Tensor> tensors;
  for (const Step& s : p.steps) {
    Tensor t = run_step(s, tensors);
    if (effects && is_named(s, "realize")) t.realize();
    if (effects && is_named(s, "hop")) t = t.to("CPU:1").to(device);
    tensors.push_back(t);
  }
  return tensors;
}

std::string list(const Script& p) {
  std::string out;
  std::vector<Tensor> tensors = execute(p, "CPU", false);
  for (size_t i = 0; i < p.steps.size(); ++i) {
    const Step& s = p.steps[i];
    std::string_view name = rows[s.row].name;
    if (name == "unary") name = unaries[s.n[0]].name;
    if (name == "binary") name = binaries[s.n[0]].name;
    if (name == "fold") name = folds[s.n[0]].name;
    if (name == "layer") name = layers[s.n[0]].name;
    out += text("  Tensor t", i, " = ", name, "(");
    for (size_t k = 0; k < s.in.size(); ++k) out += text(k ? ", t" : "t", s.in[k]);
    if (!s.n.empty()) out += text(s.in.empty() ? "" : ", ", "{");
    for (size_t k = 0; k < s.n.size(); ++k) out += text(k ? ", " : "", s.n[k]);
    out += text(s.n.empty() ? "" : "}", ");  // ", mote::name(tensors[i].dtype()), " ",
                tensors[i].shape(), p.facts[i].exact ? " exact" : "", "\n");
  }
  out += p.together ? "  realize({" : "  read({";
  for (size_t k = 0; k < p.outputs.size(); ++k) out += text(k ? ", t" : "t", p.outputs[k]);
  return out + "});\n";
}

std::optional<Script> without(const Script& p, size_t gone) {
  std::vector<int> renamed(p.steps.size(), -1);
  Script out{p.seed, {}, {}, {}, p.together};
  for (size_t i = 0; i < p.steps.size(); ++i) {
    Step s = p.steps[i];
    bool keep = i != gone;
    for (int& in : s.in) {
      in = renamed[static_cast<size_t>(in)];
      keep &= in >= 0;
    }
    if (!keep) continue;
    renamed[i] = static_cast<int>(out.steps.size());
    out.steps.push_back(s);
    out.facts.push_back(p.facts[i]);
  }
  for (int o : p.outputs)
    if (renamed[static_cast<size_t>(o)] >= 0)
      out.outputs.push_back(renamed[static_cast<size_t>(o)]);
  if (out.outputs.empty()) return {};
  return out;
}

}  // namespace mote::programs
