// `mote run`: a trained model put to use.
#include <mote/data.h>
#include <mote/models.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/same_file.h"
#include "cli/text_model.h"
#include "cli/train.h"

using namespace mote;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string needed(const Words& words, std::string_view name) {
  check(words.has(name), "[run] ", words.operand(0), " needs --", name, " FILE");
  return words.text(name);
}

Metadata checkpoint_of(const std::string& task, const std::string& path) {
  Metadata saved = checkpoint_values(path);
  const std::string& whose = find(saved, "task", path);
  check(whose == task, "[run] ", printable(path), " is a checkpoint of ", printable(whose),
        ", not of ", task);
  return saved;
}

models::SamplerOptions sampler_options(const Words& words) {
  return {.temperature = words.number("temperature", 0.8),
          .top_k = words.integer("top-k", 0),
          .top_p = words.number("top-p", 1),
          .seed = static_cast<uint64_t>(words.integer("seed", 0))};
}

// How many bytes at the end begin a character whose rest may still come.
size_t unfinished(std::string_view text) {
  for (size_t length = 1; length <= std::min<size_t>(text.size(), 3); ++length) {
    const auto lead = static_cast<uint8_t>(text[text.size() - length]);
    if ((lead & 0xc0) == 0x80) continue;
    return lead >= (length < 2 ? 0xc2 : length < 3 ? 0xe0 : 0xf0) ? length : 0;
  }
  return 0;
}

// The text goes to stdout as it is made, or into JSON at the end; the speed to stderr. A terminal
// gets no control characters but tabs and ends of lines.
class Output {
 public:
  explicit Output(bool json) : json_(json) {}
  void add(const std::string& piece) {
    text_ += piece;
    if (!json_) show(terminal_ ? text_.size() - unfinished(text_) : text_.size());
  }
  void end(int64_t tokens, double seconds) {
    double rate = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
    if (json_) {
      JsonWriter json;
      json.begin('{').key("text").value(as_utf8(text_)).key("tokens").value(tokens);
      json.key("seconds").value(seconds).key("tokens_per_second").value(rate).end();
      std::printf("%s\n", json.text().c_str());
      return;
    }
    show(text_.size());
    // On stdout is the text and nothing else.
    std::fprintf(stderr, "\n%s tokens/s\n", decimal(rate, 1).c_str());
  }

 private:
  void show(size_t end) {
    const std::string next = text_.substr(shown_, end - shown_);
    const std::string out = terminal_ ? printable(next, Lines::Keep) : next;
    std::fwrite(out.data(), 1, out.size(), stdout);
    std::fflush(stdout);
    shown_ = end;
  }
  bool json_, terminal_ = isatty(STDOUT_FILENO);
  std::string text_;
  size_t shown_ = 0;  // bytes of it that are on stdout
};

// As llama2.c: the prompt's tokens are shown as well, and the token that begins texts ends one.
int run_llama(const Words& words) {
  models::Llama model = models::load_llama2c(needed(words, "model"));
  data::Tokenizer tokenizer = data::Tokenizer::llama2c(needed(words, "tokenizer"));
  check(tokenizer.size() == model.config.vocabulary, "[run] the tokenizer has ", tokenizer.size(),
        " pieces, the model ", model.config.vocabulary);
  models::Sampler sampler(sampler_options(words));
  models::Generator generator(model);
  std::vector<int32_t> prompt = tokenizer.encode(words.text("prompt"));
  const int64_t steps = std::min(words.integer("steps", 256), model.config.context);
  Output out(words.has("json"));
  int32_t token = tokenizer.begin();
  Clock::time_point warm = Clock::now();
  int64_t timed = 0;  // the first two steps compile and capture
  for (int64_t i = 0; i < steps; ++i) {
    std::vector<float> logits = generator.next(token);
    if (i == 1) warm = Clock::now();
    if (i > 1) ++timed;
    token =
        static_cast<size_t>(i) < prompt.size() ? prompt[static_cast<size_t>(i)] : sampler(logits);
    if (token == tokenizer.begin()) break;
    out.add(i == 0 ? tokenizer.decode(std::span(&token, 1)) : tokenizer.piece(token));
  }
  out.end(timed, seconds_since(warm));
  return 0;
}

