// What programs of `mote bench wide` may call: products, windows, norms, losses, gradients.
#include <mote/nn.h>

#include "cli/bench_wide.h"

namespace mote::wide {

namespace {

using Functions = std::map<std::string, Function, std::less<>>;

ConvOptions conv_options(const Args& a) {
  return {.stride = a.ints(99, "stride", 1),
          .padding = a.ints(99, "padding", 0),
          .dilation = a.ints(99, "dilation", 1),
          .groups = a.integer(99, "groups", 1)};
}
Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& bias, const ConvOptions& o) {
  if (x.dim() == 3) return x.conv1d(w, bias, o);
  return x.dim() == 4 ? x.conv2d(w, bias, o) : x.conv3d(w, bias, o);
}
ConvTransposeOptions conv_transpose_options(const Args& a) {
  return {.stride = a.ints(99, "stride", 1),
          .padding = a.ints(99, "padding", 0),
          .output_padding = a.ints(99, "output_padding", 0),
          .groups = a.integer(99, "groups", 1)};
}
Tensor convolve_transposed(const Tensor& x, const Tensor& w, const ConvTransposeOptions& o) {
  if (x.dim() == 3) return x.conv_transpose1d(w, {}, o);
  return x.dim() == 4 ? x.conv_transpose2d(w, {}, o) : x.conv_transpose3d(w, {}, o);
}

void add_products(Functions& f) {
  f["matmul"] = [](const Args& a) { return a.tensor(0).matmul(a.tensor(1)); };
  f["matmul_f16"] = f["matmul"];  // which PyTorch does by f32
  f["matmul_each"] = [](const Args& a) {
    std::vector<Tensor> out;
    for (const Tensor& x : a.tensors(0)) out.push_back(x.matmul(a.tensor(1)));
    return Value(out);
  };
  f["linear"] = [](const Args& a) {
    return a.tensor(0).linear(a.tensor(1), a.tensor_or_none(2, "bias"));
  };
  f["einsum"] = [](const Args& a) { return einsum(a.text(0, "equation", ""), a.tensors(1)); };
  f["outer"] = [](const Args& a) { return a.tensor(0).outer(a.tensor(1)); };
  f["cosine_similarity"] = [](const Args& a) {
    return a.tensor(0).cosine_similarity(a.tensor(1), a.integer(2, "dim", 1));
  };
  // conv(x, w, bias): of as many axes as x has. conv_bi, conv_bw(x, w, g): its gradient for x, w.
  f["conv"] = [](const Args& a) {
    return convolve(a.tensor(0), a.tensor(1), a.tensor_or_none(2, "bias"), conv_options(a));
  };
  f["conv_bi"] = [](const Args& a) {
    const Tensor x = a.tensor(0);
    return convolve(x, a.tensor(1), {}, conv_options(a)).gradient({x}, a.tensor(2))[0];
  };
  f["conv_bw"] = [](const Args& a) {
    const Tensor w = a.tensor(1);
    return convolve(a.tensor(0), w, {}, conv_options(a)).gradient({w}, a.tensor(2))[0];
  };
  f["convT"] = [](const Args& a) {
    return convolve_transposed(a.tensor(0), a.tensor(1), conv_transpose_options(a));
  };
  f["convT_bi"] = [](const Args& a) {
    const Tensor x = a.tensor(0);
    return convolve_transposed(x, a.tensor(1), conv_transpose_options(a))
        .gradient({x}, a.tensor(2))[0];
  };
  f["convT_bw"] = [](const Args& a) {
    const Tensor w = a.tensor(1);
    return convolve_transposed(a.tensor(0), w, conv_transpose_options(a))
        .gradient({w}, a.tensor(2))[0];
  };
}

void add_windows(Functions& f) {
  f["max_pool2d"] = [](const Args& a) {
    return a.tensor(0).max_pool2d(
        a.ints(1, "kernel_size", {}),
        {.stride = a.ints(2, "stride", {}), .padding = a.ints(3, "padding", 0)});
  };
  f["max_pool1d"] = [](const Args& a) {
    return a.tensor(0).max_pool1d(a.ints(1, "kernel_size", {}));
  };
  f["avg_pool2d"] = [](const Args& a) {
    return a.tensor(0).avg_pool2d(
        a.ints(1, "kernel_size", {}),
        {.stride = a.ints(2, "stride", {}), .padding = a.ints(3, "padding", 0)});
  };
  f["avg_pool3d"] = [](const Args& a) {
    return a.tensor(0).avg_pool3d(a.ints(1, "kernel_size", {}));
  };
  f["adaptive_avg_pool2d"] = [](const Args& a) {
    return a.tensor(0).adaptive_avg_pool2d(a.ints(1, "output_size", {}));
  };
  f["resize"] = [](const Args& a) {  // resize(x, 'bilinear', size=[h, w], align_corners=1)
    const std::string mode = a.text(1, "mode", "nearest");
    return a.tensor(0).interpolate({.size = a.ints(2, "size", {}),
                                    .mode = mode.c_str(),
                                    .align_corners = a.flag(3, "align_corners")});
  };
}

void add_norms(Functions& f) {
  f["softmax"] = [](const Args& a) { return a.tensor(0).softmax(a.integer(1, "dim")); };
  f["log_softmax"] = [](const Args& a) { return a.tensor(0).log_softmax(a.integer(1, "dim")); };
  f["layer_norm"] = [](const Args& a) {
    return a.tensor(0).layer_norm(a.ints(1, "shape", {}), a.tensor_or_none(2), a.tensor_or_none(3));
  };
  f["rms_norm"] = [](const Args& a) {
    return a.tensor(0).rms_norm(a.tensor(0).size(-1), a.tensor(1), 1e-5);
  };
  f["group_norm"] = [](const Args& a) {
    return a.tensor(0).group_norm(a.integer(1, "num_groups"), a.tensor_or_none(2),
                                  a.tensor_or_none(3));
  };
  f["instance_norm"] = [](const Args& a) { return a.tensor(0).instance_norm(); };
  f["batch_norm"] = [](const Args& a) {  // batch_norm(x, mean, var, weight, bias, training)
    const bool training = a.flag(5, "training");
    return a.tensor(0).batch_norm(training ? Tensor() : a.tensor(1),
                                  training ? Tensor() : a.tensor(2), a.tensor(3), a.tensor(4),
                                  {.training = training});
  };
  f["attention"] = [](const Args& a) {
    return a.tensor(0).scaled_dot_product_attention(
        a.tensor(1), a.tensor(2),
        {.attn_mask = a.tensor_or_none(3, "mask"), .is_causal = a.flag(99, "causal")});
  };
}

void add_losses(Functions& f) {
  f["cross_entropy"] = [](const Args& a) {
    return a.tensor(0).cross_entropy(a.tensor(1),
                                     {.label_smoothing = a.number(99, "label_smoothing", 0)});
  };
  f["nll_loss"] = [](const Args& a) { return a.tensor(0).nll_loss(a.tensor(1)); };
  f["mse_loss"] = [](const Args& a) { return a.tensor(0).mse_loss(a.tensor(1)); };
  f["l1_loss"] = [](const Args& a) { return a.tensor(0).l1_loss(a.tensor(1)); };
  f["smooth_l1_loss"] = [](const Args& a) { return a.tensor(0).smooth_l1_loss(a.tensor(1)); };
  f["kl_div"] = [](const Args& a) { return a.tensor(0).kl_div(a.tensor(1)); };
  f["binary_cross_entropy_with_logits"] = [](const Args& a) {
    return a.tensor(0).binary_cross_entropy_with_logits(a.tensor(1));
  };
  // grad(y, [x, w], g): without g, y is one number.
  f["grad"] = [](const Args& a) {
    return Value(a.tensor(0).gradient(a.tensors(1), a.tensor_or_none(2)));
  };
}

// Whole sequences, (length, batch, features), from a state of zeros: all outputs.
void add_recurrent(Functions& f) {
  f["lstm"] = [](const Args& a) {  // lstm(x, w_ih, w_hh, b_ih, b_hh)
    nn::LSTMCell cell;
    cell.weight_ih = a.tensor(1), cell.weight_hh = a.tensor(2);
    cell.bias_ih = a.tensor(3), cell.bias_hh = a.tensor(4);
    std::vector<Tensor> out;
    nn::LSTMCell::State state;
    for (const Tensor& x : a.tensor(0).unbind(0)) out.push_back((state = cell(x, state)).h);
    return stack(out, 0);
  };
  f["gru"] = [](const Args& a) {
    nn::GRUCell cell;
    cell.weight_ih = a.tensor(1), cell.weight_hh = a.tensor(2);
    cell.bias_ih = a.tensor(3), cell.bias_hh = a.tensor(4);
    std::vector<Tensor> out;
    for (const Tensor& x : a.tensor(0).unbind(0))
      out.push_back(cell(x, out.empty() ? Tensor() : out.back()));
    return stack(out, 0);
  };
  f["rnn"] = [](const Args& a) {
    std::vector<Tensor> out;
    for (const Tensor& x : a.tensor(0).unbind(0)) {
      Tensor y = x.linear(a.tensor(1), a.tensor(3));
      if (!out.empty())
        y = y + out.back().linear(a.tensor(2), a.tensor(4));
      else
        y = y + a.tensor(4);
      out.push_back(y.tanh());
    }
    return stack(out, 0);
  };
}

}  // namespace

void add_layer_functions(Functions& f) {
  add_products(f);
  add_windows(f);
  add_norms(f);
  add_losses(f);
  add_recurrent(f);
}

}  // namespace mote::wide
