// Optimizers. step() reads the parameters' gradients and writes parameters and state, lazily. It
// returns the tensors it wrote; realize them together with the loss.
//
//   opt.zero_grad();
//   loss.backward();
//   auto written = opt.step();
//   written.push_back(loss);
//   realize(written);
//
// Parameters and state are put in memory when the optimizer is made. Whatever changes between steps
// (learning rate, step count, state) is memory, never a constant of the graph, so every step after
// the first finds its schedule in the cache.
// A parameter without a gradient is not changed. The arithmetic is PyTorch's; LAMB and LARS follow
// their papers (arXiv:1904.00962, arXiv:1708.03888).
//
// Gradient accumulation: after each backward() call realize(opt.gradients()), which adds in place;
// then step() and zero_grad(). In a jit use zero_grad(false), because the gradients are its state.
//
// Two settings of most optimizers:
//   master_weights  16-bit parameters are updated in f32: the state is f32 and includes an f32 copy
//                   of each of them, which is rounded to give the parameter. A parameter that you
//                   assign to between steps keeps the value that you gave it. f16 needs a
//                   LossScaler. See docs/mixed_precision.md.
//   flat            Parameters, gradients and state are one tensor each, and a step is a single
//                   kernel, whatever the number of parameters. The parameters become views of
//                   params[0], which is the only leaf and holds the gradients. Parameters that the
//                   loss does not use have gradient 0, so they decay and follow their momentum.
//                   All must be on one device; each dtype has a leaf and a kernel of its own. For
//                   optimizers that treat every element alike. It takes no more memory, unless
//                   gradients would be used up one by one: those that are neither clipped nor kept,
//                   in a step that is realized together with its backward().
// RMSprop, Adagrad and others, groups of parameters and averages of weights: mote/optimizers.h.
#pragma once
#include <mote/fields.h>
#include <mote/lr_schedules.h>

namespace mote::optim {

struct Keeping {
  bool flat = false, master_weights = false;
  bool maximize = false;  // go up the gradients
};

// Lists of tensors, with one tensor per parameter, by name and in the order they were added.
class State {
 public:
  std::vector<Tensor>& operator[](std::string_view name);  // added where it is missing
  template <class F>
  void each_field(F&& f) {
    for (Entry& e : entries_) f(std::string_view(e.name), e.list);
  }
  template <class F>
  void each_field(F&& f) const {
    for (const Entry& e : entries_) f(std::string_view(e.name), e.list);
  }

 private:
  struct Entry {
    std::string name;
    std::vector<Tensor> list;
  };
  std::vector<Entry> entries_;
};

class Optimizer {
 public:
  Optimizer(std::vector<Tensor> parameters, double learning_rate, const Keeping&, Loc where);
  virtual ~Optimizer() = default;
  std::vector<Tensor> step(Loc = MOTE_HERE);
  // Like step(), but changes nothing if `applies`, a single bool, is false.
  std::vector<Tensor> step_if(const Tensor& applies, Loc = MOTE_HERE);
  void zero_grad(bool set_to_none = true);          // false: sets them to zero in place
  void set_lr(double value, Loc = MOTE_HERE);  // takes effect at once

  // The gradients so far. Realize them after each backward() to accumulate in place.
  std::vector<Tensor> gradients(Loc = MOTE_HERE);
  // Call these after the last backward() and before step(), which then uses the changed gradients;
  // grad() still returns the original ones. A norm is f32, or f64 if any gradient is.
  void scale_gradients(const Tensor& factor, Loc = MOTE_HERE);
  Tensor clip_grad_norm(double max_norm, double norm_type = 2, Loc = MOTE_HERE);  // the norm
  void clip_grad_value(double limit, Loc = MOTE_HERE);
  Tensor gradients_are_finite(Loc = MOTE_HERE);  // one bool
  // Divides the gradients by the scale, once per step. Returns whether all are finite.
  Tensor unscale_gradients(const Tensor& scale, Loc = MOTE_HERE);

  std::vector<Tensor> params;
  Tensor lr;     // one f32
  Tensor steps;  // one f32: the number of steps, if needed
  State state;
  MOTE_FIELDS(lr, steps, state)

