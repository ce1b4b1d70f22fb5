// Learning-rate schedules: opt.set_lr(rate(step)), step counted from 0. PyTorch's formulas.
#pragma once
#include <mote/types.h>

namespace mote::optim {

struct Schedule {
  double (*formula)(const Schedule&, int64_t step);
  std::vector<double> numbers;  // what the formula needs
  std::vector<Schedule> parts;  // of a sequence
  double operator()(int64_t step) const;
};

// lr * factor for `steps` steps, then lr.
Schedule constant_lr(double lr, double factor = 1, int64_t steps = 0);
// lr * gamma^(step / every)
Schedule step_lr(double lr, int64_t every, double gamma = 0.1, Loc = Loc::current());
// lr * gamma^(milestones reached)
Schedule multi_step_lr(double lr, const std::vector<int64_t>& milestones, double gamma = 0.1,
                       Loc = Loc::current());
// lr * gamma^step
Schedule exponential_lr(double lr, double gamma);
// From lr * start to lr * end within `steps` steps: a warm-up, or a decay.
Schedule linear_lr(double lr, int64_t steps, double start = 1.0 / 3, double end = 1,
                   Loc = Loc::current());
// Half a cosine from lr to eta_min within `steps` steps, then back up.
Schedule cosine_annealing_lr(double lr, int64_t steps, double eta_min = 0, Loc = Loc::current());
// Up from max_lr / div_factor, then down to that / final_div_factor, within `steps` steps.
struct OneCycle {
  double pct_start = 0.3;  // the part of the steps in which the rate grows
  double div_factor = 25, final_div_factor = 1e4;
  bool linear = false, three_phase = false;
};
Schedule one_cycle_lr(double max_lr, int64_t steps, const OneCycle& = {}, Loc = Loc::current());
// parts[i] from milestones[i - 1] on, each counting from 0.
Schedule sequential_lr(std::vector<Schedule> parts, const std::vector<int64_t>& milestones,
                       Loc = Loc::current());

}  // namespace mote::optim
