// What was learned is not lost, and no file is written over another one: failures and signals at
// any moment of a training run, paths that are one file, file systems in trouble.
#include <doctest/doctest.h>
#include <errno.h>
#include <fcntl.h>
#include <mote/io.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include "test/amount.h"
#include "test/process.h"

using namespace mote;
namespace fs = std::filesystem;

namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Its last tenth is long enough for validation to take a while.
std::string make_text(const Folder& folder, size_t bytes = 20000) {
  const char* words[] = {"the ", "cat ", "sat ", "on ", "a ", "mat.\n", "and ", "ran "};
  std::mt19937 random(1);
  std::string text;
  while (text.size() < bytes) text += words[random() % 8];
  std::ofstream(folder / "text.txt") << text;
  return folder / "text.txt";
}

const std::string small = "--layers 1 --heads 1 --width 8 --context 8 --batch 4 --lr 0.01 ";

Ran in_folder(const Folder& folder, const std::string& arguments, const std::string& before = "") {
  return run("cd " + folder.path.string() + " || exit 9; " + before + " " MOTE_BINARY_DIR "/mote " +
             arguments);
}

std::set<std::string> names_in(const Folder& folder) {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder.path))
    out.insert(entry.path().filename().string());
  return out;
}

bool has_litter(const Folder& folder) {
  return std::ranges::any_of(
      names_in(folder), [](const std::string& name) { return name.find(".saving-") != name.npos; });
}

int64_t step_of(const std::string& checkpoint) {
  for (const auto& [key, value] : file_info(checkpoint).metadata)
    if (key == "step") return std::stoll(value);
  return -1;
}

// Ways to write the path of a file in the folder, which need not be there. `links` is for the names
// of links that lead to it.
std::vector<std::string> spellings(const Folder& folder, const std::string& name) {
  const std::string up = folder.path.filename().string();
  std::vector<std::string> out = {name, "./" + name, "sub/../" + name, "../" + up + "//" + name,
                                  folder / name};
  fs::create_directory(folder / "sub");
  const std::string link = "sub/link-" + name, chain = "chain-" + name;
  fs::remove(folder / link), fs::remove(folder / chain);
  fs::create_symlink("../" + name, folder / link);
  fs::create_symlink(link, folder / chain);
  out.insert(out.end(), {link, chain});
  if (!fs::exists(folder / name)) return out;
  fs::remove(folder / ("hard-" + name));
  fs::create_hard_link(folder / name, folder / ("hard-" + name));
  out.push_back("hard-" + name);
  return out;
}

const char* const preload =
    "LD_PRELOAD=" MOTE_BINARY_DIR
    "/mote_file_trouble.so ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 ";

std::string trouble(const char* call, int number, int after = 0) {
  return std::string(preload) + "MOTE_TEST_TROUBLE='" + call + " " + std::to_string(number) + " " +
         std::to_string(after) + "'";
}

void check_refused(const Ran& ran) {
  CHECK(ran.status == 1);
  CHECK(has(ran, " are the same file: "));
  CHECK(ran.output.find(" steps of ") == std::string::npos);  // nothing was begun
}

