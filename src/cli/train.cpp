// `mote train`: the loop around a task's steps, its checkpoints and its end.
#include "cli/train.h"

#include <fcntl.h>
#include <mote/log.h>
#include <mote/nn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/figures.h"
#include "cli/interrupt.h"
#include "cli/plot.h"
#include "cli/same_file.h"
#include "cli/text_model.h"
#include "ir/provenance.h"
#include "runtime/device.h"
#include "runtime/output_file.h"

using namespace mote;

namespace {

struct Run {
  std::string name;
  Settings settings;
  std::unique_ptr<Task> task;
  data::Order order;
  int64_t batch, steps, save_every;
  int64_t step = 0;  // done so far
  std::vector<float> losses = {};
  std::string out = {};     // the checkpoint's path; empty: none is wanted
  int64_t saved_step = -1;  // that the file has
  bool kept() const { return saved_step == step; }
  double epochs() const {
    return static_cast<double>(step * batch) / static_cast<double>(task->examples());
  }
};

int64_t count_steps(Settings& settings, int64_t per_epoch, int64_t otherwise) {
  const Words& words = settings.words();
  if (!words.has("epochs")) return settings.integer("steps", otherwise);
  double steps = words.number("epochs", 1) * static_cast<double>(per_epoch);
  check(steps >= 0.5 && steps < 1e18, "[train] --epochs ", words.text("epochs"), " is ", steps,
        " steps: needs one or more");
  settings.set("steps", std::to_string(std::llround(steps)));
  return settings.integer("steps", otherwise);
}

CheckpointParts parts_of(Run& run) {
  CheckpointParts all = run.task->parts();
  all.emplace_back("step", run.step);
  all.emplace_back("order", run.order);
  all.emplace_back("losses", run.losses);
  return all;
}

void restore(Run& run, const std::string& path) {
  load_checkpoint(path, parts_of(run));
  check(static_cast<int64_t>(run.losses.size()) == run.step, "[checkpoint] ", printable(path), ": ",
        run.losses.size(), " losses of ", run.step, " steps");
}

void save(Run& run) {
  CheckpointParts all = parts_of(run);
  Metadata settings = run.settings.asked();
  all.emplace_back("task", run.name);
  all.emplace_back(kSetting, settings);
  save_checkpoint(run.out, all);
  run.saved_step = run.step;
}

// A checkpoint nobody asked a name for takes one that is free: by making the file, for others may
// look for a name at the same moment. "" if none can be made.
std::string take_free_name(const std::string& task) {
  std::string name = text("mote-", task, ".safetensors");
  for (int i = 2;; ++i) {
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    struct stat info {};
    // Whatever the umask, it is written next.
    if (fd >= 0 && ::fstat(fd, &info) == 0) ::fchmod(fd, info.st_mode | 0600);
    if (fd >= 0) ::close(fd);
    if (fd >= 0 || errno != EEXIST) return fd >= 0 ? name : "";
    name = text("mote-", task, "-", i, ".safetensors");
  }
}

void check_writable(const std::string& path) {
  CallScope call("train", Loc::current());
  std::error_code unknown;
  check(!std::filesystem::is_directory(path, unknown), "[train] ", printable(path), " is a folder");
  OutputFile never_committed(path);
}

// The files of a folder that a task reads.
std::vector<std::string> files_of(const std::string& path) {
  std::vector<std::string> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    if (name.find("-ubyte") != name.npos || name.find(".bin") != name.npos)
      out.push_back(entry.path().string());
  }
  if (out.empty()) out.push_back(path);
  return out;
}

// A checkpoint may take the place of the one that the run resumes from; nothing else may be written
// over what is read or written.
void check_files(const Words& words, const Metadata& saved) {
  std::string data = words.text("data");
  for (const auto& [name, value] : saved)
    if (name == "data" && data.empty()) data = value;
  const std::string from = words.text("resume");
  std::vector<UsedPath> all;
  if (!data.empty())
    for (std::string& file : files_of(data)) all.push_back({"--data", std::move(file)});
  all.push_back({"--plot", words.text("plot"), true});
  all.push_back({"--log", words.text("log"), true});
  all.push_back({words.has("out") ? "--out" : "--resume", words.text("out", from), true});
  check_distinct_files("train", all);
  all.back() = {"--resume", from};
  check_distinct_files("train", all);
}

