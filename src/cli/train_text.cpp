// `mote train gpt`: a GPT that learns a text by characters, with nanoGPT's settings.
#include <mote/jit.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/figures.h"
#include "cli/interrupt.h"
#include "cli/text_model.h"
#include "cli/train.h"

namespace mote {

namespace {

constexpr int64_t kSampleCharacters = 500;
constexpr double kSampleTemperature = 0.8;

Tensor loss_of(const models::Gpt& net, const data::TokenBatch& batch) {
  return net(batch.tokens).flatten(0, 1).cross_entropy(batch.targets.flatten());
}

// That touch but do not overlap.
int64_t stretches(const std::vector<int32_t>& tokens, int64_t context) {
  return data::token_starts(tokens, context) / context;
}

// Weight decay is for matrices; biases and norms are left alone.
std::vector<Tensor> parameters_of(models::Gpt& net, bool matrices) {
  std::vector<Tensor> all = parameters(net);
  std::erase_if(all, [&](const Tensor& t) { return (t.dim() >= 2) != matrices; });
  return all;
}

optim::AdamWOptions adam_options(double weight_decay) {
  return {.beta2 = 0.99, .weight_decay = weight_decay};
}

class TextTask : public Task {
 public:
  TextTask(const models::GptConfig& config, data::Characters characters, std::string data,
           double rate)
      : config_(config),
        net_(config),
        characters_(std::move(characters)),
        data_(std::move(data)),
        rate_(rate),
        step_(jit(Step{*this})) {
    adam_.add("decaying", optim::AdamW(parameters_of(net_, true), adam_options(0.1)));
    adam_.add("plain", optim::AdamW(parameters_of(net_, false), adam_options(0)));
  }

  std::string about() const override {
    return text(printable(data_), ", ", characters_.train.size(), " characters to learn, ",
                config_.vocabulary, " different");
  }
  TaskDefaults defaults() const override { return {12, 2000}; }
  int64_t examples() const override {
    return data::token_starts(characters_.train, config_.context);
  }
  StepFigures step(std::span<const int64_t> rows, double learning_rate) override {
    train(net_);
    adam_.set_lr(learning_rate);
    return step_(data::token_batch(characters_.train, rows, config_.context));
  }
  optim::Schedule schedule(int64_t steps) const override;
  CheckpointParts parts() override {
    return {
        {"model",     net_ },
        {"optimizer", adam_}
    };
  }
  std::optional<Outcome> judge(Progress&) override;

 private:
  struct Step {
    TextTask& task;
    StepFigures operator()(const data::TokenBatch& batch) const;
  };
  double validation_loss(Progress&);
  std::string sample(Progress&);
  models::GptConfig config_;
  models::Gpt net_;
  data::Characters characters_;
  std::string data_;
  double rate_;
  optim::Groups adam_;
  Jit<Step> step_;
};

StepFigures TextTask::Step::operator()(const data::TokenBatch& batch) const {
  task.adam_.zero_grad();
  Tensor loss = loss_of(task.net_, batch);
  loss.backward();
  task.adam_.clip_grad_norm(1);
  task.adam_.step();
  return {loss, {}};
}

optim::Schedule TextTask::schedule(int64_t steps) const {
  const int64_t warm_up = std::max<int64_t>(1, std::min<int64_t>(100, steps / 10));
  return optim::sequential_lr(
      {optim::linear_lr(rate_, warm_up, 1 / static_cast<double>(warm_up)),
       optim::cosine_annealing_lr(rate_, std::max<int64_t>(1, steps - warm_up), rate_ / 10)},
      {warm_up});
}

// Over all of the text that was not learned from.
double TextTask::validation_loss(Progress& progress) {
  eval(net_);
  auto loss = jit([&](const data::TokenBatch& batch) { return loss_of(net_, batch); });
  const std::vector<int32_t>& tokens = characters_.validation;
  const int64_t context = config_.context;
  const int64_t all = stretches(tokens, context);
  const int64_t batch = std::min<int64_t>(all, 12);
  double sum = 0;
  int64_t count = 0;
  std::vector<int64_t> starts(static_cast<size_t>(batch));
  for (int64_t at = 0; at + batch <= all; at += batch, ++count) {
    if (interrupt_signal()) break;
    progress.wait(text("validating ", at, "/", all));
    for (int64_t i = 0; i < batch; ++i) starts[static_cast<size_t>(i)] = (at + i) * context;
    sum += loss(data::token_batch(tokens, starts, context)).item<float>();
  }
  return sum / static_cast<double>(count);
}

// A network whose weights are no numbers any more writes nothing, but its run has a result.
std::string TextTask::sample(Progress& progress) {
  progress.wait("writing a sample");
  try {
    return write_text(net_, characters_, "", kSampleCharacters,
                      {.temperature = kSampleTemperature, .seed = 1});
  } catch (const Error& error) {
    progress.say(text("mote: no sample: ", error.what()));
    return "";
  }
}

std::optional<Outcome> TextTask::judge(Progress& progress) {
  double loss = validation_loss(progress);
  Outcome out{text("validation loss ", decimal(loss, 3)), "validation_loss", loss};
  if (!interrupt_signal()) out.sample = sample(progress);
  if (interrupt_signal()) return {};
  return out;
}

}  // namespace

std::unique_ptr<Task> make_text_task(Settings& settings) {
  const std::string path = settings.path("data");
  check(!path.empty(),
        "[train] gpt needs --data FILE: a text to learn, of "
        "some 100,000 characters "
        "or more");
  data::Characters characters = data::characters_of_file(path);
  keep_alphabet(settings, characters, path);
  auto vocabulary = static_cast<int64_t>(characters.characters.size());
  models::GptConfig config = gpt_config(settings, vocabulary);
  check(data::token_starts(characters.train, config.context) > 0, "[train] ", printable(path),
        " has ", characters.train.size(), " characters to learn, fewer than --context ",
        config.context);
  check(stretches(characters.validation, config.context) > 0, "[train] ", printable(path),
        " is too short: its last tenth has ", characters.validation.size(),
        " characters, fewer than two stretches of ", config.context);
  return std::make_unique<TextTask>(config, std::move(characters), path,
                                    settings.number("lr", 1e-3));
}

}  // namespace mote
