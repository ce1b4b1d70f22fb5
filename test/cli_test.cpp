// The command-line program, as its users see it. Training uses a GPT small enough to start, compile
// and train in a fraction of a second.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <mote/io.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <thread>

#include "io/json.h"
#include "test/amount.h"
#include "test/process.h"
#include "test/shared_data.h"
#include "test_paths.h"

using namespace mote;

namespace {

const char* const no_compilers = "PATH=/nonexistent MOTE_LIBLLVM=/nonexistent";

// Words in a random order: enough to learn something from.
std::string make_text(const Folder& folder) {
  const char* words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat.\n", "and ", "ran "};
  std::mt19937 random(1);
  std::string text;
  while (text.size() < 20000) text += words[random() % 8];
  std::string path = folder / "text.txt";
  std::ofstream(path) << text;
  return path;
}

// A training run without its --steps and files. Dropout makes it draw random numbers.
std::string small_gpt(const Folder& folder) {
  return "train gpt --data " + make_text(folder) +
         " --layers 1 --heads 1 --width 8 --context 8 --batch 4 --dropout 0.1 --lr 0.01 ";
}

int64_t step_of(const std::string& checkpoint) {
  for (const auto& [key, value] : file_info(checkpoint).metadata)
    if (key == "step") return std::stoll(value);
  return -1;
}

// A run that can be sent signals; its output goes to a file.
class Child {
 public:
  Child(const std::string& arguments, const std::string& output) {
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ > 0) return;
    int out = open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, 1);
    dup2(out, 2);
    execl("/bin/sh", "sh", "-c", ("exec " MOTE_BINARY_DIR "/mote " + arguments).c_str(), nullptr);
    _exit(127);
  }
  void send(int signal) const { kill(pid_, signal); }
  // Waits for so many seconds. When it ended, in seconds from now; 0: it runs on.
  double ended_within(double seconds) const {
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      siginfo_t info{};
      waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
      if (info.si_pid == pid_) return passed.count();
      if (passed.count() >= seconds) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  int wait() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// Kills training runs without warning at random moments. Every checkpoint found loads, runs go on
// from it, and what they end with is what a run without kills ends with.
void kill_and_resume(int kills) {
  const auto seed = static_cast<unsigned>(std::random_device{}());
  MESSAGE("seed " << seed << ", " << kills << " kills");
  std::mt19937 random(seed);
  Folder folder;
  const std::string train = small_gpt(folder) + "--steps 60 --save-every 1 ";
  const std::string path = folder / "run", log = folder / "log";
  REQUIRE(run_mote(train + "--out " + folder / "first").status == 0);  // caches the kernels
  auto start = std::chrono::steady_clock::now();
  REQUIRE(run_mote(train + "--out " + folder / "whole").status == 0);
  const std::chrono::duration<double> whole_time = std::chrono::steady_clock::now() - start;
  double run_time = whole_time.count();  // the shortest seen: the machine may have been busy
  const std::string whole = read_text(folder / "whole");
  std::uniform_real_distribution<double> moment(0, 1);
  int finished = 0, resumed = 0;
  for (int killed = 0, tries = 0; killed < kills || !resumed; ++tries) {
    REQUIRE(tries < 10 * kills + 50);
    const bool resumes = std::filesystem::exists(path);
    Child child(resumes ? "train gpt --resume " + path : train + "--out " + path, log);
    const double ended = child.ended_within(moment(random) * run_time);
    if (ended > 0) run_time = std::min(run_time, ended);
    child.send(SIGKILL);
    const int status = child.wait();
    INFO(read_text(log));
    REQUIRE((status == 0 || status == 128 + SIGKILL));
    killed += status != 0;
    if (!std::filesystem::exists(path)) continue;
    resumed += resumes;
    REQUIRE(!load_safetensors(path).empty());
    if (status == 0) {
      REQUIRE(read_text(path) == whole);
      std::filesystem::remove(path);
      ++finished;
    }
  }
  if (std::filesystem::exists(path)) {
    Ran last = run_mote("train gpt --resume " + path);
    REQUIRE(last.status == 0);
    REQUIRE(read_text(path) == whole);
  }
  MESSAGE(finished << " runs to the end, " << resumed << " resumed ones");
}

}  // namespace

