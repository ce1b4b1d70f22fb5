// For tests: evaluates a scalar expression graph for many inputs, a block at a time. ir/eval says
// what every op means; the ops that take the time have a loop of their own here.
#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "ir/build.h"
#include "ir/eval.h"

namespace mote {

// Input number `slot`: what a kernel reads from memory. (A Range is the input kRanges + its slot.)
constexpr int kRanges = 64;
inline UOp input(int slot, DType dtype) {
  return make(Op::Load, dtype, {make(Op::Index, dtype, {param(slot, dtype, 1), index(0)})});
}

class BlockEval {
 public:
  static constexpr int kBlock = 512;
  // After this the elements of inputs may be written and, once run, the result be read. Index nodes
  // and Params of the inputs are not evaluated.
  explicit BlockEval(UOp result) : root_(result) {
    for (UOp n : toposort(result)) {
      if (n->is(Op::Param) || n->is(Op::Index)) continue;
      at_[n.get()].resize(kBlock * 8);
      if (n->is(Op::Const))
        fill(n);
      else if (n->is(Op::Range))
        inputs_[kRanges + range_slot(n)] = n;
      else if (n->is(Op::Load))
        inputs_[static_cast<int>(n->src(0)->src(0)->ints(0))] = n;
      else
        order_.push_back(n);
    }
  }
  template <class T>
  T* input(int slot) {
    return data<T>(inputs_.at(slot));
  }
  bool has_input(int slot) const { return inputs_.count(slot) != 0; }
  template <class T>
  const T* result() {
    return data<T>(root_);
  }
  size_t ops() const { return order_.size(); }

  void run() {
    for (UOp n : order_)
      if (!run_fast(n)) run_slow(n);
  }
  // The same by ir/eval alone. Counts what a renderer's plain op would not survive.
  void run_reference() {
    for (UOp n : order_) run_slow(n);
  }
  size_t unsafe() const { return unsafe_; }
  UOp unsafe_node() const { return unsafe_node_; }

 private:
  template <class T>
  T* data(UOp n) {
    return reinterpret_cast<T*>(at_.at(n.get()).data());
  }

  Scalar read(UOp n, int i) {
    const void* p = data<char>(n) + i * size_of(n->dtype);
    if (is_float(n->dtype)) return {n->dtype, 0, load_float(n->dtype, p)};
    return {n->dtype, load_int(n->dtype, p), 0};
  }
  void write(UOp n, int i, const Scalar& v) {
    void* p = data<char>(n) + i * size_of(n->dtype);
    if (is_float(n->dtype))
      store_float(n->dtype, p, v.f);
    else
      store_int(n->dtype, p, v.i);
  }
  void fill(UOp n) {
    for (int i = 0; i < kBlock; ++i) write(n, i, scalar_of(n));
  }
  void run_slow(UOp n) {
    // A NaN's bits survive a bitcast only if nobody looks at it as a double.
    if (n->is(Op::Bitcast)) {
      std::memcpy(data<char>(n), data<char>(n->src(0)),
                  static_cast<size_t>(kBlock * size_of(n->dtype)));
      return;
    }
    for (int i = 0; i < kBlock; ++i) {
      Scalar src[3];
      for (uint32_t s = 0; s < n->nsrc; ++s) src[s] = read(n->src(s), i);
      if (!is_plain(n, src)) {
        ++unsafe_;
        unsafe_node_ = n;
      }
      write(n, i, eval(n->op, n->dtype, {src, n->nsrc}));
    }
  }

  static bool is_plain(UOp n, const Scalar* src) {
    const DType d = n->dtype;
    switch (n->op) {
      case Op::IDiv:
      case Op::IMod:
        return src[1].i != 0 && !(is_signed(d) && src[1].i == -1 && src[0].i == row(d).lo);
      case Op::FloorDiv:
      case Op::FloorMod: return false;
      case Op::Shl:
      case Op::Shr: return src[1].i >= 0 && src[1].i < row(d).bits;
      case Op::Cast: {
        if (!is_float(src[0].dtype) || is_float(d)) return true;
        if (d == DType::boolean) return false;
        double end = std::ldexp(1.0, row(d).bits - is_signed(d));
        double whole = std::trunc(src[0].f);
        return whole < end && whole >= (is_signed(d) ? -end : 0);
      }
      default: return true;
    }
  }

