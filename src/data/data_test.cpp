#include <doctest/doctest.h>
#include <mote/data.h>
#include <mote/error.h>

#include <algorithm>
#include <set>

#include "test/shared_data.h"
#include "test/temp_folder.h"

using namespace mote;

namespace {

std::string refusal(const auto& call) try {
  call();
  return "accepted";
} catch (const Error& e) { return e.what(); }

}  // namespace

TEST_CASE("data: digits depend on the seed and their number only, and differ") {
  data::Images a = data::digits(300, 5), b = data::digits(40, 5), c = data::digits(300, 6);
  CHECK(std::equal(b.pixels.begin(), b.pixels.end(), a.pixels.begin()));
  CHECK(std::equal(b.labels.begin(), b.labels.end(), a.labels.begin()));
  CHECK(a.pixels != c.pixels);
  std::set<std::vector<uint8_t>> distinct;
  int seen[10] = {};
  for (int64_t i = 0; i < a.count(); ++i) {
    auto first = a.pixels.begin() + i * 784;
    distinct.insert({first, first + 784});
    ++seen[a.labels[static_cast<size_t>(i)]];
    // Ink in the middle, none at the edge but for dust.
    int ink = 0, edge = 0;
    for (int k = 0; k < 784; ++k) {
      ink += first[k] > 100;
      if (k / 28 == 0 || k / 28 == 27 || k % 28 == 0 || k % 28 == 27) edge += first[k] > 100;
    }
    CHECK(ink >= 20);
    CHECK(ink <= 300);
    CHECK(edge <= 12);
  }
  CHECK(distinct.size() == 300);
  CHECK(*std::min_element(seen, seen + 10) > 10);
}

TEST_CASE("data: batches of pictures") {
  data::Images set;
  set.height = 2, set.width = 1, set.classes = 3;
  set.pixels = {1, 2, 3, 4, 5, 6}, set.labels = {2, 0, 1};
  std::vector<int64_t> rows = {2, 0};
  data::Images::Batch batch = set.batch(rows);
  CHECK(batch.images.shape() == std::vector<int64_t>{2, 1, 2, 1});
  CHECK(batch.images.to_vector<int>() == std::vector<int>{5, 6, 1, 2});
  CHECK(batch.labels.to_vector<int>() == std::vector<int>{1, 2});
  rows[0] = 3;
  CHECK_THROWS_WITH(set.batch(rows), doctest::Contains("no row 3 in a set of 3"));
  CHECK(set.slice(1, 3).pixels == std::vector<uint8_t>{3, 4, 5, 6});
}

TEST_CASE("data: an order gives every example once per epoch and continues where it was") {
  data::Order order(10, 3, 42);
  CHECK(order.batches_per_epoch() == 3);
  std::vector<std::vector<int64_t>> given;
  data::Order::State state;
  for (int i = 0; i < 9; ++i) {
    if (i == 4) state = order.state();
    auto rows = order.next();
    given.emplace_back(rows.begin(), rows.end());
  }
  CHECK(state.epoch == 1);
  CHECK(state.position == 3);
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> rows;
    for (size_t i = 0; i < 3; ++i)
      rows.insert(given[epoch * 3 + i].begin(), given[epoch * 3 + i].end());
    CHECK(rows.size() == 9);
    CHECK(*rows.begin() >= 0);
    CHECK(*rows.rbegin() < 10);
  }
  CHECK(given[0] != given[3]);
  data::Order again(10, 3, 0);
  again.restore(state);
  for (size_t i = 4; i < 9; ++i) {
    auto rows = again.next();
    CHECK(std::vector<int64_t>(rows.begin(), rows.end()) == given[i]);
  }
  CHECK_THROWS_WITH(data::Order(2, 3), doctest::Contains("batches of 3 from 2"));
  CHECK_THROWS_WITH(again.restore({1, 0, 11}), doctest::Contains("position 11"));
}

