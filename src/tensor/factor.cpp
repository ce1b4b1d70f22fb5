#include <algorithm>
#include <cmath>

#include "tensor/factor_steps.h"
#include "tensor/gather.h"
#include "tensor/operators.h"

namespace mote::factor {

// ---- steps

Tensor rows_of(const Tensor& t) {
  return iota_tensor(t.size(1), DType::i32, t.impl()->device).unsqueeze(1);
}
Tensor columns_of(const Tensor& t) { return iota_tensor(t.size(2), DType::i32, t.impl()->device); }

Tensor column(const Tensor& t, const Tensor& k) { return select_at(t, 2, k); }
Tensor row(const Tensor& t, const Tensor& k) { return select_at(t, 1, k); }

Tensor in_order(const Tensor& t, const Tensor& order) {
  std::vector<Dim> dims = dims_of(t);
  dims[1] = dims_of(order)[1];
  return gather_at(t, 1, broadcast_tensor(order.unsqueeze(-1), dims));
}

Tensor stored(const Tensor& t) { return make_value(prim::contiguous(node_of(t)), t); }

Tensor kept(const Tensor& t) {
  Tensor s = stored(t);
  realize({s});
  return s;
}

Tensor direction(const Tensor& a, const Tensor& k, const Tensor& from) {
  Tensor i = rows_of(a);
  Tensor own = where(i < from, 0, column(a, k)), most = own.abs().amax(1, true);
  Tensor x = stored(own / where(most.eq(0), 1, most)), head = row(x, from);
  Tensor tail = where(i > from, x, 0).square().sum(1, true), none = tail.eq(0);
  Tensor length = (tail + head * head).sqrt();
  Tensor first = head + where(head < 0, -length, length);
  Tensor scale = where(none, 0, (2 / where(none, 1, tail + first * first)).sqrt());
  return stored(where(i.eq(from), first, x) * stored(scale));
}

Tensor reflect(const Tensor& v, const Tensor& x, bool last_first) {
  Tensor inverse = kept(v.mT().matmul(v)), y = v.mT().matmul(x);
  y = last_first ? substitute(inverse.flip(Axes{1, 2}), y.flip(1), true).flip(1)
                 : substitute(inverse, y, true);
  return stored(x - v.matmul(y));
}

namespace {

Tensor part(const Tensor& t, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return t.narrow(1, row, rows).narrow(2, column, columns);
}
// Zeros below, so that panels have one height and their kernels are the same. Zeros are no pivots,
// and no reflection touches them.
Tensor lengthened(const Tensor& t, int64_t by) { return t.pad({0, 0, 0, by}); }
// Where n columns are cut, so that most panels have one size.
int64_t half_of(int64_t n) { return (n + 2 * kPanel - 1) / (2 * kPanel) * kPanel; }

// From the left: column k divided by its root, its products taken from what is right of it.
Tensor cholesky_panel(const Tensor& a) {
  std::vector<Tensor> state = {a};
  Tensor i = rows_of(a), j = columns_of(a);
  run_steps(0, a.size(1), 1, state, [&](const Tensor& k, std::vector<Tensor>& s) {
    Tensor own = stored(column(s[0], k)), root = row(own, k).sqrt();
    Tensor l = stored(where(i < k, 0, where(i.eq(k), root, own / root)));
    s[0] = where(j.eq(k), l, where(j > k, s[0] - l * l.mT(), s[0]));
  });
  return state[0].tril();
}

// Partial pivoting: the largest element of what is left of column k becomes its first.
Pivoted lu_panel(const Tensor& a) {
  const int64_t batch = a.size(0), n = a.size(1), steps = std::min(n, a.size(2));
  Tensor i = rows_of(a), j = columns_of(a), at = iota_tensor(n, DType::i32, a.impl()->device);
  Tensor order = broadcast_tensor(at, std::vector<Dim>{batch, n});
  Tensor pivots = zeros({batch, steps}, {DType::i32, a.device()});
  Tensor step_at = iota_tensor(steps, DType::i32, a.impl()->device);
  std::vector<Tensor> state = {a, order, pivots};
  run_steps(0, steps, 1, state, [&](const Tensor& k, std::vector<Tensor>& s) {
    Tensor size = stored(where(i < k, -1, column(s[0], k).abs()).squeeze(-1));
    // The first of the largest; NaNs are.
    Tensor best = stored(where(size < size.amax(Axes{1}, true), n, at).amin(Axes{1}, true));
    Tensor from = where(at.eq(k), best, where(at.eq(best), k, at));
    Tensor top = stored(in_order(s[0], best)), pivot = column(top, k);
    Tensor swapped = in_order(s[0], from);
    Tensor l = stored(column(swapped, k) / where(pivot.eq(0), 1, pivot));
    Tensor below = i > k;
    s[0] = where(below & j.eq(k), l, where(below & (j > k), swapped - l * top, swapped));
    s[1] = gather_at(s[1], 1, from);
    s[2] = where(step_at.eq(k), best, s[2]);
  });
  return {state[0], state[2], state[1]};
}

Tensor substitute_panel(const Tensor& l, const Tensor& b, bool unit) {
  std::vector<Tensor> state = {b, l};
  Tensor i = rows_of(b);
  run_steps(0, b.size(1), 1, state, [&](const Tensor& k, std::vector<Tensor>& s) {
    Tensor own = column(s[1], k), x = row(s[0], k);
    if (!unit) x = x / row(own, k);
    s[0] = where(i.eq(k), x, where(i > k, s[0] - own * x, s[0]));
  });
  return state[0];
}

}  // namespace

Tensor cholesky(const Tensor& a) {
  const AsRealized from_memory;
  const int64_t n = a.size(1), h = half_of(n), rest = n - h;
  if (n <= kPanel) return cholesky_panel(a);
  Tensor top = cholesky(part(a, 0, h, 0, h));
  Tensor left = kept(substitute(top, part(a, h, rest, 0, h).mT(), false).mT());
  Tensor low = cholesky(kept(part(a, h, rest, h, rest) - left.matmul(left.mT())));
  return kept(cat({top.pad({0, rest}), cat({left, low}, 2)}, 1));
}

Tensor substitute(const Tensor& l, const Tensor& b, bool unit) {
  const AsRealized from_memory;
  const int64_t n = b.size(1), h = half_of(n), rest = n - h;
  if (n <= kPanel) return substitute_panel(l, b, unit);
  Tensor top = substitute(part(l, 0, h, 0, h), b.narrow(1, 0, h), unit);
  Tensor left = kept(b.narrow(1, h, rest) - part(l, h, rest, 0, h).matmul(top));
  return kept(cat({top, substitute(part(l, h, rest, h, rest), left, unit)}, 1));
}

// The left half of the columns, what it does to the right one, and what is left of that.
Pivoted lu(const Tensor& a) {
  const AsRealized from_memory;
  const int64_t n = a.size(1), m = a.size(2), h = half_of(std::min(n, m));
  if (std::min(n, m) <= kPanel) return lu_panel(a);
  const Pivoted first = lu(part(a, 0, n, 0, h));
  Tensor right = kept(in_order(a.narrow(2, h, m - h), first.order));
  Tensor upper = substitute(part(first.lu, 0, h, 0, h), right.narrow(1, 0, h), true);
  Tensor under = first.lu.narrow(1, h, n - h);
  const int64_t steps = std::min(n, m) - h;
  Pivoted second = lu(kept(lengthened(right.narrow(1, h, n - h) - under.matmul(upper), h)));
  second = {second.lu.narrow(1, 0, n - h), second.pivots.narrow(1, 0, steps),
            second.order.narrow(1, 0, n - h)};
  Tensor top = cat({first.lu.narrow(1, 0, h), upper}, 2);
  Tensor bottom = cat({in_order(under, second.order), second.lu}, 2);
  Tensor order = gather_at(first.order.narrow(1, h, n - h), 1, second.order);
  return {kept(cat({top, bottom}, 1)), kept(cat({first.pivots, second.pivots + h}, 1)),
          kept(cat({first.order.narrow(1, 0, h), order}, 1))};
}

namespace {

struct Reflected {
  Tensor r, v;
};
// Column k of v is the direction of the k-th reflection.
Reflected reflected(const Tensor& a) {
  const int64_t steps = std::min(a.size(1), a.size(2));
  Tensor at = iota_tensor(steps, DType::i32, a.impl()->device);
  std::vector<Tensor> state = {a, a.narrow(2, 0, steps).zeros_like()};
  run_steps(0, steps, 1, state, [&](const Tensor& k, std::vector<Tensor>& s) {
    Tensor v = direction(s[0], k, k);
    s[0] = s[0] - v * (v * s[0]).sum(1, true);
    s[1] = where(at.eq(k), v, s[1]);
  });
  return {state[0].triu(), state[1]};
}

}  // namespace

Orthogonal qr(const Tensor& a, int64_t columns) {
  const AsRealized from_memory;
  const int64_t n = a.size(1), m = a.size(2), steps = std::min(n, m);
  // Scaled, so that no square leaves the range.
  Tensor scale = a.abs().amax(Axes{1, 2}, true);
  scale = stored(where(scale.eq(0) | scale.isfinite().logical_not(), 1, scale));
  Tensor rest = kept(a / scale);
  std::vector<Tensor> directions, rows;
  for (int64_t p = 0; p < steps; p += kPanel) {
    const int64_t w = std::min(kPanel, steps - p), right = m - p - w;
    const Reflected own = reflected(rest.narrow(2, 0, w));
    directions.push_back(own.v);
    Tensor done = own.r.narrow(1, 0, w);
    if (right > 0) {
      Tensor other = kept(reflect(own.v, rest.narrow(2, w, right), false));
      done = cat({done, other.narrow(1, 0, w)}, 2);
      rest = kept(lengthened(other.narrow(1, w, n - w), w));
    }
    rows.push_back(done.pad({p, 0}));
  }
  Tensor q = broadcast_tensor(eye(n, columns, {a.dtype(), a.device()}),
                              std::vector<Dim>{dims_of(a)[0], n, columns});
  for (int64_t p = (steps - 1) / kPanel * kPanel; p >= 0; p -= kPanel) {
    Tensor lower = reflect(directions.back(), lengthened(q.narrow(1, p, n - p), p), true);
    directions.pop_back();
    q = kept(p ? cat({q.narrow(1, 0, p), lower.narrow(1, 0, n - p)}, 1) : lower);
  }
  Tensor r = cat(rows, 1) * scale;
  const int64_t kept = std::min(columns, n);
  r = kept > steps ? r.pad({0, 0, 0, kept - steps}) : r.narrow(1, 0, kept);
  return {stored(q), stored(r)};
}

namespace {

// The halves of an axis of pairs, (i, i + half), in the order of the next round: element 0 stays,
// the others go round, so that in n - 1 rounds each meets each.
Tensor turned(const Tensor& top, const Tensor& bottom, int64_t axis) {
  const int64_t h = top.size(axis);
  auto cut = [&](const Tensor& t, int64_t first, int64_t count) {
    return t.narrow(axis, first, count);
  };
  if (h == 1) return cat({top, bottom}, axis);
  return cat({cut(top, 0, 1), cut(bottom, 0, 1), cut(top, 1, h - 2), cut(bottom, 1, h - 1),
              cut(top, h - 1, 1)},
             axis);
}

struct Rotation {
  Tensor cosine, sine;
};
// Makes the 2 x 2 matrix (p, r; r, q) diagonal, by the smaller angle.
Rotation rotation(const Tensor& p, const Tensor& q, const Tensor& r) {
  Tensor none = r.eq(0), slope = (q - p) / (2 * where(none, 1, r));
  Tensor size = slope.abs(), far = size > 1e15;
  Tensor near = where(far, 1, size);
  Tensor t = where(far, 0.5 / where(far, size, 1), 1 / (near + (near * near + 1).sqrt()));
  t = where(none, 0, where(slope < 0, -t, t));
  Tensor cosine = 1 / (t * t + 1).sqrt();
  return {stored(cosine), stored(t * cosine)};
}

// Both halves of an axis after the rotation, in the order of the next round.
Tensor rotated(const Tensor& x, int64_t axis, const Tensor& c, const Tensor& s) {
  const int64_t h = x.size(axis) / 2;
  Tensor top = x.narrow(axis, 0, h), bottom = x.narrow(axis, h, h);
  return turned(c * top - s * bottom, s * top + c * bottom, axis);
}

int64_t sweeps_of(const Tensor& a) {
  int64_t more = 0;
  for (int64_t n = a.size(2); n > 8; n /= 4) ++more;
  return (a.dtype() == DType::f64 ? 12 : 6) + more;
}

Tensor identity(const Tensor& like, int64_t n) {
  return broadcast_tensor(eye(n, n, {like.dtype(), like.device()}),
                          std::vector<Dim>{like.size(0), n, n});
}

}  // namespace

// Jacobi's method, all pairs of a round at once. An odd matrix gets a row and a column of zeros,
// which no rotation mixes with others.
Spectrum eigh_by_rotations(const Tensor& given) {
  const int64_t size = given.size(1), n = size + size % 2;
  if (size == 1) return {given.squeeze(-1), given.ones_like()};
  Tensor scale = given.abs().amax(Axes{1, 2}, true);
  scale = where(scale.eq(0) | scale.isfinite().logical_not(), 1, scale);
  Tensor a = (given / scale).pad({0, n - size, 0, n - size});
  std::vector<Tensor> state = {a, identity(a, n)};
  const int64_t h = n / 2;
  run_steps(0, sweeps_of(a) * (n - 1), 0, state, [&](const Tensor&, std::vector<Tensor>& s) {
    Tensor diagonal = s[0].diagonal(0, 1, 2);
    auto [c, sine] =
        rotation(diagonal.narrow(1, 0, h), diagonal.narrow(1, h, h), s[0].diagonal(h, 1, 2));
    Tensor columns = stored(rotated(s[0], 2, c.unsqueeze(1), sine.unsqueeze(1)));
    s[0] = rotated(columns, 1, c.unsqueeze(2), sine.unsqueeze(2));
    s[1] = rotated(s[1], 2, c.unsqueeze(1), sine.unsqueeze(1));
  });
  Tensor values = state[0].diagonal(0, 1, 2), vectors = state[1];
  if (size < n) {  // the added one is where its row of the vectors says
    Tensor added = vectors.select(1, n - 1).ne(0);
    values = where(added, INFINITY, values);
    vectors = vectors.narrow(1, 0, size);
  }
  Tensor order = values.argsort(1).narrow(1, 0, size);
  std::vector<Dim> dims = {given.size(0), size, size};
  return {stored(gather_at(values, 1, order) * scale.squeeze(-1)),
          stored(gather_at(vectors, 2, broadcast_tensor(order.unsqueeze(1), dims)))};
}

namespace {

// Columns v, orthogonal, and w = a v, orthogonal as well.
struct Turned {
  Tensor w, v;
};

// Hestenes' method: the columns are made orthogonal by rotations from the right.
Turned turned_by_rotations(const Tensor& given) {
  const int64_t m = given.size(2), n = m + m % 2, h = n / 2;
  // From where large directions are apart already; rotations see to the small ones.
  Tensor start = identity(given, m);
  if (m > 2 * kPanel) start = kept(eigh(kept(given.mT().matmul(given))).vectors.flip(2));
  Tensor a = kept(given.matmul(start).pad({0, n - m}));
  Tensor v = start.pad({0, n - m, 0, n - m});
  if (m < n) v = v + where(rows_of(v).eq(m) & columns_of(v).eq(m), 1, 0).to(v.dtype());
  std::vector<Tensor> state = {a, v};
  run_steps(0, m == 1 ? 0 : sweeps_of(a) * (n - 1), 0, state,
            [&](const Tensor&, std::vector<Tensor>& s) {
              Tensor top = s[0].narrow(2, 0, h), bottom = s[0].narrow(2, h, h);
              Tensor p = top.square().sum(1), q = bottom.square().sum(1), r = (top * bottom).sum(1);
              auto [c, sine] = rotation(stored(p), stored(q), stored(r));
              for (Tensor& t : s) t = rotated(t, 2, c.unsqueeze(1), sine.unsqueeze(1));
            });
  return {state[0], state[1]};
}

// By the eigenvectors of the columns' products, which f64 holds exactly enough for f32.
Turned turned_by_products(const Tensor& given) {
  Tensor a = given.to_double(), v = eigh(kept(a.mT().matmul(a))).vectors;
  return {kept(a.matmul(v).to_float()), kept(v.to_float())};
}

}  // namespace

// Of the triangular factor. The directions of w are those of another QR, which completes what
// belongs to zeros.
Singular svd(const Tensor& given, int64_t columns) {
  const AsRealized from_memory;
  const int64_t batch = given.size(0), m = given.size(2);
  Tensor scale = given.abs().amax(Axes{1, 2}, true);
  scale = where(scale.eq(0) | scale.isfinite().logical_not(), 1, scale);
  Orthogonal first = qr(given / scale, m);
  // Rows of the triangle fall off in size: its transpose converges faster.
  Tensor a = first.r.mT();
  const bool by_products = given.dtype() == DType::f32 && m > 2 * kPanel;
  Turned t = by_products ? turned_by_products(a) : turned_by_rotations(a);
  // r^T v = w, w with orthogonal columns: r = v s z^T, with w = z s.
  Tensor w = t.w, v = t.v;
  Tensor sizes = w.square().sum(1).sqrt();
  if (v.size(1) > m) {  // the column of zeros
    Tensor added = v.select(1, m).ne(0);
    sizes = where(added, -1, sizes);
    v = v.narrow(1, 0, m);
  }
  Tensor order = kept(sizes.argsort(1, true).narrow(1, 0, m));
  std::vector<Dim> dims = {batch, m, m};
  Tensor by_column = broadcast_tensor(order.unsqueeze(1), dims);
  Tensor s = kept(gather_at(sizes, 1, order));
  Orthogonal z = qr(kept(gather_at(w, 2, by_column)), m);
  Tensor flips = where(z.r.diagonal(0, 1, 2) < 0, -1, 1).to(s.dtype());
  Tensor right = stored(z.q * flips.unsqueeze(1));
  Tensor left = kept(first.q.matmul(kept(gather_at(v, 2, by_column))));
  if (columns > m) {
    Orthogonal whole = qr(left, columns);
    Tensor same = where(whole.r.diagonal(0, 1, 2) < 0, -1, 1).to(s.dtype()).unsqueeze(1);
    left = stored(whole.q * same.pad({0, columns - m}, "constant", 1));
  }
  return {left, stored(s * scale.squeeze(-1)), right};
}

}  // namespace mote::factor
