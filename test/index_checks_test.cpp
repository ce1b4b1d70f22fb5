// Indices, classes and the like: what is out of range is an error, wherever it comes from.
#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/models.h>
#include <mote/mote.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/flags.h"
#include "engine/realize.h"
#include "test/amount.h"
#include "test/error_of.h"
#include "test/odd_devices.h"
#include "test/seconds.h"
#include "test/temp_folder.h"

using namespace mote;

namespace {

constexpr int64_t kSize = 6, kCount = 4;  // of the axis; how many indices

Tensor vec(const Tensor& like) { return arange(kSize, {DType::f32, like.device()}) + 0.5; }
Tensor mat(const Tensor& like) {
  return (arange(kSize * 3, {DType::f32, like.device()}) + 0.5).reshape({kSize, 3});
}
Tensor src(const Tensor& like) { return arange(kCount, {DType::f32, like.device()}) + 20.5; }
Tensor rows(const Tensor& like) {
  return (arange(kCount * 3, {DType::f32, like.device()}) + 20.5).reshape({kCount, 3});
}
Tensor logits(const Tensor& like) {
  return (arange(kCount * kSize, {DType::f32, like.device()}) * 0.25)
      .reshape({kCount, kSize})
      .sin();
}
CrossEntropyOptions weighted(const Tensor& like) {
  CrossEntropyOptions o;
  o.weight = arange(kSize, {DType::f32, like.device()}) + 1;
  o.label_smoothing = 0.25;
  return o;
}

struct Function {
  const char* name;    // in the header
  const char* method;  // in an error
  const char* what;
  bool from_end;  // negative integers count
  int line;
  Tensor (*call)(const Tensor& i);  // of kCount integers, for an axis of kSize
};

// clang-format off
#define F(name, method, what, from_end, expression) \
  {name, method, what, from_end, __LINE__, [](const Tensor& i) -> Tensor { return expression; }}
const Function functions[] = {
  F("gather", "gather", "index", true, vec(i).gather(0, i)),
  F("gather", "gather", "index", true, mat(i).gather(0, i.unsqueeze(1).expand({-1, 3}))),
  F("take_along_dim", "take_along_dim", "index", true, mat(i).take_along_dim(i.unsqueeze(1), 0)),
  F("index_select", "index_select", "index", true, mat(i).t().index_select(1, i)),
  F("take", "take", "index", true, vec(i).reshape({2, 3}).take(i)),
  F("scatter", "scatter", "index", true, vec(i).scatter(0, i, src(i))),
  F("scatter_add", "scatter_add", "index", true, vec(i).scatter_add(0, i, src(i))),
  F("scatter_reduce", "scatter_reduce", "index", true, vec(i).scatter_reduce(0, i, src(i), "sum")),
  F("scatter_", "scatter_", "index", true, vec(i).clone().scatter_(0, i, src(i))),
  F("scatter_add_", "scatter_add_", "index", true, vec(i).clone().scatter_add_(0, i, src(i))),
  F("index_add", "index_add", "index", true, mat(i).index_add(0, i, rows(i), 2)),
  F("index_copy", "index_copy", "index", true, mat(i).index_copy(0, i, rows(i))),
  F("index_fill", "index_fill", "index", true, mat(i).index_fill(0, i, 7)),
  F("index_reduce", "index_reduce", "index", true,
    mat(i).index_reduce(0, i, rows(i), "amax", false)),
  F("put", "put", "index", true, vec(i).reshape({2, 3}).put(i, src(i))),
  F("index_put", "index_put", "index", true, mat(i).index_put({i}, rows(i), true)),
  F("max_unpool1d", "max_unpool1d", "index", true,
    max_unpool1d(src(i).unsqueeze(0), i.unsqueeze(0), 1, {.output_size = kSize})),
  F("max_unpool2d", "max_unpool2d", "index", true,
    max_unpool2d(src(i).reshape({1, 2, 2}), i.reshape({1, 2, 2}), 1, {.output_size = {2, 3}})),
  F("max_unpool3d", "max_unpool3d", "index", true,
    max_unpool3d(src(i).reshape({1, 1, 2, 2}), i.reshape({1, 1, 2, 2}), 1,
                 {.output_size = {1, 3, 2}})),
  F("index", "index", "index", true, mat(i).index({i})),
  F("index", "index", "index", true, mat(i).index({i, i % 3})),
  F("operator()", "index", "index", true, mat(i).t()(Slice(1, None, 1), i)),
  F("operator[]", "index", "index", true, vec(i)[i]),
  F("set", "set", "index", true, mat(i).clone().set({i, Slice()}, rows(i))),
  F("index_put_", "index_put_", "index", true, vec(i).clone().index_put_({i}, src(i), true)),
  F("embedding", "embedding", "index", false, i.embedding(mat(i))),
  F("embedding_bag", "embedding_bag", "index", false, embedding_bag(i.reshape({2, 2}), mat(i))),
  F("embedding_bag", "embedding_bag", "index", false,
    embedding_bag(i, mat(i), arange(2, {.device = i.device()}) * 3, "max")),
  F("one_hot", "one_hot", "class", false, i.one_hot(kSize)),
  F("cross_entropy", "cross_entropy", "class", false, logits(i).cross_entropy(i)),
  F("cross_entropy", "cross_entropy", "class", false, logits(i).cross_entropy(i, weighted(i))),
  F("nll_loss", "nll_loss", "class", false, logits(i).nll_loss(i)),
  F("multi_margin_loss", "multi_margin_loss", "class", false, multi_margin_loss(logits(i), i)),
  F("multi_margin_loss", "multi_margin_loss", "class", false,
    multi_margin_loss(logits(i), i, 2, 1, arange(kSize, {DType::f32, i.device()}))),
};
#undef F
// clang-format on

using Values = std::vector<int64_t>;

// Where the integers come from. Those of a larger tensor lie between others that are out of range.
enum class Origin {
  Host,
  Realized,
  Slice,
  Steps,
  Flip,
  Row,
  Column,
  Spread,
  Cast,
  Moved,
  Lazy,
  kEnd
};

Tensor from(const Values& v, DType d, const std::string& device) {
  return from_data(v, {static_cast<int64_t>(v.size())}, {DType::i64, device}).to(d).realize();
}

Tensor made(Origin origin, const Values& v, DType d, const std::string& device) {
  Values wide;
  switch (origin) {
    case Origin::Slice:
      wide = {99, 99, 99};
      wide.insert(wide.end(), v.begin(), v.end());
      wide.push_back(77);
      return from(wide, d, device)(mote::Slice(3, 3 + kCount));
    case Origin::Steps:
      for (int64_t x : v) wide.push_back(x), wide.push_back(99);
      return from(wide, d, device)(mote::Slice(0, 2 * kCount, 2));
    case Origin::Flip: wide.assign(v.rbegin(), v.rend()); return from(wide, d, device).flip(0);
    case Origin::Row:
      wide.assign(static_cast<size_t>(kCount), 99);
      wide.insert(wide.end(), v.begin(), v.end());
      return from(wide, d, device).reshape({2, kCount}).select(0, 1);
    case Origin::Column:
      for (int64_t x : v) wide.insert(wide.end(), {77, 99, x});
      return from(wide, d, device).reshape({2, kCount / 2, 3}).select(2, 2).flatten();
    case Origin::Spread: return from(v, d, device).unsqueeze(0).expand({3, kCount}).select(0, 1);
    case Origin::Cast: return from(v, DType::i64, device).to(d);
    case Origin::Moved: return from(v, d, device == "CPU" ? "CPU:1" : "CPU").to(device);
    case Origin::Lazy: return from(v, d, device) + 0 * from({1}, d, device);
    case Origin::Realized: return (from(v, d, device) + 0 * from({1}, d, device)).realize();
    default: return from(v, d, device);
  }
}

const std::string fine = "no error";

// Method, integer, size and line.
bool names(const std::string& error, const Function& f, int64_t value) {
  const std::string start = text("[", f.method, "] ", f.what, " ", value, " is out of range for ");
  const std::string line = text("index_checks_test.cpp:", f.line);
  return error.starts_with(start) && error.find(text(" ", kSize)) != std::string::npos &&
         error.find(line) != std::string::npos;
}

using Numbers = std::vector<float>;

// The order of a sum may depend on where the index lies.
bool close(const Numbers& a, const Numbers& b) {
  return std::ranges::equal(a, b, [](float x, float y) { return x == doctest::Approx(y); });
}

class Cases {
 public:
  explicit Cases(uint64_t seed) : random_(seed) {}
  void run_one();
  std::string now;  // what is being tried

