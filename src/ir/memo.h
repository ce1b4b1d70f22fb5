// What walks over a graph remember of its nodes, by id.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "base/lifetime.h"
#include "ir/graph.h"

namespace mote {

// A T for each node of one graph. Cleared by a new epoch, so a walk costs only what it visits.
template <class T>
class Memo {
 public:
  void clear() {
    if (++epoch_ == 0) {
      entries_.clear();
      epoch_ = 1;
    }
  }
  // T() until set. Valid until the next one is asked for.
  T& operator[](const Node* n) {
    if (n->id >= entries_.size())
      entries_.resize(std::max<size_t>({n->id + size_t{1}, arena().size(), entries_.size() * 2}));
    Entry& e = entries_[n->id];
    if (e.epoch != epoch_) e = {T(), epoch_};
    return e.value;
  }
  T& operator[](UOp u) { return (*this)[u.get()]; }

 private:
  struct Entry {
    T value{};
    uint32_t epoch = 0;
  };
  std::vector<Entry> entries_;
  uint32_t epoch_ = 0;
};

// A cleared T of this thread, warm from earlier uses. Leases nest: the last one taken ends first.
template <class T>
class Lease {
 public:
  Lease() {
    Pool& p = pool();
    if (p.used == p.all.size()) p.all.push_back(std::make_unique<T>());
    value_ = p.all[p.used++].get();
    value_->clear();
  }
  ~Lease() { --pool().used; }
  Lease(const Lease&) = delete;
  T& operator*() const { return *value_; }

 private:
  struct Pool {
    std::vector<std::unique_ptr<T>> all;
    size_t used = 0;
  };
  static Pool& pool() { return PerThread<Pool>::get(); }
  T* value_;
};
template <class T>
using MemoLease = Lease<Memo<T>>;

}  // namespace mote
