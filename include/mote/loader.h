// Batches prepared ahead by worker threads.
//
//   data::Loader<data::Images::Batch> batches(
//       data::Order(train.count(), 64, seed), [&](auto rows) { return train.batch(rows); });
//   for (int64_t step = 0; step < steps; ++step) {
//     data::Images::Batch batch = batches.next();
//
// Batches come in the same order for any number of workers. An exception in a worker is thrown by
// the next() that would have returned its batch; the call after that returns the next batch. At
// most `ahead` batches exist, or are being prepared, that you have not taken. A loader can be a
// part of a checkpoint: it continues with the batch after the last one taken.
#pragma once
#include <mote/data.h>
#include <mote/io.h>

#include <functional>

namespace mote::data {

struct LoaderOptions {
  int workers = 2;  // 0: next() makes the batch itself
  int64_t ahead = 4;
};

// The part that does not depend on the batch's type.
class LoaderBase {
 public:
  LoaderBase(const LoaderBase&) = delete;
  LoaderBase& operator=(const LoaderBase&) = delete;
  Order::State state() const;  // after the batches taken
  void restore(const Order::State& state, Loc = MOTE_HERE);
  void restore(const Metadata& state, Loc = MOTE_HERE);
  int64_t batches_per_epoch() const;

 protected:
  using Make = std::function<void*(std::span<const int64_t> rows)>;
  using Drop = void (*)(void*);
  LoaderBase(Order order, Make make, Drop drop, const LoaderOptions&, const Loc&);
  ~LoaderBase();
  void* take();

 private:
  struct Core;
  Core* core_;
};

template <class Batch>
class Loader : public LoaderBase {
 public:
  template <class F>
  Loader(Order order, F make, const LoaderOptions& options = {}, Loc where = MOTE_HERE)
      : LoaderBase(
            std::move(order),
            [make = std::move(make)](std::span<const int64_t> rows) -> void* {
              return new Batch(make(rows));
            },
            [](void* batch) { delete static_cast<Batch*>(batch); }, options, where) {}
  Batch next() {
    auto* made = static_cast<Batch*>(take());
    Batch out = std::move(*made);
    delete made;
    return out;
  }
};

// 0 ... count - 1 in batches for evaluation; the last one may be shorter.
std::vector<std::vector<int64_t>> batches_in_order(int64_t count, int64_t batch,
                                                   Loc = MOTE_HERE);

}  // namespace mote::data
