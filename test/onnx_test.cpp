// ONNX models: the conformance suite's cases, and what the importer says about bad files.
#include <doctest/doctest.h>
#include <mote/images.h>
#include <mote/mote.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "test/amount.h"
#include "test/error_of.h"
#include "test/file_builders.h"
#include "test/onnx_cases.h"
#include "test/process.h"
#include "test/shared_data.h"

using namespace mote;
using namespace mote::test;

namespace {

struct Count {
  int passed = 0, all = 0;
};

void report(const std::string& device, const std::vector<std::string>& failures,
            const std::map<std::string, Count>& groups) {
  for (const std::string& f : failures) std::printf("%s\n", f.c_str());
  for (const auto& [group, count] : groups)
    std::printf("%s on %s: %d of %d\n", group.c_str(), device.c_str(), count.passed, count.all);
  std::fflush(stdout);
}

void run_all(const std::string& device) {
  std::map<std::string, Count> groups;
  std::vector<std::string> failures;
  for (const OnnxCase& c : onnx_cases()) {
    if (is_left_out(c.name)) continue;
    Count& count = groups[c.name.substr(0, c.name.find('/'))];
    ++count.all;
    const std::string wrong = run_case(c, device);
    count.passed += wrong.empty();
    if (!wrong.empty()) failures.push_back(c.name + ": " + wrong);
  }
  report(device, failures, groups);
  CHECK(failures.empty());
}

}  // namespace

// A sample of the cases for as long as a normal run may take.
TEST_CASE("onnx: some cases of the conformance suite") {
  std::vector<OnnxCase> cases = onnx_cases();
  const uint64_t seed = seed_or(std::random_device()());
  MESSAGE("MOTE_TEST_SEED=" << seed);
  std::mt19937_64 random(seed);
  std::shuffle(cases.begin(), cases.end(), random);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(scaled(6));
  size_t tried = 0;
  for (const OnnxCase& c : cases) {
    if (std::chrono::steady_clock::now() > end || tried == 150) break;
    if (is_left_out(c.name)) continue;
    CAPTURE(c.name);
    const size_t turn = tried++ % 8;
    CHECK(run_case(c, turn == 0 ? "INTERP" : turn == 4 ? "SIMT" : "CPU") == "");
  }
  MESSAGE(tried << " of " << cases.size() << " cases");
}

// The fourth run replays what the third captured.
TEST_CASE("onnx: a model gives the same again, captured and for other shapes") {
  Folder folder;
  const std::string path = folder / "model.onnx";
  // y = reshape(x + w, (-1, columns of x)), by way of shapes
  std::ofstream(path, std::ios::binary) << onnx_model(
      onnx_node("Add", "x w", "s") + onnx_node("Shape", "x", "shape") +
      onnx_node("Gather", "shape last", "n") +
      onnx_node("Concat", "any n", "to", pb(5, pb(1, "axis") + pb_int(3, 0) + pb_int(20, 2))) +
      onnx_node("Reshape", "s to", "y") + pb(5, onnx_tensor("w", 1, {1}, le<float>(2))) +
      pb(5, onnx_tensor("last", 7, {1}, le<int64_t>(1))) +
      pb(5, onnx_tensor("any", 7, {1}, le<int64_t>(-1))) +
      pb(11, pb(1, "x") + pb(2, pb(1, pb_int(1, 1)))) +
      pb(12, pb(1, "y") + pb(2, pb(1, pb_int(1, 1)))));
  const onnx::Model model(path);
  const onnx::Model copy = model;
  for (int round = 0; round < 5; ++round)
    for (const int64_t rows : {2, 3}) {
      const Tensor x = arange(rows * 4, {.dtype = float32}).reshape({rows, 4}) + round;
      const onnx::Model& used = round % 2 ? copy : model;
      const Tensor y = used.run({
          {"x", x}
      })[0]
                           .value.tensor;
      CHECK(y.shape() == std::vector<int64_t>{rows, 4});
      CHECK(y.to_vector<float>() == (x + 2).to_vector<float>());
    }
  CHECK(error_of([&] {
          model.run({
              {"z", zeros({1})}
          });
        }).find("no input 'z'") != std::string::npos);
  CHECK(error_of([&] {
          model.run({
              {"x", zeros({1}, int32)}
          });
        }).find("must be f32, but is i32") != std::string::npos);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const Tensor y = model
                             .run({
                                 {"x", full({2, 4}, static_cast<double>(t))}
        })[0]
                             .value.tensor;
        wrong += y.to_vector<float>() != std::vector<float>(8, static_cast<float>(t + 2));
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == 0);
}

