#include <doctest/doctest.h>
#include <mote/error.h>
#include <mote/modules.h>
#include <mote/nn.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "test/error_of.h"

using namespace mote;

namespace {

struct Inner {
  Tensor a, b;
  MOTE_FIELDS(a, b)
};
struct Outer {
  std::vector<Inner> list;
  std::map<std::string, Tensor> named;
  std::optional<Inner> absent, present;
  std::tuple<Tensor, Inner> pair;
  std::array<Tensor, 2> two;
  nn::Dropout dropout;
  MOTE_FIELDS(list, named, absent, present, pair, two, dropout)
};

template <class T>
std::string names(T& value) {
  std::string out;
  for (const NamedTensor& n : named_tensors(value)) out += n.name + " ";
  return out;
}

}  // namespace

TEST_CASE("fields: every container is walked, in the order listed") {
  Tensor t = zeros({2});
  Outer o{{{t, t}, {t, {}}}, {{"k", t}}, {}, Inner{t, t}, {t, {t, t}}, {t, t}, {}};
  CHECK(names(o) == "list.0.a list.0.b list.1.a named.k present.a present.b pair.0 pair.1.a pair.1.b "
                    "two.0 two.1 ");
  const Outer& fixed = o;
  CHECK(names(fixed) == names(o));
}

TEST_CASE("fields: train and eval reach every module") {
  Outer o;
  eval(o);
  CHECK(!o.dropout.training);
  train(o);
  CHECK(o.dropout.training);
}

TEST_CASE("nn: names and shapes as in PyTorch, parameters are leaves") {
  nn::Sequential net(nn::Conv2d(3, 8, 3, {.groups = 1}), nn::BatchNorm(8),
                     [](const Tensor& x) { return x.relu().flatten(1); }, nn::Linear(8, 4));
  CHECK(names(net) == "0.weight 0.bias 1.weight 1.bias 1.running_mean 1.running_var "
                      "1.num_batches_tracked 3.weight 3.bias ");
  CHECK(parameters(net).size() == 6);
  for (const Tensor& p : parameters(net)) CHECK(p.requires_grad());
  Tensor y = net(rand({2, 3, 3, 3}));
  CHECK(y.shape() == std::vector<int64_t>{2, 4});
  nn::MultiheadAttention attention(8, 2);
  CHECK(names(attention) == "in_proj_weight in_proj_bias out_proj.weight out_proj.bias ");
  CHECK(attention(rand({2, 5, 8}), rand({2, 7, 8}), rand({2, 7, 8})).shape() ==
        std::vector<int64_t>{2, 5, 8});
  nn::ConvTranspose2d up(4, 6, 2, {.stride = 2});
  CHECK(up(rand({1, 4, 3, 3})).shape() == std::vector<int64_t>{1, 6, 6, 6});
  CHECK(nn::Embedding(10, 3)(tensor({1, 2, 9})).shape() == std::vector<int64_t>{3, 3});
}

TEST_CASE("nn: weights are drawn within PyTorch's bounds") {
  manual_seed(1);
  nn::Linear l(64, 100);
  double largest = l.weight.abs().max().item<double>(), mean = l.weight.mean().item<double>();
  CHECK(largest <= 0.125);
  CHECK(largest > 0.12);
  CHECK(std::abs(mean) < 0.005);
  CHECK(l.bias.abs().max().item<double>() <= 0.125);
}

TEST_CASE("nn: a state dict loads into another module") {
  nn::Linear a(3, 2), b(3, 2);
  load_state_dict(b, state_dict(a));
  CHECK(b.weight.to_vector<float>() == a.weight.to_vector<float>());
  CHECK(b.weight.requires_grad());
  CHECK_THROWS_WITH_AS(load_state_dict(b,
                                       {
                                           {"weight", a.weight}
  }),
                       doctest::Contains("1 tensor is missing: bias"), Error);
  auto more = state_dict(a);
  more.push_back({"extra", a.bias});
  CHECK_THROWS_WITH_AS(load_state_dict(b, more),
                       doctest::Contains("1 tensor is not expected: extra"), Error);
  LoadReport report = load_state_dict(b, more, false);
  CHECK(report.unexpected == std::vector<std::string>{"extra"});
}

