// Networks in an autocast scope: they train to the loss of f32, and every model of mote's takes it.
#include <doctest/doctest.h>
#include <mote/models.h>
#include <mote/mote.h>

#include <cmath>

#include "engine/realize.h"
#include "test/small_models.h"

using namespace mote;

namespace {

struct DefaultDevice {
  explicit DefaultDevice(const char* device) { set_default_device(device); }
  ~DefaultDevice() { set_default_device("CPU"); }
};

struct Mlp {
  nn::Linear up{16, 32}, down{32, 4};
  MOTE_FIELDS(up, down)
  Tensor operator()(const Tensor& x) const { return down(up(x).gelu()); }
};
struct ConvNet {
  nn::Conv2d first{1, 6, 3, {.padding = 1}};
  nn::BatchNorm norm{6};
  nn::Conv2d second{6, 8, 3, {.stride = 2}};
  nn::Linear head{8, 4};
  MOTE_FIELDS(first, norm, second, head)
  Tensor operator()(const Tensor& x) const {
    Tensor h = norm(first(x.view({-1, 1, 4, 4}))).relu();
    return head(second(h).relu().flatten(1));
  }
};
struct Transformer {
  nn::LayerNorm norm{8}, last{8};
  nn::Linear embed{4, 8}, up{8, 16}, down{16, 8}, head{8, 4};
  nn::MultiheadAttention attention{8, 2};
  MOTE_FIELDS(norm, last, embed, up, down, head, attention)
  Tensor operator()(const Tensor& x) const {
    Tensor h = embed(x.view({-1, 4, 4})), n = norm(h);
    h = h + attention(n, n, n);
    h = h + down(up(last(h)).silu());
    return head(h.mean(1));
  }
};

struct Losses {
  std::vector<float> all;
  std::vector<float> scales;
  float last() const { return all.back(); }
};

// dtype none: f32 throughout. f16 goes with a loss scaler, which starts too high.
template <class Net>
Losses train_net(const char* device, DType dtype, int steps, bool flat) {
  manual_seed(3);
  DefaultDevice here(device);
  Net net;
  optim::AdamW opt(parameters(net), {.lr = 0.02, .flat = flat, .master_weights = true});
  optim::LossScaler scaler({.init_scale = dtype == DType::f16 ? 0x1p26 : 1.0});
  Tensor x = randn({32, 16}).realize();
  Tensor y = x.view({32, 4, 4}).sum(2).argmax(1).realize();
  auto step = jit([&](const Tensor& in, const Tensor& target) {
    opt.zero_grad();
    Tensor loss;
    {
      auto scope = autocast(dtype == DType::none ? DType::bf16 : dtype, dtype != DType::none);
      loss = net(in).cross_entropy(target);
    }
    CHECK(loss.dtype() == DType::f32);
    scaler.scale(loss).backward();
    for (const Tensor& g : opt.gradients()) CHECK(g.dtype() == DType::f32);
    scaler.unscale(opt);
    opt.clip_grad_norm(1.0);
    std::vector<Tensor> written = scaler.step(opt);
    realize(written);
    return loss;
  });
  Losses out;
  for (int t = 0; t < steps; ++t) {
    out.all.push_back(step(x, y).template item<float>());
    out.scales.push_back(scaler.factor.item<float>());
  }
  for (const Tensor& p : parameters(net)) CHECK(p.dtype() == DType::f32);
  return out;
}

template <class Net>
void compare_training(const char* net) {
  INFO(std::string(net));
  const int steps = 40;
  Losses f32 = train_net<Net>("CPU", DType::none, steps, false);
  Losses bf16 = train_net<Net>("CPU", DType::bf16, steps, true);
  Losses f16 = train_net<Net>("CPU", DType::f16, steps, false);
  MESSAGE(std::string(net), ": f32 ", f32.all[0], " to ", f32.last(), ", bf16 ", bf16.last(),
          ", f16 ", f16.last());
  CHECK(f32.last() < 0.5 * f32.all[0]);
  CHECK(std::abs(bf16.all[0] - f32.all[0]) < 0.02 * f32.all[0]);
  CHECK(bf16.all[0] != f32.all[0]);
  CHECK(std::abs(bf16.last() - f32.last()) < 0.05 * f32.all[0]);
  // The first scales overflow f16: those steps are left out and the scale is halved.
  int skipped = 0;
  while (f16.scales[static_cast<size_t>(skipped)] < 0x1p26 / std::exp2(skipped)) ++skipped;
  CHECK(skipped > 3);
  CHECK(skipped < 20);
  CHECK(f16.all[static_cast<size_t>(skipped)] == f16.all[0]);
  CHECK(f16.all[static_cast<size_t>(skipped + 2)] < f16.all[0]);
  CHECK(f16.scales.back() > 0x1p26 / std::exp2(skipped + 4));
}

}  // namespace

