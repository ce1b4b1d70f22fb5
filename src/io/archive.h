// Archives: zip and tar. Reading lists what an archive holds; nothing is written to disk. Every
// entry lies inside the file and has a name of its own that is UTF-8 and a relative path without
// "..", so that it may be used as one.
#pragma once
#include "io/bytes.h"
#include "runtime/output_file.h"

namespace mote {

struct ArchiveEntry {
  std::string name;
  uint64_t offset = 0;  // of its bytes in the file
  uint64_t size = 0;    // unpacked
  uint64_t packed = 0;  // in the file; equal to size unless deflated
  bool deflated = false;
  uint32_t crc = 0;  // zip only
};

// Refuses a name that is not UTF-8, is empty or absolute, or leads upwards.
void check_entry_name(const std::string& file, std::string_view name);
// Refuses two entries of one name.
void check_distinct_names(const std::string& file, std::vector<std::string_view> names);

bool is_zip(std::span<const uint8_t> bytes);
bool is_tar(std::span<const uint8_t> bytes);

// By the central directory, with zip64. Encrypted entries, spanned archives and methods other than
// stored and deflate are refused, and entries that overlap. Folders are left out.
std::vector<ArchiveEntry> list_zip(const File& file);
// Refuses entries that unpack to more than unpack_limit() lets all of the file. To be asked before
// all are unpacked.
void check_unpacked_size(const File& file, const std::vector<ArchiveEntry>& entries);
// The entry's bytes: shared with the file where stored, else unpacked and held against the sum.
Bytes unpack(const File& file, const ArchiveEntry& entry);

// ustar, with GNU's and pax's long names and sizes. Regular files only; links and devices are left
// out. Entries are `stored`.
std::vector<ArchiveEntry> list_tar(const File& file);

// Writes a zip of stored entries, each aligned to 64 bytes so that it can be mapped.
class ZipWriter {
 public:
  explicit ZipWriter(OutputFile& out) : out_(out) {}
  void add(const std::string& name, std::initializer_list<std::span<const uint8_t>> parts);
  void finish();  // writes the directory

 private:
  struct Written {
    std::string name;
    uint64_t offset, size;
    uint32_t crc;
  };
  OutputFile& out_;
  std::vector<Written> written_;
};

}  // namespace mote