TEST_CASE("nn: a tensor with two names is there once either is given") {
  Inner tied{zeros({2}), {}};
  tied.b = tied.a;
  load_state_dict(tied, {
                            {"b", ones({2})}
  });
  CHECK(tied.a.to_vector<float>() == std::vector<float>{1, 1});
  CHECK_THROWS_WITH_AS(load_state_dict(tied, {}), doctest::Contains("2 tensors are missing: a, b"),
                       Error);
}

TEST_CASE("nn: loading says all that does not fit, and how names differ") {
  Inner m{zeros({2}), zeros({3})};
  const std::vector<float> before = m.a.to_vector<float>();
  std::vector<NamedTensor> given = {
      {"a", ones({2})},
      {"b", ones({4})},
      {"c", ones({1})}
  };
  std::string what = error_of([&] { load_state_dict(m, given); });
  CHECK(what.find("1 tensor is not expected: c\n  1 tensor has another shape: b (3), given (4)") !=
        what.npos);
  CHECK(m.a.to_vector<float>() == before);
  LoadReport report = load_state_dict(m, given, false);
  CHECK(report.missing.empty());
  CHECK(report.unexpected == std::vector<std::string>{"c"});
  CHECK(report.misshapen == std::vector<std::string>{"b (3), given (4)"});
  CHECK(m.a.to_vector<float>() == std::vector<float>{1, 1});
  given = with_prefix(
      {
          {"a", ones({2})},
          {"b", ones({3})}
  },
      "transformer.");
  what = error_of([&] { load_state_dict(m, given); });
  CHECK(what.find("2 tensors are missing: a, b") != what.npos);
  CHECK(what.find("a is missing; did you mean transformer.a? 2 of the names fit once the prefix "
                  "transformer. is taken away: without_prefix(tensors, \"transformer.\")") !=
        what.npos);
  load_state_dict(m, without_prefix(given, "transformer."));
  CHECK(m.b.to_vector<float>() == std::vector<float>{1, 1, 1});
  Outer o{{m}, {}, {}, {}, {}, {}, {}};
  what = error_of([&] { load_state_dict(o, state_dict(m)); });
  CHECK(what.find("the prefix list.0. is added: with_prefix(tensors, \"list.0.\")") != what.npos);
  what = error_of([&] {
    load_state_dict(m, {
                           {"a",  m.a},
                           {"bb", m.b}
    });
  });
  CHECK(what.find("b is missing; did you mean bb?") != what.npos);
}

namespace {

struct Forgetful {
  nn::Linear used, forgotten;
  MOTE_FIELDS(used)
  Forgetful() : used(2, 2), forgotten(2, 3) {}
};
struct ForgetfulList {
  nn::Linear used;
  std::vector<nn::Linear> blocks;
  MOTE_FIELDS(used)
  ForgetfulList() : used(2, 2) { blocks.emplace_back(2, 4); }
};
struct Around {
  std::vector<Forgetful> parts;
  MOTE_FIELDS(parts)
};
struct Tied {
  nn::Embedding wte;
  nn::Linear head;
  Tensor alias;  // of what is named elsewhere
  double number = 3;
  MOTE_FIELDS(wte, head)
  Tied() : wte(4, 2), head(2, 4) { alias = head.weight = wte.weight; }
};

}  // namespace

TEST_CASE("nn: a parameter that MOTE_FIELDS does not name is found") {
  Forgetful one;
  std::string what = error_of([&] { parameters(one); });
  CHECK(what.find("Forgetful holds a parameter of shape (3, 2) that its MOTE_FIELDS(...) line does "
                  "not name") != what.npos);
  ForgetfulList list;
  what = error_of([&] { parameters(list); });
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  CHECK(what.find("ForgetfulList holds a list with a parameter of shape (4, 2)") != what.npos);
#endif
  Around around;
  around.parts.resize(1);
  what = error_of([&] { parameters(around); });
  CHECK(what.find("Forgetful (parts.0) holds a parameter of shape (3, 2)") != what.npos);
  Tied tied;
  CHECK(parameters(tied).size() == 2);
}

