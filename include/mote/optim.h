// Optimizers. step() reads the parameters' gradients and writes parameters and state, lazily: it
// returns what it wrote, to be realized together with the loss.
//
//   opt.zero_grad();
//   loss.backward();
//   auto written = opt.step();
//   written.push_back(loss);
//   realize(written);
//
// Whatever changes between steps (learning rate, step count, state) is in memory and never a
// constant of the graph, so that every step after the first is found in the schedule cache.
// A parameter without a gradient is left alone. The arithmetic follows PyTorch.
#pragma once
#include <mote/fields.h>

namespace mote::optim {

class Optimizer {
 public:
  Optimizer(std::vector<Tensor> parameters, double learning_rate, Loc where);
  virtual ~Optimizer() = default;
  std::vector<Tensor> step(Loc = Loc::current());
  void zero_grad();
  void set_lr(double value);

  std::vector<Tensor> params;
  Tensor lr;  // one f32

 protected:
  // Tensors like each parameter, zero at first.
  std::vector<Tensor> state() const;
  // What the step needs once for all parameters; appends what it writes.
  virtual void begin_step(std::vector<Tensor>&) {}
  // Writes params[i], whose gradient is g, and its state; appends them.
  virtual void update(size_t i, const Tensor& g, std::vector<Tensor>& written) = 0;
};

struct SGDOptions {
  double lr = 1e-3, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
class SGD : public Optimizer {
 public:
  explicit SGD(std::vector<Tensor> parameters, const SGDOptions& = {}, Loc = Loc::current());
  std::vector<Tensor> momentum_buffer;  // empty without momentum
  MOTE_FIELDS(lr, momentum_buffer)

 protected:
  void update(size_t i, const Tensor& g, std::vector<Tensor>& written) override;

 private:
  SGDOptions options_;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
class Adam : public Optimizer {
 public:
  explicit Adam(std::vector<Tensor> parameters, const AdamOptions& = {}, Loc = Loc::current());
  Tensor steps;  // one f32
  std::vector<Tensor> exp_avg, exp_avg_sq;
  MOTE_FIELDS(lr, steps, exp_avg, exp_avg_sq)

 protected:
  void begin_step(std::vector<Tensor>& written) override;
  void update(size_t i, const Tensor& g, std::vector<Tensor>& written) override;
  // The weight decay: Adam adds it to the gradient, AdamW shrinks the parameter.
  virtual Tensor decayed_gradient(const Tensor& p, const Tensor& g) const;
  virtual Tensor decayed_parameter(const Tensor& p) const { return p; }
  AdamOptions options_;

 private:
  Tensor step_size_, root_scale_;  // of the step being built
};

struct AdamWOptions : AdamOptions {
  AdamWOptions() { weight_decay = 0.01; }
  AdamWOptions(const AdamOptions& o) : AdamOptions(o) {}
};
class AdamW : public Adam {
 public:
  explicit AdamW(std::vector<Tensor> parameters, const AdamWOptions& o = {},
                 Loc where = Loc::current())
      : Adam(std::move(parameters), o, where) {}

 protected:
  Tensor decayed_gradient(const Tensor&, const Tensor& g) const override { return g; }
  Tensor decayed_parameter(const Tensor& p) const override;
};

}  // namespace mote::optim