// The values of the checkpoint to resume from; none if none is.
Metadata saved_values(const Words& words) {
  const std::string name = words.operand(0), from = words.text("resume");
  if (from.empty()) return {};
  Metadata saved = checkpoint_values(from);
  const std::string& task = find(saved, "task", from);
  check(task == name, "[train] ", printable(from), " is a checkpoint of ", printable(task),
        ", not of ", name);
  const Metadata settings = settings_in(saved);
  for (const char* fixed : {"seed", "layers", "heads", "width", "context", "dropout"}) {
    if (!words.has(fixed)) continue;
    const std::string& before = find(settings, fixed, from);
    check(same_number(words.text(fixed), before), "[train] --", fixed,
          " cannot change when a run is resumed: it was ", printable(before), ", got ",
          words.text(fixed));
  }
  return saved;
}

Run prepare(const Words& words) {
  const std::string name = words.operand(0), from = words.text("resume");
  const Metadata values = saved_values(words), saved = settings_in(values);
  const int64_t done = from.empty() ? 0 : find_integer(values, "step", from);
  check_files(words, saved);
  // What cannot be written is said before the work, not after it.
  const std::string out = words.text("out", from);
  for (const std::string& file : {out, words.text("plot"), words.text("log")})
    if (!file.empty()) check_writable(file);
  check(!words.has("steps") || !words.has("epochs"), "[train] give --steps or --epochs, not both");
  if (words.has("device")) set_default_device(words.text("device"));
  device(default_device());  // an error that says why not, where it is not available
  Settings settings(words, saved);
  int64_t seed = settings.integer("seed", 0, {});
  manual_seed(static_cast<uint64_t>(seed));
  std::unique_ptr<Task> task =
      name == "gpt" ? make_text_task(settings) : make_image_task(name, settings);
  TaskDefaults defaults = task->defaults();
  int64_t batch = settings.integer("batch", defaults.batch);
  data::Order order(task->examples(), batch, static_cast<uint64_t>(seed));
  int64_t steps = count_steps(settings, order.batches_per_epoch(), defaults.steps);
  check(steps >= done, "[train] ", printable(from), " has done ", done, " steps, more than the ",
        steps, " asked for");
  int64_t save_every = settings.integer("save-every", 0, {});
  Run run{name, std::move(settings), std::move(task), std::move(order), batch, steps, save_every};
  run.out = out;
  if (!from.empty()) restore(run, from);
  return run;
}

// What kept a checkpoint from being written, or "". The one before stays.
std::string problem_saving(Run& run) {
  try {
    save(run);
    return "";
  } catch (const std::exception& error) { return error.what(); }
}

// Writes the run to where it was asked for, else under a name that is free here. Says where in
// run.out, which is empty if neither worked; returns what went wrong, or "".
std::string keep(Run& run) {
  std::string problem = run.out.empty() ? "" : problem_saving(run);
  if (!run.out.empty() && problem.empty()) return "";
  run.out = take_free_name(run.name);
  const std::string here = run.out.empty()
                               ? text("[train] cannot write here: ", std::strerror(errno))
                               : problem_saving(run);
  if (here.empty()) return problem;
  ::unlink(run.out.c_str());
  run.out.clear();
  return problem.empty() ? here : problem;
}

