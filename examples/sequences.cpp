// Recurrent and transformer modules: sequences of several lengths, masks, and a state dict.
#include <mote/modules.h>
#include <mote/mote.h>

#include <cstdio>

using namespace mote;

// Says of each sequence whether its numbers add up to more than 0.
struct Reader {
  nn::LSTM lstm{
      1, 16, {.num_layers = 2, .batch_first = true, .dropout = 0.1, .bidirectional = true}
  };
  nn::Linear out{32, 1};
  MOTE_FIELDS(lstm, out)
  Tensor operator()(const Tensor& x, const Tensor& lengths) const {
    nn::Recurrent::Result r = lstm(x, {}, lengths);
    Tensor last = cat({r.h[2], r.h[3]}, 1);  // forward and backward, of the second layer
    return out(last).squeeze(1);
  }
};

int main() {
  manual_seed(1);
  Reader reader;
  optim::AdamW adam(parameters(reader), {.lr = 1e-2});
  const Tensor lengths = tensor({8, 5, 3, 8, 7, 2, 6, 4});
  auto step = jit([&](const Tensor& x) {
    adam.zero_grad();
    Tensor inside = arange(8).unsqueeze(0) < lengths.unsqueeze(1);
    Tensor sums = (x.squeeze(2) * inside.to_float()).sum(1);
    Tensor loss = reader(x, lengths).binary_cross_entropy_with_logits((sums > 0).to_float());
    loss.backward();
    adam.step();
    return loss;
  });
  for (int i = 0; i < 120; ++i) {
    Tensor loss = step(randn({8, 8, 1}));
    if (i % 40 == 0) std::printf("step %3d  loss %.3f\n", i, loss.item<float>());
  }

  // What is at the end of a padded batch is not looked at, nor what comes later.
  nn::TransformerEncoder encoder(2, 32, 4, {.dim_feedforward = 64, .batch_first = true});
  eval(encoder);
  Tensor padding = arange(8).unsqueeze(0).ge(lengths.unsqueeze(1));
  Tensor y = encoder(randn({8, 8, 32}), {.key_padding_mask = padding, .is_causal = true});
  std::printf("%lld features, %zu tensors, the first is %s\n", static_cast<long long>(y.size(-1)),
              state_dict(encoder).size(), state_dict(encoder)[0].name.c_str());

  // Attention alone, with its weights.
  nn::MultiheadAttention attention(32, 4, {.batch_first = true});
  nn::MultiheadResult seen = attention.attend(y, y, y, {.key_padding_mask = padding});
  std::printf("weights of %lld positions\n", static_cast<long long>(seen.weights.size(-1)));
}