TEST_CASE("nn: a module is cast and moved, and every handle sees it") {
  manual_seed(1);
  nn::BatchNorm norm(2);
  nn::Linear a(2, 2), b;
  b = a;
  const std::vector<float> before = a.weight.to_vector<float>();
  to(a, DType::f64);
  CHECK(b.weight.dtype() == DType::f64);
  CHECK(is_parameter(b.weight));
  CHECK(a.weight.to_vector<float>() == before);
  a(ones({1, 2}, DType::f64)).sum().backward();
  CHECK(b.weight.grad().dtype() == DType::f64);
  to(to(a, DType::f32), "INTERP");
  CHECK(b.bias.device() == "INTERP");
  CHECK(b.weight.to_vector<float>() == before);
  to(norm, DType::bf16);
  CHECK(norm.running_var.dtype() == DType::bf16);
  CHECK(norm.num_batches_tracked.dtype() == DType::i64);
}

TEST_CASE("nn: recurrent cells step as their formulas say") {
  nn::GRUCell gru(2, 3);
  Tensor x = tensor({{0.5, -1.0}}), h = gru(x);
  CHECK(h.shape() == std::vector<int64_t>{1, 3});
  // From a zero state: (1 - z) * tanh(W x + b + r * b')
  Tensor in = x.linear(gru.weight_ih, gru.bias_ih);
  std::vector<Tensor> i = in.chunk(3, -1), s = gru.bias_hh.unsqueeze(0).chunk(3, -1);
  Tensor r = (i[0] + s[0]).sigmoid(), z = (i[1] + s[1]).sigmoid();
  Tensor expected = (1 - z) * (i[2] + r * s[2]).tanh();
  CHECK((h - expected).abs().max().item<float>() < 1e-6f);
  nn::LSTMCell lstm(2, 3);
  nn::LSTMCell::State one = lstm(x), two = lstm(x, one);
  CHECK(two.h.shape() == std::vector<int64_t>{1, 3});
  CHECK((two.c - one.c).abs().max().item<float>() > 0);
}

TEST_CASE("nn: batch norm moves its statistics only while training") {
  nn::BatchNorm bn(2);
  Tensor x = tensor({{1.0, 2.0}, {3.0, 6.0}});
  Tensor y = bn(x);
  realize({y, bn.running_mean, bn.running_var, bn.num_batches_tracked});
  CHECK(bn.running_mean.to_vector<float>()[0] == doctest::Approx(0.2));
  CHECK(bn.running_var.to_vector<float>()[1] == doctest::Approx(0.9 + 0.8));
  CHECK(bn.num_batches_tracked.item<int>() == 1);
  eval(bn);
  bn(x).realize();
  CHECK(bn.num_batches_tracked.item<int>() == 1);
  nn::BatchNorm plain(2, {}, false, false);
  eval(plain);
  CHECK(plain(x).to_vector<float>()[0] == doctest::Approx(-1).epsilon(1e-4));  // by the batch
}

namespace {

std::string with_line(const std::string& what, int line) {
  return what + " (" + __FILE__ + ":" + std::to_string(line) + ")";
}

}  // namespace

TEST_CASE("nn: errors of modules being made name the user's line") {
  using namespace nn;
  CHECK(error_of([] { Linear(-1, 2); }) ==
        with_line("[Linear] sizes must not be negative, got -1", __LINE__ - 1));
  CHECK(error_of([] { Embedding(-1, 2); }) ==
        with_line("[Embedding] sizes must not be negative, got -1", __LINE__ - 1));
  CHECK(error_of([] { BatchNorm(-2); }) ==
        with_line("[BatchNorm] sizes must not be negative, got -2", __LINE__ - 1));
  CHECK(error_of([] { LayerNorm(-3); }) ==
        with_line("[LayerNorm] sizes must not be negative, got -3", __LINE__ - 1));
  CHECK(error_of([] { RMSNorm(-3); }) ==
        with_line("[RMSNorm] sizes must not be negative, got -3", __LINE__ - 1));
  CHECK(error_of([] { InstanceNorm(-3); }) ==
        with_line("[InstanceNorm] sizes must not be negative, got -3", __LINE__ - 1));
  CHECK(error_of([] { GroupNorm(3, 4); }) ==
        with_line("[GroupNorm] 4 channels cannot be divided into 3 groups", __LINE__ - 1));
  CHECK(error_of([] { Conv2d(3, 4, 3, {.groups = 2}); }) ==
        with_line("[Conv] 3 and 4 channels cannot be divided into 2 groups", __LINE__ - 1));
  CHECK(error_of([] { ConvTranspose1d(3, 4, {3, 3}); }) ==
        with_line("[ConvTranspose] needs 1 or 1 kernel sizes, got 2", __LINE__ - 1));
  CHECK(error_of([] { MultiheadAttention(5, 2); }) ==
        with_line("[MultiheadAttention] 5 features cannot be divided into 2 heads", __LINE__ - 1));
  CHECK(error_of([] { LSTMCell(2, -1); }) ==
        with_line("[LSTMCell] sizes must not be negative, got -1", __LINE__ - 1));
  CHECK(error_of([] { GRUCell(-2, 1); }) ==
        with_line("[GRUCell] sizes must not be negative, got -2", __LINE__ - 1));
}