// One that is captured and one that runs node by node, for its sizes depend on data.
TEST_CASE("onnx: threads that share a model get what one thread gets" *
          doctest::test_suite("threads")) {
  Folder folder;
  const std::string path = folder / "model.onnx";
  const std::string ends = pb(11, onnx_port("x", 1, {2, 4})) + pb(12, onnx_port("y", 1, {}));
  struct Row {
    std::string nodes;
    int runs;
  };
  const Row rows[] = {
      {onnx_node("MatMul",  "x w", "m") + onnx_node("Relu",      "m", "y"), 1000},
      {onnx_node("NonZero", "x",   "z") + onnx_node("Transpose", "z", "y"), 10  }
  };
  for (const Row& row : rows) {
    std::string weights;
    for (int i = 0; i < 12; ++i) weights += le<float>(static_cast<float>(i - 5));
    std::ofstream(path, std::ios::binary)
        << onnx_model(row.nodes + pb(5, onnx_tensor("w", 1, {4, 3}, weights)) + ends);
    const onnx::Model model(path);
    std::vector<std::vector<Tensor>> inputs(8);
    std::vector<std::vector<float>> wanted;
    for (int t = 0; t < 8; ++t) {
      const Tensor x = (arange(8, {.dtype = float32}).reshape({2, 4}) - static_cast<double>(t));
      inputs[static_cast<size_t>(t)] = {x.relu().contiguous().realize()};
      const std::vector<onnx::Value> in = {inputs[static_cast<size_t>(t)][0]};
      wanted.push_back(onnx::Model(path).run(in)[0].tensor.to_vector<float>());
    }
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 8; ++t)
      threads.emplace_back([&, t] {
        const std::vector<onnx::Value> in = {inputs[t][0]};
        for (int i = 0; i < scaled(row.runs); ++i)
          wrong += model.run(in)[0].tensor.to_vector<float>() != wanted[t];
      });
    for (std::thread& t : threads) t.join();
    CHECK(wrong == 0);
  }
}

TEST_CASE("onnx: the command takes pictures and says which nodes take the time") {
  Folder folder;
  const std::string path = folder / "model.onnx", picture = folder / "red.png";
  // y = matmul(relu(x), w), of a picture of one channel
  std::ofstream(path, std::ios::binary) << onnx_model(
      onnx_node("Relu", "x", "r", pb(3, "cut")) +
      onnx_node("MatMul", "r w", "y", pb(3, "product")) +
      pb(5,
         onnx_tensor("w", 1, {4, 1}, le<float>(1) + le<float>(1) + le<float>(1) + le<float>(1))) +
      pb(11, onnx_port("x", 1, {1, 1, 4, 4})) + pb(12, onnx_port("y", 1, {1, 1, 4, 1})));
  save_png(picture, ones({1, 8, 8}) * 0.8);
  const std::string run = "onnx " + path + " --input x=" + picture;
  // 204 - 4, over 100, four times
  CHECK(has(run_mote(run + " --scale 1 --mean 4 --std 100"), " of f32, 8 to 8"));
  CHECK(has(run_mote(run + " --scale 0.5"), " of f32, 408 to 408\nran 2 kernels, 2 of them new; "));
  const Ran timed = run_mote(run + " --bench 2");
  CHECK(has(timed, " kernels, "));
  CHECK(has(timed, "peak memory "));
  CHECK(has(timed, "slowest kernels of one run"));
  CHECK(has(timed, "MatMul 'product'"));
  CHECK(has(run_mote(run + " --mean 1,x"), "--mean: x is not a number"));
  CHECK(has(run_mote("onnx " + path + " --input x=" + (folder / "none.png")), "none.png"));
}

TEST_CASE("onnx: external data stays in the model's folder") {
  Folder outer;
  const std::string folder = outer / "model", path = folder + "/m.onnx";
  std::filesystem::create_directories(folder + "/sub");
  auto write = [](const std::string& file, const std::string& bytes) {
    std::ofstream(file, std::ios::binary) << bytes;
  };
  const std::string data = "skip" + le<float>(1.5f) + le<float>(-2);
  for (const char* name : {"/good", "/sub/good", "/twice"}) write(folder + name, data);
  write(outer / "secret", data);
  std::filesystem::create_symlink(outer / "secret", folder + "/link");
  std::filesystem::create_directory_symlink(outer.path, folder + "/up");
  std::filesystem::create_hard_link(folder + "/twice", folder + "/again");
  auto load = [&](const std::string& location, int64_t offset = 4) {
    const std::string tensor =
        pb_int(1, 2) + pb_int(2, 1) + pb(8, "w") + pb(13, pb(1, "location") + pb(2, location)) +
        pb(13, pb(1, "offset") + pb(2, std::to_string(offset))) + pb_int(14, 1);
    write(path, onnx_model(onnx_node("Identity", "w", "y") + pb(5, tensor) +
                           pb(12, onnx_port("y", 1, {2}))));
    return error_of([&] {
      const auto out = onnx::Model(path).run(std::vector<onnx::NamedValue>());
      CHECK(out[0].value.tensor.to_vector<float>() == std::vector<float>{1.5f, -2});
    });
  };
  for (const char* good : {"good", "./good", "sub/good"}) CHECK(load(good) == "no error");
  for (const std::string& bad :
       {std::string("../secret"), std::string("sub/../../secret"), outer / "secret",
        std::string("link"), std::string("up/secret"), std::string("again"), std::string("sub"),
        std::string("sub\\good"), std::string("goo"), std::string("good\0x", 6), std::string()}) {
    CAPTURE(bad);
    CHECK(load(bad).find("the tensor 'w': its external data") != std::string::npos);
  }
  CHECK(load("good", 5).find("ends at byte 5 + 8, but 'good' has 12") != std::string::npos);
}