 protected:
  // Adds state with the shape of each parameter, filled with a number.
  void add_state(const std::string& name, double start = 0);
  void count_steps();
  // Prepares what a step needs once for all parameters.
  virtual void begin_step() {}
  // The next value of parameter i from its value p and gradient g; writes its state.
  virtual Tensor update(size_t i, const Tensor& p, const Tensor& g) = 0;
  void put(Tensor& target, const Tensor& value);

 private:
  friend Tensor clip_grad_norm(const std::vector<Optimizer*>&, double, double, Loc);
  void copy_short_parameters();
  Tensor& kept(size_t i);
  Tensor current(size_t i);
  void prepare();
  void gather();
  void forget_gradients();

  bool master_weights_ = false, maximize_ = false;
  std::vector<Tensor> joined_;   // leaves of several parameters
  std::vector<Tensor> ready_;    // gradients as step() will use them; empty: as they are
  Tensor finite_;                // once they are unscaled
  Tensor applies_;               // of the step being built
  std::vector<Tensor> written_;  // by the step being built
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, flat = false, master_weights = false, maximize = false;
};
class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SGDOptions& = {}, Loc = MOTE_HERE);

 protected:
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  SGDOptions options_;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool flat = false, master_weights = false, amsgrad = false, maximize = false;
};
// Also the base of optimizers that use its moments and bias corrections.
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& = {}, Loc = MOTE_HERE);

 protected:
  void begin_step() override;
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;
  // The corrected mean divided by the root of the corrected mean square; updates the moments.
  Tensor direction(size_t i, const Tensor& g);
  AdamOptions options_;

 private:
  Tensor mean_scale_, root_scale_;  // of the step being built
};

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  bool flat = false, master_weights = false, amsgrad = false, maximize = false;
};
// Weight decay shrinks the parameter instead of adding to the gradient.
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& = {}, Loc = MOTE_HERE);

 protected:
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;
};

struct LAMBOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0;
  bool master_weights = false;
};
class LAMB : public Adam {
 public:
  explicit LAMB(std::vector<Tensor> parameters, const LAMBOptions& = {}, Loc = MOTE_HERE);

 protected:
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;
};

struct LARSOptions {
  double lr = 1e-1, momentum = 0.9, weight_decay = 1e-4, trust_coefficient = 1e-3;
  bool master_weights = false;
};
class LARS : public Optimizer {
 public:
  explicit LARS(std::vector<Tensor> parameters, const LARSOptions& = {}, Loc = MOTE_HERE);

 protected:
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  LARSOptions options_;
};

struct MuonOptions {
  double lr = 1e-3, weight_decay = 0.1, momentum = 0.95;
  bool nesterov = true;
  bool match_rms_adamw = false;    // scale the update to the size of AdamW's
  DType iterate_in = DType::bf16;  // dtype of the Newton-Schulz iteration
  int iterations = 5;
  double eps = 1e-7;
  bool master_weights = false;
};
// For matrices only.
class Muon : public Optimizer {
 public:
  explicit Muon(std::vector<Tensor> parameters, const MuonOptions& = {}, Loc = MOTE_HERE);

 protected:
  Tensor update(size_t i, const Tensor& p, const Tensor& g) override;

 private:
  MuonOptions options_;
};

// PyTorch's GradScaler, which keeps gradients within the range of f16:
// scaler.scale(loss).backward(); scaler.step(opt). The scale grows after growth_interval steps
// without overflow. A step with overflow changes nothing but the scale, which shrinks. The decision
// is part of the graph. Several optimizers of one loss step together, all or none: step({&a, &b}).
struct LossScalerOptions {
  double init_scale = 65536, growth_factor = 2, backoff_factor = 0.5;
  int growth_interval = 2000;
};
class LossScaler {
 public:
  explicit LossScaler(const LossScalerOptions& = {}, const std::string& device = "",
                      Loc = MOTE_HERE);
  Tensor scale(const Tensor& loss, Loc = MOTE_HERE) const;
  void unscale(Optimizer&, Loc = MOTE_HERE);  // needed before clipping; otherwise step() does it
  std::vector<Tensor> step(Optimizer&, Loc = MOTE_HERE);
  std::vector<Tensor> step(const std::vector<Optimizer*>&, Loc = MOTE_HERE);

  Tensor factor, growth_tracker;  // one f32 each: the scale, and steps since it changed
  MOTE_FIELDS(factor, growth_tracker)

 private:
  LossScalerOptions options_;
};

}  // namespace mote::optim