TEST_CASE("nn: states and lengths that do not fit are errors, and not broadcast") {
  nn::LSTM lstm(4, 5);
  Tensor x = ones({6, 2, 4});
  auto said = [](auto f) { return error_of(f); };
  CHECK(said([&] {
          lstm(x, {zeros({1, 1, 5}), zeros({1, 2, 5})});
        }).find("[LSTM] an initial state has shape (1, 1, 5), it needs 1 x 2 x 5") == 0);
  CHECK(said([&] {
          lstm(x, {}, tensor({7, 1, 2}));
        }).find("[LSTM] needs an integer length for each") == 0);
  CHECK(said([&] {
          lstm(x, {}, tensor({7, 1})).output.realize();
        }).find("[LSTM] length 7 is more than there is") == 0);
  CHECK(said([] {
          nn::TransformerEncoderLayer layer(8, 2, {.activation = "swish"});
        }).find("[TransformerEncoderLayer] the activation is relu or gelu, got swish") == 0);
}

TEST_CASE("nn: functions as modules") {
  manual_seed(2);
  auto net = nn::Sequential(nn::Conv2d(1, 4, 3), nn::PReLU(4), nn::Dropout2d{0.3},
                            nn::LocalResponseNorm{3}, nn::ChannelShuffle{2}, nn::LPPool2d{2, 2},
                            nn::RReLU{}, nn::AlphaDropout{0.1}, nn::Unfold{2});
  CHECK(parameters(net).size() == 3);
  Tensor x = rand({2, 1, 8, 8}).realize();
  CHECK(net(x).shape() == std::vector<int64_t>{2, 16, 4});
  eval(net);
  CHECK((net(x) == net(x)).all().item<bool>());
  CHECK((nn::AdaptiveMaxPool3d{1}(x) == x.amax(Axes{1, 2, 3}).reshape({2, 1, 1, 1}))
            .all()
            .item<bool>());
  Tensor columns = nn::Unfold{2, {.stride = 2}}(x);
  CHECK((nn::Fold{8, 2, {.stride = 2}}(columns) == x).all().item<bool>());
}

TEST_CASE("nn: errors inside a Sequential name the line of its call") {
  nn::Sequential net(nn::Linear(2, 3), [](const Tensor& x) { return x.relu(); }, nn::Linear(4, 1));
  std::string what = error_of([&] { net(zeros({1, 2})); });
  CHECK(what.find(with_line("", __LINE__ - 1)) != what.npos);
  nn::Sequential outer(net);
  what = error_of([&] { outer(zeros({1, 2})); });
  CHECK(what.find(with_line("", __LINE__ - 1)) != what.npos);
}

TEST_CASE("nn: attention without a batch") {
  nn::MultiheadAttention attention(8, 2);
  Tensor x = uniform({5, 8}, -1, 1).realize();
  Tensor alone = attention(x, x, x);
  CHECK(alone.shape() == std::vector<int64_t>{5, 8});
  Tensor batch = x.unsqueeze(0);
  CHECK(alone.to_vector<float>() == attention(batch, batch, batch).to_vector<float>());
  CHECK(error_of([&] { attention(x[0], x, x); }) ==
        with_line("[MultiheadAttention] needs (batch, length, features) or (length, features), got "
                  "the query of shape (8)",
                  __LINE__ - 3));
}
