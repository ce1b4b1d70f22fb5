#include "runtime/interp_graph.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "ir/storage.h"
#include "tensor/primitives.h"

using namespace mote;

namespace {

struct TestStorage : Storage {
  std::vector<std::byte> bytes;
};

template <class T>
Ref buffer_with(DType dtype, const std::vector<T>& values) {
  auto* s = new TestStorage;
  s->id = next_storage_id();
  s->dtype = dtype;
  s->count = static_cast<int64_t>(values.size());
  s->bytes.resize(values.size() * sizeof(T));
  std::memcpy(s->bytes.data(), values.data(), s->bytes.size());
  return tensor_graph::buffer(s);
}

GraphReader reader() {
  return {[](const Storage& s) -> std::span<const std::byte> {
    return static_cast<const TestStorage&>(s).bytes;
  }};
}

std::vector<double> values(const Ref& r, bool wide = false) {
  GraphReader how = reader();
  how.floats_as_f64 = wide;
  HostArray a = interpret(r, how);
  std::vector<double> out;
  for (int64_t i = 0; i < a.count(); ++i) {
    Scalar s = a.at(i);
    out.push_back(is_float(a.dtype) ? s.f : static_cast<double>(s.i));
  }
  return out;
}
using Values = std::vector<double>;

Ref matrix() {  // 1 2 3 / 4 5 6
  std::vector<Dim> shape{2, 3};
  return prim::reshape(buffer_with<float>(DType::f32, {1, 2, 3, 4, 5, 6}), shape);
}

}  // namespace

TEST_CASE("interp graph: movement") {
  Ref m = matrix();
  const int64_t swapped[] = {1, 0}, last[] = {1};
  CHECK(values(prim::permute(m, swapped)) == Values{1, 4, 2, 5, 3, 6});
  CHECK(values(prim::flip(m, last)) == Values{3, 2, 1, 6, 5, 4});
  prim::Extent cut[] =
      {
          {1, 2},
          {0, 2}
  },
               around[] = {{0, 1}, {1, 0}};
  CHECK(values(prim::shrink(m, cut)) == Values{4, 5});
  CHECK(values(prim::pad(m, around)) == Values{0, 1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0});
  Dim one_row[] = {1, 6}, rows[] = {2, 6};
  CHECK(values(prim::expand(prim::reshape(m, one_row), rows)) ==
        Values{1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6});
}

TEST_CASE("interp graph: reduce and elementwise") {
  Ref m = matrix();
  const int64_t rows[] = {0}, all[] = {0, 1};
  CHECK(values(prim::reduce(Op::Add, m, rows)) == Values{5, 7, 9});
  CHECK(values(prim::reduce(Op::Max, m, all)) == Values{6});
  CHECK(values(prim::reduce(Op::Mul, m, all)) == Values{720});
  CHECK(values(prim::mul(m, prim::constant(DType::f32, 2.0))) == Values{2, 4, 6, 8, 10, 12});
  CHECK(values(prim::cast(prim::iota(Dim(4)), DType::i32)) == Values{0, 1, 2, 3});
}

TEST_CASE("interp graph: floats may be computed in double") {
  Ref x = buffer_with<float>(DType::f32, {1.0f, 0x1p-30f});
  const int64_t axis[] = {0};
  CHECK(values(prim::reduce(Op::Add, x, axis)) == Values{1});
  CHECK(values(prim::reduce(Op::Add, x, axis), true) == Values{1 + 0x1p-30});
  CHECK(values(prim::bitcast(prim::cast(x, DType::f16), DType::u16), true) == Values{0x3c00, 0});
}

TEST_CASE("interp graph: versions of a buffer") {
  Ref base = buffer_with<int32_t>(DType::i32, {0, 1, 2, 3, 4, 5});
  Dim grid[] = {2, 3};
  const int64_t swapped[] = {1, 0};
  prim::Extent column[] = {
      {1, 2},
      {0, 2}
  };
  Ref view = prim::shrink(prim::permute(prim::reshape(base, grid), swapped), column);
  Ref next = prim::assign(view, prim::constant(DType::i32, int64_t{9}));
  CHECK(values(next) == Values{0, 9, 2, 3, 9, 5});
  CHECK(values(base) == Values{0, 1, 2, 3, 4, 5});
  Ref later = prim::assign(next, prim::add(next, prim::constant(DType::i32, int64_t{1})));
  CHECK(values(later) == Values{1, 10, 3, 4, 10, 6});
}

TEST_CASE("interp graph: symbolic sizes are the bound values") {
  Ref n = prim::bind(prim::variable("n", 1, 8), 3);
  Ref x = buffer_with<int64_t>(DType::i64, {0, 1, 2, 3, 4, 5, 6, 7});
  prim::Extent front[] = {
      {0, Dim(n)}
  };
  const int64_t axis[] = {0};
  Ref cut = prim::shrink(x, front);
  CHECK(values(cut) == Values{0, 1, 2});
  CHECK(values(prim::reduce(Op::Add, cut, axis)) == Values{3});
  CHECK(values(prim::assign(cut, prim::constant(DType::i64, int64_t{7}))) ==
        Values{7, 7, 7, 3, 4, 5, 6, 7});
  Ref unbound = prim::iota(Dim(prim::variable("k", 1, 8)));
  CHECK_THROWS_WITH_AS(values(unbound), "the variable k has no value bound to it", Error);
}

TEST_CASE("interp graph: a realized node is read, not computed") {
  Ref x = matrix();
  Ref y = prim::add(x, x);
  tensor_graph::set_realized(y, buffer_with<float>(DType::f32, {7, 7, 7, 7, 7, 7}));
  CHECK(values(prim::neg(y)) == Values{-7, -7, -7, -7, -7, -7});
}

TEST_CASE("interp graph: a long chain") {
  Ref x = buffer_with<float>(DType::f32, {0, 1});
  Ref one = prim::constant(DType::f32, 1.0);
  for (int i = 0; i < 100000; ++i) x = prim::add(x, one);
  CHECK(values(x) == Values{100000, 100001});
}
