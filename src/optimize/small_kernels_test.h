// For tests: kernels of a few loops, of every kind that actions treat differently.
#pragma once
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "algebra/algebra.h"
#include "ir/print.h"
#include "ir/spec.h"
#include "lower/lower.h"
#include "runtime/interp_program.h"

namespace mote {

inline UOp at(UOp memory, UOp position) {
  return make(Op::Index, memory->dtype, {memory, position});
}

inline UOp kernel(UOp place, UOp value, std::initializer_list<UOp> loops) {
  std::vector<UOp> end{make(Op::Store, DType::none, {place, value})};
  end.insert(end.end(), loops);
  return make(Op::Sink, DType::none, {make(Op::End, DType::none, end)}, Arg::of(intern_arg({})));
}

// c[i, j] = sum over k of a[i, k] * b[k, j], in i32 so that any order gives the same bits.
inline UOp matmul_body(int64_t m, int64_t n, int64_t k) {
  UOp c = param(0, DType::i32, m * n), a = param(1, DType::i32, m * k),
      b = param(2, DType::i32, k * n);
  UOp i = range(0, index(m), Role::Loop), j = range(1, index(n), Role::Loop),
      r = range(2, index(k), Role::Reduce);
  UOp over[] = {r};
  UOp value = reduce_over(Op::Add, at(a, i * k + r) * at(b, r * n + j), over);
  return kernel(at(c, i * n + j), value, {i, j});
}

// out[i, j] = x[i, j] + sum over k of x[i, k]: two nests that share no value but scalars.
inline UOp row_sums_added() {
  UOp out = param(0, DType::f32, 512), x = param(1, DType::f32, 512);
  UOp i = range(0, index(8), Role::Loop), j = range(1, index(64), Role::Loop),
      k = range(2, index(64), Role::Reduce);
  UOp over[] = {k};
  return kernel(at(out, i * 64 + j),
                at(x, i * 64 + j) + reduce_over(Op::Add, at(x, i * 64 + k), over), {i, j});
}

// out[x] = sum over t and o of a[x + ahead - t] * w[o, t] where that is in a.
inline UOp window_of(int64_t outputs, int64_t taps, int64_t ahead) {
  UOp out = param(0, DType::i32, outputs), a = param(1, DType::i32, outputs + ahead),
      w = param(2, DType::i32, 4 * taps);
  UOp x = range(0, index(outputs), Role::Loop), t = range(1, index(taps), Role::Reduce),
      o = range(2, index(4), Role::Reduce);
  UOp inside = logical_not(lt(x, t + -ahead)), over[] = {t, o};
  UOp product = at(a, gated(inside, x - t + ahead)) * at(w, o * taps + t);
  UOp value = where(inside, product, constant(DType::i32, 0));
  return kernel(at(out, x), reduce_over(Op::Add, value, over), {x});
}
inline UOp window() { return window_of(8, 3, 0); }
inline UOp whole_window() { return window_of(4, 5, 1); }  // the last output needs all taps

// out[y, x] = sum over ky, kx and c of a[c, y*step + ky*apart - 1, x*step + kx*apart - 1] where that
// is in a, times w[c, ky, kx].
inline UOp padded_windows(int64_t step, int64_t apart) {
  constexpr int64_t h = 7, w = 6;
  const int64_t rows = (h + 1 - 2 * apart) / step + 1, columns = (w + 1 - 2 * apart) / step + 1;
  UOp y = range(0, index(rows), Role::Loop), x = range(1, index(columns), Role::Loop),
      ky = range(2, index(3), Role::Reduce), kx = range(3, index(3), Role::Reduce),
      c = range(4, index(2), Role::Reduce), over[] = {ky, kx, c};
  UOp i = y * step + ky * apart + -1, j = x * step + kx * apart + -1;
  UOp inside = logical_not(lt(i, index(0))) & lt(i, index(h)) & logical_not(lt(j, index(0))) &
               lt(j, index(w));
  UOp a = at(param(1, DType::i32, 2 * h * w), gated(inside, c * (h * w) + i * w + j));
  UOp value =
      where(inside, a, constant(DType::i32, 0)) * at(param(2, DType::i32, 18), c * 9 + ky * 3 + kx);
  return simplify(kernel(at(param(0, DType::i32, rows * columns), y * columns + x),
                         reduce_over(Op::Add, value, over), {y, x}));
}
inline UOp plain_windows() { return padded_windows(1, 1); }
inline UOp strided_windows() { return padded_windows(2, 1); }
inline UOp dilated_windows() { return padded_windows(1, 2); }
inline UOp uneven_windows() { return padded_windows(3, 2); }

// The sum of 54 elements.
inline UOp sum_of_all() {
  UOp k = range(0, index(3), Role::Reduce), j = range(1, index(9), Role::Reduce),
      i = range(2, index(2), Role::Reduce), over[] = {k, j, i};
  UOp value = reduce_over(Op::Add, at(param(1, DType::i32, 54), i * 27 + j * 3 + k), over);
  return kernel(at(param(0, DType::i32, 1), index(0)), value, {});
}

// The product of five ones, which depends on none of its loops.
inline UOp product_of_ones() {
  UOp k = range(0, index(5), Role::Reduce);
  UOp src[] = {constant(DType::i32, 1), k};
  int64_t op[] = {static_cast<int64_t>(Op::Mul)};
  UOp value = make(Op::Reduce, DType::i32, src, Arg::of(intern_arg(op)));
  return kernel(at(param(0, DType::i32, 1), index(0)), value, {});
}

// The first position of a row's largest element, of rows whose elements are all the same.
inline UOp first_of_equal() {
  return parse(R"(%0 = Param i32 [0 8 global 0]
%1 = Range index 8 [0 loop]
%2 = Index i32 %0 %1
%3 = Param i32 [1 8 global 0]
%4 = Index i32 %3 %1
%5 = Range index 4 [1 reduce]
%6 = Stage i32 %4 %5 %5 [local 4]
%7 = Range index 4 [2 reduce]
%8 = Index i32 %6 %7
%9 = Eq bool %8 %4
%10 = Cast i32 %7
%11 = Where i32 %9 %10 4:i32
%12 = Reduce i32 %11 %7 [Min]
%13 = Store void %2 %12
%14 = End void %13 %1
%15 = Sink void %14
)");
}

// out[x] = the sum over o of w[o] where the sum of a[x, :] is positive.
inline UOp gated_by_a_sum() {
  UOp x = range(0, index(8), Role::Loop), k = range(1, index(3), Role::Reduce),
      o = range(2, index(4), Role::Reduce), over_k[] = {k}, over_o[] = {o};
  UOp sum = reduce_over(Op::Add, at(param(1, DType::i32, 24), x * 3 + k), over_k);
  UOp value = where(lt(constant(DType::i32, 0), sum), at(param(2, DType::i32, 4), o),
                    constant(DType::i32, 0));
  return kernel(at(param(0, DType::i32, 8), x), reduce_over(Op::Add, value, over_o), {x});
}

// out[x] = sum over t, o and u of w[t, o, u] * a[x] where t is below 2.
inline UOp some_of_three() {
  UOp x = range(0, index(4), Role::Loop), t = range(1, index(3), Role::Reduce),
      o = range(2, index(4), Role::Reduce), u = range(3, index(2), Role::Reduce),
      over[] = {t, o, u};
  UOp value = at(param(1, DType::i32, 24), t * 8 + o * 2 + u) * at(param(2, DType::i32, 4), x);
  value = where(lt(t, index(2)), value, constant(DType::i32, 0));
  return kernel(at(param(0, DType::i32, 4), x), reduce_over(Op::Add, value, over), {x});
}

// out[x, y] = (r[x] + a[x]) * b[y] + r[x] where r[x] is the sum over t and o of w[t, o, x] for
// those t that `runs` is true for.
inline UOp sum_used_twice(UOp (*runs)(UOp x, UOp t)) {
  UOp x = range(0, index(3), Role::Loop), y = range(1, index(2), Role::Loop),
      t = range(2, index(4), Role::Reduce), o = range(3, index(2), Role::Reduce), over[] = {t, o};
  UOp term = where(runs(x, t), at(param(1, DType::i32, 24), (t * 2 + o) * 3 + x),
                   constant(DType::i32, 0));
  UOp sum = reduce_over(Op::Add, term, over);
  UOp value = (sum + at(param(2, DType::i32, 3), x)) * at(param(3, DType::i32, 2), y) + sum;
  return kernel(at(param(0, DType::i32, 6), x * 2 + y), value, {x, y});
}
inline UOp early_sum_used_twice() {
  return sum_used_twice([](UOp, UOp t) { return lt(t, index(2)); });
}
inline UOp later_sum_used_twice() {
  return sum_used_twice([](UOp x, UOp t) { return lt(t, x); });
}

// a[x] = sum over k of the lesser of a[x] and w[k], in place.
inline UOp in_place() {
  UOp a = param(0, DType::i32, 6), x = range(0, index(6), Role::Loop),
      k = range(1, index(8), Role::Reduce), over[] = {k};
  UOp value = binary(Op::Min, at(a, x), at(param(1, DType::i32, 8), k));
  return kernel(at(a, x), reduce_over(Op::Add, value, over), {x});
}

// For r, q in order: out[f[r, q], o] = 3 * out[f[r, q], o] + v[r, q, o], where there is such a
// place. Another order gives something else.
inline UOp in_order() {
  UOp r = range(0, index(6), Role::Ordered), q = range(1, index(4), Role::Ordered),
      o = range(2, index(8), Role::Loop), out = param(0, DType::i32, 40);
  UOp f = cast(at(param(1, DType::i32, 24), r * 4 + q), DType::index);
  UOp place = at(out, gated(ge(f, index(0)) & lt(f, index(5)), f * 8 + o));
  UOp v = at(param(2, DType::i32, 192), r * 32 + q * 8 + o);
  return kernel(place, place * constant(DType::i32, 3) + v, {r, q, o});
}

// out[i, j] = a[i] * w[j], and a is doubled in place beside it.
inline UOp in_place_beside() {
  UOp a = param(1, DType::i32, 6), i = range(0, index(6), Role::Loop),
      j = range(1, index(4), Role::Loop);
  UOp product = at(a, i) * at(param(2, DType::i32, 4), j);
  UOp outer = make(Op::Store, DType::none, {at(a, i), at(a, i) + at(a, i)}),
      inner = make(Op::Store, DType::none, {at(param(0, DType::i32, 24), i * 4 + j), product});
  return make(Op::Sink, DType::none,
              {make(Op::End, DType::none, {inner, i, j}), make(Op::End, DType::none, {outer, i})},
              Arg::of(intern_arg({})));
}

// out[i, j] = sum over k of a[i, k] * b[k, j].
inline UOp product(DType d, int64_t n) {
  UOp i = range(0, index(n), Role::Loop), j = range(1, index(n + 3), Role::Loop),
      k = range(2, index(n + 1), Role::Reduce), over[] = {k};
  UOp value = at(param(1, d, n * (n + 1)), i * (n + 1) + k) *
              at(param(2, d, (n + 1) * (n + 3)), k * (n + 3) + j);
  return kernel(at(param(0, d, n * (n + 3)), i * (n + 3) + j), reduce_over(Op::Add, value, over),
                {i, j});
}
inline UOp product() { return product(DType::i32, 5); }

// Two outputs over the same loops: the sum of a row and the largest of its elements.
inline UOp two_outputs() {
  UOp a = param(2, DType::i32, 35);
  UOp x = range(0, index(5), Role::Loop), k = range(1, index(7), Role::Reduce), over[] = {k};
  auto end = [&](int slot, Op fold) {
    UOp place = at(param(slot, DType::i32, 5), x);
    UOp value = reduce_over(fold, at(a, x * 7 + k), over);
    return make(Op::End, DType::none, {make(Op::Store, DType::none, {place, value}), x});
  };
  return make(Op::Sink, DType::none, {end(0, Op::Add), end(1, Op::Max)}, Arg::of(intern_arg({})));
}

// out[x] = sum over k of a[x, k] * (the largest of a[x, :] over m).
inline UOp sum_by_largest() {
  UOp a = param(1, DType::i32, 24), x = range(0, index(4), Role::Loop),
      m = range(1, index(6), Role::Reduce), k = range(2, index(6), Role::Reduce), over_m[] = {m},
      over_k[] = {k};
  UOp largest = reduce_over(Op::Max, at(a, x * 6 + m), over_m);
  return kernel(at(param(0, DType::i32, 4), x),
                reduce_over(Op::Add, at(a, x * 6 + k) * largest, over_k), {x});
}

// out[c, y, x] = sum over window and channels of a[i, y + v, x + u] * w[c, i, v, u], a padded by 1.
inline UOp padded_windows() {
  UOp c = range(0, index(2), Role::Loop), y = range(1, index(4), Role::Loop),
      x = range(2, index(4), Role::Loop), i = range(3, index(2), Role::Reduce),
      v = range(4, index(3), Role::Reduce), u = range(5, index(3), Role::Reduce),
      over[] = {i, v, u};
  UOp row = y + v, column = x + u;
  UOp inside = logical_not(lt(row, index(1))) & lt(row, index(5)) &
               logical_not(lt(column, index(1))) & lt(column, index(5));
  UOp read = at(param(1, DType::i32, 32), gated(inside, i * 16 + row * 4 + column + -5));
  UOp value = where(inside, read * at(param(2, DType::i32, 36), ((c * 2 + i) * 3 + v) * 3 + u),
                    constant(DType::i32, 0));
  return kernel(at(param(0, DType::i32, 32), (c * 4 + y) * 4 + x),
                reduce_over(Op::Add, value, over), {c, y, x});
}

// out[h, q, d] = sum over k of softmax over k <= q of (sum over c of a[h, q, c] * b[h, k, c]) times
// v[h, k, d]: 2 heads, 6 rows, 4 and 5 features. Scores, exponentials and weights are staged by
// row.
inline const char* attention = R"(%0 = Param f32 [0 60 global 0]
%1 = Range index 5 [2 loop]
%2 = Range index 2 [0 loop]
%3 = Mul index %2 30
%4 = Range index 6 [1 loop]
%5 = Mul index %4 5
%6 = Add index %3 %5
%7 = Add index %1 %6
%8 = Index f32 %0 %7
%9 = Range index 6 [7 reduce]
%10 = Lt bool %4 %9
%11 = Param f32 [3 48 global 0]
%12 = Range index 4 [5 reduce]
%13 = Mul index %2 24
%14 = Mul index %4 4
%15 = Add index %13 %14
%16 = Add index %12 %15
%17 = Index f32 %11 %16
%18 = Param f32 [2 48 global 0]
%19 = Range index 6 [6 loop]
%20 = Mul index %19 4
%21 = Add index %13 %20
%22 = Add index %12 %21
%23 = Index f32 %18 %22
%24 = Mul f32 %17 %23
%25 = Reduce f32 %24 %12 [Add]
%26 = Stage f32 %25 %19 %19 [local 6]
%27 = Index f32 %26 %9
%28 = Mul f32 %27 0.5:f32
%29 = Where f32 %10 -inf:f32 %28
%30 = Range index 6 [4 reduce]
%31 = Lt bool %4 %30
%32 = Index f32 %26 %30
%33 = Mul f32 %32 0.5:f32
%34 = Where f32 %31 -inf:f32 %33
%35 = Reduce f32 %34 %30 [Max]
%36 = Neg f32 %35
%37 = Add f32 %29 %36
%38 = Exp f32 %37
%39 = Stage f32 %38 %9 %9 [local 6]
%40 = Range index 6 [8 loop]
%41 = Index f32 %39 %40
%42 = Reduce f32 %38 %9 [Add]
%43 = Div f32 %41 %42
%44 = Stage f32 %43 %40 %40 [local 6]
%45 = Range index 6 [3 reduce]
%46 = Index f32 %44 %45
%47 = Param f32 [1 60 global 0]
%48 = Add index %3 %1
%49 = Mul index %45 5
%50 = Add index %48 %49
%51 = Index f32 %47 %50
%52 = Mul f32 %46 %51
%53 = Reduce f32 %52 %45 [Add]
%54 = Store void %8 %53
%55 = End void %54 %2 %4 %1
%56 = Sink void %55
)";

