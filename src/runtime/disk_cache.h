// Remembers the bytes made from a text (compiled kernels, search winners) between runs.
//
// One self-contained file per entry, named by the SHA-256 of the key material: magic, version, key,
// length, checksum, bytes. Files appear by rename and never change, so any number of processes may
// share a folder, be killed at any moment, or have the folder removed under them. A bad entry is a
// miss, never a wrong answer.
//
// What is cached is run, so only this user may have written it. The folder is opened once and held:
// whatever its path leads to later, entries are reached through the open folder, never through
// links, and one that belongs to another user or that others may write is a bad entry.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mote {

// $XDG_CACHE_HOME/mote, else $HOME/.cache/mote; empty (no cache) if neither is an absolute path.
std::string default_cache_dir();

class DiskCache {
 public:
  struct Counts {
    int64_t hits = 0, misses = 0, writes = 0, corrupt = 0, evicted = 0, failed_writes = 0;
  };

  // Makes the folder (mode 0700) if it is missing. A folder that belongs to another user, or that
  // others may write, is refused. A refused or unusable folder means no cache: get always misses,
  // put does nothing, one warning goes to stderr. An empty dir means no cache and no warning.
  explicit DiskCache(std::string dir = default_cache_dir(), int64_t max_bytes = int64_t{1} << 30);

  // The bytes put under the same key material, or nothing. The material must hold everything the
  // value depends on (build, compiler version, target, flags, text). Entries that fail their check
  // are renamed to *.corrupt.
  std::optional<std::vector<uint8_t>> get(std::string_view key_material);

  // Best effort: a failure to write is counted, and the first one warned of. A value over half of
  // max_bytes is not kept. Once this process has seen the folder grow past max_bytes, the entries
  // least recently used go until three quarters are left; with n processes writing at once the
  // folder may pass the limit by n/8 of it for a while.
  void put(std::string_view key_material, std::span<const uint8_t> value);

  // A file of lines that lies in the folder under this name: all of it, or nothing; and lines added
  // at its end in one write. Returns what went wrong, or "".
  std::optional<std::string> read_lines(const std::string& name);
  std::string add_lines(const std::string& name, std::string_view lines);

  bool usable() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }  // empty when usable
  const std::string& dir() const { return dir_; }
  Counts counts() const;
  // Threads: all members may be called from several at once. None throws, but for lack of memory.

 private:
  struct Entry;
  class Folder;
  std::string open_folder();  // what is wrong with it, or ""
  std::shared_ptr<const Folder> folder();  // opened again where the program has closed it
  int open_to_write(const std::string& name, int flags);  // makes the folder again if it is gone
  std::string path_of(const std::string& name) const { return dir_ + "/" + name; }
  void set_aside(const std::string& name);
  std::string write_file(const std::string& name, std::span<const uint8_t> header,
                         std::span<const uint8_t> value);
  void count_failed_write(const std::string& why);
  std::vector<Entry> list_entries();
  void evict_if_full(int64_t written);

  std::string dir_;
  int64_t max_bytes_;
  std::string why_not_;
  mutable std::mutex mutex_;  // guards what follows
  std::shared_ptr<const Folder> folder_;
  Counts counts_;
  int64_t unscanned_bytes_ = -1;  // written since the folder was last measured; -1: never measured
  int64_t measured_bytes_ = 0;
};

// The process's own, where CACHE, CACHE_DIR and CACHE_MB say at the first call.
DiskCache& compile_cache();

}  // namespace mote