TEST_SUITE("command line") {
  TEST_CASE("help, version, flags, and what it does not know") {
    Ran help = run_mote("--help");
    CHECK(help.status == 0);
    for (const char* command : {"train", "run", "info", "devices", "bench", "docs", "flags", "version"}) {
      CHECK(has(help, std::string("\n  ") + command));
      Ran one = run_mote(std::string("help ") + command);
      CHECK(has(one, std::string("usage: mote ") + command));
      CHECK(run_mote(std::string(command) + " --help").output == one.output);
    }
    CHECK(run_mote("help").output == help.output);
    CHECK(has(run_mote("help run"), "--prompt TEXT       gpt, llama2c: text to continue\n"));
    CHECK(has(run_mote("version"), "mote "));
    CHECK(has(run_mote("flags"), "\n  MEMORY_MB   0     byte limit of each device"));
    CHECK(run_mote("").status == 2);
    const Ran version_json = run_mote("version --json"), flags_json = run_mote("flags --json");
    JsonDocument version("version", version_json.output), flags("flags", flags_json.output);
    const std::string number(version.root().at("version", "it").string("it"));
    CHECK(run_mote("version").output.starts_with("mote " + number + " (build "));
    CHECK(flags.root().items("flags").size() > 5);
    CHECK(has(flags_json,
              "{\"name\": \"MEMORY_MB\", \"default\": \"0\", "
              "\"meaning\": \"byte limit of each device"));
  }

  TEST_CASE("words that make no sense name the nearest that does") {
    auto says = [](const std::string& words, const std::string& what) {
      Ran ran = run_mote(words);
      CHECK(ran.status == 2);
      CHECK(has(ran, "mote: " + what));
    };
    says("trian mnist", "there is no command 'trian' (did you mean train?)");
    says("frobnicate", "there is no command 'frobnicate'; `mote help` lists them");
    says("devices --yaml", "[devices] there is no option --yaml; `mote help devices`");
    says("train mnist --step 3", "[train] there is no option --step (did you mean --steps?)");
    says("train mnsit", "[train] needs one of mnist|cifar|gpt, got 'mnsit' (did you mean mnist?)");
    says("train", "[train] needs mnist|cifar|gpt");
    says("train mnist cifar", "[train] takes mnist|cifar|gpt, but got 'cifar'");
    says("train mnist --steps", "[train] --steps needs N, got nothing");
    says("train mnist --steps=many", "[train] --steps needs a whole number, 1 or more, got 'many'");
    says("train mnist --batch -3", "[train] --batch needs a whole number, 1 or more, got '-3'");
    says("train mnist --lr 1e999", "[train] --lr needs a number, 0 or more, got '1e999'");
    says("train mnist --lr -1", "[train] --lr needs a number, 0 or more, got '-1'");
    says("train gpt --dropout 1.5", "[train] --dropout needs a number from 0 to 1, got '1.5'");
    says("train gpt --save-every 0", "[train] --save-every needs a whole number, 1 or more");
    says("run gpt --temperature -1", "[run] --temperature needs a number, 0 or more, got '-1'");
    says("run gpt --steps 0", "[run] --steps needs a whole number, 1 or more, got '0'");
    says("run gpt --top-p 2", "[run] --top-p needs a number above 0 and at most 1, got '2'");
    says("run gpt --top-p 0", "[run] --top-p needs a number above 0 and at most 1, got '0'");
    says("run gpt --top-k 0", "[run] --top-k needs a whole number, 1 or more, got '0'");
    says("train mnist --layers 3", "[train] --layers is not an option of `train mnist`");
    says("run llama2c --data x", "[run] --data is not an option of `run llama2c`");
    says("devices --json=yes", "[devices] --json takes no value, got 'yes'");
    says("devices -j", "[devices] options begin with --, got '-j'");
    Ran full = run(MOTE_BINARY_DIR "/mote help >/dev/full");
    CHECK(full.status == 1);
    CHECK(has(full, "the output cannot be written: No space left on device"));
  }

  TEST_CASE("a setting that cannot be read is an error that names it") {
    Ran ran = run_mote("devices", "MEMORY_MB=lots");
    CHECK(ran.status == 1);
    CHECK(has(ran, "[flags] MEMORY_MB=lots: expected a whole number from 0 to 1073741824"));
  }

  TEST_CASE("devices: each one, or why not") {
    Ran all = run_mote("devices", "THREADS=3 MEMORY_MB=64");
    CHECK(all.status == 0);
    CHECK(has(all, "; 3 threads, "));
    CHECK(has(all, ", memory 64 MB"));
    for (const char* name : {"CPU ", "NULL ", "INTERP ", "INTERP_PROGRAM ", "DISK "})
      CHECK(has(all, name));
    Ran none = run_mote("devices", no_compilers);
    CHECK(none.status == 0);
    CHECK(has(none, "CPU             not available: LLVM 19 not found"));
    Ran json = run_mote("devices --json", no_compilers);
    CHECK(has(json, "[{\"name\": \"CPU\", \"available\": false, \"why_not\": \"LLVM 19 not found"));
    CHECK(has(json, "{\"name\": \"INTERP\", \"available\": true, \"about\": "));
    CHECK(has(run_mote("devices --json", "MEMORY_MB=64"), "\"memory_bytes\": 67108864}"));
    Ran train = run_mote("train mnist --steps 1", no_compilers);
    CHECK(train.status == 1);
    CHECK(has(train, "CPU is not available: LLVM 19 not found"));
    CHECK(has(train, "install libllvm19"));
  }

  TEST_CASE("info: a table for people, JSON for programs") {
    Folder folder;
    const std::string path = folder / "two.safetensors";
    save_safetensors(path,
                     {
                         {"weight", ones({2, 3})},
                         {"bias", ones({3}, DType::f16)}
    },
                     {{"made by", "a \"test\""}});
    Ran table = run_mote("info " + path);
    CHECK(table.status == 0);
    CHECK(has(table, ": safetensors, "));
    CHECK(has(table, "made by  a \"test\""));
    CHECK(has(table, "weight  f32   2 x 3  24 B"));
    CHECK(has(table, "2 in all, 30 B"));
    Ran json = run_mote("info --json " + path);
    JsonDocument document("info", json.output);
    JsonValue root = document.root();
    CHECK(root.at("format", "format").string("format") == "safetensors");
    CHECK(root.at("metadata", "metadata").at("made by", "it").string("it") == "a \"test\"");
    CHECK(root.at("parts", "parts").items("parts").size() == 2);

    save_npy(folder / "x.npy", arange(Number(6)).reshape({2, 3}));
    CHECK(has(run_mote("info " + folder / "x.npy"), "i64   2 x 3  48 B"));
    Ran absent = run_mote("info " + folder / "absent");
    CHECK(absent.status == 1);
    CHECK(has(absent, "absent: No such file or directory\n"));  // no line of the program
    CHECK(has(run_mote("info " + make_text(folder)), "text.txt"));
    REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
    CHECK(has(run_mote("info " + folder / "pipe"), "pipe is not a regular file"));
    CHECK(has(run_mote("info /dev/stdin < /dev/null"), "/dev/stdin is not a regular file"));
  }

  TEST_CASE("train and run a GPT: lines, JSON, plot, checkpoint") {
    Folder folder;
    const std::string out = folder / "gpt.safetensors", plot = folder / "loss.svg";
    Ran ran = run_mote(small_gpt(folder) + "--steps 30 --json --out " + out + " --plot " + plot);
    REQUIRE(ran.status == 0);
    CHECK(has(ran, "gpt ============================== 30/30  loss "));
    std::string last = ran.output.substr(ran.output.rfind('\n', ran.output.size() - 2) + 1);
    JsonDocument document("train", last);
    JsonValue root = document.root();
    CHECK(root.at("step", "step").integer("step") == 30);
    CHECK(root.at("finished", "finished").boolean("finished"));
    CHECK(root.at("validation_loss", "loss").number("loss") < 3.0);
    CHECK(root.at("sample", "sample").string("sample").size() == 500);
    CHECK(step_of(out) == 30);

    std::string svg = read_text(plot);
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(svg.find(">30</text>") != svg.npos);

    Ran text = run_mote("run gpt --steps 20 --prompt 'the cat' --seed 3 --model " + out);
    CHECK(text.status == 0);
    CHECK(text.output.starts_with("the cat"));
    CHECK(has(text, " tokens/s"));
    CHECK(run_mote("run gpt --steps 20 --prompt 'the cat' --seed 3 --model " + out)
              .output.starts_with(text.output.substr(0, 27)));
    Ran unknown = run_mote("run gpt --prompt 'Zebra' --model " + out);
    CHECK(unknown.status == 1);
    CHECK(has(unknown, "[encode] the character 'Z' is not in the vocabulary\n"));
    Ran other = run_mote("train mnist --resume " + out);
    CHECK(has(other, "is a checkpoint of gpt, not of mnist"));
    CHECK(has(run_mote("train gpt --width 16 --resume " + out), "--width cannot change"));
    CHECK(has(run_mote("train gpt --width 16 --resume " + out), "it was 8, got 16"));
    Ran same = run_mote(
        "train gpt --steps 31 --layers 1 --width 08 --dropout .10 --seed 0 "
        "--resume " +
        out);
    CHECK(same.status == 0);
    CHECK(step_of(out) == 31);
    const std::string kept = read_text(out);
    Ran past = run_mote("train gpt --steps 10 --resume " + out);
    CHECK(past.status == 1);
    CHECK(has(past, "has done 31 steps, more than the 10 asked for"));
    CHECK(read_text(out) == kept);
  }

  TEST_CASE("a text of one line is learned and continued") {
    Folder folder;
    std::string text = read_text(make_text(folder));
    std::ranges::replace(text, '\n', ' ');
    const std::string path = folder / "line.txt", out = folder / "out";
    std::ofstream(path) << text;
    Ran ran = run_mote(small_gpt(folder) + "--data " + path + " --steps 3 --out " + out);
    CHECK(ran.status == 0);
    CHECK(has(ran, "\nvalidation loss "));
    CHECK(run_mote("run gpt --steps 5 --model " + out).status == 0);
  }

  TEST_CASE("a run that is resumed with another text needs the same characters") {
    Folder folder;
    const std::string out = folder / "out", path = folder / "other.txt";
    REQUIRE(run_mote(small_gpt(folder) + "--steps 3 --out " + out).status == 0);
    std::string text = read_text(folder / "text.txt");
    std::ranges::replace(text, 'c', 'z');
    std::ofstream(path) << text;
    Ran ran = run_mote("train gpt --steps 5 --resume " + out + " --data " + path);
    CHECK(ran.status == 1);
    CHECK(
        has(ran, "other.txt differ from those of the checkpoint, only here: 'z', only there: 'c'"));
    std::ranges::reverse(text);
    std::ranges::replace(text, 'z', 'c');
    std::ofstream(path) << text;
    CHECK(run_mote("train gpt --steps 5 --resume " + out + " --data " + path).status == 0);
  }

  TEST_CASE("a run that diverges has a result") {
    Folder folder;
    const std::string train = small_gpt(folder) + "--lr 1e30 --steps 20 ";
    Ran ran = run_mote(train);
    CHECK(ran.status == 0);
    CHECK(has(ran, "mote: no sample: [generate] a logit is NaN\n"));
    CHECK(has(ran, "\nloss nan\nvalidation loss nan\n"));
    Ran json = run(MOTE_BINARY_DIR "/mote " + train + "--json 2>/dev/null");
    CHECK(json.status == 0);
    CHECK(has(json, "\"loss\": null, \"finished\": true, \"validation_loss\": null}"));
  }

  TEST_CASE("a bar on a terminal, drawn over itself in one line") {
    Folder folder;
    std::string shown = on_terminal(small_gpt(folder) + "--steps 60", 100);
    CHECK(shown.find("\u2501") != shown.npos);
    CHECK(shown.find("60/60  loss ") != shown.npos);
    CHECK(shown.find("samples/s  ETA 0:00\033[K\r") != shown.npos);
    CHECK(shown.find("\r\033[K60 steps of 4 ") != shown.npos);
    // Every line drawn fits, so that the terminal never scrolls.
    for (size_t at = 0; (at = shown.find('\r', at)) != shown.npos; ++at) {
      std::string line = shown.substr(at + 1, shown.find_first_of("\r\n\033", at + 1) - at - 1);
      auto columns = std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; });
      CHECK(columns < 100);
    }
    CHECK(on_terminal(small_gpt(folder) + "--steps 5", 20).find("gpt 5/5") != std::string::npos);
  }

  TEST_CASE("a run that is resumed ends bit by bit where it would have ended") {
    Folder folder;
    const std::string train = small_gpt(folder) + "--steps 11 ";
    const std::string whole = folder / "whole", parts = folder / "parts";
    REQUIRE(run_mote(train + "--out " + whole).status == 0);
    Ran first = run_mote(train + "--stop-after 4 --out " + parts);
    CHECK(first.status == 0);
    CHECK(has(first, "stopped after step 4 of 11; resume with: mote train gpt --resume " + parts));
    CHECK(step_of(parts) == 4);
    REQUIRE(run_mote("train gpt --stop-after 1 --resume " + parts).status == 0);
    CHECK(step_of(parts) == 5);
    REQUIRE(run_mote("train gpt --resume " + parts).status == 0);
    CHECK(read_text(whole) == read_text(parts));
    // Another seed is another run.
    REQUIRE(run_mote(train + "--seed 1 --out " + parts).status == 0);
    CHECK(read_text(whole) != read_text(parts));
  }

  TEST_CASE("the command that resumes can be pasted into a shell") {
    Folder folder;
    const std::string path = folder / "it's a $run";
    Ran first = run_mote(small_gpt(folder) + "--steps 3 --stop-after 1 --out \"" +
                         (folder / "it's a \\$run") + "\"");
    CHECK(first.status == 0);
    const std::string wanted = "resume with: mote train gpt --resume ";
    const size_t at = first.output.find(wanted);
    REQUIRE(at != std::string::npos);
    const size_t from = at + std::string("resume with: mote ").size();
    const std::string line = first.output.substr(from, first.output.find('\n', from) - from);
    CHECK(run_mote(line).status == 0);
    CHECK(step_of(path) == 3);
  }

  TEST_CASE("Ctrl-C and SIGTERM save a checkpoint and say how to resume") {
    for (int signal : {SIGINT, SIGTERM}) {
      Folder folder;
      const std::string train = small_gpt(folder) + "--steps 1000000 ";
      const std::string out = folder / "stopped", log = folder / "log";
      Child child(train + "--out " + out, log);
      for (int i = 0; i < 3000 && read_text(log).find(" 1/1000000") == std::string::npos; ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      child.send(signal);
      CHECK(child.wait() == 128 + signal);
      CHECK(has({0, read_text(log)}, "resume with: mote train gpt --resume " + out));
      REQUIRE(step_of(out) >= 1);
      Ran more = run_mote("train gpt --stop-after 2 --resume " + out);
      CHECK(has(more, ", from step "));
    }
  }

  TEST_CASE("kill -9 at random moments loses nothing that was saved") {
    kill_and_resume(test::scaled(20, 2));
  }

  TEST_CASE("full disks and unwritable paths are errors that lose nothing") {
    Folder folder;
    const std::string train = small_gpt(folder) + "--steps 6 ", out = folder / "out";
    REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
    for (const char* option : {"--out ", "--plot "}) {
      Ran ran = run_mote(train + option + "/nonexistent/file");
      CHECK(ran.status == 1);
      CHECK(has(ran, "/nonexistent/file: No such file or directory"));
      CHECK(ran.output.find("1/6") == std::string::npos);  // said before the work
      CHECK(has(run_mote(train + option + "/tmp"), "/tmp is a folder"));
      Ran piped = run_mote(train + option + folder / "pipe");
      CHECK(piped.status == 1);
      CHECK(has(piped, "pipe is not a regular file"));
      CHECK(piped.output.find("1/6") == std::string::npos);
      CHECK(std::filesystem::is_fifo(folder / "pipe"));
    }
    REQUIRE(run_mote(train + "--out " + out).status == 0);
    const std::string before = read_text(out);
    const std::string full = "ulimit -f 4; " MOTE_BINARY_DIR "/mote ";
    Ran ran = run("export MOTE_CACHE=0; " + full + train + "--seed 2 --save-every 3 --out " + out);
    CHECK(ran.status == 1);
    CHECK(has(ran, "mote: no checkpoint of step 3: [save_checkpoint] cannot write " + out +
                       ": File too large"));
    CHECK(has(ran, "\nvalidation loss "));
    CHECK(has(ran, "\nmote: [save_checkpoint] cannot write " + out + ": File too large\n"));
    CHECK(read_text(out) == before);
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 3);  // no remains
  }

  TEST_CASE("what a task needs") {
    CHECK(has(run_mote("train gpt"), "[train] gpt needs --data FILE"));
    CHECK(has(run_mote("train cifar"), "[train] cifar needs --data FOLDER"));
    CHECK(has(run_mote("train mnist --device NOSUCH"), "there is no device NOSUCH; there are CPU"));
    CHECK(has(run_mote("run llama2c"), "[run] llama2c needs --model FILE"));
    CHECK(has(run_mote("train mnist --steps 3 --epochs 1"), "give --steps or --epochs, not both"));
    CHECK(has(run_mote("train mnist --epochs 0"), "--epochs 0 is 0 steps: needs one or more"));
    Folder folder;
    save_safetensors(folder / "other", {
                                           {"x", ones({1})}
    });
    CHECK(has(run_mote("train gpt --resume " + folder / "other"),
              "the metadata has no 'task': this is not a checkpoint of mote train"));
    std::ofstream(folder / "short.txt") << "abcabc";
    CHECK(has(run_mote("train gpt --data " + folder / "short.txt"), "characters to learn, fewer"));
    Ran large = run_mote(small_gpt(folder) + "--context 1500 --steps 1");
    CHECK(has(large, "text.txt is too short: its last tenth has 2001 characters, fewer than two "));
    CHECK(large.output.find("1/1") == std::string::npos);  // said before the work
  }

  TEST_CASE("train: figures of each step are logged, and on from a resume") {
    Folder folder;
    const std::string out = folder / "m.safetensors", log = folder / "run.csv";
    const std::string always = "train mnist --steps 6 --batch 8 --out " + out + " --log " + log;
    CHECK(run_mote(always + " --stop-after 3").status == 0);
    CHECK(run_mote("train mnist --resume " + out + " --log " + log).status == 0);
    std::ifstream in(log);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    REQUIRE(lines.size() == 7);
    CHECK(lines[0] == "step,loss,lr");
    for (size_t i = 1; i < lines.size(); ++i) CHECK(lines[i].starts_with(std::to_string(i) + ","));
    CHECK(has(run_mote(always + " --plot " + log), "are the same file"));
  }

  TEST_CASE("llama2.c's stories, token by token") {
    const std::string model = shared_data("llm/stories260K.bin");
    if (model.empty()) return;
    Ran ran = run(MOTE_BINARY_DIR "/mote run llama2c --temperature 0 --steps 200 --model " + model +
                  " --tokenizer " + shared_data("llm/tok512.bin") + " 2>/dev/null");
    CHECK(ran.status == 0);
    CHECK(ran.output == read_text(shared_data("llm/expected_greedy_200steps.txt")));
  }

  TEST_CASE("kill -9, many times" * doctest::test_suite("soak")) { kill_and_resume(200); }

  TEST_CASE("digits: train, resume, run" * doctest::test_suite("soak")) {
    Folder folder;
    const std::string whole = folder / "whole", parts = folder / "parts";
    Ran ran = run_mote("train mnist --steps 8 --batch 16 --out " + whole);
    REQUIRE(ran.status == 0);
    std::string last = ran.output.substr(ran.output.rfind('\n', ran.output.size() - 2) + 1);
    CHECK(last.starts_with("test accuracy "));
    CHECK(last.ends_with(" %\n"));
    REQUIRE(run_mote("train mnist --steps 8 --batch 16 --stop-after 3 --out " + parts).status == 0);
    REQUIRE(run_mote("train mnist --resume " + parts).status == 0);
    CHECK(read_text(whole) == read_text(parts));
    CHECK(has(run_mote("run mnist --model " + parts), last));
  }
}
