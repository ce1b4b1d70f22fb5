// model() and train() of `mote bench wide`: networks by name.
#include <mote/optim.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "cli/bench_wide.h"
#include "cli/bench_wide_nets.h"

namespace mote::wide {

namespace {

using Tensors = std::vector<Tensor>;

// A part of a training step: what is minimised, by changing which parameters.
struct Phase {
  std::vector<Tensor> parameters;
  std::function<Tensor(const Tensors&)> loss;
};
struct Net {
  std::vector<NamedTensor> parameters;
  std::function<Tensor(const Tensors&)> forward;
  std::vector<Phase> phases;
};

// Weights keep the size of what passes through them; norms are near 1, biases near 0.
void fill(std::vector<NamedTensor>& parameters) {
  for (NamedTensor& p : parameters) {
    const int64_t count = p.tensor.numel();
    const bool weight = p.tensor.dim() > 1;
    const float spread =
        weight ? std::sqrt(3.0f / static_cast<float>(count / p.tensor.size(0))) : 0.1f;
    const float middle = !weight && p.name.ends_with("weight") ? 1.0f : 0.0f;
    p.tensor.assign(from_data(uniform_values(count, name_seed(p.name), spread, middle),
                              p.tensor.shape(), {}, Loc::current()));
    p.tensor.realize();
  }
}

template <class Module, class Forward, class Loss>
Net make(Module module, bool training, Forward forward, Loss loss) {
  auto m = std::make_shared<Module>(std::move(module));
  train(*m, training);
  Net net;
  net.parameters = named_parameters(*m);
  net.forward = [m, forward](const Tensors& in) { return forward(*m, in); };
  net.phases = {
      {parameters(*m), [m, loss](const Tensors& in) { return loss(*m, in); }}
  };
  return net;
}

// (inputs) to logits; trained to classes.
template <class Module>
Net classifier(Module module, bool training) {
  return make(
      std::move(module), training, [](auto& m, const Tensors& in) { return m(in[0]); },
      [](auto& m, const Tensors& in) {
        Tensor y = m(in[0]);
        return y.flatten(0, y.dim() - 2).cross_entropy(in[1].flatten());
      });
}

Net unet(bool training) {
  return make(
      models::UNet(), training, [](auto& m, const Tensors& in) { return m(in[0]); },
      [](auto& m, const Tensors& in) { return m(in[0]).binary_cross_entropy_with_logits(in[1]); });
}

// in: tokens; for training also the masked positions, their words, and whether sentences follow.
Net bert(bool training) {
  auto batch = [](const Tensors& in) {
    models::Bert::Batch b{in[0], in[0].ones_like(), in[0].zeros_like(), {}, {}, {}};
    if (in.size() > 1) b.masked_positions = in[1], b.masked_ids = in[2], b.next_sentence = in[3];
    return b;
  };
  models::BertConfig base{.layers = 12, .heads = 12, .features = 768, .hidden = 3072, .dropout = 0};
  return make(
      models::Bert(base), training, [=](auto& m, const Tensors& in) { return m.encode(batch(in)); },
      [=](auto& m, const Tensors& in) { return m.loss(batch(in)); });
}

// in: numbers that pictures are made of; for training also real pictures.
Net dcgan(bool training) {
  auto m = std::make_shared<Dcgan>();
  train(*m, training);
  Net net;
  net.parameters = named_parameters(*m);
  net.forward = [m](const Tensors& in) { return m->generator(in[0]); };
  auto judge = [m](const Tensor& images, double wanted) {
    Tensor y = m->discriminator(images);
    return y.binary_cross_entropy_with_logits(y.full_like(wanted));
  };
  auto tell = [=](const Tensors& in) {
    return judge(in[1], 1) + judge(m->generator(in[0]).detach(), 0);
  };
  auto deceive = [=](const Tensors& in) { return judge(m->generator(in[0]), 1); };
  net.phases.push_back({parameters(m->discriminator), tell});
  net.phases.push_back({parameters(m->generator), deceive});
  return net;
}

Net gpt2(bool training) {
  return classifier(
      models::Gpt(
          {.layers = 12, .heads = 12, .features = 768, .context = 1024, .vocabulary = 50257}),
      training);
}

struct Entry {
  std::string_view name;
  Net (*make)(bool training);
};
constexpr Entry entries[] = {
    {"mlp",         [](bool t) { return classifier(Mlp(), t); }             },
    {"mnist",       [](bool t) { return classifier(models::MnistNet(), t); }},
    {"resnet18",    [](bool t) { return classifier(models::resnet18(), t); }},
    {"resnet50",    [](bool t) { return classifier(models::resnet50(), t); }},
    {"mobilenetv2", [](bool t) { return classifier(MobileNetV2(), t); }     },
    {"vit_tiny",    [](bool t) { return classifier(Vit(), t); }             },
    {"lstm",        [](bool t) { return classifier(LstmText(), t); }        },
    {"gpt2",        gpt2                                                    },
    {"gpt_small",   [](bool t) { return classifier(models::Gpt(), t); }     },
    {"unet",        unet                                                    },
    {"bert",        bert                                                    },
    {"dcgan",       dcgan                                                   },
};

std::shared_ptr<optim::Optimizer> optimizer(const std::string& name, std::vector<Tensor> all) {
  if (name == "adam") return std::make_shared<optim::Adam>(std::move(all));
  if (name == "adamw") return std::make_shared<optim::AdamW>(std::move(all));
  check(name == "sgd", "[bench] there is no optimizer ", name);
  return std::make_shared<optim::SGD>(std::move(all),
                                      optim::SGDOptions{.lr = 1e-6, .momentum = 0.9});
}

}  // namespace

Held make_model(const Expr& call, bool lazily) {
  const std::string& name = call.args.at(0).text;
  const auto* entry = std::ranges::find(entries, name, &Entry::name);
  check(entry != std::end(entries), "[bench] there is no model ", name);
  const bool training = call.text == "train";
  auto net = std::make_shared<Net>(entry->make(training));
  if (!lazily) fill(net->parameters);
  auto inputs = [first = training ? 2 : 1](const Args& a) {
    Tensors out;
    for (size_t i = static_cast<size_t>(first); i < a.count(); ++i) out.push_back(a.tensor(i));
    return out;
  };
  if (!training) return [=](const Args& a) { return net->forward(inputs(a)); };
  std::vector<std::shared_ptr<optim::Optimizer>> optimizers;
  for (const Phase& phase : net->phases)
    optimizers.push_back(optimizer(call.args.at(1).text, phase.parameters));
  return [=](const Args& a) {
    Tensors losses;
    for (size_t i = 0; i < optimizers.size(); ++i) {
      optimizers[i]->zero_grad();
      losses.push_back(net->phases[i].loss(inputs(a)));
      losses.back().backward();
      optimizers[i]->step();
    }
    return Value(losses);
  };
}

}  // namespace mote::wide