// Functions with attributes of the call, and nodes before those whose outputs they use.
TEST_CASE("onnx: functions, and nodes in any order") {
  const std::string body = pb(7, pb(1, "a") + pb(2, "b") + pb(4, "LeakyRelu") +
                                     pb(5, pb(1, "alpha") + pb(21, "slope") + pb_int(20, 1)));
  const std::string function = pb(25, pb(1, "Leak") + pb(4, "a") + pb(5, "b") + pb(6, "slope") +
                                          body + pb(9, pb(1, "") + pb_int(2, 21)) + pb(10, "own"));
  const std::string half("\x15\x00\x00\x00\x3f", 5);  // field 2, a float
  const std::string call =
      onnx_node("Leak", "x", "y", pb(7, "own") + pb(5, pb(1, "slope") + half + pb_int(20, 1)));
  const std::string bytes =
      onnx_model(onnx_node("Neg", "y", "z") + call + pb(11, onnx_port("x", 1, {2})) +
                 pb(12, onnx_port("z", 1, {2}))) +
      function + pb(8, pb(1, "own") + pb_int(2, 1));
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  onnx::ModelCore model({"m", Bytes(copy)}, {}, "CPU");
  const auto out = model.run({tensor({-4.0f, 4.0f})});
  CHECK(out[0].tensor.to_vector<float>() == std::vector<float>{2, -4});
}

TEST_CASE("onnx: other people's models") {
  for (const char* name : {"mnist_8", "mobilenet_qdq"}) {
    const std::string folder = shared_data(std::string("models/") + name);
    if (folder.empty()) continue;
    onnx::ModelCore model(open_file(folder + "/model.onnx"), {folder}, "CPU");
    for (int set = 0; std::filesystem::exists(folder + "/test_data_set_" + std::to_string(set));
         ++set) {
      const std::string at = folder + "/test_data_set_" + std::to_string(set);
      for (int again = 0; again < 3; ++again)
        CHECK(onnx::check(model, {{open_file(at + "/input_0.pb")},
                                  {open_file(at + "/output_0.pb")}}) == "");
    }
  }
}

TEST_SUITE("soak") {
  TEST_CASE("onnx: models whose right outputs are not stored load, run and replay") {
    const std::string models = shared_data("models");
    if (models.empty()) return;
    struct Row {
      const char* file;
      std::vector<onnx::Value> inputs;
    };
    std::vector<onnx::Value> gpt = {zeros({1, 1}, int64)};
    for (int i = 0; i < 12; ++i) gpt.push_back(randn({2, 1, 2, 4, 2}));
    const Row rows[] = {
        {"opt-mnist.onnx",             {randn({1, 1, 28, 28})}        },
        {"ultraface_RFB-320.onnx",     {randn({1, 3, 240, 320})}      },
        {"gtcrn/gtcrn_simple.onnx",
         {randn({1, 257, 1, 2}), zeros({2, 1, 16, 16, 33}), zeros({2, 3, 1, 1, 16}),
          zeros({2, 1, 33, 16})}                                      },
        {"silero_vad/silero_vad.onnx",
         {randn({1, 576}), zeros({2, 1, 128}), full({}, 16000, int64)}},
        {"graph_only/gpt2_past.onnx", gpt}
    };
    for (const Row& row : rows) {
      CAPTURE(std::string(row.file));
      const onnx::Model model(models + "/" + row.file);
      const auto first = model.run(row.inputs)[0].tensor.to_vector<float>();
      for (const float f : first) CHECK(std::isfinite(f));
      // The first run computes what follows from constants in the kernels that use it.
      for (int again = 0; again < 3; ++again) {
        const auto next = model.run(row.inputs)[0].tensor.to_vector<float>();
        REQUIRE(next.size() == first.size());
        float apart = 0;
        for (size_t i = 0; i < next.size(); ++i)
          apart = std::max(apart, std::abs(next[i] - first[i]) / (1 + std::abs(first[i])));
        CHECK(apart < 1e-4f);
      }
    }
  }
  TEST_CASE("onnx: every case of the conformance suite on CPU") { run_all("CPU"); }
  TEST_CASE("onnx: every case of the conformance suite on INTERP") { run_all("INTERP"); }
  TEST_CASE("onnx: every case of the conformance suite on SIMT") { run_all("SIMT"); }
}
