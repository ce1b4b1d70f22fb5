// What `mote train` trains. A task owns its data, model and optimizer; the loop in train.cpp draws
// the examples, shows progress and keeps checkpoints.
#pragma once
#include <mote/checkpoint.h>
#include <mote/optimizers.h>

#include <memory>
#include <optional>
#include <span>

#include "cli/progress.h"
#include "cli/settings.h"
#include "io/json.h"

namespace mote {

struct StepFigures {
  Tensor loss, accuracy;  // accuracy: undefined where there is none
  MOTE_FIELDS(loss, accuracy)
};

// Figures at the end, for people and for programs.
struct Outcome {
  std::string line;  // "test accuracy 98.70 %"
  std::string key;   // "test_accuracy"
  double value = 0;
  std::string sample = "";  // text that the model made
};

struct TaskDefaults {
  int64_t batch, steps;
};

class Task {
 public:
  virtual ~Task() = default;
  virtual int64_t examples() const = 0;   // steps draw from 0 ... examples - 1
  virtual std::string about() const = 0;  // its data and model, in a few words
  virtual TaskDefaults defaults() const = 0;
  virtual optim::Schedule schedule(int64_t steps) const = 0;
  virtual StepFigures step(std::span<const int64_t> rows, double learning_rate) = 0;
  // Everything that steps change: "model" and "optimizer".
  virtual CheckpointParts parts() = 0;
  // Nothing where a signal cut it short (interrupt.h).
  virtual std::optional<Outcome> judge(Progress&) = 0;
};

// `mnist` and `cifar`; `gpt`.
std::unique_ptr<Task> make_image_task(const std::string& name, Settings&);
std::unique_ptr<Task> make_text_task(Settings&);

}  // namespace mote
