// Handles, views and writes: a lazy program must give what the same program gives when every call
// runs at once on plain memory, whatever is realized, read or dropped in between.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "test/amount.h"

using namespace mote;

namespace {

using Values = std::vector<int64_t>;
constexpr const char* devices[] = {"CPU", "INTERP"};

Options on(const char* device) { return {DType::i64, device}; }
Tensor counting(int64_t n, const char* device) {
  Values v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0);
  return from_data(v, n, on(device));
}
Values values(const Tensor& t) { return t.to_vector<int64_t>(); }

int64_t product(const Values& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// A tensor run at once: a shape, and for each element its place in memory that views share.
struct Eager {
  std::shared_ptr<Values> memory;
  Values places, shape;

  Values read() const {
    Values out;
    for (int64_t p : places) out.push_back((*memory)[static_cast<size_t>(p)]);
    return out;
  }
  void write(const Values& v) {
    for (size_t i = 0; i < places.size(); ++i) (*memory)[static_cast<size_t>(places[i])] = v[i];
  }
  // Do two elements share a place?
  bool overlaps() const {
    Values sorted = places;
    std::sort(sorted.begin(), sorted.end());
    return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  }
  bool in_order() const {
    for (size_t i = 0; i < places.size(); ++i)
      if (places[i] != places[0] + static_cast<int64_t>(i)) return false;
    return true;
  }
};

Eager eager(Values v, Values shape) {
  Values places(v.size());
  std::iota(places.begin(), places.end(), 0);
  return {std::make_shared<Values>(std::move(v)), places, std::move(shape)};
}

Values position_in(const Values& shape, int64_t flat) {
  Values at(shape.size());
  for (size_t i = at.size(); i-- > 0; flat /= shape[i]) at[i] = flat % shape[i];
  return at;
}
int64_t flat_in(const Values& shape, const Values& at) {
  int64_t flat = 0;
  for (size_t i = 0; i < at.size(); ++i) flat = flat * shape[i] + at[i];
  return flat;
}

// The view of `shape` whose element at a position is the one of e at source(position).
template <class F>
Eager viewed(const Eager& e, Values shape, F source) {
  Eager out{e.memory, {}, std::move(shape)};
  for (int64_t k = 0; k < product(out.shape); ++k)
    out.places.push_back(
        e.places[static_cast<size_t>(flat_in(e.shape, source(position_in(out.shape, k))))]);
  return out;
}

// Can the elements be seen in the shape without a copy? Only if each axis has one stride.
bool has_strides(const Eager& e, const Values& shape) {
  for (int64_t k = 0; k < product(shape); ++k) {
    Values at = position_in(shape, k);
    int64_t place = e.places[0];
    for (size_t i = 0; i < at.size(); ++i) {
      if (shape[i] == 1) continue;
      Values next(at.size(), 0);
      next[i] = 1;
      place += at[i] * (e.places[static_cast<size_t>(flat_in(shape, next))] - e.places[0]);
    }
    if (place != e.places[static_cast<size_t>(k)]) return false;
  }
  return true;
}

struct Both {
  Tensor lazy;
  Eager now;
};

// A random program on both sides, of tensors with up to three axes.
class Program {
 public:
  Program(uint64_t seed, const char* device) : random_(seed), device_(device) {
    for (int i = 0; i < 3; ++i) make_new();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!all_.empty()) {
      size_t i = below(all_.size());
      say("last read " + name(i));
      compare(all_[i]);
      all_.erase(all_.begin() + static_cast<long>(i));
    }
  }
  const std::string& log() const { return log_; }

 private:
  std::mt19937_64 random_;
  const char* device_;
  std::vector<Both> all_;
  std::string log_;

  template <class T>
  T below(T n) {
    return static_cast<T>(random_() % static_cast<uint64_t>(n));
  }
  size_t any() { return below(all_.size()); }
  const char* other() const { return devices[device_ == std::string(devices[0])]; }
  std::string name(size_t i) const { return "t" + std::to_string(i); }
  static std::string text(const Values& v) {
    std::string out;
    for (int64_t n : v) out += (out.empty() ? "" : ", ") + std::to_string(n);
    return "{" + out + "}";
  }
  void say(const std::string& line) { log_ += line + "\n"; }

  void add(Tensor t, Eager e, const std::string& how) {
    if (t.shape() != e.shape) throw std::runtime_error(log_ + how + ": shape " + text(t.shape()));
    say(name(all_.size()) + " = " + how);
    all_.push_back({std::move(t), std::move(e)});
  }

  void make_new() {
    // Rows of 200 elements take cache lines of their own in memory.
    // clang-format off
    static const Values shapes[] = {{3, 4}, {4, 3}, {2, 3}, {3, 3}, {3, 200}, {6}, {1, 3},
                                    {2, 1, 3}, {1}, {2, 2, 2}};
    // clang-format on
    Values shape = shapes[below(std::size(shapes))];
    Values v(static_cast<size_t>(product(shape)), 7);
    bool constant = below(2);
    if (!constant) std::iota(v.begin(), v.end(), 0);
    Tensor t = constant ? full(shape, 7, on(device_)) : from_data(v, shape, on(device_));
    add(t, eager(v, shape), (constant ? "full " : "from_data ") + text(shape));
  }

  // Views.
  void slice(size_t i, const Both& x) {
    if (x.now.shape.empty()) return;
    size_t axis = below(x.now.shape.size());
    int64_t size = x.now.shape[axis], begin = below(size), step = 1 + below<int64_t>(2);
    bool back = below(3) == 0;
    int64_t count = 1 + below(back ? begin / step + 1 : (size - 1 - begin) / step + 1);
    if (back) step = -step;
    int64_t end = begin + count * step;
    Slice cut = end < 0 ? Slice(begin, None, step) : Slice(begin, end, step);
    std::vector<Index> index(axis, Slice());
    index.emplace_back(cut);
    Values shape = x.now.shape;
    shape[axis] = count;
    Eager e = viewed(x.now, shape, [&](Values at) {
      at[axis] = begin + at[axis] * step;
      return at;
    });
    add(x.lazy.index(index), e,
        name(i) + " axis " + std::to_string(axis) + " " + text({begin, count, step}));
  }
  void permute(size_t i, const Both& x) {
    Values order(x.now.shape.size()), shape;
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    for (int64_t axis : order) shape.push_back(x.now.shape[static_cast<size_t>(axis)]);
    Eager e = viewed(x.now, shape, [&](const Values& at) {
      Values from(at.size());
      for (size_t k = 0; k < at.size(); ++k) from[static_cast<size_t>(order[k])] = at[k];
      return from;
    });
    add(x.lazy.permute(order), e, name(i) + ".permute" + text(order));
  }
  void reshape(size_t i, const Both& x) {
    int64_t count = product(x.now.shape), first = 1 + below<int64_t>(4);
    Values shape = count % first ? Values{count} : Values{first, count / first};
    if (below(4) == 0) shape.insert(shape.begin() + below<long>(2), 1);
    std::string how = name(i) + ".reshape" + text(shape);
    if (has_strides(x.now, shape))
      return add(below(2) ? x.lazy.reshape(shape) : x.lazy.view(shape),
                 {x.now.memory, x.now.places, shape}, how);
    add(x.lazy.reshape(shape), eager(x.now.read(), shape), how);
  }
  void expand(size_t i, const Both& x) {
    Values shape = x.now.shape;
    for (int64_t& n : shape)
      if (n == 1 && below(2)) n = 2;
    bool more = shape.size() < 3 && below(2);
    if (more) shape.insert(shape.begin(), 2);
    Eager e = viewed(x.now, shape, [&](Values at) {
      if (more) at.erase(at.begin());
      for (size_t k = 0; k < at.size(); ++k) at[k] %= x.now.shape[k];
      return at;
    });
    add(x.lazy.expand(shape), e, name(i) + ".expand" + text(shape));
  }
  void select(size_t i, const Both& x) {
    if (x.now.shape.empty()) return;
    size_t axis = below(x.now.shape.size());
    int64_t at = below(x.now.shape[axis]);
    Values shape = x.now.shape;
    shape.erase(shape.begin() + static_cast<long>(axis));
    Eager e = viewed(x.now, shape, [&](Values from) {
      from.insert(from.begin() + static_cast<long>(axis), at);
      return from;
    });
    auto d = static_cast<int64_t>(axis);
    Tensor t = below(2) ? x.lazy.select(d, at) : x.lazy.unbind(d)[static_cast<size_t>(at)];
    add(t, e, name(i) + ".select" + text({d, at}));
  }
  void diagonal(size_t i, const Both& x) {
    if (x.now.shape.size() != 2) return;
    Eager e = viewed(x.now, {std::min(x.now.shape[0], x.now.shape[1])}, [](const Values& at) {
      return Values{at[0], at[0]};
    });
    add(x.lazy.diagonal(), e, name(i) + ".diagonal()");
  }
  // The same tensor, or one more axis.
  void share(size_t i, const Both& x) {
    switch (below(6)) {
      case 0: return add(x.lazy, x.now, name(i));
      case 1: return add(x.lazy.detach(), x.now, name(i) + ".detach()");
      case 2: return add(x.lazy.to(DType::i64), x.now, name(i) + ".to(i64)");
      case 3:
        return add(x.lazy.contiguous(), x.now.in_order() ? x.now : eager(x.now.read(), x.now.shape),
                   name(i) + ".contiguous()");
      case 4: return add(x.lazy.view(x.now.shape), x.now, name(i) + ".view(same)");
      default: {
        if (x.now.shape.size() > 2) return;
        Eager e = x.now;
        e.shape.insert(e.shape.begin(), 1);
        return add(x.lazy.unsqueeze(0), e, name(i) + ".unsqueeze(0)");
      }
    }
  }
  void view() {
    size_t i = any();
    Both x = all_[i];
    switch (below(8)) {
      case 0: return permute(i, x);
      case 1: return reshape(i, x);
      case 2: return expand(i, x);
      case 3: return select(i, x);
      case 4: return diagonal(i, x);
      case 5: return share(i, x);
      default: return slice(i, x);
    }
  }

  // New tensors with the same values, by methods that have nothing to do here.
  void identity(size_t i, const Both& x) {
    // clang-format off
    static const std::pair<const char*, Tensor (*)(const Tensor&)> same[] = {
        {"clone()", [](const Tensor& t) { return t.clone(); }},
        {"pow(1)", [](const Tensor& t) { return t.pow(1); }},
        {"floor()", [](const Tensor& t) { return t.floor(); }},
        {"round()", [](const Tensor& t) { return t.round(); }},
        {"nan_to_num()", [](const Tensor& t) { return t.nan_to_num(); }},
        {"positive()", [](const Tensor& t) { return t.positive(); }},
        {"bitcast(i64)", [](const Tensor& t) { return t.bitcast(DType::i64); }},
        {"pad(0)", [](const Tensor& t) { return t.pad({0, 0}); }},
        {"pad(circular)", [](const Tensor& t) { return t.pad({0, 0}, "circular"); }},
        {"roll(0)", [](const Tensor& t) { return t.roll(0); }},
        {"tile(1)", [](const Tensor& t) { return t.tile(1); }},
        {"repeat_interleave", [](const Tensor& t) { return t.repeat_interleave(1, 0); }},
        {"add(0)", [](const Tensor& t) { return t + 0; }},
        {"mul(1)", [](const Tensor& t) { return t * 1; }},
        {"cat", [](const Tensor& t) { return cat({t}); }},
        {"stack", [](const Tensor& t) { return stack({t}).squeeze(0); }},
        {"masked_fill", [](const Tensor& t) { return t.masked_fill(t.ne(t), 1); }},
        {"sum", [](const Tensor& t) { return t.unsqueeze(0).sum(0); }},
        {"cumsum", [](const Tensor& t) { return t.unsqueeze(0).cumsum(0).squeeze(0); }},
        {"amax", [](const Tensor& t) { return t.unsqueeze(-1).amax(-1); }},
    };
    // clang-format on
    const auto& [word, f] = same[below(std::size(same))];
    if (x.now.shape.empty()) return;
    add(f(x.lazy), eager(x.now.read(), x.now.shape), name(i) + "." + word);
  }
  void compute() {
    size_t i = any();
    Both x = all_[i];
    Values v = x.now.read(), shape = x.now.shape;
    switch (below(7)) {
      case 0:
        for (int64_t& e : v) e = e * 2 + 1;
        return add(x.lazy * 2 + 1, eager(v, shape), name(i) + " * 2 + 1");
      case 1:
        for (int64_t& e : v) e = e * 3;
        return add((x.lazy.to(other()) * 3).to(device_), eager(v, shape),
                   name(i) + " * 3 on " + other());
      case 2: {
        if (shape.empty()) return;
        auto inner = static_cast<size_t>(product(shape) / shape[0]);
        Values sums(inner, 0);
        for (size_t k = 0; k < v.size(); ++k) sums[k % inner] += v[k];
        shape[0] = 1;
        return add(x.lazy.sum(0, true), eager(sums, shape), name(i) + ".sum(0, true)");
      }
      case 3: {
        if (shape.empty()) return;
        Eager back = viewed(x.now, shape, [&](Values at) {
          at[0] = shape[0] - 1 - at[0];
          return at;
        });
        return add(x.lazy.flip(0), eager(back.read(), shape), name(i) + ".flip(0)");
      }
      case 4: {
        size_t k = fitting(shape);
        Values w = broadcast(all_[k].now, shape);
        for (size_t e = 0; e < v.size(); ++e) v[e] = v[e] - w[e];
        return add(x.lazy - all_[k].lazy, eager(v, shape), name(i) + " - " + name(k));
      }
      default: return identity(i, x);
    }
  }

  // One that broadcasts to the shape; there always is the tensor of that shape itself.
  size_t fitting(const Values& shape) {
    std::vector<size_t> found;
    for (size_t i = 0; i < all_.size(); ++i) {
      const Values& s = all_[i].now.shape;
      bool fits = s.size() <= shape.size();
      for (size_t k = 1; fits && k <= s.size(); ++k)
        fits = s[s.size() - k] == 1 || s[s.size() - k] == shape[shape.size() - k];
      if (fits) found.push_back(i);
    }
    return found[below(found.size())];
  }
  static Values broadcast(const Eager& e, const Values& shape) {
    size_t added = shape.size() - e.shape.size();
    return viewed(e, shape,
                  [&](Values at) {
                    at.erase(at.begin(), at.begin() + static_cast<long>(added));
                    for (size_t k = 0; k < at.size(); ++k) at[k] %= e.shape[k];
                    return at;
                  })
        .read();
  }

  // Writes. Where elements share a place there is an error instead.
  template <class F>
  void write_to(Both& x, const Values& v, F lazily) {
    bool refused = false;
    try {
      lazily();
    } catch (const Error& e) {
      refused = std::string(e.what()).find("share one place") != std::string::npos;
      if (!refused) throw;
    }
    if (refused != x.now.overlaps())
      throw std::runtime_error(log_ + (refused ? "is refused" : "should be refused"));
    if (!refused) x.now.write(v);
  }
  void write() {
    size_t i = any(), k = fitting(all_[i].now.shape);
    Both& x = all_[i];
    Values w = broadcast(all_[k].now, x.now.shape), v = x.now.read();
    switch (below(5)) {
      case 0:
        say(name(i) + ".assign(" + name(k) + ")");
        return write_to(x, w, [&] { x.lazy.assign(all_[k].lazy); });
      case 1: {
        say(name(i) + ".add_(" + name(k) + ")");
        for (size_t e = 0; e < v.size(); ++e) v[e] += w[e];
        return write_to(x, v, [&] { x.lazy.add_(all_[k].lazy); });
      }
      case 2: {
        say(name(i) + ".masked_fill_(" + name(k) + " < 3, 8)");
        for (size_t e = 0; e < v.size(); ++e) v[e] = w[e] < 3 ? 8 : v[e];
        return write_to(x, v, [&] { x.lazy.masked_fill_(all_[k].lazy < 3, 8); });
      }
      case 3: {
        if (x.now.shape.empty() || x.now.overlaps()) return;
        say(name(i) + ".set({-1}, 4)");
        auto inner = static_cast<size_t>(product(x.now.shape) / x.now.shape[0]);
        std::fill(v.end() - static_cast<long>(inner), v.end(), 4);
        x.lazy.set({-1}, 4);
        return x.now.write(v);
      }
      default:
        say(name(i) + ".fill_(5)");
        return write_to(x, Values(w.size(), 5), [&] { x.lazy.fill_(5); });
    }
  }

  void compare(const Both& x) {
    Values got = values(x.lazy), want = x.now.read();
    if (got != want) throw std::runtime_error(log_ + "got " + text(got) + "\nwant " + text(want));
  }

  void step() {
    switch (below(12)) {
      case 0: return make_new();
      case 1:
      case 2:
      case 3: return view();
      case 4:
      case 5: return compute();
      case 6:
      case 7:
      case 8: return write();
      case 9: {
        size_t i = any();
        say("read " + name(i));
        return compare(all_[i]);
      }
      case 10: {
        size_t i = any(), k = any();
        say("realize " + name(i) + " " + name(k));
        return realize(std::vector<Tensor>{all_[i].lazy, all_[k].lazy});
      }
      default: {
        if (all_.size() < 4) return;
        size_t i = any();
        say("drop " + name(i) + ", " + name(all_.size() - 1) + " takes its name");
        std::swap(all_[i], all_.back());
        all_.pop_back();
      }
    }
  }
};

