// Saving: the old file or the new one, whatever happens in between.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <mote/io.h>
#include <mote/mote.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "runtime/output_file.h"
#include "test/temp_folder.h"

using namespace mote;
using namespace mote::test;

namespace {

std::string error_of(auto f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Device);
    const std::string what = e.what();
    return what.substr(0, what.rfind(" ("));
  }
  return "no error";
}

// While it lasts no file may grow past `bytes`: what a full disk does, with another reason.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_;
};

}  // namespace

TEST_CASE("saving: a full disk loses nothing") {
  TempFolder folder;
  const std::string path = folder / "a.safetensors";
  save_safetensors(path, {
                             {"a", arange(4)}
  });
  const std::string before = read_file(path);
  for (const int64_t count : {10, 10'000, 1'000'000}) {
    const Tensor large = zeros({count}).contiguous().realize();
    const FileSizeLimit limit(50);
    CHECK(error_of([&] {
            save_safetensors(path, {
                                       {"a", large}
            });
          }) == "[save_safetensors] cannot write " + path + ": File too large");
    CHECK(error_of([&] {
            save_npz(path, {
                               {"a", large}
            });
          }) == "[save_npz] cannot write " + path + ": File too large");
  }
  CHECK(read_file(path) == before);
  CHECK(folder.names() == std::vector<std::string>{"a.safetensors"});
}

TEST_CASE("saving: paths that cannot be written") {
  TempFolder folder;
  const Tensor x = arange(4);
  const std::string missing = folder / "no/such.npy", in_file = folder / "file/x.npy";
  write_file(folder / "file", "");
  CHECK(error_of([&] { save_npy(missing, x); }) ==
        "[save_npy] cannot create a file beside " + missing + ": No such file or directory");
  CHECK(error_of([&] { save_npy(in_file, x); }) ==
        "[save_npy] cannot create a file beside " + in_file + ": Not a directory");
  CHECK(error_of([&] { save_npy(folder / "", x); }) ==
        "[save_npy] cannot write " + folder / "" + ": Is a directory");
  CHECK(folder.names() == std::vector<std::string>{"file"});
}

TEST_CASE("saving keeps the file's mode, and a link") {
  TempFolder folder;
  const std::string path = folder / "a.npy", link = folder / "link.npy";
  save_npy(path, arange(4));
  REQUIRE(::chmod(path.c_str(), 0640) == 0);
  std::filesystem::create_symlink("a.npy", link);
  save_npy(link, arange(9));
  CHECK(std::filesystem::is_symlink(link));
  CHECK(load_npy(path).numel() == 9);
  struct stat info;
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0640);
}

TEST_CASE("saving writes what a link leads to, be it there or not") {
  TempFolder folder;
  std::filesystem::create_directory(folder / "sub");
  std::filesystem::create_symlink("sub/second.npy", folder / "first.npy");
  std::filesystem::create_symlink("real.npy", folder / "sub/second.npy");
  for (const int count : {3, 5}) {
    save_npy(folder / "first.npy", arange(count));
    CHECK(std::filesystem::is_symlink(folder / "first.npy"));
    CHECK(std::filesystem::is_symlink(folder / "sub/second.npy"));
    CHECK(load_npy(folder / "sub/real.npy").numel() == count);
  }
  const std::string loop = folder / "loop.npy";
  std::filesystem::create_symlink("loop.npy", loop);
  CHECK(error_of([&] { save_npy(loop, arange(4)); }) ==
        "[save_npy] cannot write " + loop + ": Too many levels of symbolic links");
}

TEST_CASE("saving does not replace what is no regular file") {
  TempFolder folder;
  const std::string pipe = folder / "pipe", link = folder / "link";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::filesystem::create_symlink("pipe", link);
  for (const std::string& path : {pipe, link}) {
    CHECK(error_of([&] { save_npy(path, arange(4)); }) ==
          "[save_npy] " + path + " is not a regular file");
    CHECK(error_of([&] { load_npy(path); }) == "[load_npy] " + path + " is not a regular file");
    CHECK(std::filesystem::is_fifo(path));
  }
  CHECK(error_of([] { load_npy("/proc/self/status"); }) ==
        "[load_npy] /proc/self/status is not a regular file");
}

TEST_CASE("saving: long names, and files that may not be written") {
  TempFolder folder;
  for (const std::string& name : {std::string(250, 'n'), std::string(125, 'n') + "\u00fc.npy"}) {
    save_npy(folder / name, arange(4));
    save_npy(folder / name, arange(5));
    CHECK(load_npy(folder / name).numel() == 5);
  }
  CHECK(folder.names().size() == 2);
  const std::string path = folder / "kept.npy";
  save_npy(path, arange(4));
  REQUIRE(::chmod(path.c_str(), 0444) == 0);
  if (::geteuid() == 0) return;  // who may write all
  CHECK(error_of([&] { save_npy(path, arange(5)); }) ==
        "[save_npy] cannot write " + path + ": Permission denied");
  CHECK(load_npy(path).numel() == 4);
}

TEST_CASE("saving removes what a killed process left, and nothing else") {
  TempFolder folder;
  write_file(folder / ".a.npy.saving-1-0", "abandoned");
  write_file(folder / ".b.npy.saving-1-0", "another file's");
  write_file(folder / ".a.npy.saving-notes", "somebody's own");
  const std::string used = folder / ".a.npy.saving-2-0";
  write_file(used, "in use");
  const int fd = ::open(used.c_str(), O_RDONLY);
  REQUIRE(::flock(fd, LOCK_EX) == 0);
  save_npy(folder / "a.npy", arange(4));
  ::close(fd);
  std::vector<std::string> names = folder.names();
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{".a.npy.saving-2-0", ".a.npy.saving-notes",
                                          ".b.npy.saving-1-0", "a.npy"});
}

TEST_CASE("saving one path from many threads") {
  TempFolder folder;
  const std::string path = folder / "a";
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        OutputFile out(path);
        out.write(std::string(1000, static_cast<char>('a' + i)));
        out.commit();
      }
    });
  for (std::thread& t : threads) t.join();
  const std::string found = read_file(path);
  CHECK(found == std::string(1000, found.at(0)));
  CHECK(folder.names() == std::vector<std::string>{"a"});
}

TEST_CASE("saving: a file is whole whenever its writer is killed") {
  constexpr int kills = 20;
  const unsigned seed = std::random_device{}();
  MESSAGE("seed ", seed, ", ", kills, " kills");
  std::mt19937 random(seed);
  TempFolder folder;
  const std::string path = folder / "a";
  constexpr size_t size = 200'000;
  {
    OutputFile out(path);
    out.write(std::string(size, '0'));
    out.commit();
  }
  for (int i = 0; i < kills; ++i) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0)
      for (char c = 'a';; c = c == 'z' ? 'a' : static_cast<char>(c + 1)) {
        OutputFile out(path);
        for (int part = 0; part < 4; ++part) out.write(std::string(size / 4, c));
        out.commit();
      }
    std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 20'000));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string found = read_file(path);
    CHECK(found == std::string(size, found.empty() ? '?' : found[0]));
  }
  OutputFile out(path);
  out.commit();
  CHECK(folder.names() == std::vector<std::string>{"a"});
}
