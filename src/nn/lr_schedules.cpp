#include <mote/lr_schedules.h>

#include <cmath>
#include <numbers>

#include "base/number.h"
#include "base/utf8.h"
#include "tensor/impl.h"

namespace mote::optim {

namespace {

double cosine_between(double from, double to, double part) {
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
}
double line_between(double from, double to, double part) { return from + (to - from) * part; }

// numbers: linear, then per phase: its last step, rates at its begin and its end.
double one_cycle(const Schedule& s, int64_t step) {
  const std::vector<double>& n = s.numbers;
  double begin = 0, at = static_cast<double>(step);
  for (size_t i = 1; i < n.size(); i += 3) {
    if (at > n[i] && i + 3 < n.size()) {
      begin = n[i];
      continue;
    }
    double part = std::min(1.0, (at - begin) / (n[i] - begin));
    return n[0] != 0 ? line_between(n[i + 1], n[i + 2], part)
                     : cosine_between(n[i + 1], n[i + 2], part);
  }
  return 0;
}

double sequence(const Schedule& s, int64_t step) {
  size_t i = 0;
  double begin = 0;
  for (; i < s.numbers.size() && static_cast<double>(step) >= s.numbers[i]; ++i)
    begin = s.numbers[i];
  return s.parts[i](step - static_cast<int64_t>(begin));
}

// numbers: lr, eta_min, steps of the first cosine, times.
double warm_restarts(const Schedule& s, int64_t step) {
  auto length = static_cast<int64_t>(s.numbers[2]);
  const auto times = static_cast<int64_t>(s.numbers[3]);
  if (times == 1) step %= length;
  for (; step >= length; length *= times) step -= length;
  return cosine_between(s.numbers[0], s.numbers[1],
                        static_cast<double>(step) / static_cast<double>(length));
}

double chain(const Schedule& s, int64_t step) {
  double rate = s.numbers[0];
  for (const Schedule& part : s.parts) rate *= part(step) / s.numbers[0];
  return rate;
}

void expect_steps(int64_t steps) { expect(steps > 0, "needs at least one step, got ", steps); }

void expect_ascending(const std::vector<int64_t>& milestones) {
  for (size_t i = 1; i < milestones.size(); ++i)
    expect(milestones[i - 1] <= milestones[i], "milestones must ascend, got ", milestones[i - 1],
           " before ", milestones[i]);
}

}  // namespace

double Schedule::operator()(int64_t step) const {
  FloatEnvironment nearest;
  return formula(*this, step);
}

Schedule constant_lr(double lr, double factor, int64_t steps) {
  auto formula = [](const Schedule& s, int64_t step) {
    return static_cast<double>(step) < s.numbers[2] ? s.numbers[0] * s.numbers[1] : s.numbers[0];
  };
  return {formula, {lr, factor, static_cast<double>(steps)}, {}};
}

Schedule step_lr(double lr, int64_t every, double gamma, Loc where) {
  OuterCall call("step_lr", where);
  expect_steps(every);
  auto formula = [](const Schedule& s, int64_t step) {
    return s.numbers[0] * std::pow(s.numbers[2], step / static_cast<int64_t>(s.numbers[1]));
  };
  return {formula, {lr, static_cast<double>(every), gamma}, {}};
}

Schedule multi_step_lr(double lr, const std::vector<int64_t>& milestones, double gamma, Loc where) {
  OuterCall call("multi_step_lr", where);
  expect_ascending(milestones);
  auto formula = [](const Schedule& s, int64_t step) {
    double rate = s.numbers[0];
    for (size_t i = 2; i < s.numbers.size() && static_cast<double>(step) >= s.numbers[i]; ++i)
      rate *= s.numbers[1];
    return rate;
  };
  Schedule out{formula, {lr, gamma}, {}};
  out.numbers.insert(out.numbers.end(), milestones.begin(), milestones.end());
  return out;
}

Schedule exponential_lr(double lr, double gamma) {
  auto formula = [](const Schedule& s, int64_t step) {
    return s.numbers[0] * std::pow(s.numbers[1], step);
  };
  return {formula, {lr, gamma}, {}};
}

Schedule linear_lr(double lr, int64_t steps, double start, double end, Loc where) {
  OuterCall call("linear_lr", where);
  expect_steps(steps);
  auto formula = [](const Schedule& s, int64_t step) {
    double part = std::min(1.0, static_cast<double>(step) / s.numbers[2]);
    return line_between(s.numbers[0], s.numbers[1], part);
  };
  return {formula, {lr * start, lr * end, static_cast<double>(steps)}, {}};
}

Schedule cosine_annealing_lr(double lr, int64_t steps, double eta_min, Loc where) {
  OuterCall call("cosine_annealing_lr", where);
  expect_steps(steps);
  auto formula = [](const Schedule& s, int64_t step) {
    return cosine_between(s.numbers[0], s.numbers[1], static_cast<double>(step) / s.numbers[2]);
  };
  return {formula, {lr, eta_min, static_cast<double>(steps)}, {}};
}

Schedule one_cycle_lr(double max_lr, int64_t steps, const OneCycle& o, Loc where) {
  OuterCall call("one_cycle_lr", where);
  expect_steps(steps);
  double first = max_lr / o.div_factor, last = first / o.final_div_factor;
  double total = static_cast<double>(steps), up = o.pct_start * total - 1;
  Schedule out{one_cycle, {o.linear ? 1.0 : 0.0, up, first, max_lr}, {}};
  std::vector<double>& n = out.numbers;
  if (o.three_phase) n.insert(n.end(), {2 * o.pct_start * total - 2, max_lr, first});
  n.insert(n.end(), {total - 1, o.three_phase ? first : max_lr, last});
  return out;
}

Schedule sequential_lr(std::vector<Schedule> parts, const std::vector<int64_t>& milestones,
                       Loc where) {
  OuterCall call("sequential_lr", where);
  expect(parts.size() == milestones.size() + 1, "needs one milestone between two parts, got ",
         parts.size(), " parts and ", milestones.size(), " milestones");
  expect_ascending(milestones);
  return {sequence, {milestones.begin(), milestones.end()}, std::move(parts)};
}

Schedule cosine_annealing_warm_restarts(double lr, int64_t steps, int64_t times, double eta_min,
                                        Loc where) {
  OuterCall call("cosine_annealing_warm_restarts", where);
  expect_steps(steps);
  expect(times > 0, "needs times >= 1, got ", times);
  const auto length = static_cast<double>(steps);
  return {warm_restarts, {lr, eta_min, length, static_cast<double>(times)}, {}};
}

Schedule polynomial_lr(double lr, int64_t steps, double power, Loc where) {
  OuterCall call("polynomial_lr", where);
  expect_steps(steps);
  auto formula = [](const Schedule& s, int64_t step) {
    return s.numbers[0] *
           std::pow(1 - std::min(1.0, static_cast<double>(step) / s.numbers[1]), s.numbers[2]);
  };
  return {
      formula, {lr,     static_cast<double>(steps), power},
       {     }
  };
}

Schedule lambda_lr(double lr, StepFactor factor) {
  auto formula = [](const Schedule& s, int64_t step) { return s.numbers[0] * s.factor(step); };
  return {formula, {lr}, {}, std::move(factor)};
}

Schedule chained_lr(double lr, std::vector<Schedule> parts, Loc where) {
  OuterCall call("chained_lr", where);
  expect(lr > 0, "needs a rate > 0, got ", lr);
  return {chain, {lr}, std::move(parts)};
}

ReduceLROnPlateau::ReduceLROnPlateau(double lr, const PlateauOptions& o, Loc where)
    : options_(o), lr_(lr), best_(o.larger_is_better ? -HUGE_VAL : HUGE_VAL) {
  OuterCall call("ReduceLROnPlateau", where);
  expect(o.factor > 0 && o.factor < 1, "needs a factor between 0 and 1, got ", o.factor);
}

double ReduceLROnPlateau::step(double metric) {
  const double sign = options_.larger_is_better ? -1 : 1;
  const double margin =
      options_.absolute ? options_.threshold : options_.threshold * std::abs(best_);
  const bool first = std::isinf(best_);
  const bool better = sign * metric < sign * best_ - (first ? 0 : margin);
  if (better) best_ = metric;
  bad_ = better ? 0 : bad_ + 1;
  if (cooling_ > 0) --cooling_, bad_ = 0;
  if (bad_ <= options_.patience) return lr_;
  const double lower = std::max(lr_ * options_.factor, options_.min_lr);
  if (lr_ - lower > options_.eps) lr_ = lower;
  cooling_ = options_.cooldown, bad_ = 0;
  return lr_;
}

std::vector<std::pair<std::string, std::string>> ReduceLROnPlateau::state() const {
  return {
      {"lr",      shortest_text(lr_)      },
      {"best",    shortest_text(best_)    },
      {"bad",     std::to_string(bad_)    },
      {"cooling", std::to_string(cooling_)}
  };
}

void ReduceLROnPlateau::restore(const std::vector<std::pair<std::string, std::string>>& saved,
                                Loc where) {
  OuterCall call("restore", where);
  for (const auto& [key, value] : saved) {
    const bool read = key == "lr"        ? read_number(value, lr_)
                      : key == "best"    ? read_number(value, best_)
                      : key == "bad"     ? read_number(value, bad_)
                      : key == "cooling" ? read_number(value, cooling_)
                                         : true;
    expect(read, "'", key, "' must be a number, got '", printable(value), "'");
  }
}

}  // namespace mote::optim
