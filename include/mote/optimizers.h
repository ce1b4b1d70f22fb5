// PyTorch's other optimizers, parameter groups, and averages of weights. mote/optim.h describes
// what all optimizers have in common.
#pragma once
#include <mote/optim.h>

namespace mote::optim {

struct RMSpropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false, flat = false, master_weights = false, maximize = false;
};
class RMSprop : public Optimizer {
 public:
  explicit RMSprop(std::vector<Tensor> parameters, const RMSpropOptions& = {},
                   Loc = MOTE_HERE);

 protected:
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  RMSpropOptions options_;
};

struct AdagradOptions {
  double lr = 1e-2, lr_decay = 0, weight_decay = 0, initial_accumulator_value = 0, eps = 1e-10;
  bool flat = false, master_weights = false, maximize = false;
};
class Adagrad : public Optimizer {
 public:
  explicit Adagrad(std::vector<Tensor> parameters, const AdagradOptions& = {},
                   Loc = MOTE_HERE);

 protected:
  void begin_step() override;
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  AdagradOptions options_;
  Tensor rate_;  // of the step being built
};

struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
  bool flat = false, master_weights = false, maximize = false;
};
class Adadelta : public Optimizer {
 public:
  explicit Adadelta(std::vector<Tensor> parameters, const AdadeltaOptions& = {},
                    Loc = MOTE_HERE);

 protected:
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  AdadeltaOptions options_;
};

struct AdamaxOptions {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool flat = false, master_weights = false, maximize = false;
};
class Adamax : public Optimizer {
 public:
  explicit Adamax(std::vector<Tensor> parameters, const AdamaxOptions& = {}, Loc = MOTE_HERE);

 protected:
  void begin_step() override;
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  AdamaxOptions options_;
  Tensor rate_;
};

struct NAdamOptions {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double momentum_decay = 4e-3;
  bool flat = false, master_weights = false, maximize = false;
};
class NAdam : public Optimizer {
 public:
  explicit NAdam(std::vector<Tensor> parameters, const NAdamOptions& = {}, Loc = MOTE_HERE);

 protected:
  void begin_step() override;
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  NAdamOptions options_;
  Tensor gradient_rate_, mean_rate_, root_scale_;
};

struct RAdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool flat = false, master_weights = false, maximize = false;
};
class RAdam : public Optimizer {
 public:
  explicit RAdam(std::vector<Tensor> parameters, const RAdamOptions& = {}, Loc = MOTE_HERE);

 protected:
  void begin_step() override;
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  RAdamOptions options_;
  Tensor mean_scale_, rectified_, is_rectified_;
};

struct ASGDOptions {
  double lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6, weight_decay = 0;
  bool flat = false, master_weights = false, maximize = false;
};
// state["ax"] is the average.
class ASGD : public Optimizer {
 public:
  explicit ASGD(std::vector<Tensor> parameters, const ASGDOptions& = {}, Loc = MOTE_HERE);

 protected:
  void begin_step() override;
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  ASGDOptions options_;
  Tensor rate_, share_;
};

struct RpropOptions {
  double lr = 1e-2;  // the first step's size
  double eta_minus = 0.5, eta_plus = 1.2, step_size_min = 1e-6, step_size_max = 50;
  bool flat = false, master_weights = false, maximize = false;
};
class Rprop : public Optimizer {
 public:
  explicit Rprop(std::vector<Tensor> parameters, const RpropOptions& = {}, Loc = MOTE_HERE);

 protected:
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  RpropOptions options_;
};

// Scales the gradients of all these optimizers so that their total norm is at most max_norm, and
// returns the norm. Call it after the last backward() and before step().
Tensor clip_grad_norm(const std::vector<Optimizer*>& all, double max_norm, double norm_type = 2,
                      Loc = MOTE_HERE);

// Parameter groups: several optimizers with settings of their own, stepped as one.
//
//   optim::Groups opt;
//   opt.add("matrices", optim::AdamW(matrices, {.lr = 1e-3, .weight_decay = 0.1}));
//   opt.add("others", optim::AdamW(others, {.lr = 1e-3, .weight_decay = 0}));
//   ...
//   opt.clip_grad_norm(1.0);
//   realize(opt.step());
class Groups {
 public:
  Groups() = default;
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;
  ~Groups();
  template <class Kind>
  Groups& add(std::string name, Kind optimizer, Loc where = MOTE_HERE) {
    return add_owned(std::move(name), new Kind(std::move(optimizer)), where);
  }

  std::vector<Tensor> step(Loc = MOTE_HERE);
  void zero_grad(bool set_to_none = true);
  std::vector<Tensor> gradients(Loc = MOTE_HERE);
  void scale_gradients(const Tensor& factor, Loc = MOTE_HERE);
  Tensor clip_grad_norm(double max_norm, double norm_type = 2, Loc = MOTE_HERE);
  void clip_grad_value(double limit, Loc = MOTE_HERE);
  // Sets the first group's rate; the others keep their ratio to it.
  void set_lr(double value, Loc = MOTE_HERE);

  std::vector<Optimizer*> optimizers() const;  // of the groups, for LossScaler::step
  Optimizer& operator[](std::string_view name);
  template <class F>
  void each_field(F&& f) {
    for (Group& g : groups_) f(std::string_view(g.name), *g.optimizer);
  }
  template <class F>
  void each_field(F&& f) const {
    for (const Group& g : groups_) f(std::string_view(g.name), *g.optimizer);
  }

 private:
  struct Group {
    std::string name;
    Optimizer* optimizer;
    double ratio;  // of its rate to the first one's
  };
  Groups& add_owned(std::string name, Optimizer* optimizer, const Loc& where);
  std::vector<Group> groups_;
};

// An average of the weights over training: exponential (EMA), or with decay = 0 the mean of all
// updates (SWA). Call update() after each step and realize the result with it. swap() exchanges
// averages and weights: once to evaluate, and again to continue training.
//
//   optim::WeightAverage ema(parameters(net), {.decay = 0.999});
struct AverageOptions {
  double decay = 0.999;
};
class WeightAverage {
 public:
  explicit WeightAverage(std::vector<Tensor> parameters, const AverageOptions& = {},
                         Loc = MOTE_HERE);
  std::vector<Tensor> update(Loc = MOTE_HERE);
  void swap(Loc = MOTE_HERE);  // parameters and averages, at once

  std::vector<Tensor> params, averages;
  Tensor updates;  // one f32
  MOTE_FIELDS(averages, updates)

 private:
  AverageOptions options_;
};

}  // namespace mote::optim
