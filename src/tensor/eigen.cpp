// Eigenvectors of large symmetric matrices: reflections make the matrix tridiagonal, and its blocks
// are joined in pairs (Cuppen; Gu and Eisenstat). Small ones are done by Jacobi's method.
#include <algorithm>

#include "tensor/factor_steps.h"
#include "tensor/gather.h"
#include "tensor/operators.h"

namespace mote::factor {

namespace {

constexpr int64_t kLeaf = 8;

double eps_of(const Tensor& t) { return t.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23; }

Tensor last_one(const Tensor& t, int64_t at) { return t.narrow(-1, at, 1); }

struct Tridiagonal {
  Tensor diagonal, beside;         // (batch, n), (batch, n - 1)
  std::vector<Tensor> directions;  // of reflections, by panels
};
Tridiagonal tridiagonal(const Tensor& a) {
  const int64_t n = a.size(1);
  Tridiagonal out;
  std::vector<Tensor> state = {a, {}};
  for (int64_t p = 0; p < n - 2; p += kPanel) {
    const int64_t steps = std::min(kPanel, n - 2 - p);
    Tensor at = iota_tensor(steps, DType::i32, a.impl()->device) + p;
    state[1] = a.narrow(2, 0, steps).zeros_like();
    run_steps(p, steps, 1, state, [&](const Tensor& k, std::vector<Tensor>& s) {
      const Tensor v = direction(s[0], k, k + 1);
      Tensor u = stored(s[0].matmul(v));
      Tensor w = stored(u - v * ((v * u).sum(1, true) * 0.5));
      s[0] = s[0] - (v * w.mT() + w * v.mT());
      s[1] = where(at.eq(k), v, s[1]);
    });
    out.directions.push_back(state[1]);
  }
  out.diagonal = kept(state[0].diagonal(0, 1, 2));
  out.beside = kept(state[0].diagonal(-1, 1, 2));
  return out;
}

// Joined halves of blocks: ascending values (blocks, 2 s), and vectors in terms of those of the
// halves, whose elements of both sides of the cut are z. The matrix is diag(poles) + rho z z^T.
struct Joined {
  Tensor values, vectors;
};
Joined joined(const Tensor& given_poles, const Tensor& given_z, const Tensor& rho,
              const Tensor& norm) {
  const int64_t n = given_poles.size(1);
  const double eps = eps_of(given_poles);
  Tensor order = kept(given_poles.argsort(1).to(DType::i32));
  Tensor z = gather_at(given_z, 1, order);
  z = kept(where(z.abs() < eps, where(z < 0, -eps, eps), z));
  // Poles keep apart, and each counts: changes as small as rounding, with which all is well defined.
  Tensor at = iota_tensor(n, given_poles.dtype(), given_poles.impl()->device);
  Tensor step = norm * (4 * eps) * at;
  Tensor poles = kept((gather_at(given_poles, 1, order) - step).cummax(1).values + step);
  Tensor squares = kept(rho * z.square());
  // Root j lies between pole j and the next; it is counted from the nearer of them.
  Tensor reach = squares.sum(1, true);
  Tensor next = kept(cat({poles.narrow(1, 1, n - 1), last_one(poles, n - 1) + reach}, 1));
  Tensor half = (next - poles) * 0.5;
  auto sum_at = [&](const Tensor& origin, const Tensor& offset) {  // (blocks, n) of j
    Tensor d = poles.unsqueeze(2) - origin.unsqueeze(1) - offset.unsqueeze(1);
    return 1 + (squares.unsqueeze(2) / d).sum(1);
  };
  Tensor is_last = at.eq(n - 1);
  Tensor near_next = kept((sum_at(poles, half) < 0) & is_last.logical_not());
  Tensor origin = kept(where(near_next, next, poles)),
         sign = kept(where(near_next, -1, 1).to(z.dtype()));
  const DType bits = z.dtype() == DType::f64 ? DType::i64 : DType::i32;
  Tensor most = where(is_last, reach * (1 + 8 * eps), half);
  std::vector<Tensor> state = {kept(most.bitcast(bits).zeros_like()), kept(most).bitcast(bits)};
  // Halved as bit patterns: small offsets get as many digits as large ones.
  run_steps(0, bits == DType::i64 ? 62 : 31, 1, state, [&](const Tensor&, std::vector<Tensor>& s) {
    Tensor half_way = elementwise(Op::Shr, {s[1] - s[0], 1}, bits);
    Tensor middle = stored(s[0] + half_way);
    Tensor f = stored(sum_at(origin, sign * middle.bitcast(z.dtype())) * sign);
    s[0] = where(f < 0, middle, s[0]);
    s[1] = where(f < 0, s[1], middle);
  });
  Tensor offset = kept(sign * state[1].bitcast(z.dtype()));
  // How far root j lies above pole i, and what z would give exactly these roots.
  Tensor above = kept(offset.unsqueeze(1) - (poles.unsqueeze(2) - origin.unsqueeze(1)));
  Tensor i = iota_tensor(n, DType::i32, z.impl()->device).unsqueeze(1);
  Tensor j = iota_tensor(n, DType::i32, z.impl()->device);
  Tensor other = where(j < i, poles.unsqueeze(1), next.unsqueeze(1)) - poles.unsqueeze(2);
  Tensor exact = kept((above / where(j.eq(n - 1), 1, other)).prod(2).abs().sqrt());
  Tensor u = kept(where(z < 0, -exact, exact).unsqueeze(2) / above);
  u = kept(u / u.abs().amax(Axes{1}, true));
  u = kept(u / u.square().sum(Axes{1}, true).sqrt());
  Tensor back = kept(order.argsort(1).to(DType::i32));
  return {kept(origin + offset), kept(in_order(u, back))};
}

}  // namespace

Spectrum eigh(const Tensor& given) {
  if (given.size(1) <= kLeaf) return eigh_by_rotations(given);
  const AsRealized from_memory;
  const int64_t batch = given.size(0), size = given.size(1);
  Tensor most = given.abs().amax(Axes{1, 2}, true);
  most = kept(where(most.isfinite(), most, 1));
  Tensor scale = where(most.eq(0), 1, most);
  const Tridiagonal t = tridiagonal(kept(given / scale));
  int64_t n = kLeaf;
  while (n < size) n *= 2;
  const double eps = eps_of(given);
  Tensor size_of_rows = t.diagonal.abs() + t.beside.abs().pad({1, 0}) + t.beside.abs().pad({0, 1});
  Tensor norm = kept(size_of_rows.amax(Axes{1}, true).clamp_min(1e-6));
  // Further rows have values of their own, beyond all others.
  Tensor far = norm * (4 + arange(n - size, {given.dtype(), given.device()}) *
                               (4.0 / static_cast<double>(n)));
  Tensor diagonal = n > size ? cat({t.diagonal, far}, 1) : t.diagonal;
  Tensor beside = t.beside.pad({0, n - size + 1});
  // What joins two blocks is taken out of both of them.
  Tensor at = iota_tensor(n, DType::i32, given.impl()->device);
  Tensor cuts = ((at + 1) % kLeaf).eq(0) & (at < n - 1);
  Tensor strength = kept(where(cuts, beside.abs().maximum(norm * eps), 0));
  Tensor sign = kept(where(beside < 0, -1, 1).to(given.dtype()));
  diagonal = kept(diagonal - strength - strength.narrow(1, 0, n - 1).pad({1, 0}));
  beside = kept(where(cuts, 0, beside));
  Tensor local = diagonal.reshape({batch * n / kLeaf, kLeaf}),
         next = beside.reshape({batch * n / kLeaf, kLeaf});
  Tensor row = iota_tensor(kLeaf, DType::i32, given.impl()->device).unsqueeze(1);
  Tensor column_at = row.squeeze(1);
  Tensor before = next.narrow(1, 0, kLeaf - 1).pad({1, 0});
  Tensor leaf = where(row.eq(column_at), local.unsqueeze(2), 0) +
                where((row + 1).eq(column_at), next.unsqueeze(2), 0) +
                where(row.eq(column_at + 1), before.unsqueeze(2), 0);
  Spectrum s = eigh_by_rotations(kept(leaf));
  for (int64_t half = kLeaf; half < n; half *= 2) {
    const int64_t blocks = batch * n / (2 * half);
    Tensor poles = s.values.reshape({blocks, 2 * half});
    Tensor pairs = s.vectors.reshape({blocks, 2, half, half});
    Tensor first = pairs.select(1, 0), second = pairs.select(1, 1);
    auto at_cut = [&](const Tensor& x) {
      return last_one(x.reshape({blocks, 2 * half}).narrow(1, 0, half), half - 1);
    };
    Tensor z = cat({first.select(1, half - 1), at_cut(sign) * second.select(1, 0)}, 1);
    Tensor norms = broadcast_tensor(norm.unsqueeze(1), std::vector<Dim>{batch, blocks / batch, 1})
                       .reshape({blocks, 1});
    const Joined j = joined(kept(poles), kept(z), kept(at_cut(strength)), norms);
    Tensor top = first.matmul(j.vectors.narrow(1, 0, half));
    Tensor bottom = second.matmul(j.vectors.narrow(1, half, half));
    s = {j.values, kept(cat({top, bottom}, 1))};
  }
  Tensor vectors = kept(s.vectors.narrow(1, 0, size).narrow(2, 0, size));
  for (size_t p = t.directions.size(); p-- > 0;)
    vectors = kept(reflect(t.directions[p], vectors, true));
  return {kept(s.values.narrow(1, 0, size) * most.squeeze(-1)), vectors};
}

}  // namespace mote::factor