 private:
  size_t below(size_t n) { return random_() % n; }
  int64_t wrong_value();
  Values values(int64_t with_wrong);
  void eager(const Values& good, const Values& bad);
  void captured(const Values& good, const Values& bad);

  std::mt19937_64 random_;
  const Function* f_ = nullptr;
  Origin origin_ = Origin::Host;
  DType dtype_ = DType::i64;
  std::string device_;
  int64_t wrong_ = 0;
};

int64_t Cases::wrong_value() {
  std::vector<int64_t> out = {kSize, kSize + 1, 100, 127};
  if (is_signed(dtype_)) {
    out.push_back(f_->from_end ? -kSize - 1 : -1);
    out.push_back(f_->from_end ? -kSize - 2 : -kSize);
    if (!f_->from_end) out.push_back(-99);  // -100 is ignore_index
    out.push_back(-128);
  }
  if (dtype_ == DType::i64) out.push_back(int64_t{1} << 40), out.push_back(INT64_MIN + 1);
  return out[below(out.size())];
}

Values Cases::values(int64_t wrong) {
  Values out;
  const bool negative = f_->from_end && is_signed(dtype_);
  while (out.size() < static_cast<size_t>(kCount)) {
    auto v = static_cast<int64_t>(below(kSize));
    if (std::ranges::find(out, v) == out.end()) out.push_back(v);
  }
  if (negative)
    for (int64_t& v : out) v -= below(2) ? kSize : 0;
  if (wrong) out[below(out.size())] = wrong;
  return out;
}

void Cases::eager(const Values& good, const Values& bad) {
  const bool known = origin_ != Origin::Lazy;
  Tensor i = made(origin_, bad, dtype_, device_);
  const uint64_t before = engine_counts().kernels_run;
  if (known) {
    CHECK(names(error_of([&] { f_->call(i); }), *f_, wrong_));
    CHECK(engine_counts().kernels_run == before);
  } else {
    Tensor out = f_->call(i);
    CHECK(names(error_of([&] { out.to_vector<float>(); }), *f_, wrong_));
  }
  {
    FlagScope off(Flag::CHECK, 0);
    CHECK(error_of([&] { f_->call(i).to_vector<float>(); }) == fine);
  }
  Numbers wanted, got;
  {
    FlagScope off(Flag::CHECK, 0);
    wanted = f_->call(from(good, dtype_, device_)).to_vector<float>();
  }
  const std::string none =
      error_of([&] { got = f_->call(made(origin_, good, dtype_, device_)).to_vector<float>(); });
  CHECK(none == fine);
  CHECK(close(got, wanted));
}

// The index is an argument, state that is assigned between calls, or made of either inside.
void Cases::captured(const Values& good, const Values& bad) {
  const bool is_state = below(2), waits = below(2);  // a write that waits to be run
  const bool known = origin_ != Origin::Lazy;
  const size_t wrong_call = below(5);
  Tensor state = from(good, dtype_, device_), calls = zeros({}, {.device = device_});
  Tensor zero = from({0}, dtype_, device_);
  auto function = jit([&](const Tensor& given) {
    Tensor i = is_state ? state : given;
    if (!known) i = i + zero * 2;
    Tensor out = f_->call(i);
    calls.add_(1);
    return out;
  });
  Numbers wanted;
  {
    FlagScope off(Flag::CHECK, 0);
    wanted = f_->call(from(good, dtype_, device_)).to_vector<float>();
  }
  float done = 0;
  for (size_t call = 0; call < 7; ++call) {
    const bool wrong = call == wrong_call;
    const Values& v = wrong ? bad : good;
    Tensor given = is_state ? from({0}, dtype_, device_) : made(origin_, v, dtype_, device_);
    if (is_state) state.assign(from(v, dtype_, device_));
    if (is_state && !waits) state.realize();
    Numbers got;
    const std::string error = error_of([&] { got = function(given).template to_vector<float>(); });
    if (!wrong) {
      INFO(error);
      CHECK(error == fine);
      CHECK(close(got, wanted));
    } else {
      INFO(error);
      CHECK(names(error, *f_, wrong_));
    }
    const auto seen = calls.item<float>();
    const bool by_kernel = !known || (is_state && waits);
    CHECK((wrong && by_kernel ? seen == done || seen == done + 1 : seen == done + !wrong));
    done = seen;
  }
}

void Cases::run_one() {
  constexpr DType dtypes[] = {DType::i64, DType::i64, DType::i32, DType::i16, DType::i8,
                              DType::u64, DType::u32, DType::u16, DType::u8};
  f_ = &functions[below(std::size(functions))];
  origin_ = static_cast<Origin>(below(static_cast<size_t>(Origin::kEnd)));
  dtype_ = dtypes[below(std::size(dtypes))];
  device_ = below(4) ? "CPU" : "INTERP";
  wrong_ = wrong_value();
  const bool jits = below(2);
  now = text(f_->name, " of line ", f_->line, ", origin ", static_cast<int>(origin_), ", ", dtype_,
             ", ", device_, ", ", wrong_, jits ? ", jit" : "");
  INFO(now);
  const Values good = values(0), bad = values(wrong_);
  jits ? captured(good, bad) : eager(good, bad);
}

void run_cases(int64_t count) {
  count = test::scaled(count);
  const uint64_t seed = test::seed_or(11);
  MESSAGE("seed " << seed << ", " << count << " cases");
  Cases cases(seed);
  for (int64_t i = 0; i < count; ++i) cases.run_one();
}

}  // namespace