// All memory after the kernel has run on numbers that are always the same. Every access is checked.
inline std::vector<double> run_small(UOp body) {
  const Program p = lower(body, Target{});
  verify(p.linear, Stage::Program, "lower");
  std::map<int64_t, UOp> params;
  for (UOp n : toposort(body))
    if (n->is(Op::Param)) params.emplace(n->ints(0), n);
  std::vector<std::vector<int32_t>> words;  // of i32 or f32
  std::vector<void*> buffers;
  for (const auto& [slot, memory] : params) {
    std::vector<int32_t>& of = words.emplace_back(static_cast<size_t>(memory->ints(1)));
    for (size_t i = 0; i < of.size(); ++i) {
      const int number = static_cast<int>((i + 1) * (7 + 4 * static_cast<size_t>(slot)) % 23) - 9;
      of[i] = memory->dtype == DType::i32 ? number : std::bit_cast<int32_t>(number / 8.0f);
    }
    buffers.resize(static_cast<size_t>(slot) + 1);
    buffers.back() = of.data();
  }
  InterpProgram(p.linear, p.name, {}).run(buffers, {}, 0, p.global_extent);
  std::vector<double> out;
  auto of = words.begin();
  for (const auto& [slot, memory] : params)
    for (int32_t word : *of++)
      out.push_back(memory->dtype == DType::i32 ? word : std::bit_cast<float>(word));
  return out;
}

}  // namespace mote
