// Learning-rate schedules with PyTorch's formulas: opt.set_lr(rate(step)), with steps counted from
// 0. A schedule has no state: to resume, save the step. Any other function of the step works as
// well.
#pragma once
#include <mote/types.h>

namespace mote::optim {

// A function of the step with what it has captured; <functional> would cost every user's compiler.
class StepFactor {
 public:
  StepFactor() = default;
  template <class F>
  requires std::is_invocable_r_v<double, const F&, int64_t> StepFactor(F f)
      : object_(new F(std::move(f))),
        call_([](const void* p, int64_t step) -> double {
          return (*static_cast<const F*>(p))(step);
        }),
        copy_([](const void* p) -> void* { return new F(*static_cast<const F*>(p)); }),
        drop_([](void* p) { delete static_cast<F*>(p); }) {}
  StepFactor(const StepFactor& o)
      : object_(o.object_ ? o.copy_(o.object_) : nullptr),
        call_(o.call_),
        copy_(o.copy_),
        drop_(o.drop_) {}
  StepFactor& operator=(StepFactor o) {
    std::swap(object_, o.object_);
    call_ = o.call_, copy_ = o.copy_;
    std::swap(drop_, o.drop_);
    return *this;
  }
  ~StepFactor() {
    if (object_) drop_(object_);
  }
  double operator()(int64_t step) const { return call_(object_, step); }

 private:
  void* object_ = nullptr;
  double (*call_)(const void*, int64_t) = nullptr;
  void* (*copy_)(const void*) = nullptr;
  void (*drop_)(void*) = nullptr;
};

struct Schedule {
  double (*formula)(const Schedule&, int64_t step);
  std::vector<double> numbers;  // what the formula needs
  std::vector<Schedule> parts;  // of a sequence or a chain
  StepFactor factor = {};       // of lambda_lr
  double operator()(int64_t step) const;
};

// lr * factor for `steps` steps, then lr.
Schedule constant_lr(double lr, double factor = 1, int64_t steps = 0);
// lr * gamma^(step / every)
Schedule step_lr(double lr, int64_t every, double gamma = 0.1, Loc = MOTE_HERE);
// lr * gamma^(milestones reached)
Schedule multi_step_lr(double lr, const std::vector<int64_t>& milestones, double gamma = 0.1,
                       Loc = MOTE_HERE);
// lr * gamma^step
Schedule exponential_lr(double lr, double gamma);
// From lr * start to lr * end within `steps` steps: a warm-up, or a decay.
Schedule linear_lr(double lr, int64_t steps, double start = 1.0 / 3, double end = 1,
                   Loc = MOTE_HERE);
// Half a cosine from lr to eta_min within `steps` steps, then back up.
Schedule cosine_annealing_lr(double lr, int64_t steps, double eta_min = 0, Loc = MOTE_HERE);
// Repeats the cosine: the first one takes `steps` steps, each later one `times` as many.
Schedule cosine_annealing_warm_restarts(double lr, int64_t steps, int64_t times = 1,
                                        double eta_min = 0, Loc = MOTE_HERE);
// lr * (1 - step / steps)^power, then 0.
Schedule polynomial_lr(double lr, int64_t steps, double power = 1, Loc = MOTE_HERE);
// lr * factor(step): lambda_lr(0.1, [=](int64_t step) { return std::min(1.0, step / warm_up); })
Schedule lambda_lr(double lr, StepFactor factor);
// Up from max_lr / div_factor to max_lr, then down to the start / final_div_factor, within `steps`
// steps.
struct OneCycle {
  double pct_start = 0.3;  // the part of the steps in which the rate grows
  double div_factor = 25, final_div_factor = 1e4;
  bool linear = false, three_phase = false;
};
Schedule one_cycle_lr(double max_lr, int64_t steps, const OneCycle& = {}, Loc = MOTE_HERE);
// parts[i] from milestones[i - 1] on, each counting from 0.
Schedule sequential_lr(std::vector<Schedule> parts, const std::vector<int64_t>& milestones,
                       Loc = MOTE_HERE);
// lr times the factors of all parts, each of which was made for lr.
Schedule chained_lr(double lr, std::vector<Schedule> parts, Loc = MOTE_HERE);

// Lowers the rate when a metric stops improving: opt.set_lr(plateau.step(loss)) once per epoch. It
// has state, and can be a part of a checkpoint.
struct PlateauOptions {
  bool larger_is_better = false;
  double factor = 0.1;
  int64_t patience = 10;          // steps without progress that are tolerated
  double threshold = 1e-4;        // an improvement of this share of the best counts, or
  bool absolute = false;          // this much
  int64_t cooldown = 0;           // steps after a reduction that are not counted
  double min_lr = 0, eps = 1e-8;  // changes smaller than eps are not made
};
class ReduceLROnPlateau {
 public:
  explicit ReduceLROnPlateau(double lr, const PlateauOptions& = {}, Loc = MOTE_HERE);
  double step(double metric);  // the rate from now on
  double lr() const { return lr_; }
  std::vector<std::pair<std::string, std::string>> state() const;
  void restore(const std::vector<std::pair<std::string, std::string>>&, Loc = MOTE_HERE);

 private:
  PlateauOptions options_;
  double lr_, best_;
  int64_t bad_ = 0, cooling_ = 0;
};

}  // namespace mote::optim
