#include "runtime/disk_cache.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

using namespace mote;
namespace fs = std::filesystem;

namespace {

struct TempDir {
  std::string path;
  TempDir() {
    char name[] = "/tmp/mote_cache_test_XXXXXX";
    path = mkdtemp(name);
  }
  ~TempDir() { fs::remove_all(path); }
};

std::vector<uint8_t> bytes_for(int seed, size_t size) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(size);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

std::vector<fs::path> files_in(const std::string& dir) {
  std::vector<fs::path> files;
  for (const auto& item : fs::directory_iterator(dir)) files.push_back(item.path());
  return files;
}

int64_t bytes_in(const std::string& dir) {
  int64_t total = 0;
  for (const auto& file : files_in(dir)) total += static_cast<int64_t>(fs::file_size(file));
  return total;
}

// Drops the warnings a test provokes.
struct QuietStderr {
  int saved = dup(STDERR_FILENO);
  QuietStderr() {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    close(null);
  }
  ~QuietStderr() {
    dup2(saved, STDERR_FILENO);
    close(saved);
  }
};

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

TEST_SUITE("disk_cache") {
  TEST_CASE("what was put is found, also by another cache on the same folder") {
    TempDir dir;
    const auto value = bytes_for(1, 5000);
    DiskCache cache(dir.path + "/a/b");
    CHECK(cache.usable());
    CHECK(!cache.get("key"));
    cache.put("key", value);
    cache.put("empty", {});
    CHECK(cache.get("key").value() == value);
    CHECK(cache.get("empty").value().empty());
    CHECK(!cache.get("other"));
    DiskCache again(dir.path + "/a/b");
    CHECK(again.get("key").value() == value);
    CHECK(cache.counts().hits == 2);
    CHECK(cache.counts().misses == 2);
    CHECK(cache.counts().writes == 2);
    struct stat info {};
    REQUIRE(stat(cache.dir().c_str(), &info) == 0);
    CHECK((info.st_mode & 0777) == 0700);
  }

  TEST_CASE("every damaged byte and every cut is a miss, set aside, and can be put again") {
    QuietStderr quiet;
    TempDir dir;
    const auto value = bytes_for(2, 40);
    for (size_t at = 0; at < 128; ++at) {
      for (const bool cut : {false, true}) {
        DiskCache cache(dir.path);
        cache.put("key", value);
        REQUIRE(cache.get("key").value() == value);
        const std::string path = files_in(dir.path)[0];
        REQUIRE(fs::file_size(path) == 128);
        if (cut) {
          fs::resize_file(path, at);
        } else {
          std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
          file.seekg(static_cast<std::streamoff>(at));
          const char byte = static_cast<char>(file.get() ^ 0x10);
          file.seekp(static_cast<std::streamoff>(at));
          file.put(byte);
        }
        CHECK(!cache.get("key"));
        CHECK(cache.counts().corrupt == 1);
        CHECK(fs::exists(path + ".corrupt"));
        CHECK(!fs::exists(path));
        fs::remove(path + ".corrupt");
      }
    }
  }

  TEST_CASE("an entry under another key's name, a folder, a link or a FIFO is not believed") {
    QuietStderr quiet;
    TempDir dir;
    DiskCache cache(dir.path);
    cache.put("a", bytes_for(1, 10));
    const fs::path a = files_in(dir.path)[0];
    cache.put("b", bytes_for(2, 10));
    fs::path b;
    for (const auto& file : files_in(dir.path))
      if (file != a) b = file;
    fs::copy_file(a, b, fs::copy_options::overwrite_existing);
    CHECK(!cache.get("b"));
    fs::create_symlink(a, b);
    CHECK(!cache.get("b"));
    fs::remove(b);
    fs::create_directory(b);
    CHECK(!cache.get("b"));
    fs::remove_all(b);
    REQUIRE(mkfifo(b.c_str(), 0600) == 0);
    CHECK(!cache.get("b"));
    CHECK(cache.get("a"));
  }

  TEST_CASE("the size limit drops what was used longest ago") {
    TempDir dir;
    DiskCache cache(dir.path, 20 * 4096);  // each takes a block of the disk
    for (int i = 0; i < 20; ++i) {
      cache.put("k" + std::to_string(i), bytes_for(i, 1000));
      sleep_ms(6);
    }
    CHECK(cache.counts().evicted == 0);
    CHECK(cache.get("k0"));  // now the youngest
    sleep_ms(6);
    cache.put("k20", bytes_for(20, 1000));
    CHECK(cache.counts().evicted > 0);
    CHECK(bytes_in(dir.path) <= 20 * 1088);
    CHECK(cache.get("k0"));
    CHECK(cache.get("k20"));
    CHECK(!cache.get("k1"));
    for (int i = 0; i < 200; ++i) {
      cache.put("m" + std::to_string(i), bytes_for(i, 1000));
      CHECK(bytes_in(dir.path) <= 20 * 1088);
    }
    cache.put("too big", bytes_for(0, 50000));
    CHECK(!cache.get("too big"));
  }

  TEST_CASE("temporary files whose writer is gone go, others stay") {
    TempDir dir;
    const std::string left = dir.path + "/.tmp-1-2", in_use = dir.path + "/.tmp-4-5";
    std::ofstream(left) << "x";
    const int writer = open(in_use.c_str(), O_WRONLY | O_CREAT, 0600);
    REQUIRE(flock(writer, LOCK_EX) == 0);
    DiskCache cache(dir.path);
    cache.put("key", bytes_for(1, 10));
    CHECK(!fs::exists(left));
    CHECK(fs::exists(in_use));
    close(writer);
    DiskCache(dir.path).put("key", bytes_for(1, 10));
    CHECK(!fs::exists(in_use));
  }

  TEST_CASE("an unusable folder means no cache, not an error") {
    QuietStderr quiet;
    TempDir dir;
    std::ofstream(dir.path + "/file") << "x";
    DiskCache under_file(dir.path + "/file/cache");
    CHECK(!under_file.usable());
    CHECK(under_file.why_not().find("Not a directory") != std::string::npos);
    under_file.put("key", bytes_for(1, 10));
    CHECK(!under_file.get("key"));
    CHECK(!DiskCache(dir.path + "/file").usable());
    CHECK(!DiskCache("").usable());
    CHECK(!DiskCache("/proc/nowhere").usable());

    fs::create_directory(dir.path + "/open");
    fs::permissions(dir.path + "/open", fs::perms::all);
    DiskCache open_to_all(dir.path + "/open");
    CHECK(!open_to_all.usable());
    CHECK(open_to_all.why_not().find("writable by others") != std::string::npos);
  }

  TEST_CASE("a folder removed or replaced while in use") {
    QuietStderr quiet;
    TempDir dir;
    DiskCache cache(dir.path + "/c");
    cache.put("key", bytes_for(1, 10));
    fs::remove_all(dir.path + "/c");
    CHECK(!cache.get("key"));
    cache.put("key", bytes_for(1, 10));
    CHECK(cache.get("key"));
    fs::remove_all(dir.path + "/c");
    std::ofstream(dir.path + "/c") << "x";
    cache.put("key", bytes_for(1, 10));
    cache.put("key", bytes_for(1, 10));
    CHECK(cache.counts().failed_writes == 2);
    CHECK(!cache.get("key"));
  }

  TEST_CASE("entries and folders of others are not believed") {
    QuietStderr quiet;
    TempDir dir;
    const auto value = bytes_for(1, 100);
    for (const mode_t mode : {0620, 0602, 0666, 0777}) {
      DiskCache cache(dir.path + "/a");
      cache.put("key", value);
      const std::string path = files_in(dir.path + "/a")[0];
      REQUIRE(chmod(path.c_str(), mode) == 0);
      CHECK(!cache.get("key"));
      CHECK(cache.counts().corrupt == 1);
      fs::remove(path + ".corrupt");
    }
    DiskCache cache(dir.path + "/a");
    REQUIRE(cache.add_lines("lines", "one\n") == "");
    REQUIRE(cache.add_lines("lines", "two\n") == "");
    CHECK(cache.read_lines("lines").value() == "one\ntwo\n");
    const std::string lines = dir.path + "/a/lines";
    REQUIRE(chmod(lines.c_str(), 0666) == 0);
    CHECK(!cache.read_lines("lines"));
    CHECK(cache.add_lines("lines", "three\n") != "");
    fs::remove(lines);
    std::ofstream(dir.path + "/victim") << "kept";
    fs::create_symlink(dir.path + "/victim", lines);
    CHECK(!cache.read_lines("lines"));
    CHECK(cache.add_lines("lines", "three\n") != "");
    CHECK(fs::file_size(dir.path + "/victim") == 4);
    if (geteuid() != 0) return;
    cache.put("key", value);
    for (const auto& file : files_in(dir.path + "/a"))
      REQUIRE(lchown(file.c_str(), 12345, 12345) == 0);
    CHECK(!cache.get("key"));
    REQUIRE(chown((dir.path + "/a").c_str(), 12345, 12345) == 0);
    CHECK(DiskCache(dir.path + "/a").why_not().find("another user") != std::string::npos);
  }

  // Another user who may write a folder above exchanges it, again and again, for one with entries
  // of his own. What was opened is what is read and written.
  TEST_CASE("a folder whose path is made to lead elsewhere") {
    QuietStderr quiet;
    TempDir dir;
    const std::string mine = dir.path + "/mine", his = dir.path + "/his", link = dir.path + "/link";
    const auto good = bytes_for(1, 100), evil = bytes_for(2, 100);
    fs::create_directory(mine);
    fs::create_directory(his);
    fs::permissions(mine, fs::perms::owner_all);
    fs::permissions(his, fs::perms::owner_all);
    for (int i = 0; i < 20; ++i) DiskCache(his).put(std::to_string(i), evil);
    fs::create_symlink(mine, link);
    DiskCache cache(link);
    REQUIRE(cache.usable());
    std::atomic<bool> stop{false};
    std::thread swapper([&] {
      for (bool to_his = true; !stop; to_his = !to_his) {
        fs::create_symlink(to_his ? his : mine, dir.path + "/next");
        fs::rename(dir.path + "/next", link);
      }
    });
    int wrong = 0, hits = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::string key = std::to_string(i % 20);
      const auto found = cache.get(key);
      wrong += found && *found != good;
      hits += found.has_value();
      if (!found) cache.put(key, good);
    }
    stop = true;
    swapper.join();
    CHECK(wrong == 0);
    CHECK(hits >= 1980);
    for (const auto& file : files_in(his)) CHECK(fs::file_size(file) == 188);
    CHECK(files_in(mine).size() == 20);
    CHECK(DiskCache(his).get("3").value() == evil);
  }

