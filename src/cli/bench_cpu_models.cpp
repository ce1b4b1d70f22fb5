// Rows of `mote bench cpu`: attention, a training step, a token of a language model.
#include <mote/jit.h>
#include <mote/models.h>
#include <mote/optim.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/number.h"
#include "base/threads.h"
#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

// ---- attention

constexpr int64_t kHeads = 12, kHeadSize = 64;
int64_t length() { return sized(1024); }

// Whole squares of scores: a library's products cannot leave out what the mask hides.
void attend_by_openblas(const Array& q, const Array& k, const Array& v, const Array& scores,
                        const Array& out) {
  const Gemm by_keys{length(), kHeadSize, length(), false, true, 1 / std::sqrt(float(kHeadSize))};
  const Gemm by_values{length(), length(), kHeadSize};
  for (int64_t head = 0; head < kHeads; ++head) {
    const int64_t at = head * length() * kHeadSize;
    openblas_gemm(by_keys, q.data() + at, k.data() + at, scores.data());
    causal_softmax(scores.data(), length());
    openblas_gemm(by_values, scores.data(), v.data() + at, out.data() + at);
  }
}

Sides attention_sides() {
  const int64_t count = kHeads * length() * kHeadSize;
  const Sizes shape = {1, kHeads, length(), kHeadSize};
  Array q = random(count), k = random(count), v = random(count), out(count),
        scores(length() * length());
  Captured ours = capture(
      [](const std::vector<Tensor>& in) {
        return in[0].scaled_dot_product_attention(in[1], in[2], {.is_causal = true});
      },
      {q.tensor(shape), k.tensor(shape), v.tensor(shape)});
  Sides s{ours};
  s.flops = 2.0 * static_cast<double>(count * length());  // of the half that is seen
  s.missing = openblas_missing();
  if (s.missing.empty()) s.peers = {[=] { attend_by_openblas(q, k, v, scores, out); }};
  s.check = [=] { return compare(*ours.result, out.values()); };
  return s;
}

// ---- a training step

constexpr int64_t kBatch = 512;

// The losses of the first steps: these agree where results and gradients do, later ones drift.
struct FirstLosses {
  static constexpr size_t kCount = 2;
  std::vector<float> values;
  void add(double loss) {
    if (values.size() < kCount) values.push_back(static_cast<float>(loss));
  }
};

struct MnistTraining {
  models::MnistNet net;
  optim::Adam adam{parameters(net)};
  Array images = random(kBatch * 28 * 28, 0, 1), labels = random(kBatch, 0, 10);
  FirstLosses ours, peers;

  MnistTraining() {
    for (int64_t i = 0; i < kBatch; ++i) labels.data()[i] = std::floor(labels.data()[i]);
    realize(tensors(net));
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    adam.zero_grad();
    Tensor loss = net(x).cross_entropy(y);
    loss.backward();
    adam.step();
    return loss;
  }
  // Images, labels and parameters in a file of floats.
  void write(const std::string& path) {
    FILE* file = std::fopen(path.c_str(), "wb");
    check(file, "[bench] cannot write ", path);
    auto put = [&](std::span<const float> v) { std::fwrite(v.data(), 4, v.size(), file); };
    put(images.values()), put(labels.values());
    for (const Tensor& p : parameters(net)) put(p.to_vector<float>());
    check(std::fclose(file) == 0, "[bench] cannot write ", path);
  }
};

std::shared_ptr<TorchChild> start_torch(MnistTraining& training) {
  char path[] = "/tmp/mote-bench-XXXXXX";
  const int file = mkstemp(path);
  check(file >= 0, "[bench] cannot make a file in /tmp");
  close(file);
  struct Remove {
    const char* path;
    ~Remove() { std::remove(path); }
  } remove{path};
  training.write(path);
  return std::make_shared<TorchChild>(
      "bench_torch.py",
      std::vector<std::string>{path, std::to_string(kBatch), std::to_string(thread_count())});
}

double torch_step(TorchChild& torch) {
  const std::string answer = torch.ask("step");
  double loss = 0;
  check(read_number(answer, loss), "[bench] PyTorch answers: ", answer);
  return loss;
}

