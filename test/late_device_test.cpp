// Programs on a device that completes late and out of order.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <chrono>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "engine/realize.h"
#include "test/odd_devices.h"

using namespace mote;

namespace {

const Options late{.device = "LATE"};

std::vector<float> ramp(size_t n) {
  std::vector<float> v(n);
  std::iota(v.begin(), v.end(), 0.f);
  return v;
}

}  // namespace

TEST_CASE("late device: chains of kernels") {
  add_odd_devices();
  Tensor x = from_data(ramp(1000), {1000}, late);
  for (int i = 0; i < 50; ++i) x = (x * 2 - x + 1).contiguous().realize();
  CHECK(x.sum().item<float>() == 999 * 500 + 50 * 1000);
  Tensor a = from_data(ramp(64 * 64), {64, 64}, late) / 4096;
  Tensor b = a.matmul(a.t()).softmax(1).sum(0);
  CHECK(b.sum().item<float>() == doctest::Approx(64));
}

TEST_CASE("late device: writes in place") {
  add_odd_devices();
  Tensor x = zeros({257}, late), y = zeros({257}, late);
  for (int i = 0; i < 40; ++i) {
    Tensor before = x * 1;
    x.add_(i).realize();
    y.assign(y + before);
    if (i % 3 == 0) y.realize();
    x(Slice(0, 10)) = x(Slice(10, 20)) + 1;
  }
  x.realize();
  Tensor rx = zeros({257}), ry = zeros({257});
  for (int i = 0; i < 40; ++i) {
    Tensor before = (rx * 1).realize();
    rx.add_(i);
    ry.assign(ry + before);
    rx(Slice(0, 10)) = rx(Slice(10, 20)) + 1;
  }
  CHECK(x.to_vector<float>() == rx.to_vector<float>());
  CHECK(y.to_vector<float>() == ry.to_vector<float>());
}

TEST_CASE("late device: copies between devices") {
  add_odd_devices();
  Tensor x = from_data(ramp(500), {500});
  for (int i = 0; i < 20; ++i) {
    x = (x.to("LATE") + 1).realize().to("CPU");
    x = (x * 1).realize().to("CPU:1") + 1;
    x = (x.to("LATE:1") - 1).to("LATE").realize().to("CPU").realize();
  }
  CHECK(x.sum().item<float>() == 499 * 250 + 20 * 500);
}

TEST_CASE("late device: what is submitted keeps its code") {
  add_odd_devices();
  Tensor x = from_data(ramp(1000), {1000}, late);
  for (int i = 0; i < 30; ++i) {
    x = (x * 2 - x + i).contiguous().realize();
    clear_caches();
  }
  CHECK(x.sum().item<float>() == 999 * 500 + 435 * 1000);
}

TEST_CASE("late device: memory is given back after its last use") {
  add_odd_devices();
  std::vector<Tensor> sums;
  for (int i = 0; i < 100; ++i) {
    Tensor big = full({4096}, i, late).contiguous().realize();
    sums.push_back((big.reshape({64, 64}).t() + 1).sum().realize());
  }
  for (int i = 0; i < 100; ++i) CHECK(sums[static_cast<size_t>(i)].item<int>() == 4096 * (i + 1));
}

TEST_CASE("late device: an error surfaces where the value is asked for") {
  add_odd_devices();
  Tensor a = from_data(ramp(8), {8}, late), b = (a * 0 + 1).realize();
  CHECK(b.to_vector<float>() == std::vector<float>(8, 1));
  fail_late_kernel(0);
  const int made = __LINE__ + 1;
  Tensor c = a + b;
  c.realize();
  Tensor d = (c * 2).realize();
  auto error_of = [](auto f) -> std::string {
    try {
      f();
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::Device);
      return e.what();
    }
    return "no error";
  };
  int asked = 0;
  std::string what = error_of([&] {
    asked = __LINE__ + 1;
    d.sum().item<float>();
  });
  CHECK(what.starts_with("kernel e_"));
  CHECK(what.ends_with(
      text(", made at ", __FILE__, ":", made, ": no more ink (", __FILE__, ":", asked, ")")));
  CHECK(error_of([&] { c.to_vector<float>(); }).find("no more ink") != std::string::npos);
  CHECK(a.sum().item<float>() == 28);
  CHECK((a + b).sum().item<float>() == 36);
}

TEST_CASE("far device: memory that the host cannot address") {
  add_odd_devices();
  Tensor x = from_data(ramp(500), {500}, {.device = "FAR"});
  for (int i = 0; i < 5; ++i) {
    x = ((x.to("FAR:1") + 1).realize() - 1).to("FAR").realize();
    x = (x.to("LATE") + 1).to("FAR").realize().to("INTERP").realize().to("FAR") - 1;
    x(Slice(0, 2)) = x(Slice(2, 4)) - 2;
  }
  CHECK(x.to_vector<float>() == ramp(500));
  Tensor rows = from_data(ramp(8), {4, 2}, {.device = "FAR"});
  Tensor i = from_data(std::vector<int64_t>{3, 1}, {2}, {.device = "FAR"});
  CHECK(rows.index_select(0, i).to_vector<float>() == std::vector<float>{6, 7, 2, 3});
  std::vector<float> host(4);
  CHECK_THROWS_WITH(from_blob(host.data(), {4}, DType::f32, nullptr, nullptr, "FAR"),
                    doctest::Contains("the device FAR cannot use memory of the host"));
}

// Kernels with memory of their own, values of the host, and results that are dropped.
static void step_late(Tensor& x, const Tensor& weight) {
  Tensor more = from_data(std::vector<float>(64, 1), {64}, late);
  Tensor y = (x.reshape({8, 8}).matmul(weight).softmax(1) + 1).realize();
  x = (x + y.sum() - 73 + more).contiguous().realize();
}

TEST_CASE("late device: the host waits at its queue limit only") {
  add_odd_devices();
  Tensor x = from_data(ramp(64), {64}, late), weight = (zeros({8, 8}, late) + 0.125).realize();
  step_late(x, weight);
  CHECK(x.sum().item<float>() == doctest::Approx(63 * 32));
  const EngineCounts before = engine_counts();
  hold_late(true);
  for (int i = 0; i < 21; ++i) step_late(x, weight);  // 63 submissions
  CHECK(engine_counts().waits == before.waits);
  std::thread lets_go([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    hold_late(false);
  });
  for (int i = 0; i < 1000; ++i) step_late(x, weight);
  lets_go.join();
  const EngineCounts after = engine_counts();
  CHECK(after.queue_waits > before.queue_waits);
  CHECK(after.waits - before.waits == after.queue_waits - before.queue_waits);
  MESSAGE((after.waits - before.waits), " waits for 3063 submissions");
  CHECK(x.sum().item<float>() == doctest::Approx(63 * 32));
}