TEST_CASE("indices: every function, wherever the integers come from") { run_cases(150); }

TEST_SUITE("soak") {
  TEST_CASE("indices: every function, many times") { run_cases(20000); }
}

// Every declaration with an index among its parameters, but those that take a number.
TEST_CASE("indices: all functions of the headers that take them are tried") {
  std::set<std::string> tried = {"select", "select_scatter"};  // a number
  tried.insert("multilabel_margin_loss");                      // below: its classes end at a -1
  for (const Function& f : functions) tried.insert(f.name);
  // Targets that are values, not classes.
  for (const char* name :
       {"binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
        "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss",
        "hinge_embedding_loss", "margin_ranking_loss", "soft_margin_loss", "cosine_embedding_loss"})
    tried.insert(name);
  const std::string index = R"((?:\b(?:index|indices|target|num_classes)\b|Index [a-e]\b))";
  const std::regex declared(R"((?!MOTE_FIELDS)\b(operator\(\)|operator\[\]|\w+)\(([^;{}]*?)" + index +
                            R"([^;{}]*)\))");
  int found = 0;
  for (const char* header : {"tensor.h", "functions.h", "functional.h"}) {
    std::ifstream file(std::string("include/mote/") + header);
    std::stringstream read;
    for (std::string line; std::getline(file, line);)
      if (line.find("return ") == std::string::npos) read << line.substr(0, line.find("//")) << ' ';
    const std::string all = read.str();
    for (auto it = std::sregex_iterator(all.begin(), all.end(), declared);
         it != std::sregex_iterator(); ++it, ++found) {
      INFO(it->str());
      CHECK(tried.count((*it)[1].str()));
    }
  }
  CHECK(found >= 30);
}

