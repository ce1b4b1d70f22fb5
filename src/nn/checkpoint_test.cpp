// Checkpoints of programs: exact, atomic, and plain about what does not fit.
#include <doctest/doctest.h>
#include <mote/checkpoint.h>
#include <mote/data.h>
#include <mote/jit.h>
#include <mote/mote.h>
#include <mote/optimizers.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "test/error_of.h"
#include "test/temp_folder.h"

using namespace mote;

namespace {

struct Net {
  nn::Linear in, out;
  nn::BatchNorm norm;
  nn::Dropout drop{0.2};
  MOTE_FIELDS(in, out, norm)
  Net() : in(6, 8), out(8, 3), norm(8) {}
  Tensor operator()(const Tensor& x) const { return out(drop(norm(in(x)).relu())); }
};

// A program of its own, with a part of every kind.
struct Program {
  Net net;
  optim::Groups opt;
  optim::WeightAverage ema;
  optim::ReduceLROnPlateau plateau{0.05, {.patience = 1}};
  data::Order order{40, 4, 7};
  int64_t step = 0;
  double best = 1e9;
  bool flag = false;
  std::string note = "start";
  Metadata settings = {
      {"width", "8"}
  };
  std::vector<float> losses;
  std::vector<int64_t> rows;

  Program() : ema(parameters(net), {.decay = 0.9}) {
    opt.add("weights", optim::AdamW({net.in.weight, net.out.weight}, {.lr = 0.05}));
    opt.add("others", optim::SGD({net.in.bias, net.out.bias, net.norm.weight, net.norm.bias},
                                 {.lr = 0.1, .momentum = 0.9}));
  }
  CheckpointParts parts() {
    return {
        {"model",    net     },
        {"opt",      opt     },
        {"ema",      ema     },
        {"plateau",  plateau },
        {"order",    order   },
        {"step",     step    },
        {"best",     best    },
        {"flag",     flag    },
        {"note",     note    },
        {"settings", settings},
        {"losses",   losses  },
        {"rows",     rows    }
    };
  }
  void train(int64_t until) {
    auto call = jit([&](const Tensor& x, const Tensor& y) {
      opt.zero_grad();
      Tensor loss = net(x).cross_entropy(y);
      loss.backward();
      opt.clip_grad_norm(1);
      opt.step();
      ema.update();
      return loss;
    });
    while (step < until) {
      std::span<const int64_t> picked = order.next();
      rows.assign(picked.begin(), picked.end());
      Tensor index = from_data(rows, {4});
      Tensor x = (index.unsqueeze(1) * arange(6) % 11).to(DType::f32) / 5 - 1;
      losses.push_back(call(x, index % 3).item<float>());
      best = std::min(best, static_cast<double>(losses.back()));
      flag = !flag;
      note = "after step " + std::to_string(++step);
      opt.set_lr(plateau.step(losses.back()));
    }
  }
  std::vector<std::vector<float>> values() {
    std::vector<std::vector<float>> out = {losses};
    for (const CheckpointPart& p : parts())
      for (const NamedTensor& t : p.tensors)
        out.push_back(t.tensor.to(DType::f32).to_vector<float>());
    return out;
  }
};

}  // namespace

TEST_CASE("checkpoint: a program goes on with the bits of a run that was not interrupted") {
  test::TempFolder folder;
  const std::string path = folder / "run.safetensors";
  manual_seed(3);
  Program whole;
  whole.train(9);
  for (int64_t at : {1, 4}) {
    manual_seed(3);
    {
      Program first;
      first.train(at);
      save_checkpoint(path, first.parts());
    }
    manual_seed(99);
    Program second;
    load_checkpoint(path, second.parts());
    CHECK(second.step == at);
    CHECK(second.note == "after step " + std::to_string(at));
    CHECK(second.flag == (at % 2 == 1));
    second.train(9);
    CHECK(second.values() == whole.values());
    CHECK(second.best == whole.best);
    CHECK(second.rows == whole.rows);
    CHECK(second.plateau.lr() == whole.plateau.lr());
  }
}