  template <class R, class T, class F>
  bool loop(UOp n, F f) {
    R* out = data<R>(n);
    const T *a = data<T>(n->src(0)), *b = n->nsrc > 1 ? data<T>(n->src(1)) : a;
    for (int i = 0; i < kBlock; ++i) out[i] = f(a[i], b[i]);
    return true;
  }
  template <class T>
  bool choose(UOp n) {
    T* out = data<T>(n);
    const auto* c = data<uint8_t>(n->src(0));
    const T *a = data<T>(n->src(1)), *b = data<T>(n->src(2));
    for (int i = 0; i < kBlock; ++i) out[i] = c[i] ? a[i] : b[i];
    return true;
  }
  template <class T>
  bool compare(UOp n) {
    if (n->is(Op::Lt)) return loop<uint8_t, T>(n, [](T a, T b) { return a < b; });
    return loop<uint8_t, T>(n, [](T a, T b) { return a == b; });
  }
  template <class T>
  bool floats(UOp n) {
    switch (n->op) {
      case Op::Add: return loop<T, T>(n, [](T a, T b) { return a + b; });
      case Op::Mul: return loop<T, T>(n, [](T a, T b) { return a * b; });
      case Op::Div: return loop<T, T>(n, [](T a, T b) { return a / b; });
      case Op::Neg: return loop<T, T>(n, [](T a, T) { return -a; });
      case Op::Where: return choose<T>(n);
      case Op::MulAdd: {
        T* out = data<T>(n);
        const T *a = data<T>(n->src(0)), *b = data<T>(n->src(1)), *c = data<T>(n->src(2));
        for (int i = 0; i < kBlock; ++i) out[i] = std::fma(a[i], b[i], c[i]);
        return true;
      }
      default: return false;
    }
  }
  template <class T>
  bool words(UOp n) {
    constexpr T width = sizeof(T) * 8;
    switch (n->op) {
      case Op::Add: return loop<T, T>(n, [](T a, T b) { return T(a + b); });
      case Op::Mul: return loop<T, T>(n, [](T a, T b) { return T(a * b); });
      case Op::Neg: return loop<T, T>(n, [](T a, T) { return T(0 - a); });
      case Op::And: return loop<T, T>(n, [](T a, T b) { return T(a & b); });
      case Op::Or: return loop<T, T>(n, [](T a, T b) { return T(a | b); });
      case Op::Xor: return loop<T, T>(n, [](T a, T b) { return T(a ^ b); });
      case Op::Shl: return loop<T, T>(n, [](T a, T b) { return b < width ? T(a << b) : T(0); });
      case Op::Shr:
        if (is_signed(n->dtype)) return false;
        return loop<T, T>(n, [](T a, T b) { return b < width ? T(a >> b) : T(0); });
      case Op::Where: return choose<T>(n);
      default: return false;
    }
  }
  bool run_fast(UOp n) {
    const DType d = n->dtype, from = n->src(0)->dtype;
    if (n->is(Op::Lt) || n->is(Op::Eq)) {
      if (from == DType::f32) return compare<float>(n);
      if (from == DType::f64) return compare<double>(n);
      if (from == DType::u32) return compare<uint32_t>(n);
      if (from == DType::u64) return compare<uint64_t>(n);
      if (from == DType::i32) return compare<int32_t>(n);
      return false;
    }
    if (n->is(Op::Cast) && from == DType::u64 && d == DType::u32)
      return loop<uint32_t, uint64_t>(n, [](uint64_t a, uint64_t) { return uint32_t(a); });
    if (n->is(Op::Cast) && from == DType::u32 && d == DType::u64)
      return loop<uint64_t, uint32_t>(n, [](uint32_t a, uint32_t) { return uint64_t(a); });
    if (n->is(Op::Cast) || n->is(Op::Bitcast)) return false;
    if (d == DType::f32) return floats<float>(n);
    if (d == DType::f64) return floats<double>(n);
    if (d == DType::u32 || d == DType::i32) return words<uint32_t>(n);
    if (d == DType::u64 || d == DType::i64) return words<uint64_t>(n);
    if (d == DType::u16 || d == DType::i16) return words<uint16_t>(n);
    if (d == DType::boolean && !n->is(Op::Add)) return words<uint8_t>(n);
    return false;
  }

  UOp root_, unsafe_node_;
  size_t unsafe_ = 0;
  std::vector<UOp> order_;
  std::map<const Node*, std::vector<char>> at_;
  std::map<int, UOp> inputs_;
};

}  // namespace mote
