// The order of examples.
#include <mote/data.h>

#include <numeric>

#include "base/number.h"
#include "base/random.h"
#include "base/utf8.h"
#include "tensor/impl.h"

namespace mote::data {

Order::Order(int64_t count, int64_t batch, uint64_t seed, Loc where) : batch_(batch) {
  OuterCall call("Order", where);
  expect(batch > 0 && count >= batch, "cannot make batches of ", batch, " from ", count,
         " examples");
  order_.resize(static_cast<size_t>(count));
  state_.seed = seed;
  shuffle();
}

void Order::shuffle() {
  std::iota(order_.begin(), order_.end(), 0);
  Random random(state_.seed, static_cast<uint64_t>(state_.epoch));
  for (size_t left = order_.size(); left > 1; --left)
    std::swap(order_[left - 1],
              order_[static_cast<size_t>(random.below(static_cast<int64_t>(left)))]);
}

std::span<const int64_t> Order::next() {
  if (state_.position + batch_ > static_cast<int64_t>(order_.size())) {
    ++state_.epoch;
    state_.position = 0;
    shuffle();
  }
  auto first = static_cast<size_t>(state_.position);
  state_.position += batch_;
  return {order_.data() + first, static_cast<size_t>(batch_)};
}

void Order::restore(const State& state, Loc where) {
  OuterCall call("restore", where);
  expect(state.epoch >= 0 && state.position >= 0 &&
             state.position <= static_cast<int64_t>(order_.size()),
         "no order of ", order_.size(), " examples has epoch ", state.epoch, ", position ",
         state.position);
  state_ = state;
  shuffle();
}

Order::State::operator std::vector<std::pair<std::string, std::string>>() const {
  return {
      {"seed",     std::to_string(seed)    },
      {"epoch",    std::to_string(epoch)   },
      {"position", std::to_string(position)}
  };
}

void Order::restore(const std::vector<std::pair<std::string, std::string>>& saved, Loc where) {
  OuterCall call("restore", where);
  State state;
  for (const auto& [key, value] : saved) {
    const bool read = key == "seed"       ? read_number(value, state.seed)
                      : key == "epoch"    ? read_number(value, state.epoch)
                      : key == "position" ? read_number(value, state.position)
                                          : true;
    expect(read, "'", key, "' of an order must be a whole number, got '", printable(value), "'");
  }
  restore(state, where);
}

}  // namespace mote::data