// Until all steps are done, or `stop_after` of them, or a signal came.
void train_steps(Run& run, Progress& progress, int64_t stop_after) {
  const int64_t end = stop_after > 0 ? std::min(run.steps, run.step + stop_after) : run.steps;
  const optim::Schedule rate = run.task->schedule(run.steps);
  std::optional<Log> log;
  if (const std::string path = run.settings.words().text("log"); !path.empty())
    log.emplace(path, std::vector<std::string>{"step", "loss", "lr"}, run.step);
  while (run.step < end && !interrupt_signal()) {
    StepFigures figures = run.task->step(run.order.next(), rate(run.step));
    double loss = figures.loss.item<float>();
    ++run.step;
    run.losses.push_back(static_cast<float>(loss));
    if (log) log->row({run.step, run.losses.back(), rate(run.step - 1)});
    progress.step(loss, figures.accuracy.defined() ? figures.accuracy.item<float>() : std::nan(""));
    if (run.save_every > 0 && !run.out.empty() && run.step % run.save_every == 0 && run.step < end)
      if (std::string problem = problem_saving(run); !problem.empty())
        progress.say(text("mote: no checkpoint of step ", run.step, ": ", problem));
  }
}

double mean_of_last(const std::vector<float>& losses) {
  size_t count = std::min<size_t>(losses.size(), 20);
  double sum = 0;
  for (size_t i = losses.size() - count; i < losses.size(); ++i) sum += losses[i];
  return count ? sum / static_cast<double>(count) : std::nan("");
}

void print_json(const Run& run, const Progress& progress, double seconds, const Outcome* outcome) {
  JsonWriter json;
  json.begin('{').key("task").value(run.name).key("device").value(default_device());
  json.key("step").value(run.step).key("steps").value(run.steps).key("batch").value(run.batch);
  json.key("epochs").value(run.epochs()).key("seconds").value(seconds);
  json.key("step_seconds").value(progress.step_seconds());
  json.key("loss").value(mean_of_last(run.losses)).key("finished").value(outcome != nullptr);
  if (!run.out.empty()) json.key("checkpoint").value(as_utf8(run.out));
  if (outcome) json.key(outcome->key).value(outcome->value);
  if (outcome && !outcome->sample.empty()) json.key("sample").value(outcome->sample);
  std::printf("%s\n", json.end().text().c_str());
}

void print_outcome(const Run& run, const Progress& progress, double seconds,
                   const Outcome& outcome) {
  double step_seconds = progress.step_seconds();
  std::string line = text(run.step, " steps of ", run.batch, " (", decimal(run.epochs(), 2),
                          " epochs) in ", clock_text(seconds), " on ", default_device());
  if (step_seconds > 0)
    line += text(", ", duration_text(step_seconds), " a step, ",
                 decimal(static_cast<double>(run.batch) / step_seconds, 0), " samples/s");
  std::printf("%s\nloss %s\n", line.c_str(), decimal(mean_of_last(run.losses), 4).c_str());
  if (!run.out.empty()) std::printf("saved as %s\n", printable(run.out).c_str());
  std::printf("%s\n", outcome.line.c_str());
  if (!outcome.sample.empty())
    std::printf("\n%s\n", printable(outcome.sample, Lines::Keep).c_str());
}

// What kept the plot from being written, or "".
std::string problem_plotting(const Run& run) {
  const std::string path = run.settings.words().text("plot");
  if (path.empty()) return "";
  CallScope call("plot", Loc::current());
  try {
    OutputFile file(path);
    file.write(loss_plot(run.losses, text("mote train ", run.name, ": loss")));
    file.commit();
    return "";
  } catch (const std::exception& error) { return error.what(); }
}

void fail_if(const std::string& problem) {
  if (!problem.empty()) fail(ErrorKind::Device, problem);
}

// A run that stops early leaves what it takes to resume; one whose result is not known yet, what it
// takes to know it.
int stop_early(Run& run, Progress& progress) {
  const std::string saving = keep(run), plotting = problem_plotting(run);
  if (run.settings.words().has("json")) print_json(run, progress, progress.seconds(), nullptr);
  if (run.out.empty()) fail_if(saving);
  if (!saving.empty()) progress.say("mote: " + saving);
  progress.say(text("stopped after step ", run.step, " of ", run.steps,
                    "; resume with: mote train ", run.name, " --resume ", shell_quoted(run.out)));
  fail_if(plotting);
  return interrupt_signal() ? 128 + interrupt_signal() : 0;
}