TEST_CASE("indices: none are no error") {
  for (const char* device : {"CPU", "INTERP"}) {
    Tensor none = zeros({0}, {DType::i64, device}), lazy = none + from({0}, DType::i64, device);
    for (const Tensor& i : {none, lazy}) {
      CHECK(vec(i).gather(0, i).numel() == 0);
      CHECK(mat(i).index_select(0, i).to_vector<float>().empty());
      CHECK(vec(i).take(i).to_vector<float>().empty());
      CHECK(vec(i)(i).to_vector<float>().empty());
      CHECK(i.embedding(mat(i)).to_vector<float>().empty());
      CHECK(i.one_hot(3).to_vector<float>().empty());
      CHECK(vec(i).scatter(0, i, zeros({0}, {.device = device})).to_vector<float>() ==
            vec(i).to_vector<float>());
    }
    Tensor empty = zeros({0}, {.device = device}), one = from({0}, DType::i64, device);
    CHECK(error_of([&] { empty.gather(0, one); })
              .find("index 0 is out of range for an axis of "
                    "size 0") != std::string::npos);
  }
}

namespace {

Tensor ints(const Values& v, const std::string& device = "CPU") {
  return from(v, DType::i64, device);
}
// Integers that the host does not know.
Tensor computed(const Values& v, const std::string& device = "CPU") {
  return ints(v, device) + 0 * ints({1}, device);
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

uint64_t kernels_of(const Tensor& t) { return explain({&t, 1}).kernels.size(); }

}  // namespace

TEST_CASE("indices: integers that cannot be wrong, and those of the host, cost no kernel") {
  Tensor table = mat(ints({0})).realize(), scores = rows(ints({0})).realize();
  Tensor given = ints({1, 2, 3, 0}), bytes = from({1, 2, 3, 0}, DType::u8, "CPU");
  auto kernels = [&](const auto& f) {
    FlagScope off(Flag::CHECK, 0);
    Tensor unchecked = f();
    const uint64_t without = kernels_of(unchecked);
    FlagScope on(Flag::CHECK, 1);
    return static_cast<int>(kernels_of(f())) - static_cast<int>(without);
  };
  CHECK(kernels([&] { return given.embedding(table); }) == 0);
  CHECK(kernels([&] { return bytes.to(DType::i64).embedding(table); }) == 0);
  CHECK(kernels([&] { return logits(given).cross_entropy(given); }) == 0);
  CHECK(kernels([&] { return table.index_select(0, arange(kSize, {DType::i64})); }) == 0);
  CHECK(kernels([&] { return table.index_select(0, full({3}, 5, DType::i64)); }) == 0);
  CHECK(kernels([&] { return computed({7, 9}).clamp(0, kSize - 1).embedding(table); }) == 0);
  CHECK(kernels([&] { return scores.argmax(1).one_hot(3); }) == 0);
  CHECK(kernels([&] { return scores.gather(1, scores.argmax(1, true)); }) == 0);
  CHECK(kernels([&] { return scores.max(1).values; }) == 0);
  CHECK(kernels([&] { return scores.sort(1).values; }) == 0);
  CHECK(kernels([&] { return computed({1, 2}).embedding(table); }) == 1);
  CHECK(has(error_of([&] { table.index_select(0, full({3}, 6, DType::i64)); }), "index 6 is"));
}

TEST_CASE("indices: an error found by a kernel comes each time that the value is asked for") {
  for (const char* device : {"CPU", "INTERP"}) {
    Tensor out = vec(ints({0}, device)).take(computed({1, 8}, device));
    for (int i = 0; i < 3; ++i)
      CHECK(has(error_of([&] { out.to_vector<float>(); }), "[take] index 8 is out of range"));
    CHECK(has(error_of([&] { (out * 2).realize(); }), "[take] index 8 is out of range"));
    CHECK(vec(out).take(computed({1, 5}, device)).to_vector<float>() == Numbers{1.5, 5.5});
  }
}

TEST_CASE("indices: errors name the line of the call and that of the read") {
  const int called = __LINE__ + 1;
  Tensor out = vec(ints({0})).take(computed({9}));
  const int read = __LINE__ + 1;
  const std::string error = error_of([&] { out.item<float>(); });
  CHECK(error == text("[take] index 9 is out of range for an axis of size 6, called at ", __FILE__,
                      ":", called, " (", __FILE__, ":", read, ")"));
  const int both = __LINE__ + 1;
  CHECK(error_of([&] { vec(ints({0})).take(computed({9})).item<float>(); }) ==
        text("[take] index 9 is out of range for an axis of size 6 (", __FILE__, ":", both, ")"));
}

TEST_CASE("indices: a device that is late reports at the next read") {
  add_odd_devices();
  Tensor table = mat(ints({0}, "LATE")).realize();
  Tensor i = computed({1, 17}, "LATE"), other = zeros({3}, {.device = "LATE"}).realize();
  std::string error = error_of([&] {
    Tensor out = i.embedding(table).realize();
    other.to_vector<float>();
  });
  CHECK(has(error, "[embedding] index 17 is out of range for a table of 6 rows"));
  CHECK(error_of([&] { other.to_vector<float>(); }) == fine);
  auto step = jit([&](const Tensor& at) { return (at * 2).embedding(table).sum(); });
  auto total = [&](int64_t v) { return step(ints({v, 1}, "LATE")); };
  for (int k = 0; k < 4; ++k) CHECK(total(2).item<float>() == doctest::Approx(63));
  error = error_of([&] {
    std::vector<Tensor> kept;
    for (int64_t v : {1, 2, 4, 0, 1}) kept.push_back(total(v));
    other.to_vector<float>();
  });
  CHECK(has(error, "[embedding] index 8 is out of range"));
  CHECK(total(2).item<float>() == doctest::Approx(63));
}

TEST_CASE("indices: a late device reports to the thread that submitted the work") {
  add_odd_devices();
  Tensor table = mat(ints({0}, "LATE")).realize(), other = zeros({3}, {.device = "LATE"}).realize();
  auto read_other = [&] { other.to_vector<float>(); };
  // LATE may be done before the submission returns. Then the error comes at once, and the attempt
  // shows nothing.
  auto submit = [&] {
    const Tensor i = computed({1, 17}, "LATE");
    return error_of([&] { i.embedding(table).realize(); });
  };
  int late = 0;
  for (int k = 0; k < 10; ++k) {
    if (submit() != fine) continue;
    ++late;
    std::string elsewhere;
    std::thread([&] { elsewhere = error_of(read_other); }).join();
    CHECK(elsewhere == fine);
    CHECK(has(error_of(read_other), "[embedding] index 17 is out of range"));
  }
  CHECK(late > 0);
  // A thread that ends leaves its errors to the next reader.
  std::string at_once;
  std::thread([&] { at_once = submit(); }).join();
  CHECK(has(at_once == fine ? error_of(read_other) : at_once, "[embedding] index 17"));
  CHECK(error_of(read_other) == fine);
}

TEST_CASE("indices: an integer that is shown many times is looked at once") {
  const int64_t rows = int64_t{1} << 32;
  auto taken = [&](int64_t last) {
    Tensor index = ints({0, 1, last}).reshape({1, 3}).expand({rows, 3});
    vec(ints({0})).take(index.narrow(0, 1, rows - 2));  // not computed
  };
  CHECK(test::seconds_of([&] { CHECK(error_of([&] { taken(5); }) == fine); }) < 1);
  CHECK(has(error_of([&] { taken(6); }), "[take] index 6 is out of range"));
  // A mask's elements count as often as they are shown.
  Tensor mask = ints({0, 1, 1}).ne(0).contiguous().realize();
  Tensor shown = mask.reshape({1, 3}).expand({3, 3}).narrow(0, 1, 2),
         x = zeros({2, 3}).contiguous();
  CHECK(error_of([&] { x.clone().set({shown}, ones({4})).realize(); }) == fine);
  CHECK(error_of([&] { x.clone().set({shown}, ones({2})).realize(); }) != fine);
}

TEST_CASE("indices: sizes that are variables") {
  Variable n("n", 1, 8);
  Tensor x = arange(8, {DType::f32}).realize();
  auto part = [&](int64_t size) { return x(Slice(0, Size(n.bind(size)))); };
  for (const Tensor& i : {ints({4, -5}), computed({4, -5})}) {
    CHECK(part(5).index_select(0, i).to_vector<float>() == Numbers{4, 0});
    const std::string error = error_of([&] { part(4).index_select(0, i).to_vector<float>(); });
    CHECK(has(error, "[index_select] index 4 is out of range for an axis of size 4"));
  }
  auto f = jit(
      [&](const Tensor& i, const Sym& size) { return x(Slice(0, Size(size))).index_select(0, i); });
  for (int64_t size : {5, 6, 7, 8, 5})
    CHECK(f(ints({4, 0}), n.bind(size)).to_vector<float>() == Numbers{4, 0});
  const std::string error = error_of([&] { f(ints({4, 0}), n.bind(4)).to_vector<float>(); });
  CHECK(has(error, "index 4 is out of range for an axis of size 4"));
  CHECK(f(ints({3, 0}), n.bind(4)).to_vector<float>() == Numbers{3, 0});
}

TEST_CASE("indices: as many as a variable says") {
  Variable n("n", 1, 4);
  Tensor x = arange(8, {DType::f32}).reshape({4, 2}).realize(), at = ints({3, 0, 2, 9}).realize();
  auto picked = [&](const Sym& count, int64_t axis) {
    return x.movedim(0, axis).index_select(axis, at(Slice(0, Size(count)))).sum();
  };
  for (int64_t axis : {0, 1}) {
    CHECK(picked(n.bind(1), axis).item<float>() == 13);
    CHECK(picked(n.bind(3), axis).item<float>() == 23);
    CHECK(has(error_of([&] { picked(n.bind(4), axis).item<float>(); }), "[index_select] index 9"));
  }
  auto f = jit([&](const Sym& count) { return picked(count, 0); });
  for (int64_t count : {1, 2, 3, 1})
    CHECK(f(n.bind(count)).item<float>() == picked(n.bind(count), 1).item<float>());
  CHECK(has(error_of([&] { f(n.bind(4)).item<float>(); }), "[index_select] index 9"));
}

TEST_CASE("indices: variables are checked with the values of each replay") {
  Variable n("n", -3, 12), from("from", 0, 12), zero("zero", 0, 4);
  Tensor x = arange(8, {DType::f32}).realize();
  auto at = jit([&](const Sym& i) { return x(i); });
  auto part = jit([&](const Sym& i) { return x.narrow(0, i, 3).sum(); });
  auto slice = jit([&](const Sym& a, const Sym& b) { return x(Slice(a, b)).sum(); });
  for (int64_t i : {5, 0, 7, 2}) CHECK(at(from.bind(i)).item<float>() == static_cast<float>(i));
  CHECK(has(error_of([&] { at(from.bind(8)); }), "[index] from from = 8 there are no 1 elements"));
  CHECK(at(from.bind(7)).item<float>() == 7);
  Variable p("p", 1, 8), q("q", 1, 8);
  auto seen = jit(
      [&](const Sym& a, const Sym& b) { return x(Slice(0, Size(a))).reshape({Size(b)}).sum(); });
  for (int64_t i : {4, 6, 3}) CHECK(seen(p.bind(i), q.bind(i)).item<float>() == i * (i - 1) / 2);
  CHECK(has(error_of([&] { seen(p.bind(7), q.bind(6)); }),
            "[reshape] a shape of p = 7 elements does not fit one of q = 6"));
  for (int64_t i : {5, 0, 4})
    CHECK(part(from.bind(i)).item<float>() == 3.f * static_cast<float>(i + 1));
  CHECK(has(error_of([&] { part(from.bind(6)); }), "no 3 elements on an axis of size 8"));
  for (int64_t b : {3, 12, 5, 12})
    CHECK(slice(zero.bind(1), n.bind(b)).item<float>() == (b == 3 ? 3 : b == 5 ? 10 : 28));
  CHECK(error_of([&] { slice(zero.bind(3), n.bind(3)); }) != fine);
  CHECK(error_of([&] { slice(zero.bind(1), n.bind(-2)); }) != fine);
  CHECK(slice(zero.bind(4), n.bind(5)).item<float>() == 4);
}

TEST_CASE("indices: classes that are ignored may be anything") {
  Tensor given = ints({1, -100, 3, -100}), other = ints({1, 50, 3, 50});
  CrossEntropyOptions o;
  const auto wanted = logits(given).cross_entropy(given).item<float>();
  CHECK(logits(given).cross_entropy(given + 0 * ints({1})).item<float>() == wanted);
  o.ignore_index = 50;
  CHECK(logits(given).cross_entropy(other, o).item<float>() == wanted);
  CHECK(logits(given).cross_entropy(computed({1, 50, 3, 50}), o).item<float>() == wanted);
  CHECK(has(error_of([&] { logits(given).cross_entropy(other); }),
            "[cross_entropy] class 50 is out of range for 6 classes"));
  CHECK(has(error_of([&] { logits(given).cross_entropy(ints({1, -1, 3, 0})); }), "class -1 is"));
}

TEST_CASE("indices: classes that end at -1 or at a length") {
  for (const char* device : {"CPU", "INTERP"}) {
    Tensor scores = logits(ints({0}, device));
    auto margin = [&](const Tensor& i) {
      return multilabel_margin_loss(scores.select(0, 0).narrow(0, 0, i.size(0)), i);
    };
    const auto wanted = margin(ints({1, 3, -1, 0}, device)).item<float>();
    CHECK(margin(ints({1, 3, -1, -1}, device)).item<float>() == doctest::Approx(wanted));
    CHECK(margin(computed({1, 3, -1, 2}, device)).item<float>() == doctest::Approx(wanted));
    for (int64_t wrong : {4, -2})
      for (const Values& v : {
               Values{1, wrong, -1, -1   },
               Values{1, 3,     -1, wrong}
      }) {
        const std::string says =
            text("[multilabel_margin_loss] class ", wrong, " is out of range for 4 classes");
        CHECK(has(error_of([&] { margin(from(v, DType::i64, device)); }), says));
        CHECK(has(error_of([&] { margin(computed(v, device)).item<float>(); }), says));
      }
    Tensor log_probs = scores.log_softmax(1).unsqueeze(1);
    auto ctc = [&](const Tensor& i) {
      Tensor losses =
          ctc_loss(log_probs, i.unsqueeze(0), ints({kCount}, device), ints({2}, device));
      return losses.item<float>();
    };
    CHECK(ctc(ints({1, 5, 99}, device)) == ctc(ints({1, 5, -7}, device)));
    for (int64_t wrong : {6, -1})
      CHECK(has(error_of([&] {
                  ctc(ints({1, wrong, 0}, device));
                }),
                text("[ctc_loss] class ", wrong, " is out of range for 6 classes")));
  }
}

TEST_CASE("indices: bags cover all indices, from the first on") {
  for (const char* device : {"CPU", "INTERP"})
    for (const char* mode : {"sum", "mean", "max"}) {
      Tensor i = ints({4, 0, 5}, device);
      auto bags = [&](const Tensor& offsets) {
        return embedding_bag(i, mat(i), offsets, mode).to_vector<float>();
      };
      CHECK(bags(ints({0, 3}, device)).size() == 6);
      for (const Tensor& offsets : {ints({1, 2}, device), computed({1, 2}, device)})
        CHECK(has(error_of([&] { bags(offsets); }), "[embedding_bag] index -1 is out of range"));
    }
}

TEST_CASE("indices: masked_scatter and select_scatter take what fits") {
  for (const char* device : {"CPU", "INTERP"}) {
    Tensor x = vec(ints({0}, device)), lazy = x > 2, known = (x > 2).contiguous().realize();
    auto written = [&](const Tensor& mask, int64_t count) {
      return x.masked_scatter(mask, arange(count, {DType::f32, device})).to_vector<float>();
    };
    for (const Tensor& mask : {lazy, known}) {
      CHECK(written(mask, 4) == Numbers{0.5, 1.5, 0, 1, 2, 3});
      CHECK(written(mask, 9) == Numbers{0.5, 1.5, 0, 1, 2, 3});
      CHECK(written(mask & (x < 0), 0) == x.to_vector<float>());
      CHECK(has(error_of([&] { written(mask, 3); }), "[masked_scatter] index 3 is out of range"));
      CHECK(has(error_of([&] { written(mask, 0); }), "the mask has 4 true elements"));
    }
    Tensor row = vec(x).narrow(0, 0, 3);
    for (int64_t wrong : {kSize, -kSize - 1})
      CHECK(has(error_of([&] { mat(x).select_scatter(row, 0, wrong); }), "[select_scatter] "));
    CHECK(mat(x).select_scatter(row, 0, -kSize)(0).to_vector<float>() == row.to_vector<float>());
  }
}

TEST_CASE("indices: a mask takes one value for each true element") {
  for (const char* device : {"CPU", "INTERP"}) {
    Tensor x = vec(ints({0}, device)), lazy = x > 2, known = (x > 2).contiguous().realize();
    auto written = [&](const Tensor& mask, const Values& v) {
      return x.clone().set({mask}, from(v, DType::f32, device)).to_vector<float>();
    };
    for (const Tensor& mask : {lazy, known}) {
      CHECK(written(mask, {6, 7, 8, 9}) == Numbers{0.5, 1.5, 6, 7, 8, 9});
      for (const Values& v : {
               Values{6,  7, 8},
               Values{ 5, 6, 7, 8, 9}
      })
        CHECK(has(error_of([&] { written(mask, v); }),
                  text("[set] the mask has 4 true elements, there are ", v.size(), " values")));
    }
    CHECK(error_of([&] { x.clone().set({known}, ints({1, 2}, device)); }) != fine);
    // A mask that is repeated has as many true elements as it shows.
    for (const Tensor& mask : {lazy, known}) {
      Tensor rows = x.zeros_like().expand({3, x.size(0)}).clone(), repeated = mask.expand({3, 6});
      CHECK(rows.clone().set({repeated}, arange(12, {DType::f32, device})).max().item<float>() ==
            11);
      CHECK(error_of([&] {
              rows.clone().set({repeated}, arange(4, {DType::f32, device})).realize();
            }) != fine);
    }
    FlagScope off(Flag::CHECK, 0);
    CHECK(written(lazy, {6, 7, 8}) == Numbers{0.5, 1.5, 6, 7, 8, 0});
  }
}

TEST_CASE("indices: CHECK=2 looks at divisors and weights, in a jit too") {
  FlagScope all(Flag::CHECK, 2);
  Tensor a = ints({7, 8});
  CHECK(has(error_of([&] { a % ints({1, 0}); }), "[remainder] division by zero"));
  auto f = jit([&](const Tensor& d) { return a.floor_divide(d * 2); });
  for (int i = 0; i < 4; ++i) CHECK(f(ints({1, 2})).to_vector<int64_t>() == Values{3, 2});
  CHECK(f.captured());
  CHECK(has(error_of([&] { f(ints({1, 0})); }), "[floor_divide] division by zero"));
  CHECK(f(ints({1, 2})).to_vector<int64_t>() == Values{3, 2});
  Tensor weights = tensor({1.f, -1.f});
  CHECK(has(error_of([&] { weights.multinomial(1).realize(); }), "a weight is negative"));
  CHECK(has(error_of([&] { (weights * 0).multinomial(1).realize(); }),
            "[multinomial] needs 1 classes with weights above 0, there are 0"));
  FlagScope some(Flag::CHECK, 1);
  CHECK((a % ints({2, 0})).to_vector<int64_t>() == Values{1, 0});
}

TEST_CASE("indices: gradients pass, and a wrong step changes nothing") {
  Tensor table = mat(ints({0})).clone().requires_grad_();
  auto step = jit([&](const Tensor& i) {
    Tensor loss = i.embedding(table).square().sum();
    table.zero_grad();
    loss.backward();
    table.assign(table.detach() - table.grad() * 0.01);
    return loss;
  });
  for (int k = 0; k < 3; ++k) step(ints({0, 5}));
  const Numbers before = table.to_vector<float>();
  CHECK(has(error_of([&] { step(ints({0, 6})); }), "[embedding] index 6 is out of range"));
  CHECK(table.to_vector<float>() == before);
  CHECK(error_of([&] { step(ints({0, 5})); }) == fine);
  CHECK(table.to_vector<float>() != before);
  Tensor checked = computed({2, 2}).embedding(table).sum();
  CHECK(checked.gradient({table})[0].sum().item<float>() == 6);
}

TEST_CASE("indices: state that a captured function changes itself") {
  Tensor at = ints({0}), x = vec(at).realize();
  auto next = jit([&] {
    at.add_(1);
    at.realize();
    return x.take(at);
  });
  for (float v : {1.5f, 2.5f, 3.5f, 4.5f, 5.5f}) CHECK(next().item<float>() == v);
  CHECK(has(error_of([&] { next(); }), "[take] index 6 is out of range for an axis of size 6"));
  at.assign(ints({2}));
  CHECK(next().item<float>() == 3.5f);
}

TEST_CASE("indices: generate takes tokens of the vocabulary") {
  models::GptConfig c;
  c.vocabulary = 65, c.context = 8, c.layers = 1, c.heads = 2, c.features = 8;
  models::Gpt model(c);
  models::Sampler sampler({.temperature = 0});
  CHECK(models::generate(model, {64, 0}, 1, sampler).size() == 3);
  CHECK(has(error_of([&] {
              models::generate(model, {1, 70}, 1, sampler);
            }),
            "[generate] no token 70 in a vocabulary of 65"));
  CHECK(has(error_of([&] { models::generate(model, {-1}, 1, sampler); }), "no token -1"));
}

TEST_CASE("indices: the ends of the dtypes") {
  for (const char* device : {"CPU", "INTERP"}) {
    const Values ends = {INT64_MIN, INT64_MAX, -1};
    for (int64_t end : ends)
      for (const Tensor& i : {ints({0, end}, device), computed({0, end}, device)}) {
        const std::string error = error_of([&] { i.embedding(mat(i)).to_vector<float>(); });
        // Of a kernel the least integer is reported as the one above it.
        CHECK(has(error, text("index ", std::to_string(end).substr(0, 18))));
      }
    for (const Tensor& i : {from({-1}, DType::u64, device), computed({-1}, device).to(DType::u64)})
      CHECK(has(error_of([&] { vec(i).take(i).item<float>(); }),
                "[take] index 18446744073709551615 is out of range"));
  }
}

TEST_CASE("indices: whatever reads a value reports") {
  test::TempFolder folder;
  auto wrong = [] { return vec(ints({0})).take(computed({9, 9})); };
  const std::string says = "[take] index 9 is out of range for an axis of size 6";
  CHECK(has(error_of([&] { wrong().realize(); }), says));
  CHECK(has(error_of([&] { realize({wrong()}); }), says));
  CHECK(has(error_of([&] { wrong().to_vector<float>(); }), says));
  CHECK(has(error_of([&] { wrong().sum().item<float>(); }), says));
  CHECK(has(error_of([&] { std::ostringstream() << wrong(); }), says));
  CHECK(has(error_of([&] { wrong().sum().gt(0).nonzero(); }), says));
  CHECK(has(error_of([&] {
              save_safetensors(folder / "t", {
                                                 {"x", wrong()}
              });
            }),
            says));
}
