// The language rules are written in: constexpr values of one plain type that read like the maths.
//
//   constexpr Rule identities[] = {
//     rule(n + 0, n),
//     rule(i / c0 * c0 + i % c0, i),
//     rule(i * c0 < c1, i < fold(0 - (0 - c1) / c0), when(c0 > 0)),
//     rule(i + j, [](const Match& m) { return recombine(m.root); }),   // the exception
//   };
//
// Variables bind any node of their kind: x y z w anything, i j k l an index, n m an integer that
// wraps (any width but index), a b either, u v a float, g h a bool; c0..c3 bind constants; `poison`
// is Invalid. A variable met twice must be the same node.
// Numbers match constants of that value in whatever dtype stands there. A commuting op matches in
// both orders. Right sides are built by the folding constructor; `fold(e)` of constants must come
// out as a constant (an index that would overflow makes the rule not apply). Guards are expressions
// over constants and lo(x), hi(x), the interval of a variable, computed exactly.
// A variable on the right or in a guard that the left never binds does not compile.
#pragma once
#include <array>
#include <concepts>
#include <cstdint>
#include <source_location>
#include <string>

#include "ir/node.h"

namespace mote {

constexpr int kPatNodes = 20;
constexpr int kVariables = 20;

// A set of dtypes, one bit each.
using DTypes = uint32_t;
constexpr DTypes dtypes(std::initializer_list<DType> list) {
  DTypes set = 0;
  for (DType d : list) set |= 1u << static_cast<int>(d);
  return set;
}
constexpr DTypes kAnyType = ~0u;
constexpr DTypes kIndexType = dtypes({DType::index});
constexpr DTypes kBoolType = dtypes({DType::boolean});
constexpr DTypes kFloatTypes =
    dtypes({DType::f8e4m3, DType::f8e5m2, DType::bf16, DType::f16, DType::f32, DType::f64});
constexpr DTypes kWrapTypes = dtypes(
    {DType::u8, DType::u16, DType::u32, DType::u64, DType::i8, DType::i16, DType::i32, DType::i64});

struct PatNode {
  enum Kind : uint8_t { Variable, Constant, Number, Node, Fold, Lo, Hi };
  Kind kind = Number;
  Op op = Op::Const;
  uint8_t nsrc : 7 = 0;
  bool more : 1 = false;  // further sources are allowed
  uint8_t var = 0;        // of Variable, Constant
  DTypes dtypes = kAnyType;
  float value = 0;  // of Number; exact
};

// A pattern: its nodes in prefix order.
struct Pat {
  std::array<PatNode, kPatNodes> node{};
  uint8_t size = 0;