// What was learned comes first: nothing after it can lose it, and where no file was asked for, what
// keeps the result from being shown makes one.
int finish(Run& run, Progress& progress) {
  const double seconds = progress.seconds();
  std::string problem = run.out.empty() ? "" : keep(run);
  const std::string plotting = problem_plotting(run);
  const std::optional<Outcome> outcome = run.task->judge(progress);
  if (!outcome) return stop_early(run, progress);
  progress.end();
  if (run.settings.words().has("json"))
    print_json(run, progress, seconds, &*outcome);
  else
    print_outcome(run, progress, seconds, *outcome);
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    const std::string why = std::strerror(errno ? errno : EIO);
    if (run.out.empty()) keep(run);
    problem = text("[train] the output cannot be written: ", why,
                   run.out.empty() ? "" : "; the result is saved as ", run.out);
  }
  fail_if(problem);
  fail_if(plotting);
  return 0;
}

int run_train(const Words& words) {
  Run run = prepare(words);
  Progress progress(run.name, run.step, run.steps, run.batch);
  progress.say(text(run.name, ": ", run.task->about(), "; ", run.steps, " steps of ", run.batch,
                    " on ", default_device(), run.step ? text(", from step ", run.step) : ""));
  const Interrupt interrupt;
  const int64_t first = run.step;
  progress.wait("compiling the first step ...");
  try {
    train_steps(run, progress, words.integer("stop-after", 0));
    return run.step < run.steps ? stop_early(run, progress) : finish(run, progress);
  } catch (const std::exception&) {
    // What has been learned until now is kept, wherever the trouble came from.
    if (run.step > first && !run.kept()) {
      keep(run);
      if (run.kept()) progress.say(text("saved step ", run.step, " as ", run.out));
    }
    throw;
  }
}

// clang-format off
constexpr Range at_least_one = {.least = 1};
constexpr Option options[] = {
    {"data",       "PATH", "mnist: folder of the idx files (none: built-in digits); cifar: folder "
                           "of .bin files; gpt: a text file"},
    {"device", "NAME", "device to compute on (see `mote devices`)"},
    {"steps", "N", "number of steps", "", at_least_one},
    {"epochs", "X", "number of passes over the data, instead of --steps"},
    {"batch", "N", "examples per step", "", at_least_one},
    {"lr", "X", "highest learning rate of the schedule"},
    {"seed", "N", "seed of the weights and of the order of examples"},
    {"layers", "N", "number of blocks", "gpt", kGptLayers},
    {"heads", "N", "attention heads per block", "gpt", kGptWidth},
    {"width", "N", "number of features", "gpt", kGptWidth},
    {"context", "N", "number of characters seen at once", "gpt", kGptContext},
    {"dropout", "X", "share of features dropped at random", "gpt", kGptDropout},
    {"out", "FILE", "save the result as this checkpoint (safetensors)"},
    {"save-every", "N", "also save the checkpoint every N steps", "", at_least_one},
    {"resume", "FILE", "resume from this checkpoint"},
    {"stop-after", "N",    "stop after N steps as Ctrl-C would, with a checkpoint to resume from",
                           "", at_least_one},
    {"plot",       "FILE", "draw the loss curve (SVG)"},
    {"log",        "FILE", "write each step's loss and rate (CSV; .jsonl: JSON lines)"},
    {"json",       "",     "print the result as JSON"},
};
// clang-format on

}  // namespace

const Command mote::train_command = {
    "train",
    "mnist|cifar|gpt",
    "train a network",
    options,
    run_train,
    "Ctrl-C saves a checkpoint (--out, or mote-TASK.safetensors) and prints the command that\n"
    "resumes it; a second Ctrl-C ends the program at once. The training is saved in the same way\n"
    "if its result cannot be shown. No output may replace an input or another output. A resumed\n"
    "run takes its settings from the checkpoint unless you give others, and ends with the same\n"
    "bits as a run that was never stopped. Results go to stdout, progress to stderr."};
