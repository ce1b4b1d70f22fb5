// The op table: what every op is, in one row each (ops.def).
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace mote {

enum class Op : uint8_t {
#define OP(name, arity, traits, argument, meaning) name,
#include "ir/ops.def"
#undef OP
};

constexpr int kOps = 0
#define OP(name, arity, traits, argument, meaning) +1
#include "ir/ops.def"
#undef OP
    ;
static_assert(kOps <= 128, "an op set is two machine words");

enum Trait : uint16_t {
  Leaf = 1, Movement = 2, Alu = 4, Commutes = 8, Assoc = 16, Compares = 32, Float = 64,
  Integer = 128, Curve = 256, Folds = 512, Memory = 1024, Effect = 2048, Moves = 4096, OfU64 = 8192,
};

enum class ArgKind : uint8_t { Nil, Int, Value, Object, Handle };

struct OpRow {
  const char* name;
  int arity;
  uint16_t traits;
  ArgKind arg;
  const char* meaning;
};

extern const OpRow op_rows[kOps];
inline const OpRow& row(Op op) { return op_rows[static_cast<int>(op)]; }
inline const char* name(Op op) { return row(op).name; }
inline bool has(Op op, Trait trait) { return row(op).traits & trait; }
// The number, as an E, of the row that has this name.
template <class E, class Row, size_t count, class Name>
bool parse_name(std::string_view text, const Row (&rows)[count], Name name, E* out) {
  const Row* found = std::ranges::find(rows, text, name);
  if (found == std::end(rows)) return false;
  *out = static_cast<E>(found - rows);
  return true;
}
inline bool parse_op(std::string_view text, Op* op) {
  return parse_name(text, op_rows, &OpRow::name, op);
}

// A set of ops in two words.
struct OpSet {
  uint64_t bits[2] = {};
  constexpr OpSet() = default;
  constexpr OpSet(Op op) { add(op); }
  constexpr OpSet(std::initializer_list<Op> ops) {
    for (Op op : ops) add(op);
  }
  constexpr void add(Op op) { bits[static_cast<int>(op) >> 6] |= bit(op); }
  constexpr bool has(Op op) const { return bits[static_cast<int>(op) >> 6] & bit(op); }
  constexpr bool empty() const { return !(bits[0] | bits[1]); }
  constexpr OpSet operator|(const OpSet& o) const {
    OpSet s = *this;
    for (int i = 0; i < 2; ++i) s.bits[i] |= o.bits[i];
    return s;
  }
  constexpr OpSet without(const OpSet& o) const {
    OpSet s = *this;
    for (int i = 0; i < 2; ++i) s.bits[i] &= ~o.bits[i];
    return s;
  }

 private:
  static constexpr uint64_t bit(Op op) { return uint64_t{1} << (static_cast<int>(op) & 63); }
};
OpSet ops_with(Trait trait);

}  // namespace mote