TEST_CASE("autocast: networks train to the loss of f32, f16 with a scaler that skips") {
  compare_training<Mlp>("a perceptron");
  compare_training<ConvNet>("a conv net");
  compare_training<Transformer>("a transformer");
}

TEST_CASE("autocast: a step on INTERP and a schedule on NULL") {
  Losses cpu = train_net<Mlp>("CPU", DType::bf16, 2, false);
  Losses interp = train_net<Mlp>("INTERP", DType::bf16, 2, false);
  CHECK(cpu.all[1] == doctest::Approx(interp.all[1]).epsilon(2e-3));
  Options null{DType::f32, "NULL"};
  nn::Linear linear(4, 4, true, null);
  auto scope = autocast();
  Tensor loss = linear(empty({2, 4}, null)).square().mean();
  loss.backward();
  CHECK(linear.weight.grad().dtype() == DType::f32);
  realize({loss, linear.weight.grad()});
}

// ---- mote's own models

namespace {

// The loss in f32 and in bf16, and the cosine between both gradients of each parameter.
template <class Net, class Loss>
void compare_gradients(const char* what, Net& net, Loss loss_of) {
  INFO(std::string(what));
  std::vector<Tensor> losses, gradients[2];
  for (bool low : {false, true}) {
    Tensor loss;
    {
      auto scope = autocast(DType::bf16, low);
      loss = loss_of();
    }
    loss.backward();
    losses.push_back(loss);
    for (Tensor& p : parameters(net)) {
      CHECK(p.grad().dtype() == DType::f32);
      gradients[low].push_back(p.grad().flatten());
      p.zero_grad();
    }
  }
  std::vector<Tensor> wanted = losses;
  for (size_t i = 0; i < gradients[0].size(); ++i) {
    Tensor a = gradients[0][i], b = gradients[1][i];
    wanted.push_back((a * b).sum() / (a.norm() * b.norm() + 1e-12));
    wanted.push_back(a.norm());
  }
  Tensor all = stack(wanted);
  std::vector<float> v = all.to_vector<float>();
  CHECK(losses[1].dtype() == DType::f32);
  CHECK(v[1] != v[0]);
  CHECK(v[1] == doctest::Approx(v[0]).epsilon(0.02));
  float most = 0;
  for (size_t i = 3; i < v.size(); i += 2) most = std::max(most, v[i]);
  for (size_t i = 2; i < v.size(); i += 2)
    if (v[i + 1] > 1e-3f * most) CHECK(v[i] > 0.98);  // others are differences that cancel
}

}  // namespace

TEST_CASE("autocast: mote's models have the loss and the gradients of f32, but for rounding") {
  DefaultDevice here("INTERP");  // runs the graphs as they are: nothing to compile
  manual_seed(5);
  models::Gpt gpt({.layers = 2, .heads = 2, .features = 16, .context = 8, .vocabulary = 11});
  Tensor tokens = tensor({
             {1, 5, 2, 7, 3, 3, 9, 10}
  }),
         next = tensor({5, 2, 7, 3, 3, 9, 10, 0});
  compare_gradients("GPT", gpt, [&] { return gpt(tokens).flatten(0, 1).cross_entropy(next); });
  models::Llama llama(test::small_llama());
  compare_gradients("Llama", llama,
                    [&] { return llama(tokens).flatten(0, 1).cross_entropy(next); });
  models::Bert bert(test::small_bert(16));
  const models::Bert::Batch batch = test::small_bert_batch();
  compare_gradients("BERT", bert, [&] { return bert.loss(batch); });
  models::UNet unet({
      .features = {8, 16},
        .groups = 4
  });
  Tensor pictures = randn({2, 3, 8, 8}).realize();
  compare_gradients("U-Net", unet, [&] { return unet(pictures).square().mean(); });
}

TEST_CASE("autocast: a Llama decodes with a cache of f32") {
  manual_seed(6);
  models::Llama net(test::small_llama());
  Tensor tokens = tensor({
      {1, 5, 2, 7}
  });
  auto scope = autocast();
  Tensor whole = net(tokens)(0, 3);
  CHECK(whole.dtype() == DType::bf16);
  std::vector<models::KvCache> cache = net.make_cache(1);
  Tensor last = net.decode(tokens, cache, 0);
  for (const Tensor& t : tensors(cache)) CHECK(t.dtype() == DType::f32);
  std::vector<float> a = whole.to_vector<float>(), b = last.flatten().to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i) CHECK(std::abs(a[i] - b[i]) < 0.03);
}