TEST_CASE("checkpoint: parts can be loaded alone, and values be read before anything is made") {
  test::TempFolder folder;
  const std::string path = folder / "run.safetensors";
  Program program;
  program.train(2);
  save_checkpoint(path, program.parts());
  Metadata values = checkpoint_values(path);
  CHECK(std::ranges::count(values, std::pair<std::string, std::string>("settings.width", "8")) ==
        1);
  CHECK(std::ranges::count(values, std::pair<std::string, std::string>("step", "2")) == 1);
  manual_seed(5);
  const auto before = random_state()[0].to_vector<uint64_t>();
  Net net;
  load_checkpoint(path,
                  {
                      {"model", net}
  },
                  /*random=*/false);
  CHECK(net.in.weight.to_vector<float>() == program.net.in.weight.to_vector<float>());
  CHECK(random_state()[0].to_vector<uint64_t>() == before);
}

TEST_CASE("checkpoint: what does not fit is said at once, and changes nothing") {
  test::TempFolder folder;
  const std::string path = folder / "run.safetensors";
  nn::Linear small(2, 3);
  int64_t step = 7;
  save_checkpoint(path, {
                            {"net",  small},
                            {"step", step }
  });
  nn::Linear wide(4, 3);
  nn::BatchNorm norm(3);
  const std::vector<float> before = wide.bias.to_vector<float>();
  std::string what = error_of([&] {
    load_checkpoint(path, {
                              {"net",  wide},
                              {"step", step}
    });
  });
  CHECK(what.find("1 tensor has another shape: net.weight (3, 4), given (3, 2)") != what.npos);
  what = error_of([&] {
    load_checkpoint(path, {
                              {"net", norm}
    });
  });
  CHECK(what.find("3 tensors are missing: net.running_mean, net.running_var, "
                  "net.num_batches_tracked") != what.npos);
  CHECK(wide.bias.to_vector<float>() == before);
  int64_t other = 1;
  CHECK(error_of([&] {
          load_checkpoint(path, {
                                    {"steps", other}
          });
        }).find("the metadata has no 'steps'") != std::string::npos);
  std::vector<float> list;
  CHECK(error_of([&] {
          load_checkpoint(path, {
                                    {"losses", list}
          });
        }).find("there are no numbers 'losses'") != std::string::npos);
  int8_t tiny = 0;
  step = 300;
  double real = 0;
  save_checkpoint(path, {
                            {"step", step},
                            {"real", real}
  });
  step = 1;
  std::string text = "old";
  CHECK(error_of([&] {
          load_checkpoint(path, {
                                    {"real", text},
                                    {"step", tiny}
          });
        }).find("'step' must be a whole number from -128 to 127, got '300'") != std::string::npos);
  CHECK(text == "old");
  CHECK(error_of([&] {
          save_checkpoint(path, {
                                    {"a",   step },
                                    {"a.b", other}
          });
        }).find("overlap") != std::string::npos);
  test::write_file(path, "no checkpoint");
  CHECK(error_of([&] {
          load_checkpoint(path, {
                                    {"step", step}
          });
        }).find("needs a safetensors file") != std::string::npos);
}

namespace {

// In a child of its own: trains, saving after every step, until it is killed.
[[noreturn]] void train_until_killed(const std::string& path, bool resumes, int64_t steps) {
  manual_seed(3);
  Program program;
  if (resumes) load_checkpoint(path, program.parts());
  while (program.step < steps) {
    program.train(program.step + 1);
    save_checkpoint(path, program.parts());
  }
  _exit(0);
}

}  // namespace

TEST_CASE("checkpoint: 500 kills at random moments lose nothing" * doctest::test_suite("soak")) {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  test::TempFolder folder;
  const std::string path = folder / "run.safetensors";
  int64_t step = 0;
  int kills = 0;
  for (; kills < 500; ++kills) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) train_until_killed(path, std::filesystem::exists(path), 1 << 30);
    usleep(static_cast<useconds_t>(20000 + random() % 200000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    if (!std::filesystem::exists(path)) continue;
    Program program;
    load_checkpoint(path, program.parts());  // whole, whenever it was
    CHECK(program.step >= step);
    step = program.step;
  }
  manual_seed(3);
  Program whole;
  whole.train(step);
  Program last;
  load_checkpoint(path, last.parts());
  CHECK(step > 0);
  CHECK(last.values() == whole.values());
  MESSAGE(kills, " kills, ", step, " steps, seed ", seed);
}
