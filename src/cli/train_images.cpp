// `mote train mnist|cifar`: networks that tell pictures apart.
#include <mote/data.h>
#include <mote/jit.h>
#include <mote/models.h>

#include <numeric>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/figures.h"
#include "cli/interrupt.h"
#include "cli/train.h"

namespace mote {

namespace {

constexpr int64_t kTrainDigits = 10000, kTestDigits = 5000;
constexpr int64_t kTestBatch = 500;

data::Split load_images(const std::string& task, const std::string& path) {
  if (task == "cifar") {
    check(!path.empty(),
          "[train] cifar needs --data FOLDER: a folder with "
          "CIFAR-10's binary files "
          "(data_batch_1.bin ... test_batch.bin)");
    return data::cifar10(path);
  }
  if (!path.empty()) return data::mnist(path);
  return {data::digits(kTrainDigits, 1), data::digits(kTestDigits, 2)};
}

using Batch = data::Images::Batch;

Tensor unit_range(const Tensor& bytes) { return bytes.to_float() / 255; }

Tensor share_right(const Tensor& logits, const Tensor& labels) {
  return logits.argmax(1).eq(labels).to(DType::f32).mean();
}

template <class Net>
struct TrainStep {
  Net& net;
  optim::Adam& adam;
  StepFigures operator()(const Batch& batch) const {
    adam.zero_grad();
    Tensor logits = net(unit_range(batch.images));
    Tensor loss = logits.cross_entropy(batch.labels);
    loss.backward();
    adam.step();
    return {loss, share_right(logits.detach(), batch.labels)};
  }
};

template <class Net>
class ImageTask : public Task {
 public:
  ImageTask(Net net, data::Split split, std::string data, TaskDefaults defaults, double rate)
      : net_(std::move(net)),
        split_(std::move(split)),
        data_(std::move(data)),
        defaults_(defaults),
        rate_(rate),
        adam_(parameters(net_)),
        step_(jit(TrainStep<Net>{net_, adam_})) {}

  std::string about() const override {
    return text(printable(data_), ", ", split_.train.count(), " to learn, ", split_.test.count(),
                " to test");
  }
  TaskDefaults defaults() const override { return defaults_; }
  int64_t examples() const override { return split_.train.count(); }
  optim::Schedule schedule(int64_t steps) const override {
    return optim::one_cycle_lr(rate_, steps);
  }
  StepFigures step(std::span<const int64_t> rows, double learning_rate) override {
    train(net_);
    adam_.set_lr(learning_rate);
    return step_(split_.train.batch(rows));
  }
  CheckpointParts parts() override {
    return {
        {"model",     net_ },
        {"optimizer", adam_}
    };
  }

  std::optional<Outcome> judge(Progress& progress) override {
    eval(net_);
    auto classes = jit([&](const Tensor& images) { return net_(unit_range(images)).argmax(1); });
    const data::Images& test = split_.test;
    int64_t right = 0;
    std::vector<int64_t> rows(static_cast<size_t>(std::min(kTestBatch, test.count())));
    for (int64_t at = 0; at < test.count(); at += kTestBatch) {
      if (interrupt_signal()) return {};
      progress.wait(text("testing ", at, "/", test.count()));
      // The last batch is filled up with its first example, which is not counted again.
      for (size_t i = 0; i < rows.size(); ++i) {
        int64_t row = at + static_cast<int64_t>(i);
        rows[i] = row < test.count() ? row : at;
      }
      std::vector<int64_t> found = classes(test.batch(rows).images).template to_vector<int64_t>();
      for (size_t i = 0; i < rows.size() && at + static_cast<int64_t>(i) < test.count(); ++i)
        right += found[i] == test.labels[static_cast<size_t>(rows[i])];
    }
    double accuracy = static_cast<double>(right) / static_cast<double>(test.count());
    return Outcome{text("test accuracy ", decimal(accuracy * 100, 2), " %"), "test_accuracy",
                   accuracy};
  }

 private:
  Net net_;
  data::Split split_;
  std::string data_;
  TaskDefaults defaults_;
  double rate_;
  optim::Adam adam_;
  Jit<TrainStep<Net>> step_;
};

}  // namespace

std::unique_ptr<Task> make_image_task(const std::string& name, Settings& settings) {
  const std::string path = settings.path("data");
  data::Split split = load_images(name, path);
  const std::string data = path.empty() ? "built-in digits" : path;
  if (name == "cifar")
    return std::make_unique<ImageTask<models::ResNet>>(
        models::resnet18(split.train.classes), std::move(split), data, TaskDefaults{64, 500},
        settings.number("lr", 3e-3));
  return std::make_unique<ImageTask<models::MnistNet>>(models::MnistNet(), std::move(split), data,
                                                       TaskDefaults{64, path.empty() ? 150 : 600},
                                                       settings.number("lr", 5e-3));
}

}  // namespace mote