  TEST_CASE("default folder follows the environment") {
    const char* xdg = std::getenv("XDG_CACHE_HOME");
    const std::string before = xdg ? xdg : "";
    setenv("XDG_CACHE_HOME", "/x/y", 1);
    CHECK(default_cache_dir() == "/x/y/mote");
    setenv("XDG_CACHE_HOME", "relative", 1);
    const std::string home = default_cache_dir();
    CHECK((home.empty() || home.ends_with("/.cache/mote")));
    if (xdg)
      setenv("XDG_CACHE_HOME", before.c_str(), 1);
    else
      unsetenv("XDG_CACHE_HOME");
  }

  TEST_CASE("threads share one cache") {
    TempDir dir;
    DiskCache cache(dir.path, 100000);
    std::vector<std::thread> threads;
    threads.reserve(4);
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        for (int i = 0; i < 100; ++i) {
          const int k = (i * 7 + t) % 30;
          if (const auto found = cache.get(std::to_string(k)))
            wrong += *found != bytes_for(k, 1000);
          else
            cache.put(std::to_string(k), bytes_for(k, 1000));
        }
      });
    for (auto& thread : threads) thread.join();
    CHECK(wrong == 0);
    CHECK(cache.counts().hits + cache.counts().misses == 400);
  }

  // Processes put, get, evict and damage entries in one folder; some are killed. No get may return
  // wrong bytes.
  TEST_CASE("a storm of processes on one folder") {
    QuietStderr quiet;
    TempDir dir;
    constexpr int64_t limit = 60000;
    const auto child_work = [&](int seed) {
      DiskCache cache(dir.path, limit);
      std::mt19937 random(seed);
      for (int i = 0; i < 400; ++i) {
        const int k = static_cast<int>(random() % 100);
        const auto found = cache.get(std::to_string(k));
        if (found && *found != bytes_for(k, 500 + 10 * k)) _exit(1);
        if (!found) cache.put(std::to_string(k), bytes_for(k, 500 + 10 * k));
        if (random() % 20 == 0) {
          for (const auto& item : fs::directory_iterator(dir.path)) {
            const int fd = open(item.path().c_str(), O_WRONLY);
            if (fd < 0) continue;
            const char junk = static_cast<char>(random());
            if (pwrite(fd, &junk, 1, static_cast<off_t>(random() % 600)) != 1) _exit(2);
            close(fd);
            break;
          }
        }
      }
      _exit(0);
    };
    std::fflush(nullptr);
    std::vector<pid_t> children;
    for (int i = 0; i < 8; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        try {
          child_work(i);
        } catch (...) {}
        _exit(3);
      }
      children.push_back(child);
    }
    sleep_ms(30);
    for (int i = 0; i < 3; ++i) kill(children[i], SIGKILL);
    for (int i = 0; i < 8; ++i) {
      int status = 0;
      REQUIRE(waitpid(children[i], &status, 0) == children[i]);
      if (i >= 3) CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    }
    DiskCache cache(dir.path, limit);
    cache.put("last", bytes_for(0, 100));
    CHECK(bytes_in(dir.path) <=
          limit + 3 * 2000);  // three killed writers may each leave a temporary file
  }
}
