// Memory: limits, what happens at them, and memory that is the caller's.
#include <doctest/doctest.h>
#include <mote/jit.h>
#include <mote/mote.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "base/flags.h"
#include "runtime/device.h"

using namespace mote;

namespace {

struct Caught {
  ErrorKind kind = ErrorKind::Internal;
  std::string text = "no error";
};
template <class F>
Caught caught(F f) {
  try {
    f();
  } catch (const Error& e) {
    return {e.kind(), e.what()};
  }
  return {};
}

std::string here(int line) { return std::string(__FILE__) + ":" + std::to_string(line); }

Tensor filled(int64_t n, int value, const char* device) {
  return (zeros(n, {.device = device}) + value).contiguous();
}

int released = 0;
void count_release(void*) { ++released; }

}  // namespace

TEST_SUITE("memory limits") {
  TEST_CASE("the error says what was asked, what is live and who holds most; nothing leaks") {
    for (const char* name : {"CPU:11", "INTERP:11"}) {
      Device& d = device(name);
      d.pool().set_byte_limit(1000000);
      Tensor a = filled(100000, 1, name), b = filled(50000, 2, name), c = filled(1000, 3, name);
      a.realize(); const int made_a = __LINE__;
      b.realize();
      CHECK(d.pool().live_bytes() == 600000);
      Tensor big = filled(200000, 4, name), sum = big + a.sum();
      int asked = 0;
      Caught e = caught([&] { asked = __LINE__; big.realize(); });
      CHECK(e.kind == ErrorKind::Device);
      CHECK(e.text == "[realize] out of memory on " + std::string(name) +
                          ": 800000 bytes requested (tensor), 600000 of 1000000 in use, 0 kept for "
                          "reuse; the largest: tensor 400000 from " + here(made_a) +
                          ", tensor 200000 from " + here(made_a + 1) + " (" + here(asked) + ")");
      CHECK(d.pool().live_bytes() == 600000);
      CHECK(c.to_vector<float>()[999] == 3);
      a = Tensor();
      CHECK(caught([&] { big.realize(); }).text.find("out of memory") != std::string::npos);
      b = Tensor();
      sum = Tensor();  // held what `a` was
      CHECK(big.realize().to_vector<float>()[199999] == 4);
      big = Tensor();
      c = Tensor();
      CHECK(d.pool().live_bytes() == 0);
    }
  }

  TEST_CASE("a write that found no memory has not happened, and can be tried again") {
    for (const char* name : {"CPU:12", "INTERP:12"}) {
      Device& d = device(name);
      Tensor x = filled(1000, 1, name).realize(), y = filled(1000, 1, name).realize();
      d.pool().set_byte_limit(d.pool().live_bytes() + 1000);
      x.add_(1);
      y.add_(x);
      Tensor large = (x.unsqueeze(0) * y.unsqueeze(1)).contiguous();
      CHECK(caught([&] { realize(std::vector<Tensor>{x, y, large}); }).kind == ErrorKind::Device);
      d.pool().set_byte_limit(1 << 30);
      realize(std::vector<Tensor>{x, y, large});
      CHECK(x.to_vector<float>()[0] == 2);
      CHECK(y.to_vector<float>()[999] == 3);
      CHECK(large.max().item<float>() == 6);
    }
  }

  TEST_CASE("MEMORY_MB sets the limit of a device that is opened") {
    FlagScope limit(Flag::MEMORY_MB, 2);
    CHECK(device("CPU:13").pool().byte_limit() == 2 << 20);
    FlagScope most(Flag::MEMORY_MB, 1 << 30);
    CHECK(device("CPU:15").pool().byte_limit() == int64_t{1} << 50);
    CHECK(caught([&] { zeros({1000, 1000}, {.device = "CPU:13"}).realize(); }).text.find(
              "4000000 bytes requested") != std::string::npos);
  }

  TEST_CASE("a gradient that a step uses is stored once, and makes room for the next") {
    for (const char* name : {"CPU:16", "INTERP:16"}) {
      Device& d = device(name);
      Tensor x = rand({4, 4, 256}, {.device = name}).realize();
      Tensor w = rand({256, 256}, {.device = name}).realize();
      w.requires_grad_();
      auto step = jit([&](const Tensor& in) {
        w.zero_grad();
        Tensor loss = in.linear(w).square().mean();
        loss.backward();
        w.assign(w - w.grad() * 0.1);
        return loss;
      });
      d.pool().set_byte_limit(d.pool().live_bytes() + w.numel() * 4 * 3 / 2);
      const float first = step(x).item<float>();
      for (int i = 0; i < 2; ++i) step(x);
      CHECK(step(x).item<float>() < first);
      CHECK(w.grad().shape() == w.shape());
      d.pool().set_byte_limit(1 << 30);
    }
  }

#if !defined(__SANITIZE_ADDRESS__)  // which ends the program when so much is asked for
  TEST_CASE("more than the machine has is an error, not an abort") {
    for (const char* name : {"CPU:14", "INTERP:14"}) {
      device(name).pool().set_byte_limit(INT64_MAX);
      Tensor t = zeros({1 << 30, 1 << 28}, {.device = name}) + 1;
      CHECK(caught([&] { t.realize(); }).kind == ErrorKind::Device);
      CHECK(device(name).pool().live_bytes() == 0);
      CHECK(caught([&] { t.to_vector<float>(); }).kind == ErrorKind::Device);
    }
  }
#endif
}

TEST_SUITE("from_blob") {
  TEST_CASE("data may be unaligned, and is the caller's memory") {
    for (const char* name : {"CPU", "INTERP"}) {
      std::vector<char> bytes(4 * 1001 + 1);
      auto value = [&](size_t i) {
        float f;
        std::memcpy(&f, bytes.data() + 1 + 4 * i, 4);
        return f;
      };
      for (size_t i = 0; i < 1001; ++i) {
        auto f = static_cast<float>(i);
        std::memcpy(bytes.data() + 1 + 4 * i, &f, 4);
      }
      Tensor t = from_blob(bytes.data() + 1, {1001}, DType::f32, nullptr, nullptr, name);
      Tensor before = t * 1;
      CHECK((t + 1).sum().item<float>() == 501501);
      t.add_(1).realize();
      CHECK(value(0) == 1);
      CHECK(value(1000) == 1001);
      t(Slice(0, 2)) = 7;
      t.realize();
      CHECK(value(1) == 7);
      CHECK(value(2) == 3);
      t.assign(t.flip(0)).realize();
      CHECK(value(0) == 1001);
      CHECK(value(1000) == 7);
      CHECK(before.to_vector<float>()[1000] == 1000);
    }
  }

  TEST_CASE("the deleter is called once, after the last use") {
    for (const char* name : {"CPU", "INTERP"}) {
      released = 0;
      std::vector<int32_t> data{1, 2, 3, 4};
      Tensor pending, view;
      {
        Tensor t = from_blob(data.data(), {4}, DType::i32, count_release, nullptr, name);
        Tensor copy = t;
        pending = t + 1;
        view = t(Slice(1, 3));
      }
      CHECK(released == 0);
      CHECK(pending.to_vector<int>() == std::vector<int>{2, 3, 4, 5});
      pending = Tensor();
      CHECK(released == 0);
      CHECK(view.to_vector<int>() == std::vector<int>{2, 3});
      view = Tensor();
      CHECK(released == 1);
      {
        Tensor unused = from_blob(data.data(), {4}, DType::i32, count_release, nullptr, name);
      }
      CHECK(released == 2);
    }
  }
}
