// Handles, views and writes: a lazy program must give what the same program gives when every call
// runs at once on plain memory, whatever is realized, read or dropped in between.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

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

// A tensor run at once: places in memory that views share.
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
};

Eager eager(Values v, Values shape) {
  Values places(v.size());
  std::iota(places.begin(), places.end(), 0);
  return {std::make_shared<Values>(std::move(v)), places, std::move(shape)};
}

struct Both {
  Tensor lazy;
  Eager now;
};

// A random program on both sides. Every tensor has the shape (rows, columns).
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
  void say(const std::string& line) { log_ += line + "\n"; }

  void add(Tensor t, Eager e, const std::string& how) {
    say(name(all_.size()) + " = " + how);
    all_.push_back({std::move(t), std::move(e)});
  }

  void make_new() {
    // Rows of 200 elements take cache lines of their own in memory.
    static const Values shapes[] = {{3, 4}, {4, 3}, {2, 3}, {3, 3}, {3, 200}};
    Values shape = shapes[below(5)];
    Values v(static_cast<size_t>(shape[0] * shape[1]), 7);
    bool constant = below(2);
    if (!constant) std::iota(v.begin(), v.end(), 0);
    Tensor t = constant ? full(shape, 7, on(device_)) : from_data(v, shape, on(device_));
    add(t, eager(v, shape), constant ? "full" : "from_data");
  }

  // Views.
  void slice() {
    size_t i = any();
    Both x = all_[i];
    int64_t rows = x.now.shape[0], columns = x.now.shape[1];
    int64_t begin = below(rows), end = begin + 1 + below(rows - begin);
    Values places(x.now.places.begin() + begin * columns, x.now.places.begin() + end * columns);
    add(x.lazy(Slice(begin, end)), {x.now.memory, places, {end - begin, columns}},
        name(i) + "[" + std::to_string(begin) + ":" + std::to_string(end) + "]");
  }
  static Eager transposed(const Eager& e) {
    Eager out{e.memory, {}, {e.shape[1], e.shape[0]}};
    for (int64_t c = 0; c < e.shape[1]; ++c)
      for (int64_t r = 0; r < e.shape[0]; ++r)
        out.places.push_back(e.places[static_cast<size_t>(r * e.shape[1] + c)]);
    return out;
  }
  void transpose() {
    size_t i = any();
    Both x = all_[i];
    add(x.lazy.t(), transposed(x.now), name(i) + ".t()");
  }
  void share() {
    size_t i = any();
    Both x = all_[i];
    add(below(2) ? x.lazy : x.lazy.detach(), x.now, name(i));
  }

  // New values.
  void compute() {
    size_t i = any();
    Both x = all_[i];
    Values v = x.now.read(), shape = x.now.shape;
    auto columns = static_cast<size_t>(shape[1]);
    switch (below(6)) {
      case 0:
        for (int64_t& e : v) e = e * 2 + 1;
        return add(x.lazy * 2 + 1, eager(v, shape), name(i) + " * 2 + 1");
      case 5:
        for (int64_t& e : v) e = e * 3;
        return add((x.lazy.to(other()) * 3).to(device_), eager(v, shape),
                   name(i) + " * 3 on " + other());
      case 1:
        return add(x.lazy.clone(), eager(v, shape), name(i) + ".clone()");
      case 2: {
        Values sums(columns, 0);
        for (size_t k = 0; k < v.size(); ++k) sums[k % columns] += v[k];
        return add(x.lazy.sum(0, true), eager(sums, {1, shape[1]}), name(i) + ".sum(0, true)");
      }
      case 3: {
        Values flipped;
        for (size_t r = v.size() / columns; r-- > 0;)
          for (size_t c = 0; c < columns; ++c) flipped.push_back(v[r * columns + c]);
        return add(x.lazy.flip(0), eager(flipped, shape), name(i) + ".flip(0)");
      }
      default: {
        size_t k = fitting(shape);
        Values w = broadcast(all_[k].now, shape);
        for (size_t e = 0; e < v.size(); ++e) v[e] = v[e] - w[e];
        return add(x.lazy - all_[k].lazy, eager(v, shape), name(i) + " - " + name(k));
      }
    }
  }

  // One that broadcasts to the shape; there always is the tensor of that shape itself.
  size_t fitting(const Values& shape) {
    std::vector<size_t> found;
    for (size_t i = 0; i < all_.size(); ++i) {
      const Values& s = all_[i].now.shape;
      if (s[1] == shape[1] && (s[0] == shape[0] || s[0] == 1)) found.push_back(i);
    }
    return found[below(found.size())];
  }
  static Values broadcast(const Eager& e, const Values& shape) {
    Values v = e.read(), out;
    for (int64_t k = 0; k < shape[0] * shape[1]; ++k)
      out.push_back(v[static_cast<size_t>(k) % v.size()]);
    return out;
  }

  // Writes.
  void write() {
    size_t i = any(), k = fitting(all_[i].now.shape);
    Both& x = all_[i];
    Values w = broadcast(all_[k].now, x.now.shape);
    switch (below(3)) {
      case 0:
        say(name(i) + ".assign(" + name(k) + ")");
        x.lazy.assign(all_[k].lazy);
        return x.now.write(w);
      case 1: {
        say(name(i) + ".add_(" + name(k) + ")");
        Values v = x.now.read();
        for (size_t e = 0; e < v.size(); ++e) v[e] += w[e];
        x.lazy.add_(all_[k].lazy);
        return x.now.write(v);
      }
      default:
        say(name(i) + ".fill_(5)");
        x.lazy.fill_(5);
        return x.now.write(Values(w.size(), 5));
    }
  }

  void compare(const Both& x) {
    Values got = values(x.lazy), want = x.now.read();
    if (got == want) return;
    std::string text = log_ + "got";
    for (int64_t v : got) text += " " + std::to_string(v);
    text += "\nwant";
    for (int64_t v : want) text += " " + std::to_string(v);
    throw std::runtime_error(text);
  }

  void step() {
    switch (below(12)) {
      case 0: return make_new();
      case 1: return slice();
      case 2: return transpose();
      case 3: return share();
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

void run_programs(const char* device, int count, int steps) {
  int failures = 0;
  for (int seed = 0; seed < count && failures < 3; ++seed) {
    Program p(static_cast<uint64_t>(seed), device);
    try {
      p.run(steps);
    } catch (const std::exception& e) {
      ++failures;
      std::string text = std::string(device) + " seed " + std::to_string(seed) + "\n" + e.what();
      FAIL_CHECK(text);
    }
  }
}

int scaled(int count, int soaking) {
  if (std::getenv("MOTE_SOAK")) return soaking;
  const char* scale = std::getenv("MOTE_TEST_SCALE");
  return scale ? std::max(1, static_cast<int>(count * std::atof(scale))) : count;
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
    run_programs("INTERP", scaled(3000, 50000), 30);
  }
  TEST_CASE("random programs of views and writes, compiled") {
    run_programs("CPU", scaled(150, 2000), 40);
  }
}