void run_programs(const char* device, int first_seed, int count, int steps) {
  int failures = 0;
  auto start = std::chrono::steady_clock::now();
  for (int seed = first_seed; seed < first_seed + count && failures < 3; ++seed) {
    Program p(static_cast<uint64_t>(seed), device);
    try {
      p.run(steps);
    } catch (const std::exception& e) {
      ++failures;
      std::string text = std::string(device) + " seed " + std::to_string(seed) + "\n" + p.log();
      text += e.what();
      FAIL_CHECK(text);
    }
  }
  std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  MESSAGE(std::string(device) << ": " << count << " programs from seed " << first_seed << ", "
                              << static_cast<int>(count / took.count()) << " a second");
}

}  // namespace

TEST_SUITE("aliasing") {
  TEST_CASE("equal expressions are two tensors, whatever was realized") {
    for (const char* d : devices) {
      Tensor a = zeros({4}, on(d)), b = zeros({4}, on(d)), sum = zeros({4}, on(d)).sum();
      a.realize();
      a.assign(1).realize();
      CHECK(values(b) == Values{0, 0, 0, 0});
      CHECK(values(zeros({4}, on(d))) == Values{0, 0, 0, 0});
      CHECK(sum.item<int64_t>() == 0);
      Tensor x = counting(3, d), c = x * 2, e = x * 2;
      realize(std::vector<Tensor>{c, e});
      c.add_(1);
      e.add_(10);
      CHECK(values(c) == Values{1, 3, 5});
      CHECK(values(e) == Values{10, 12, 14});
      CHECK(values(x * 2) == Values{0, 2, 4});
    }
  }

  TEST_CASE("a handle, a view and a detached view share; a clone does not") {
    for (const char* d : devices) {
      Tensor a = counting(6, d), b = a, v = a.reshape({2, 3}), w = v.t(), s = a.detach();
      Tensor c = a.clone();
      b.add_(10);
      CHECK(values(w) == Values{10, 13, 11, 14, 12, 15});
      v.realize();
      w(0) = -1;
      CHECK(values(a) == Values{-1, 11, 12, -1, 14, 15});
      s(Slice(1, 3)) = 0;
      CHECK(values(v) == Values{-1, 0, 0, -1, 14, 15});
      CHECK(values(c) == Values{0, 1, 2, 3, 4, 5});
    }
  }

  TEST_CASE("a write may read what it overwrites, in any order") {
    for (const char* d : devices) {
      for (int64_t n : {5, 1000}) {
        Values up(static_cast<size_t>(n)), down, shifted;
        std::iota(up.begin(), up.end(), 0);
        down.assign(up.rbegin(), up.rend());
        shifted = up;
        shifted.insert(shifted.begin(), 0);
        shifted.pop_back();
        Tensor x = counting(n, d);
        x.assign(x.flip(0));
        CHECK(values(x) == down);
        x = counting(n, d);
        x(Slice(1, None)) = x(Slice(None, -1));
        CHECK(values(x) == shifted);
        x = counting(n, d);
        x(Slice(None, -1)) = x(Slice(1, None));
        up.erase(up.begin());
        up.push_back(n - 1);
        CHECK(values(x) == up);
      }
      Tensor m = counting(9, d).reshape({3, 3});
      m.assign(m.t());
      CHECK(values(m) == Values{0, 3, 6, 1, 4, 7, 2, 5, 8});
      m.t().assign(m);
      CHECK(values(m) == Values{0, 1, 2, 3, 4, 5, 6, 7, 8});
      m.assign(m.sum(0));
      CHECK(values(m) == Values{9, 12, 15, 9, 12, 15, 9, 12, 15});
      Tensor y = counting(4, d), z = counting(4, d) + 10, old = y.clone();
      y.assign(z);  // a swap of two
      z.assign(old);
      CHECK(values(z) == Values{0, 1, 2, 3});
      CHECK(values(y) == Values{10, 11, 12, 13});
    }
  }

  TEST_CASE("a loss asked for after the step is the loss before it") {
    for (const char* d : devices) {
      Tensor w = from_data(std::vector<float>{1, 2, 3}, {3}, {.device = d}).requires_grad_();
      Tensor x = from_data(std::vector<float>{1, 1, 2}, {3}, {.device = d});
      Tensor loss = (w * x).square().sum(), predicted = w * x;
      loss.backward();
      w.sub_(w.grad() * 0.5);
      w.realize();
      CHECK(loss.item<float>() == 41);
      CHECK(predicted.to_vector<float>() == std::vector<float>{1, 2, 6});
      CHECK(w.to_vector<float>() == std::vector<float>{0, 0, -9});
      CHECK((w * x).to_vector<float>() == std::vector<float>{0, 0, -18});
    }
  }

  TEST_CASE("random numbers keep their place in the sequence, whenever they are run") {
    for (const char* d : devices) {
      Options o{.device = d};
      manual_seed(7);
      std::vector<float> a = rand({4}, o).to_vector<float>(), b = rand({3}, o).to_vector<float>(),
                         c = rand({4}, o).to_vector<float>();
      manual_seed(7);
      Tensor x = rand({4}, o), y = rand({3}, o), z = rand({4}, o), both = x + z;
      CHECK(z.to_vector<float>() == c);
      CHECK(x.to_vector<float>() == a);
      CHECK(y.to_vector<float>() == b);
      for (size_t i = 0; i < 4; ++i) CHECK(both.to_vector<float>()[i] == a[i] + c[i]);
      CHECK(a != c);
    }
  }

  TEST_CASE("old values outlive many writes") {
    for (const char* d : devices) {
      Tensor x = counting(3, d);
      std::vector<Tensor> old;
      for (int i = 0; i < 6; ++i) {
        old.push_back(i % 2 ? x * 1 : x(Slice(1, 3)).clone());
        x.add_(1);
        if (i % 3 == 2) x.realize();
      }
      CHECK(values(x) == Values{6, 7, 8});
      for (int64_t i = 5; i >= 0; --i)
        CHECK(values(old[static_cast<size_t>(i)]) ==
              (i % 2 ? Values{i, i + 1, i + 2} : Values{i + 1, i + 2}));
    }
  }

  TEST_CASE("what another device reads of a tensor that is only written here is there for both") {
    for (const char* there : devices) {
      Tensor x = full(8, 7, on("CPU"));
      x(Slice(0, 2)).assign(3);
      x(Slice(4, 6)).assign(5);
      Tensor y = (x.to(there) + 1).to("CPU") + x.sum();
      x = {};
      CHECK(values(y) == Values{48, 48, 52, 52, 50, 50, 52, 52});
    }
  }

  TEST_CASE("random programs of views and writes, interpreted") {
    run_programs("INTERP", 0, test::scaled(2000), 30);
  }
  TEST_CASE("random programs of views and writes, compiled") {
    run_programs("CPU", 0, test::scaled(60), 30);
  }
}

TEST_SUITE("soak") {
  TEST_CASE("random programs of views and writes, many") {
    run_programs("INTERP", 1'000'000, test::scaled(48'000), 30);
    run_programs("CPU", 1'000'000, test::scaled(2'000), 40);
  }
}