// The status of a run that gets a signal after so many seconds. Not by a shell, whose background
// jobs ignore SIGINT.
// `again` seconds later, if that is not 0, it gets another one.
int signalled(const Folder& folder, const std::string& arguments, double seconds, int signal,
              double again) {
  const std::string command = "exec " MOTE_BINARY_DIR "/mote " + arguments;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (chdir(folder.path.c_str()) == 0) execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  kill(child, signal);
  if (again > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(again));
    kill(child, signal);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// A signal at a random moment of a run without --out. If a step was done, it is in a checkpoint
// that is whole.
void interrupt_at_random(int times, unsigned seed) {
  std::mt19937 random(seed);
  Folder folder;
  make_text(folder, 200'000);
  const std::string log = folder / "log";
  int stopped = 0, early = 0, finished = 0, twice = 0;
  const std::string train = "train gpt --data text.txt " + small + "--steps 60 --plot loss.svg ";
  REQUIRE(in_folder(folder, train).status == 0);  // kernels are compiled from here on
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(in_folder(folder, train).status == 0);
  const double whole =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (int i = 0; i < times; ++i) {
    const int signal = std::array{SIGINT, SIGTERM, SIGHUP}[random() % 3];
    const bool named = random() % 3 == 0;
    const double wait = static_cast<double>(random() % 1000) / 1000 * whole;
    const std::string file = named ? "out" : "mote-gpt.safetensors";
    const double again = random() % 3 == 0 ? static_cast<double>(random() % 20) / 1000 : 0;
    const int status =
        signalled(folder, train + (named ? "--out out" : "") + " > log 2>&1", wait, signal, again);
    const std::string said = read_text(log);
    const bool learned = said.find(" 1/60") != said.npos;
    CAPTURE(said);
    CAPTURE(wait);
    CHECK((status == 0 || status == 128 + signal));
    if (again > 0 && signal == SIGINT) {  // ends at once: what there is is whole
      ++twice;
      if (fs::exists(folder / file) && fs::file_size(folder / file) > 0)
        CHECK(step_of(folder / file) >= 1);
      for (const std::string& name : names_in(folder))
        if (name.find(".saving-") != name.npos) fs::remove(folder / name);
    } else if (status == 0) {
      CHECK(!has_litter(folder));
      ++finished;
    } else if (learned) {
      CHECK(!has_litter(folder));
      ++stopped;
      REQUIRE(fs::exists(folder / file));
      CHECK(step_of(folder / file) >= 1);
      CHECK(said.find("resume with: mote train gpt --resume " + file) != said.npos);
    } else {
      ++early;
    }
    for (const char* name : {"out", "mote-gpt.safetensors", "loss.svg", "log"})
      fs::remove(folder / name);
  }
  MESSAGE("seed ", seed, ", ", times, " signals: ", stopped, " stopped with a checkpoint, ", early,
          " before the first step, ", finished, " too late, ", twice, " twice");
}

}  // namespace

TEST_SUITE("lost work") {
  TEST_CASE("paths that are one file are refused before anything starts") {
    Folder folder;
    make_text(folder);
    const std::string train = "train gpt " + small + "--steps 3 ";
    REQUIRE(in_folder(folder, train + "--data text.txt --out saved").status == 0);
    const std::string text = read_text(folder / "text.txt"), saved = read_text(folder / "saved");
    int cases = 0;
    auto refused = [&](const std::string& arguments) {
      ++cases;
      check_refused(in_folder(folder, arguments));
    };
    for (const std::string& same : spellings(folder, "text.txt"))
      for (const char* option : {"--out ", "--plot "})
        refused(train + "--data text.txt " + option + same);
    for (const std::string& same : spellings(folder, "new"))
      refused(train + "--data text.txt --out " + same + " --plot new");
    for (const std::string& same : spellings(folder, "saved")) {
      refused("train gpt --steps 5 --resume saved --plot " + same);
      refused("train gpt --steps 5 --out saved --resume " + same + " --plot saved");
    }
    refused("train gpt --steps 5 --resume saved --out text.txt");  // the data of the checkpoint
    refused("train gpt --steps 5 --resume saved --data saved");
    refused(train + "--data text.txt --out log >> log");
    refused(train + "--data text.txt >> text.txt");
    refused("info saved >> saved");
    refused("run gpt --model saved >> saved");
    refused("search export list >> list");
    // MNIST's files are in a folder.
    std::ofstream(folder / "sub/train-images-idx3-ubyte") << "pictures";
    refused("train mnist --data sub --out sub/train-images-idx3-ubyte");
    CHECK(read_text(folder / "text.txt").starts_with(text));
    CHECK(read_text(folder / "saved").starts_with(saved));
    CHECK(!has_litter(folder));
    // What is not the same is not refused; going on in place is what --resume does by itself.
    CHECK(in_folder(folder, "train gpt --steps 4 --resume hard-saved --out hard-saved").status ==
          0);
    MESSAGE(cases, " pairs");
  }

  TEST_CASE("what was learned is kept when the result cannot be shown") {
    Folder folder;
    make_text(folder);
    const std::string train = "train gpt --data text.txt " + small + "--steps 3 ";
    const std::string named = folder / "mote-gpt.safetensors";
    auto kept_by = [&](const std::string& what, const std::string& before = "", int steps = 3) {
      CAPTURE(what);
      const Ran ran = in_folder(folder, train + what, before);
      REQUIRE(fs::exists(named));
      CHECK(step_of(named) == steps);
      CHECK(!has_litter(folder));
      fs::remove(named);
      return ran;
    };
    CHECK(kept_by("> /dev/full").status == 1);
    CHECK(kept_by(">&-").status == 1);
    kept_by("| true");
    kept_by("--json >&- 2>&-");
    // A plot that cannot be written costs the plot.
    Ran plot = in_folder(folder, train + "--out kept --plot loss.svg",
                         trouble("write", ENOSPC, 1));  // the checkpoint is one write
    CHECK(plot.status == 1);
    CHECK(has(plot, "[plot] cannot write loss.svg: No space left on device"));
    CHECK(has(plot, "validation loss "));
    CHECK(step_of(folder / "kept") == 3);
    // A checkpoint that cannot be where it should is where it can. The steps outlast the poll: they
    // take 0.03 ms each.
    fs::create_directory(folder / "gone");
    Ran gone = kept_by(
        "--steps 30000 --out gone/away > log 2>&1 & until grep -qs ' 1/' log; do sleep 0.01; done; "
        "rm -r gone; wait $!",
        "", 30000);
    CHECK(gone.status == 1);
  }

  TEST_CASE("file systems without locks, full and read-only") {
    Folder folder;
    const std::string command = "search export out";
    const std::string old = "the old file\n";
    int cases = 0;
    auto check = [&](const char* call, int number, bool works, bool replaces) {
      ++cases;
      CAPTURE(call);
      CAPTURE(number);
      fs::remove(folder / "out");
      if (replaces) std::ofstream(folder / "out") << old;
      const Ran ran = in_folder(folder, command, trouble(call, number));
      CHECK(ran.status == (works ? 0 : 1));
      if (works)
        CHECK(read_text(folder / "out").starts_with("mote searched actions"));
      else if (replaces)
        CHECK(read_text(folder / "out") == old);
      if (!works) CHECK(has(ran, std::string("out: ") + strerror(number)));
      CHECK(names_in(folder) ==
            (works || replaces ? std::set<std::string>{"out"} : std::set<std::string>{}));
    };
    for (const bool replaces : {false, true}) {
      for (const int number : {ENOLCK, EOPNOTSUPP, ENOSYS, EINVAL, EBADF})
        check("flock", number, true, replaces);
      for (const int number : {ENOSPC, EDQUOT, EIO, EFBIG}) check("write", number, false, replaces);
      for (const int number : {ENOSPC, EDQUOT, EIO}) check("fsync", number, false, replaces);
      check("fsync", EINVAL, true, replaces);
      for (const int number : {ENOSPC, EROFS, EACCES}) check("rename", number, false, replaces);
      for (const int number : {ENOSPC, EROFS, EDQUOT, EMFILE})
        check("open", number, false, replaces);
    }
    // Without locks what others write now is left alone, and what nobody writes any more is not.
    const std::string fresh = folder / ".out.saving-1-0", stale = folder / ".out.saving-1-1";
    std::ofstream(fresh) << "x";
    std::ofstream(stale) << "x";
    const timespec times[2] = {
        {1000, 0},
        {1000, 0}
    };
    REQUIRE(utimensat(AT_FDCWD, stale.c_str(), times, 0) == 0);
    CHECK(in_folder(folder, command, trouble("flock", ENOLCK)).status == 0);
    CHECK(names_in(folder) == std::set<std::string>{".out.saving-1-0", "out"});
    MESSAGE(cases, " troubles");
  }

  TEST_CASE("Ctrl-C while a finished run is judged leaves it") {
    Folder folder;
    make_text(folder, 1'500'000);
    for (const char* out : {"", "--out kept "}) {
      const std::string file = *out ? "kept" : "mote-gpt.safetensors";
      const Ran ran = in_folder(folder, "train gpt --data text.txt " + small + "--steps 20 " + out +
                                            "> log 2>&1 & until grep -qs ' 20/20' log; do sleep "
                                            "0.01; done; kill -TERM $!; wait $!");
      CHECK(ran.status == 128 + SIGTERM);
      REQUIRE(fs::exists(folder / file));
      CHECK(step_of(folder / file) == 20);
      CHECK(read_text(folder / "log").find("--resume " + file) != std::string::npos);
      fs::remove(folder / "log");
    }
    // What is left to do is what is done.
    CHECK(has(in_folder(folder, "train gpt --resume kept"), "validation loss "));
  }

  TEST_CASE("runs that are stopped together do not overwrite each other") {
    Folder folder;
    make_text(folder);
    fs::create_symlink("victim", folder / "mote-gpt.safetensors");
    constexpr int runs = 4;
    const std::string one = MOTE_BINARY_DIR "/mote train gpt --data text.txt " + small +
                            "--steps 1000000 > log$i 2>&1 & pids=\"$pids $!\"; ";
    run("cd " + folder.path.string() + "; for i in 1 2 3 4; do " + one +
        "done; for i in 1 2 3 4; do until grep -qs ' 1/' log$i; do sleep 0.01; done; done; "
        "kill -TERM $pids; wait");
    int found = 0;
    for (const std::string& name : names_in(folder))
      if (name.ends_with(".safetensors") && name != "mote-gpt.safetensors")
        found += step_of(folder / name) >= 1;
    CHECK(found == runs);
    CHECK(!fs::exists(folder / "victim"));
  }

  TEST_CASE("signals at random moments leave what was learned") {
    interrupt_at_random(test::scaled(4), std::random_device{}());
  }

  TEST_CASE("200 signals at random moments" * doctest::test_suite("soak")) {
    interrupt_at_random(200, std::random_device{}());
  }

  TEST_CASE("a file that is cut short while it is read ends the program with a message") {
    Folder folder;
    make_text(folder);
    const Ran ran =
        in_folder(folder, "train gpt --data text.txt " + small +
                              "--steps 100000 > log 2>&1 & sleep 0.3; kill -BUS $!; wait $!");
    CHECK(ran.status == 1);
    CHECK(read_text(folder / "log").find("mote: a file was cut short while it was read\n") !=
          std::string::npos);
  }
}
