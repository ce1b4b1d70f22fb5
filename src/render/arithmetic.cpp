#include "render/arithmetic.h"

#include <algorithm>
#include <array>

#include "ir/dots.h"
#include "ir/freedoms.h"

namespace mote {

namespace {

constexpr int kLeastWords = 4;

// Bools are a lattice, whatever the op is called.
Op bool_op(Op op) {
  if (op == Op::Max || op == Op::Add) return Op::Or;
  return op == Op::Min || op == Op::Mul ? Op::And : op;
}

// Of sources the one that is the result, whatever the others are; null: none.
const Value* chosen_by_known(Op op, DType dtype, std::span<const Value> src) {
  if (op == Op::Where && src[0].literal) return &src[src[0].literal->i ? 1 : 2];
  if (dtype != DType::boolean || (op != Op::And && op != Op::Or)) return nullptr;
  for (size_t i = 0; i < 2; ++i)
    if (src[i].literal) return &src[(src[i].literal->i != 0) == (op == Op::And) ? 1 - i : i];
  return nullptr;
}

}  // namespace

Value Arithmetic::alu(Op op, DType dtype, std::span<const Value> src, bool exact) {
  if (dtype == DType::boolean) op = bool_op(op);
  if (dot_of(op) && (src[0].lanes < kLeastWords || src[0].lanes > writer.most_words()))
    return multiply_words(op, dtype, src);
  if (std::ranges::all_of(src, [](const Value& v) { return v.literal.has_value(); })) {
    Scalar args[3];
    for (size_t i = 0; i < src.size(); ++i) args[i] = *src[i].literal;
    return writer.literal(eval(op, dtype, {args, src.size()}), src[0].lanes);
  }
  if (chooses)
    if (const Value* one = chosen_by_known(op, dtype, src)) return *one;
  if (is_int(dtype) && src.size() == 2 && src[1].literal) {
    if (op == Op::Add && src[1].literal->i == 0) return src[0];
    if (op == Op::Mul && src[1].literal->i == 1) return src[0];
  }
  if (is_int(dtype) && op == Op::Add && src[0].literal && src[0].literal->i == 0) return src[1];
  const Value result = writer.alu(op, dtype, src, exact);
  const bool extreme = (op == Op::Max || op == Op::Min) && is_float(dtype);
  return extreme && !allows(Freedom::EitherZero) ? with_zero(op, src, result) : result;
}

// In as many lanes as the instructions have.
Value Arithmetic::multiply_words(Op op, DType dtype, std::span<const Value> src) {
  const int lanes = src[0].lanes, step = std::clamp(lanes, kLeastWords, writer.most_words());
  auto element = [&](const Value& v, int l) { return v.lanes == 1 ? v : writer.slice(v, l, 1); };
  std::vector<Value> out;
  for (int first = 0; first < lanes; first += step) {
    std::array<Value, 3> part;
    for (size_t i = 0; i < 3; ++i) {
      std::vector<Value> elements;
      for (int l = 0; l < step; ++l) elements.push_back(element(src[i], (first + l) % lanes));
      part[i] = writer.join(elements);
    }
    const Value sums = writer.alu(op, dtype, part, false);
    for (int l = 0; l < std::min(step, lanes); ++l) out.push_back(writer.slice(sums, l, 1));
  }
  return lanes == 1 ? out[0] : writer.join(out);
}

// Of equal values the bits are those of both; of two zeros Min has the sign of either.
Value Arithmetic::with_zero(Op op, std::span<const Value> src, const Value& chosen) {
  const DType dtype = chosen.dtype, bits = bits_type(row(dtype).bits);
  auto cast = [&](DType to, const Value& v) { return alu(Op::Bitcast, to, {&v, 1}, false); };
  const Value words[] = {cast(bits, src[0]), cast(bits, src[1])};
  const Value both = alu(op == Op::Max ? Op::And : Op::Or, bits, words, false);
  const Value equal = alu(Op::Eq, DType::boolean, src, false);
  return alu(Op::Where, dtype, std::array{equal, cast(dtype, both), chosen}, false);
}

Value Arithmetic::fold(Op op, std::vector<Value>& values) {
  auto joined = [&](const Value& a, const Value& b) {
    return alu(op, a.dtype, std::array{a, b}, false);
  };
  while (values.size() > 1 && (op == Op::Max || op == Op::Min)) {
    for (size_t i = 0; i < values.size() / 2; ++i)
      values[i] = joined(values[2 * i], values[2 * i + 1]);
    if (values.size() % 2) values[values.size() / 2] = values.back();
    values.resize((values.size() + 1) / 2);
  }
  Value all = values[0];
  for (size_t i = 1; i < values.size(); ++i) all = joined(all, values[i]);
  return all;
}

Value Arithmetic::fold_lanes(Op op, Value v) {
  if (v.dtype == DType::boolean && (bool_op(op) == Op::And || bool_op(op) == Op::Or))
    return writer.fold(bool_op(op), v);
  while (v.lanes > 1) {
    const int half = v.lanes / 2;
    Value halves[] = {writer.slice(v, 0, half), writer.slice(v, half, half)};
    v = alu(op, v.dtype, halves, false);
  }
  return v;
}

}  // namespace mote
