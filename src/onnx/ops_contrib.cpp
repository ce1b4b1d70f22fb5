// Microsoft's common operators.
#include <cmath>

#include "onnx/attend.h"
#include "onnx/windows.h"

namespace mote::onnx {

namespace {

Outputs gelu(Call& c) { return {c.x(0).gelu()}; }
Outputs bias_gelu(Call& c) { return {(c.x(0) + c.x(1)).gelu()}; }
Outputs fast_gelu(Call& c) { return {(c.has(1) ? c.x(0) + c.x(1) : c.x(0)).gelu("tanh")}; }
Outputs quick_gelu(Call& c) {
  const Tensor x = c.x(0);
  return {x * (x * c.f("alpha", 1.702)).sigmoid()};
}

Tensor activated(Call& c, const Tensor& x) {
  const std::string name = c.s("activation", "");
  const std::vector<double> p = c.fs("activation_params");
  auto parameter = [&](size_t i, double otherwise) { return i < p.size() ? p[i] : otherwise; };
  if (name.empty()) return x;
  if (name == "Relu") return x.relu();
  if (name == "Sigmoid") return x.sigmoid();
  if (name == "Tanh") return x.tanh();
  if (name == "LeakyRelu") return x.leaky_relu(parameter(0, 0.01));
  if (name == "Clip") return x.clamp(parameter(0, -INFINITY), parameter(1, INFINITY));
  if (name == "HardSigmoid") return (x * parameter(0, 0.2) + parameter(1, 0.5)).clamp(0, 1);
  fail_call("the activation ", quoted(name), " is not known");
}

Outputs fused_conv(Call& c) {
  Tensor y = convolve(c, c.x(0), c.x(1), c.maybe(2));
  if (c.has(3)) y = y + c.x(3);
  return {activated(c, y)};
}

Outputs fused_matmul(Call& c) {
  Tensor a = c.x(0), b = c.x(1);
  expect(!c.i("transBatchA", 0) && !c.i("transBatchB", 0), "transBatch is not supported");
  if (c.i("transA", 0) && a.dim() > 1) a = a.mT();
  if (c.i("transB", 0) && b.dim() > 1) b = b.mT();
  const double alpha = c.f("alpha", 1);
  return {alpha == 1 ? a.matmul(b) : a.matmul(b) * alpha};
}

// Packed numbers of a few bits, low ones first: (..., n) bytes to (..., n * 8 / bits) numbers.
Tensor unpacked_bits(Call& c, const Tensor& packed, int64_t bits) {
  if (bits == 8) return packed.cast(DType::i32);
  const int64_t per_byte = 8 / bits;
  const Tensor shifts = arange(per_byte, c.options(DType::i32)) * bits;
  const Tensor all = packed.cast(DType::i32).unsqueeze(-1).bitwise_right_shift(shifts);
  return all.bitwise_and((int64_t{1} << bits) - 1).flatten(-2, -1);
}

// Weights in blocks of a few bits, each with a scale and a zero point.
Outputs matmul_n_bits(Call& c) {
  const Tensor a = c.x(0), scales = c.x(2);
  const int64_t k = c.i("K", 0), n = c.i("N", 0), bits = c.i("bits", 4);
  const int64_t block = c.count_of("block_size", 32);
  expect(bits == 2 || bits == 4 || bits == 8, "bits is ", bits);
  expect(!c.has(4), "g_idx is not supported");
  const int64_t blocks = (k + block - 1) / block;
  const Tensor q = unpacked_bits(c, c.x(1).reshape({n, blocks, -1}), bits);
  const Tensor scale = scales.reshape({n, blocks, 1});
  Tensor zero = full({1, 1, 1}, int64_t{1} << (bits - 1), c.options(DType::i32));
  if (c.has(3)) {
    const Tensor z = c.x(3);
    zero = is_float(z.dtype())
               ? z.reshape({n, blocks, 1})
               : unpacked_bits(c, z.reshape({n, -1}), bits).narrow(1, 0, blocks).unsqueeze(2);
  }
  const Tensor weight = (q.cast(scale.dtype()) - zero.cast(scale.dtype())) * scale;
  const Tensor rows = weight.reshape({n, blocks * block}).narrow(1, 0, k);
  const Tensor y = a.matmul(rows.cast(a.dtype()).t());
  return {c.has(5) ? y + c.x(5) : y};
}

struct Heads {
  Tensor q, k, v;  // (batch, heads, length, size)
};

Tensor attended(Call& c, const Heads& h, const Tensor& bias) {
  const Tensor k = repeat_heads(h.k, h.q.size(1)), v = repeat_heads(h.v, h.q.size(1));
  double scale = c.f("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(h.q.size(3)));
  Tensor scores = h.q.matmul(k.mT()) * scale;
  if (const double cap = c.f("softcap", 0); cap > 0) scores = (scores / cap).tanh() * cap;
  if (bias.defined()) scores = scores + bias;
  return from_heads(masked_softmax(scores).matmul(v));
}

Tensor plus(const Tensor& a, const Tensor& b) { return !a.defined() ? b : b.defined() ? a + b : a; }

// 1 where a key counts, as a bias with the operator's own number for what does not.
Tensor padding_bias(Call& c, const Tensor& mask, DType dtype, int64_t queries, int64_t keys) {
  const double out = c.f("mask_filter_value", -10000);
  Tensor m = mask;
  if (m.dim() == 1) {  // how many keys there are
    const Tensor place = arange(keys, c.options(DType::i64)).unsqueeze(0);
    m = place < m.cast(DType::i64).narrow(0, 0, mask.size(0)).unsqueeze(1);
  }
  if (m.dim() == 2) m = m.unsqueeze(1).expand({m.size(0), queries, m.size(1)});
  if (m.dim() == 3) m = m.unsqueeze(1);
  return m.eq(0).cast(dtype) * out;
}

Tensor causal_bias(Call& c, const Heads& h) {
  const int64_t queries = h.q.size(2), keys = h.k.size(2);
  const Tensor offset = full({1, 1, 1, 1}, keys - queries, c.options(DType::i64));
  return window_bias(offset, queries, keys, -1, 0, h.q.dtype());
}

// One product gives queries, keys and values; the cache holds keys and values together.
Outputs packed_attention(Call& c) {
  const Tensor x = c.x(0);
  Tensor all = x.matmul(c.x(1));
  if (c.has(2)) all = all + c.x(2);
  const int64_t heads = c.count_of("num_heads", 1);
  std::vector<int64_t> sizes = c.is("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, all.size(2) / 3);
  expect(sizes.size() == 3, "qkv_hidden_sizes has ", sizes.size(), " numbers");
  Heads h{to_heads(all.narrow(2, 0, sizes[0]), heads),
          to_heads(all.narrow(2, sizes[0], sizes[1]), heads),
          to_heads(all.narrow(2, sizes[0] + sizes[1], sizes[2]), heads)};
  if (c.has(4)) {
    h.k = cat({c.x(4).select(0, 0), h.k}, 2);
    h.v = cat({c.x(4).select(0, 1), h.v}, 2);
  }
  Tensor bias = c.maybe(5);
  if (c.has(3)) bias = plus(bias, padding_bias(c, c.x(3), x.dtype(), h.q.size(2), h.k.size(2)));
  if (c.i("unidirectional", 0)) bias = plus(bias, causal_bias(c, h));
  return {attended(c, h, bias), c.wants(1) ? stack({h.k, h.v}) : Tensor()};
}

Outputs multi_head_attention(Call& c) {
  const int64_t heads = c.count_of("num_heads", 1);
  Tensor q = c.x(0), k, v;
  expect(c.has(1) && c.has(2), "packed queries, keys and values are not supported");
  k = c.x(1), v = c.x(2);
  if (c.has(3)) {
    const int64_t size = q.size(2), key_size = k.dim() == 3 ? k.size(2) : size;
    const Tensor b = c.x(3);
    q = q + b.narrow(0, 0, size);
    if (k.dim() == 3) k = k + b.narrow(0, size, key_size);
    if (v.dim() == 3) v = v + b.narrow(0, size + key_size, v.size(2));
  }
  Heads h{to_heads(q, heads), k.dim() == 3 ? to_heads(k, heads) : k,
          v.dim() == 3 ? to_heads(v, heads) : v};
  if (c.has(6)) h.k = cat({c.x(6), h.k}, 2);
  if (c.has(7)) h.v = cat({c.x(7), h.v}, 2);
  Tensor bias = c.maybe(5);
  if (c.has(4)) bias = plus(bias, padding_bias(c, c.x(4), q.dtype(), h.q.size(2), h.k.size(2)));
  if (c.i("unidirectional", 0)) bias = plus(bias, causal_bias(c, h));
  return {attended(c, h, bias), h.k, h.v};
}

// The new keys behind the old ones: in a longer cache, or in a buffer that has room for them.
Tensor appended(const Tensor& past, const Tensor& now, const Tensor& before, int64_t total) {
  if (!past.defined()) return now;
  if (past.size(2) + now.size(2) <= total || past.size(2) < total) return cat({past, now}, 2);
  const Tensor at = arange(now.size(2), Options{DType::i64, now.device()}).reshape({1, 1, -1, 1});
  return past.scatter(2, (at + before).expand(now.shape()), now);
}

Outputs group_query_attention(Call& c) {
  const int64_t heads = c.count_of("num_heads", 1), kv_heads = c.count_of("kv_num_heads", 1);
  Tensor q = c.x(0), k, v;
  if (c.has(1)) {
    k = c.x(1), v = c.x(2);
  } else {
    const int64_t size = q.size(2) / (heads + 2 * kv_heads);
    k = q.narrow(2, heads * size, kv_heads * size);
    v = q.narrow(2, (heads + kv_heads) * size, kv_heads * size);
    q = q.narrow(2, 0, heads * size);
  }
  const int64_t length = q.size(1), total = c.ints(6).at(0);
  // How many keys each batch has, and how many before these.
  const Tensor filled = c.x(5).cast(DType::i64).reshape({-1, 1, 1, 1}) + 1;
  const Tensor before = filled - length;
  Heads h{to_heads(q, heads), to_heads(k, kv_heads), to_heads(v, kv_heads)};
  if (c.i("do_rotary", 0)) {
    const Tensor step = arange(length, c.options(DType::i64)).unsqueeze(0);
    const Tensor at = (before.reshape({-1, 1}) + step).maximum(0);
    const Rotation r{at.embedding(c.x(7)), at.embedding(c.x(8)), c.i("rotary_interleaved", 0) != 0};
    auto turned = [&](const Tensor& t) { return rotated(t.transpose(1, 2), r).transpose(1, 2); };
    h.q = turned(h.q), h.k = turned(h.k);
  }
  h.k = appended(c.maybe(3), h.k, before, total), h.v = appended(c.maybe(4), h.v, before, total);
  const int64_t window = c.i("local_window_size", -1);
  const Tensor bias =
      window_bias(before, length, h.k.size(2), window > 0 ? window - 1 : -1, 0, q.dtype());
  return {attended(c, h, bias), h.k, h.v};
}

Outputs rotary(Call& c) {
  const Tensor x = c.x(0), cos = c.x(2), at = c.x(1).cast(DType::i64);
  const bool flat = x.dim() == 3;
  const int64_t turned = c.i("rotary_embedding_dim", 0), heads = c.i("num_heads", 0);
  const int64_t size = heads > 0 ? x.size(2) / heads : turned ? turned : 2 * cos.size(1);
  const Tensor split = flat ? x.unflatten(2, {-1, size}) : x.transpose(1, 2);
  Tensor place = at;
  if (at.numel() == 1) {
    const Tensor step = arange(split.size(1), c.options(DType::i64)).unsqueeze(0);
    place = at.reshape({1, 1}) + step;
  }
  const Rotation r{place.embedding(cos), place.embedding(c.x(3)), c.i("interleaved", 0) != 0};
  const Tensor out = rotated(split, r);
  return {flat ? out.reshape(x.shape()) : out.transpose(1, 2)};
}

constexpr const char* microsoft = "com.microsoft";
constexpr OpRow rows[] = {
    {"Gelu",                1, gelu,                  microsoft},
    {"BiasGelu",            1, bias_gelu,             microsoft},
    {"FastGelu",            1, fast_gelu,             microsoft},
    {"QuickGelu",           1, quick_gelu,            microsoft},
    {"FusedConv",           1, fused_conv,            microsoft},
    {"FusedMatMul",         1, fused_matmul,          microsoft},
    {"TransposeMatMul",     1, fused_matmul,          microsoft},
    {"MatMulNBits",         1, matmul_n_bits,         microsoft},
    {"Attention",           1, packed_attention,      microsoft},
    {"MultiHeadAttention",  1, multi_head_attention,  microsoft},
    {"GroupQueryAttention", 1, group_query_attention, microsoft},
    {"RotaryEmbedding",     1, rotary,                microsoft},
};

}  // namespace

OpTable contrib_ops() { return rows; }

}  // namespace mote::onnx