int run_gpt(const Words& words) {
  const std::string path = needed(words, "model");
  const Metadata saved = settings_in(checkpoint_of("gpt", path));
  Settings settings(words, saved);
  data::Characters characters = characters_from(find(saved, "characters", path));
  models::Gpt net(gpt_config(settings, static_cast<int64_t>(characters.characters.size())));
  load_checkpoint(path,
                  {
                      {"model", net}
  },
                  /*random=*/false);
  const int64_t steps = words.integer("steps", 500);
  Output out(words.has("json"));
  Clock::time_point start = Clock::now();
  out.add(write_text(net, characters, words.text("prompt"), steps, sampler_options(words)));
  out.end(steps, seconds_since(start));
  return 0;
}

int run_images(const std::string& name, const Words& words) {
  const std::string path = needed(words, "model");
  const Metadata saved = checkpoint_of(name, path);
  Settings settings(words, settings_in(saved));
  std::unique_ptr<Task> task = make_image_task(name, settings);
  CheckpointParts parts = task->parts();
  std::erase_if(parts, [](const CheckpointPart& p) { return p.name != "model"; });
  load_checkpoint(path, parts, /*random=*/false);
  Progress progress(name, 0, 0, 0);
  const Outcome outcome = task->judge(progress).value();
  progress.end();
  if (words.has("json")) {
    JsonWriter json;
    json.begin('{').key("task").value(name).key("step").value(find_integer(saved, "step", path));
    json.key(outcome.key).value(outcome.value).end();
    std::printf("%s\n", json.text().c_str());
  } else {
    std::printf("%s\n", outcome.line.c_str());
  }
  return 0;
}

int run_run(const Words& words) {
  check_distinct_files("run", std::vector<UsedPath>{
                                  {"--model",     words.text("model")    },
                                  {"--tokenizer", words.text("tokenizer")},
                                  {"--data",      words.text("data")     }
  });
  if (words.has("device")) set_default_device(words.text("device"));
  const std::string& name = words.operand(0);
  return name == "llama2c" ? run_llama(words)
         : name == "gpt"   ? run_gpt(words)
                           : run_images(name, words);
}

// clang-format off
constexpr Option options[] = {
    {"model",       "FILE", "mnist, cifar, gpt: a checkpoint of `mote train`; llama2c: a model of "
                            "llama2.c"},
    {"tokenizer",   "FILE", "the model's tokenizer", "llama2c"},
    {"data",        "PATH", "pictures to test with (default: those of the training run)",
                            "mnist|cifar"},
    {"prompt", "TEXT", "text to continue", "gpt|llama2c"},
    {"steps", "N", "maximum number of tokens to generate", "gpt|llama2c", {.least = 1}},
    {"temperature", "X",    "0: always the most likely token; 1: sample from the model",
                            "gpt|llama2c"},
    {"top-p",       "X",    "sample among the most likely tokens that have this total probability",
                            "gpt|llama2c", {.most = 1, .above = true}},
    {"top-k",       "N",    "sample among the N most likely tokens (default: all)", "gpt|llama2c",
                            {.least = 1}},
    {"seed",        "N",    "seed of the samples", "gpt|llama2c"},
    {"device",      "NAME", "device to compute on (see `mote devices`)"},
    {"json",        "",     "print JSON"},
};
// clang-format on

}  // namespace

const Command mote::run_command = {
    "run",
    "mnist|cifar|gpt|llama2c",
    "use a trained model",
    options,
    run_run,
    "mnist and cifar print the accuracy. gpt and llama2c print text, and the speed to stderr."};
