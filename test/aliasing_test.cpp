// Handles, views and writes: a lazy program must give what the same program gives when every call
// runs at once on plain memory, whatever is realized, read or dropped in between.
#include <doctest/doctest.h>
#include <mote/mote.h>

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

  size_t below(size_t n) { return random_() % n; }
  size_t any() { return below(all_.size()); }
  std::string name(size_t i) const { return "t" + std::to_string(i); }
  void say(const std::string& line) { log_ += line + "\n"; }

  void add(Tensor t, Eager e, const std::string& how) {
    say(name(all_.size()) + " = " + how);
    all_.push_back({std::move(t), std::move(e)});
  }

  void make_new() {
    static const Values shapes[] = {{3, 4}, {4, 3}, {2, 3}, {3, 3}};
    Values shape = shapes[below(4)];
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
    int64_t begin = static_cast<int64_t>(below(static_cast<size_t>(x.now.shape[0])));
    int64_t end = begin + 1 + static_cast<int64_t>(below(static_cast<size_t>(x.now.shape[0] - begin)));
    int64_t columns = x.now.shape[1];
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
    switch (below(5)) {
      case 0:
        for (int64_t& e : v) e = e * 2 + 1;
        return add(x.lazy * 2 + 1, eager(v, shape), name(i) + " * 2 + 1");
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
  const char* only = std::getenv("SEED");
  for (int seed = only ? atoi(only) : 0; seed < (only ? atoi(only) + 1 : count) && failures < 3; ++seed) {
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

bool soaks() { return std::getenv("MOTE_SOAK") != nullptr; }

}  // namespace

TEST_SUITE("aliasing") {
  TEST_CASE("random programs of views and writes, interpreted") {
    run_programs("INTERP", soaks() ? 20000 : 20000, 30);
  }
  TEST_CASE("random programs of views and writes, compiled") {
    run_programs("CPU", soaks() ? 2000 : 400, 40);
  }
}
