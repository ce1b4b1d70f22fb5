#include "rewrite/rewrite.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "ir/build.h"
#include "rewrite/matcher.h"

namespace mote {
namespace {

using namespace pattern;

// clang-format off
constexpr Rule arithmetic[] = {
    rule(n + 0, n),
    rule(n * c0 + n * c1, n * fold(c0 + c1)),
    rule(max(n, m), n, when(lo(n) >= hi(m))),
    rule(where(g, x, x), x),
};
// clang-format on
const RuleSet arithmetic_set{"arithmetic", RuleSet::Pure, {arithmetic}};

UOp number(const char* name, int64_t lo = -100, int64_t hi = 100) {
  int64_t ints[] = {lo, hi, 0, 0};
  return make(Op::Var, DType::i32, {}, Arg::of(intern_arg(ints, name)));
}
UOp raw(Op op, UOp p, UOp q) {
  Node* src[] = {p.get(), q.get()};
  return arena().make_raw({op, p->dtype, src, {}});
}

}  // namespace

TEST_SUITE_BEGIN("rewrite");

TEST_CASE("a rule prints as it is written") {
  std::string text = text_of(arithmetic[1]);
  CHECK(text.find("(n * c0) + (n * c1) -> n * fold(c0 + c1)") != std::string::npos);
  CHECK(text.find("rewrite_test.cpp:17: ") != std::string::npos);
}

TEST_CASE("commuting nodes match in both orders") {
  CHECK(commuted(arithmetic[0].left).size() == 1);  // constants stand right
  CHECK(commuted(arithmetic[1].left).size() == 2);
  UOp p = number("p");
  UOp sum = raw(Op::Add, raw(Op::Mul, p, constant(DType::i32, 3)),
                raw(Op::Mul, p, constant(DType::i32, 4)));
  CHECK(rewrite(sum, arithmetic_set) == p * 7);
}

TEST_CASE("a guard that fails in one order is tried in the other") {
  UOp low = number("low", 0, 4), high = number("high", 5, 9);
  CHECK(rewrite(raw(Op::Max, low, high), arithmetic_set) == high);
  CHECK(rewrite(raw(Op::Max, high, low), arithmetic_set) == high);
  UOp other = number("other", 3, 6);
  CHECK(rewrite(raw(Op::Max, low, other), arithmetic_set)->is(Op::Max));
}

TEST_CASE("normal forms are stamped and come back at once") {
  UOp p = number("p");
  UOp r = rewrite(raw(Op::Add, p * 5, constant(DType::i32, 0)), arithmetic_set);
  CHECK(r == p * 5);
  CHECK((r->stamps & arithmetic_set.stamp()) != 0);
  const uint64_t attempts = rewrite_counts().attempts;
  rewrite(r, arithmetic_set);
  CHECK(rewrite_counts().attempts == attempts);
}

namespace {

constexpr Rule there_and_back[] = {
    rule(max(n, m), min(n, m)),
    rule(min(n, m), max(n, m)),
};
constexpr Rule ever_more[] = {
    rule(n * c0, fold(c0 + 1) * n),
};
constexpr Rule count_sums[] = {
    rule(n + m,
         [](const Match& found) {
           ++*static_cast<int*>(found.context);
           return UOp();
         }),
};
constexpr Rule square_once[] = {
    rule(n + m, (n + m) * (n + m)),
};
const RuleSet circle{"circle", RuleSet::Structural, {there_and_back}};
const RuleSet endless{"endless", RuleSet::Structural, {ever_more}};
const RuleSet counting{"counting", RuleSet::Structural, {count_sums}};
const RuleSet squaring{"squaring", RuleSet::Structural, {square_once}};

std::string error_of(UOp u, const RuleSet& set) {
  try {
    rewrite(u, set);
  } catch (const Error& e) { return e.what(); }
  return "";
}

}  // namespace

TEST_CASE("rules without an end are reported by name") {
  UOp p = number("p"), q = number("q");
  std::string back = error_of(binary(Op::Max, p, q), circle);
  CHECK(back.find("circle") != std::string::npos);
  CHECK(back.find("Max(n, m) -> Min(n, m)") != std::string::npos);
  CHECK(error_of(p * 3, endless).find("do not come to an end") != std::string::npos);
  CHECK(error_of(p + q, squaring).find("contains what it replaces") != std::string::npos);
}

TEST_CASE("each node once, and replacements that are final") {
  UOp p = number("p"), q = number("q");
  int sums = 0;
  UOp twice = (p + q) * (p + q) + (p + q);
  CHECK(rewrite(twice, counting, &sums) == twice);
  CHECK(sums == 2);
  UOp squared = (p + q) * (p + q);
  CHECK(apply_once(p + q, squaring) == squared);
}

TEST_CASE("depth does not matter") {
  UOp p = number("p"), chain = p;
  for (int k = 0; k < 200'000; ++k) chain = raw(Op::Xor, chain, p);
  UOp deep = raw(Op::Add, chain, constant(DType::i32, 0));
  CHECK(rewrite(deep, arithmetic_set) == chain);
}

TEST_CASE("a map goes from sources to users and shares what does not change") {
  UOp p = number("p"), q = number("q"), same = q * 3;
  UOp root = binary(Op::Max, raw(Op::Add, p, q), same);
  std::vector<UOp> order;
  UOp mapped = map_nodes("double sums", root, [&](UOp n, const Mapped& now) {
    order.push_back(n);
    for (uint32_t i = 0; i < n->nsrc; ++i) CHECK(now(n->src(i)) == UOp(now.src[i]));
    return n->is(Op::Add) ? with_src(n, now.src) * 2 : UOp();
  });
  CHECK(mapped == binary(Op::Max, (p + q) * 2, same));
  CHECK(order == toposort(root));
  std::vector<std::pair<UOp, UOp>> map{std::pair(p, p + q), std::pair(q, p)};
  CHECK(substitute(p + q, map) == (p + q) + p);  // what replaces is final
}

TEST_CASE("a trace sees rules, maps and passes, in the order they end") {
  auto simplify = [](UOp root, const Target&) { return rewrite(root, arithmetic_set); };
  auto negate = [](UOp root, const Target&) {
    return map_nodes("minus", root, [](UOp n, const Mapped&) { return -n; });
  };
  auto nothing = [](UOp root, const Target&) { return substitute(root, {}); };
  const Pass passes[] = {
      {"simplify", simplify, ""},
      {"negate",   negate,   ""},
      {"nothing",  nothing,  ""},
  };
  UOp p = number("p"), start = raw(Op::Add, p, constant(DType::i32, 0));
  std::string seen;
  {
    Trace trace([&](const TraceEvent& e) {
      CHECK((e.kind == Change::Rule) == (e.rule == &arithmetic[0]));
      CHECK(run_passes(start, passes, Target()) == -p);  // not told of
      seen += text(e.name, e.after == -p ? " -p; " : e.after == p ? " p; " : " ?; ");
    });
    CHECK(run_passes(start, passes, Target()) == -p);
  }
  run_passes(start, passes, Target());
  CHECK(seen == "arithmetic p; simplify p; minus -p; negate -p; nothing -p; ");
}

TEST_SUITE_END();

}  // namespace mote