TEST_CASE("data: text by characters") {
  data::Characters text = data::characters("hello w\u00f6rld");
  CHECK(text.characters == std::vector<uint32_t>{' ', 'd', 'e', 'h', 'l', 'o', 'r', 'w', 0xf6});
  CHECK(text.train == std::vector<int32_t>{3, 2, 4, 4, 5, 0, 7, 8, 6});
  CHECK(text.validation == std::vector<int32_t>{4, 1});
  CHECK(text.decode(text.encode("old w\u00f6")) == "old w\u00f6");
  CHECK_THROWS_WITH(text.encode("x"), doctest::Contains("'x' is not in the vocabulary"));
  CHECK_THROWS_WITH(data::characters("\xff"), doctest::Contains("not UTF-8"));
  CHECK(data::token_starts(text.train, 4) == 5);
  std::vector<int64_t> starts = {0, 4};
  data::TokenBatch batch = data::token_batch(text.train, starts, 4);
  CHECK(batch.tokens.to_vector<int>() == std::vector<int>{3, 2, 4, 4, 5, 0, 7, 8});
  CHECK(batch.targets.to_vector<int>() == std::vector<int>{2, 4, 4, 5, 0, 7, 8, 6});
  starts[0] = 5;
  CHECK_THROWS_WITH(data::token_batch(text.train, starts, 4),
                    doctest::Contains("does not fit at 5 of 9"));
}

TEST_CASE("data: malformed idx and CIFAR files are refused by name and field") {
  using namespace std::string_literals;
  test::TempFolder folder;
  auto idx = [&](const std::string& bytes) {
    test::write_file(folder / "t.idx", bytes);
    std::string why = refusal([&] { data::read_idx(folder / "t.idx"); });
    CHECK((why == "accepted" || why.find("t.idx: ") != std::string::npos));
    return why;
  };
  CHECK(idx("\0\0\x08\x01\0\0\0\x02xy"s) == "accepted");
  CHECK(idx("\0\0\x08\x01\0\0\0\x03xy"s).find("need 3 elements, the file has 2") !=
        std::string::npos);
  CHECK(idx("\0\0\x08\x01\0\0\0\x01xy"s).find("the file has 2") != std::string::npos);
  CHECK(idx("\0\x01\x08\x01"s).find("not an idx file") != std::string::npos);
  CHECK(idx("\0\0\x0d\x01\0\0\0\0"s).find("type 13") != std::string::npos);
  CHECK(idx("\0\0\x08\0"s).find("number of axes") != std::string::npos);
  CHECK(idx("\0\0\x08\x03\0\0"s).find("a size") != std::string::npos);
  CHECK(idx("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s).find("the array") !=
        std::string::npos);
  test::write_file(folder / "c.bin", std::string(3073, '\x0a'));
  test::write_file(folder / "d.bin", std::string(3072, '\0'));
  CHECK(refusal([&] { data::cifar10(std::vector{folder / "c.bin"}); }).find("0 ... 9, got 10") !=
        std::string::npos);
  CHECK(refusal([&] { data::cifar10(std::vector{folder / "d.bin"}); }).find("the file has 3072") !=
        std::string::npos);
  CHECK(refusal([&] { data::mnist("/no/such/folder"); }).find("holds no train-images") !=
        std::string::npos);
}

TEST_CASE("data: MNIST and CIFAR-10 files") {
  if (std::string folder = shared_data("mnist"); !folder.empty()) {
    data::Split mnist = data::mnist(folder);
    CHECK(mnist.train.count() == 60000);
    CHECK(mnist.test.count() == 10000);
    CHECK(mnist.test.width == 28);
    CHECK(std::vector<uint8_t>(mnist.test.labels.begin(), mnist.test.labels.begin() + 5) ==
          std::vector<uint8_t>{7, 2, 1, 0, 4});
  }
  if (std::string folder = shared_data("cifar10"); !folder.empty()) {
    data::Split cifar = data::cifar10(folder);
    CHECK(cifar.train.count() == 3600);
    CHECK(cifar.test.count() == 400);
    CHECK(cifar.train.pixels.size() == 3600 * 3072);
    CHECK(cifar.train.labels[0] == 6);  // a frog
  }
}