Sides training_sides() {
  auto training = std::make_shared<MnistTraining>();
  Sides s;
  try {
    std::shared_ptr<TorchChild> torch = start_torch(*training);
    s.peers = {[=] { training->peers.add(torch_step(*torch)); }};
  } catch (const Error& error) { s.missing = error.what(); }
  auto step = [training](const Tensor& x, const Tensor& y) { return training->step(x, y); };
  auto compiled = std::make_shared<Jit<decltype(step)>>(jit(step));
  Tensor x = training->images.tensor({kBatch, 1, 28, 28});
  Tensor y = training->labels.tensor({kBatch}).to(DType::i64).realize();
  s.ours.run = [=] { training->ours.add((*compiled)(x, y).item<float>()); };
  s.check = [=] { return compare(tensor(training->ours.values), training->peers.values, 3e-3); };
  return s;
}

// ---- a token

// GPT-2 small with a cache of keys and values, fed token by token.
struct Decoder {
  models::Gpt net{
      {.layers = 12, .heads = 12, .features = 768, .context = 1024, .vocabulary = 50257}
  };
  std::vector<models::KvCache> cache;
  Variable at{"position", 0, 1023};

  Decoder() {
    realize(tensors(net));
    for (size_t i = 0; i < net.transformer.h.size(); ++i)
      cache.push_back({zeros({1, 1024, kHeads, kHeadSize}).contiguous().realize(),
                       zeros({1, 1024, kHeads, kHeadSize}).contiguous().realize()});
  }

  Tensor attend(const models::GptBlock::Attention& a, models::KvCache& c, const Tensor& x,
                const Size& position) const {
    std::vector<Tensor> qkv = a.c_attn(x).chunk(3, -1);
    for (Tensor& t : qkv) t = t.unflatten(-1, {kHeads, kHeadSize});
    c.keys.narrow(1, position, 1).assign(qkv[1]);
    c.values.narrow(1, position, 1).assign(qkv[2]);
    const Size so_far = position + Size(1);
    Tensor keys = c.keys.narrow(1, 0, so_far).transpose(1, 2);
    Tensor values = c.values.narrow(1, 0, so_far).transpose(1, 2);
    Tensor mixed = qkv[0].transpose(1, 2).scaled_dot_product_attention(keys, values);
    return a.c_proj(mixed.transpose(1, 2).flatten(2));
  }

  Tensor operator()(const Tensor& token, const Sym& position) {
    Tensor x = net.transformer.wte(token) + net.transformer.wpe.weight.narrow(0, position, 1);
    for (size_t i = 0; i < cache.size(); ++i) {
      const models::GptBlock& block = net.transformer.h[i];
      x = x + attend(block.attn, cache[i], block.ln_1(x), position);
      x = x + block.mlp(block.ln_2(x));
    }
    return net.lm_head(net.transformer.ln_f(x)).flatten();
  }

  // Read for each token: all but the positions' embeddings, the tokens' being the last product's.
  int64_t weights() {
    int64_t n = 0;
    for (const Tensor& p : parameters(net)) n += p.numel();
    return n - net.transformer.wpe.weight.numel();
  }
};

Sides decode_sides() {
  auto decoder = std::make_shared<Decoder>();
  auto step = [decoder](const Tensor& token, const Sym& at) { return (*decoder)(token, at); };
  auto compiled = std::make_shared<Jit<decltype(step)>>(jit(step));
  auto feed = [=](int64_t token, int64_t position) {
    return (*compiled)(tensor({token}, {DType::i64}).reshape({1, 1}), decoder->at.bind(position));
  };
  const Array read(decoder->weights());
  Sides s{{[=] { feed(7, 63); }}};
  s.flops = 2.0 * static_cast<double>(read.size());
  s.bytes = 4.0 * static_cast<double>(read.size());
  for (auto sum : {loops().sum, loops().sum_of_four})
    s.peers.push_back([=] {
      in_parts(read.size(), [&](int64_t at, int64_t n) { kept = sum(read.data() + at, n); });
    });
  s.check = [=] {  // as the model without a cache has it
    const std::vector<int64_t> tokens = {11, 5000, 42, 50256};
    Tensor last;
    for (size_t i = 0; i < tokens.size(); ++i) last = feed(tokens[i], static_cast<int64_t>(i));
    Tensor wanted = decoder->net(tensor(tokens).reshape({1, -1})).select(1, -1);
    return compare(last, wanted.to_vector<float>());
  };
  return s;
}

}  // namespace

void add_attention_rows(std::vector<Row>& rows) {
  rows.push_back({"attention-causal-12x1024x64", "OpenBLAS, softmax loop", 2, attention_sides});
}

void add_model_rows(std::vector<Row>& rows) {
  rows.push_back({"mnist-training-step-512", "PyTorch", 1.5, training_sides});
  rows.push_back({"gpt2-small-decode", "read loops over its bytes", 0.75, decode_sides});
}

}  // namespace mote::bench
