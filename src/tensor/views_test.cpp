// Handles, views and writing, as a user sees them.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <random>
#include <string>
#include <vector>

#include "tensor/movement.h"

using namespace mote;

namespace {

using Values = std::vector<int64_t>;
const Options on_interp{DType::i64, "INTERP"};

Tensor counting(int64_t n) {
  return from_data(arange(Number(n), on_interp).to_vector<int64_t>(), n, on_interp);
}
Values values(const Tensor& t) { return t.to_vector<int64_t>(); }

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    std::string text = e.what();
    return text.substr(0, text.rfind(" ("));
  }
  return "no error";
}

}  // namespace

TEST_SUITE("tensor views") {
  TEST_CASE("a copy of a handle is the same tensor") {
    Tensor a = counting(3), b = a;
    b.assign(7);
    CHECK(values(a) == Values{7, 7, 7});
    a += 1;
    CHECK(values(b) == Values{8, 8, 8});
  }

  TEST_CASE("equal expressions are different tensors once one is assigned") {
    Tensor a = zeros({4}, on_interp), b = zeros({4}, on_interp);
    a.set({1}, 5);
    CHECK(values(a) == Values{0, 5, 0, 0});
    CHECK(values(b) == Values{0, 0, 0, 0});
    Tensor x = counting(2), c = x + 1, d = x + 1;
    c.realize(), d.realize();
    c.zero_();
    CHECK(values(c) == Values{0, 0});
    CHECK(values(d) == Values{1, 2});
  }

  TEST_CASE("what was computed before a write keeps its value") {
    Tensor a = counting(3), b = a + 1, c = a.clone();
    a.assign(9);
    CHECK(values(b) == Values{1, 2, 3});
    CHECK(values(c) == Values{0, 1, 2});
  }

  TEST_CASE("writes through views reach the base, and views see later writes") {
    Tensor a = counting(6), m = a.reshape({2, 3}), row = m(1), t = m.t();
    row.assign(tensor({7, 8, 9}, on_interp));
    CHECK(values(a) == Values{0, 1, 2, 7, 8, 9});
    CHECK(values(t) == Values{0, 7, 1, 8, 2, 9});
    a.set({Slice(0, 2)}, 5);
    CHECK(values(t) == Values{5, 7, 5, 8, 2, 9});
    t(2) = 1;
    CHECK(values(a) == Values{5, 5, 1, 7, 8, 1});
  }

  TEST_CASE("slices with steps are views, whether or not the step divides the size") {
    for (int64_t n : {4, 5, 6, 7}) {
      Tensor a = counting(n);
      a(Slice(None, None, 2)) = -1;
      a(Slice(None, 0, -3)) += 100;
      Values want;
      for (int64_t i = 0; i < n; ++i) want.push_back(i % 2 ? i : -1);
      for (int64_t i = n - 1; i > 0; i -= 3) want[static_cast<size_t>(i)] += 100;
      CHECK(values(a) == want);
    }
    Tensor one = counting(3);
    one(Slice(1, None, 5)) = 7;
    CHECK(values(one) == Values{0, 7, 2});
  }

  TEST_CASE("diagonal, split, squeeze and unfold are views") {
    Tensor a = zeros({3, 4}, on_interp);
    a.diagonal(1).assign(tensor({1, 2, 3}, on_interp));
    CHECK(values(a) == Values{0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3});
    Tensor b = counting(6);
    b.split(2)[1].zero_();
    b.unsqueeze(0).squeeze().narrow(0, 0, 1).fill_(9);
    CHECK(values(b) == Values{9, 1, 0, 0, 4, 5});
    Tensor windows = b.unfold(0, 2, 2);
    windows.select(1, 0).assign(-1);
    CHECK(values(b) == Values{-1, 1, -1, 0, -1, 5});
    CHECK(error_of([&] { b.unfold(0, 2, 1).zero_(); }) ==
          "[zero_] cannot write through a view of shape (5, 2) in which several elements share one "
          "place; clone() it first");
  }

  TEST_CASE("reshape copies where PyTorch does, and view refuses there") {
    Tensor a = counting(6).reshape({2, 3}), flat = a.t().reshape({6});
    flat.zero_();
    CHECK(values(a) == Values{0, 1, 2, 3, 4, 5});
    CHECK(!flat.is_view());
    CHECK(a.is_contiguous());
    CHECK(!a.t().is_contiguous());
    CHECK(error_of([&] { a.t().view({6}); }) ==
          "[view] shape (3, 2) with strides (1, 3) cannot be seen as (6) without a copy; use "
          "reshape()");
    a.view({3, 2})(0) = 8;
    CHECK(values(a) == Values{8, 8, 2, 3, 4, 5});
  }

  TEST_CASE("flips, pads and advanced indices copy") {
    Tensor a = counting(4);
    a.flip(0).zero_();
    a.pad({1, 1}).zero_();
    a.index({tensor({0, 1}, on_interp)}).zero_();
    CHECK(values(a) == Values{0, 1, 2, 3});
    CHECK(error_of([&] { a(tensor({0}, on_interp)) = 5; }) ==
          "[assign] the left side is a temporary copy; to write at advanced indices use "
          "set() or index_put_()");
  }

  TEST_CASE("detach shares the values") {
    Tensor a = counting(3);
    a.detach().set({0}, 5);
    CHECK(values(a) == Values{5, 1, 2});
  }

  TEST_CASE("an expanded view reads but cannot be written") {
    Tensor a = counting(2), b = a.unsqueeze(1).expand({2, 2});
    a.set({0}, 4);
    CHECK(values(b) == Values{4, 4, 1, 1});
    CHECK(error_of([&] { b.assign(0); }).find("several elements share one place") !=
          std::string::npos);
  }

  TEST_CASE("setting by tensors: the last write counts, or all add") {
    Tensor a = counting(5);
    a.set({tensor({1, -1, 1}, on_interp)}, tensor({10, 20, 30}, on_interp));
    CHECK(values(a) == Values{0, 30, 2, 3, 20});
    a.index_put_({tensor({0, 0}, on_interp)}, 1, true);
    CHECK(values(a) == Values{2, 30, 2, 3, 20});
    Tensor m = counting(6).reshape({2, 3});
    m.set({Slice(), tensor({0, 2}, on_interp)}, tensor({7, 8}, on_interp));
    CHECK(values(m) == Values{7, 1, 8, 7, 4, 8});
    m.set({m > 6}, 0);
    CHECK(values(m) == Values{0, 1, 0, 0, 4, 0});
    m.set({m == 0}, tensor({1, 2, 3, 4}, on_interp));
    CHECK(values(m) == Values{1, 1, 2, 3, 4, 4});
  }

  TEST_CASE("in place the dtype and the shape stay") {
    Tensor a = counting(2);
    CHECK(error_of([&] { a += 0.5; }) ==
          "[add_] a result of f32 cannot be written in place to a tensor of i64");
    CHECK(error_of([&] {
            a += zeros({3, 2}, on_interp);
          }) ==
          "[add_] a result of shape (3, 2) cannot be written in place to a tensor of shape (2)");
    a.assign(tensor(2.9, {.device = "INTERP"}));
    CHECK(values(a) == Values{2, 2});
  }

  TEST_CASE("the whole of a tensor can be set; leading axes of size 1 do not count") {
    Tensor a = counting(3);
    a(Slice()) = 4;
    CHECK(values(a) == Values{4, 4, 4});
    a(Ellipsis) = tensor({1, 2, 3}, on_interp);
    CHECK(values(a) == Values{1, 2, 3});
    a(Slice()) = ones({1, 3}, {DType::i64, "INTERP"});
    CHECK(values(a) == Values{1, 1, 1});
    a.set({Slice()}, full({1, 1, 3}, 5, {DType::i64, "INTERP"}));
    CHECK(values(a) == Values{5, 5, 5});
    a.set({tensor({0, 2}, on_interp)}, full({1, 2}, 6, {DType::i64, "INTERP"}));
    CHECK(values(a) == Values{6, 5, 6});
    CHECK(error_of([&] { a(Slice()) = ones({2, 3}, on_interp); }) ==
          "[assign] a value of shape (2, 3) does not fit a tensor of shape (3)");
  }

  TEST_CASE("diag copies, diagonal is a view") {
    Tensor a = counting(4).reshape({2, 2});
    a.diag().zero_();
    CHECK(values(a) == Values{0, 1, 2, 3});
    a.diagonal().fill_(9);
    CHECK(values(a) == Values{9, 1, 2, 9});
  }

  TEST_CASE("literals of any depth") {
    CHECK(tensor({{0}, {1}}).shape() == std::vector<int64_t>{2, 1});
    CHECK(tensor({{0, 1}}).shape() == std::vector<int64_t>{1, 2});
    CHECK(tensor({5}).shape() == std::vector<int64_t>{1});
    CHECK(tensor({{{0}, {1}}}).shape() == std::vector<int64_t>{1, 2, 1});
    CHECK(tensor({{{{1, 2}}}, {{{3, 4}}}}).shape() == std::vector<int64_t>{2, 1, 1, 2});
    CHECK(values(tensor({{{{1, 2}}}, {{{3, 4}}}}, on_interp)) == Values{1, 2, 3, 4});
    CHECK(tensor({}).shape() == std::vector<int64_t>{0});
    CHECK(tensor({{}, {}}).shape() == std::vector<int64_t>{2, 0});
    CHECK(tensor({{1, 2.5}}).dtype() == DType::f32);
  }

  TEST_CASE("a device has one name") {
    CHECK(zeros({1}, {.device = "cpu:01"}).device() == "CPU:1");
    CHECK(zeros({1}, {.device = "CPU:00"}).device() == "CPU");
  }

  TEST_CASE("a part that variables name stays within its axis for every value they may have") {
    Call call("test", Loc::current());
    Variable some("n", 0, 10), others("m", -3, 9);
    Dim n(UOp(some.node())), m(UOp(others.node())), s(5);
    for (auto [begin, length] : {std::pair{n, Dim(1)}, {m, Dim(2)}, {Dim(0), n}, {m, n}, {n, m}}) {
      prim::Extent part = kept_within(begin, length, s);
      CHECK(least(part.begin) >= 0);
      CHECK(least(s - part.begin) >= 1);
      CHECK(least(part.end - part.begin) >= 1);
      CHECK((part.end - part.begin).size <= 5);
    }
  }

  TEST_CASE("a tensor without axes counts as a number among indices") {
    std::mt19937 random(3);
    auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    for (int trial = 0; trial < 300; ++trial) {
      Tensor x = counting(2 * 3 * 4 * 2).reshape({2, 3, 4, 2});
      std::vector<Index> numbers, tensors;
      for (int axis = 0; axis < 4; ++axis) {
        int64_t at = below(2);
        if (below(6) == 0) numbers.emplace_back(None), tensors.emplace_back(None);
        switch (below(3)) {
          case 0:
            numbers.emplace_back(at);
            tensors.emplace_back(tensor(at, on_interp).to_long());
            break;
          case 1: {
            Tensor list = from_data(std::vector<int64_t>{1, at, 0}, {3}, {DType::i64, "INTERP"});
            numbers.emplace_back(list), tensors.emplace_back(list);
            break;
          }
          default: numbers.emplace_back(Slice()), tensors.emplace_back(Slice());
        }
      }
      Tensor want = x.index(numbers), got = x.index(tensors);
      REQUIRE(got.shape() == want.shape());
      CHECK(values(got) == values(want));
      Tensor y = x.clone(), z = x.clone(), v = counting(want.numel()).reshape(want.shape()) + 100;
      CHECK(values(y.set(numbers, v)) == values(z.set(tensors, v)));
    }
  }

  TEST_CASE("sizes may be variables") {
    Variable n("n", 1, 8);
    Tensor a = counting(8).narrow(0, 0, n.bind(3));
    CHECK(a.sum().item<int64_t>() == 3);
    CHECK(a.numel() == 8);
    Tensor row = counting(8).reshape({4, 2}).select(0, Size(n.bind(3)) - 1);
    CHECK(row.shape() == std::vector<int64_t>{2});
    CHECK(values(row) == Values{4, 5});
    Tensor memory = zeros({8}, on_interp);
    memory.narrow(0, Size(n.bind(4)), 2).assign(5);
    CHECK(values(memory) == Values{0, 0, 0, 0, 5, 5, 0, 0});
    CHECK(error_of([&] { a.shape(); }) ==
          "[shape] needs sizes known as numbers, got the symbolic shape (n)");
    CHECK(error_of([&] { n.bind(9); }) == "[bind] 'n' cannot be 9, its range is 1 to 8");
  }
}