  constexpr Pat() = default;
  template <class T>
  requires(std::integral<T> || std::floating_point<T>) constexpr Pat(T value) : size(1) {
    node[0].value = static_cast<float>(value);
    if (static_cast<T>(node[0].value) != value) throw "a pattern's number is a float's";
  }
  constexpr bool empty() const { return size == 0; }
  constexpr const PatNode& operator[](int at) const { return node[static_cast<size_t>(at)]; }
  constexpr int end(int at) const {  // one past the subtree at
    int todo = 1;
    for (; todo > 0; ++at) todo += (*this)[at].nsrc - 1;
    return at;
  }
};

constexpr Pat pat(PatNode head, std::initializer_list<Pat> src) {
  Pat p;
  head.nsrc = static_cast<uint8_t>(src.size());
  p.node[p.size++] = head;
  for (const Pat& s : src)
    for (int at = 0; at < s.size; ++at) {
      if (p.size == kPatNodes) throw "a pattern has too many nodes";
      p.node[p.size++] = s[at];
    }
  return p;
}

namespace pattern {

constexpr Pat variable(int id, PatNode::Kind kind, DTypes types) {
  PatNode n;
  n.kind = kind;
  n.var = static_cast<uint8_t>(id);
  n.dtypes = types;
  return pat(n, {});
}
inline constexpr Pat x = variable(0, PatNode::Variable, kAnyType),
                     y = variable(1, PatNode::Variable, kAnyType),
                     z = variable(2, PatNode::Variable, kAnyType),
                     w = variable(3, PatNode::Variable, kAnyType),
                     i = variable(4, PatNode::Variable, kIndexType),
                     j = variable(5, PatNode::Variable, kIndexType),
                     k = variable(6, PatNode::Variable, kIndexType),
                     l = variable(7, PatNode::Variable, kIndexType),
                     n = variable(8, PatNode::Variable, kWrapTypes),
                     m = variable(9, PatNode::Variable, kWrapTypes),
                     a = variable(18, PatNode::Variable, kWrapTypes | kIndexType),
                     b = variable(19, PatNode::Variable, kWrapTypes | kIndexType),
                     u = variable(10, PatNode::Variable, kFloatTypes),
                     v = variable(11, PatNode::Variable, kFloatTypes),
                     g = variable(12, PatNode::Variable, kBoolType),
                     h = variable(13, PatNode::Variable, kBoolType),
                     c0 = variable(14, PatNode::Constant, kAnyType),
                     c1 = variable(15, PatNode::Constant, kAnyType),
                     c2 = variable(16, PatNode::Constant, kAnyType),
                     c3 = variable(17, PatNode::Constant, kAnyType);

constexpr Pat node(Op op, std::initializer_list<Pat> src, DTypes types = kAnyType) {
  PatNode head;
  head.kind = PatNode::Node;
  head.op = op;
  head.dtypes = types;
  return pat(head, src);
}
// A node with these sources and any number of further ones; only on a left side.
constexpr Pat node_and_more(Op op, std::initializer_list<Pat> src) {
  Pat p = node(op, src);
  p.node[0].more = true;
  return p;
}
constexpr Pat of_kind(PatNode::Kind kind, const Pat& p) {
  PatNode head;
  head.kind = kind;
  return pat(head, {p});
}

constexpr Pat operator+(const Pat& p, const Pat& q) { return node(Op::Add, {p, q}); }
constexpr Pat operator*(const Pat& p, const Pat& q) { return node(Op::Mul, {p, q}); }
constexpr Pat operator-(const Pat& p, const Pat& q) { return p + q * -1; }
// Of indices, with floor; see idiv, imod, fdiv for the others.
constexpr Pat operator/(const Pat& p, const Pat& q) { return node(Op::FloorDiv, {p, q}); }
constexpr Pat operator%(const Pat& p, const Pat& q) { return node(Op::FloorMod, {p, q}); }
constexpr Pat operator&(const Pat& p, const Pat& q) { return node(Op::And, {p, q}); }
constexpr Pat operator|(const Pat& p, const Pat& q) { return node(Op::Or, {p, q}); }
constexpr Pat operator^(const Pat& p, const Pat& q) { return node(Op::Xor, {p, q}); }
constexpr Pat operator<(const Pat& p, const Pat& q) { return node(Op::Lt, {p, q}, kBoolType); }
constexpr Pat eq(const Pat& p, const Pat& q) { return node(Op::Eq, {p, q}, kBoolType); }
constexpr Pat operator!(const Pat& p) { return node(Op::Xor, {p, 1}, kBoolType); }
constexpr Pat operator==(const Pat& p, const Pat& q) { return eq(p, q); }
constexpr Pat operator!=(const Pat& p, const Pat& q) { return !eq(p, q); }
constexpr Pat operator>(const Pat& p, const Pat& q) { return q < p; }
constexpr Pat operator>=(const Pat& p, const Pat& q) { return !(p < q); }
constexpr Pat operator<=(const Pat& p, const Pat& q) { return !(q < p); }
constexpr Pat operator&&(const Pat& p, const Pat& q) { return p & q; }
constexpr Pat operator||(const Pat& p, const Pat& q) { return p | q; }
constexpr Pat where(const Pat& c, const Pat& p, const Pat& q) { return node(Op::Where, {c, p, q}); }
constexpr Pat max(const Pat& p, const Pat& q) { return node(Op::Max, {p, q}); }
constexpr Pat min(const Pat& p, const Pat& q) { return node(Op::Min, {p, q}); }
constexpr Pat neg(const Pat& p) { return node(Op::Neg, {p}); }
constexpr Pat idiv(const Pat& p, const Pat& q) { return node(Op::IDiv, {p, q}); }
constexpr Pat imod(const Pat& p, const Pat& q) { return node(Op::IMod, {p, q}); }
constexpr Pat fdiv(const Pat& p, const Pat& q) { return node(Op::Div, {p, q}); }
constexpr Pat shl(const Pat& p, const Pat& q) { return node(Op::Shl, {p, q}); }
constexpr Pat shr(const Pat& p, const Pat& q) { return node(Op::Shr, {p, q}); }
// On the right: to the dtype that is wanted at this place. `to` limits the result on the left.
constexpr Pat cast(const Pat& p, DTypes to = kAnyType) { return node(Op::Cast, {p}, to); }
inline constexpr Pat poison = node(Op::Invalid, {}, kIndexType);
constexpr Pat fold(const Pat& p) { return of_kind(PatNode::Fold, p); }
constexpr Pat lo(const Pat& p) { return of_kind(PatNode::Lo, p); }
constexpr Pat hi(const Pat& p) { return of_kind(PatNode::Hi, p); }

}  // namespace pattern

// What a left side matched.
struct Match {
  UOp root;
  std::array<UOp, kVariables> bound;
  void* context = nullptr;  // what the caller of rewrite() passed
  UOp operator[](const Pat& variable) const { return bound[variable[0].var]; }
};
using BuildFunction = UOp (*)(const Match&);  // an empty UOp: does not apply

struct Guard {
  Pat expression;
};
constexpr Guard when(const Pat& expression) { return {expression}; }

struct Rule {
  Pat left, right, guard;
  BuildFunction build = nullptr;  // instead of right
  const char* file = "";
  uint32_t line = 0;
};

constexpr void bound_by(const Pat& left, const Pat& used) {
  for (int at = 0; at < used.size; ++at) {
    if (used[at].kind > PatNode::Constant) continue;
    bool found = false;
    for (int b = 0; b < left.size; ++b)
      found |= left[b].kind <= PatNode::Constant && left[b].var == used[at].var;
    if (!found) throw "the left side never binds a variable that is used";
  }
}
consteval Rule rule(const Pat& left, const Pat& right, const Guard& guard = {},
                    std::source_location where = std::source_location::current()) {
  bound_by(left, right);
  bound_by(left, guard.expression);
  return {left, right, guard.expression, nullptr, where.file_name(), where.line()};
}
template <class F>
requires std::convertible_to<F, BuildFunction> &&(!std::convertible_to<F, Pat>)consteval Rule
    rule(const Pat& left, F build, const Guard& guard = {},
         std::source_location where = std::source_location::current()) {
  bound_by(left, guard.expression);
  return {left, Pat{}, guard.expression, build, where.file_name(), where.line()};
}

std::string text_of(const Pat& pat);
std::string text_of(const Rule& rule);  // "file:line: left -> right when guard"

}  // namespace mote
