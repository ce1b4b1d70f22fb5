#include <algorithm>
#include <optional>

#include "io/archive.h"
#include "io/compress.h"

namespace mote {

namespace {

constexpr uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50,
                   end_signature = 0x06054b50, end64_signature = 0x06064b50,
                   locator_signature = 0x07064b50;
constexpr size_t local_size = 30, central_size = 46, end_size = 22, locator_size = 20;
constexpr uint32_t in_zip64 = 0xffffffff;
constexpr uint16_t zip64_extra = 1, alignment_extra = 0xd935;
constexpr uint16_t encrypted = 1, utf8_names = 0x800, stored = 0, deflate = 8;
constexpr uint16_t needs_zip64 = 45, first_of_1980 = 0x21;

// The end record is last; a comment of at most 64 KiB may follow it.
size_t find_end(const File& file) {
  const std::span<const uint8_t> bytes = file.bytes.span();
  constexpr size_t longest_comment = 0xffff;
  for (size_t comment = 0; comment <= longest_comment && end_size + comment <= bytes.size();
       ++comment) {
    const size_t at = bytes.size() - end_size - comment;
    if (bytes[at] != 'P') continue;
    Reader in(file.name, bytes.subspan(at));
    if (in.u32("the end record") != end_signature) continue;
    in.skip(16, "the end record");
    if (in.u16("the comment's length") == comment) return at;
  }
  fail_file(file.name, "no end of a zip archive in the last 64 KiB");
}

struct Directory {
  uint64_t entries, size, offset;
};

// The zip64 end record, if a locator for one stands before the end record.
std::optional<Directory> read_end64(const File& file, size_t end) {
  if (end < locator_size) return {};
  Reader in(file);
  in.seek(end - locator_size, "the zip64 locator");
  if (in.u32("the zip64 locator") != locator_signature) return {};
  in.skip(4, "the zip64 locator");
  in.seek(in.u64("the zip64 end record's offset"), "the zip64 end record");
  in.check(in.u32("the zip64 end record") == end64_signature,
           "the zip64 end record has a wrong signature");
  in.skip(28, "the zip64 end record");
  Directory d{};
  d.entries = in.u64("the number of entries");
  d.size = in.u64("the directory's size");
  d.offset = in.u64("the directory's offset");
  return d;
}

Directory read_end32(const File& file, size_t end) {
  Reader in(file);
  in.seek(end + 4, "the end record");
  in.check(in.u32("the disk's number") == 0, "is a part of a spanned archive");
  in.skip(2, "the entries on this disk");
  Directory d{};
  d.entries = in.u16("the number of entries");
  d.size = in.u32("the directory's size");
  d.offset = in.u32("the directory's offset");
  return d;
}

Directory read_end(const File& file) {
  const size_t end = find_end(file);
  const std::optional<Directory> large = read_end64(file, end);
  const Directory d = large ? *large : read_end32(file, end);
  check_file(d.offset <= end && d.size <= end - d.offset, file.name, "the directory of ", d.size,
             " bytes at byte ", d.offset, " does not lie before the end record at byte ", end);
  check_file(d.entries <= d.size / central_size, file.name, "the number of entries is ", d.entries,
             ", more than a directory of ", d.size, " bytes can hold");
  return d;
}

// Sizes and offset that do not fit in 32 bits stand in an extra field, in this order.
void read_zip64(const std::string& file, std::span<const uint8_t> extra,
                std::initializer_list<uint64_t*> values) {
  Reader in(file, extra);
  while (in.left() >= 4) {
    const uint16_t id = in.u16("an extra field"), size = in.u16("an extra field");
    Reader field(file, in.take(size, "an extra field"));
    if (id != zip64_extra) continue;
    for (uint64_t* value : values)
      if (*value == in_zip64) *value = field.u64("the zip64 sizes");
    return;
  }
}

struct Listed {
  ArchiveEntry entry;
  uint64_t header;  // offset of the local header
};

Listed read_central(Reader& in) {
  const size_t begin = in.at();
  in.check(in.u32("a directory entry") == central_signature, "the directory entry at byte ", begin,
           " has a wrong signature");
  in.skip(4, "a directory entry");
  const uint16_t flags = in.u16("flags"), method = in.u16("the method");
  in.skip(4, "the time");
  Listed out{};
  ArchiveEntry& e = out.entry;
  e.crc = in.u32("the sum");
  e.packed = in.u32("the packed size");
  e.size = in.u32("the size");
  const uint16_t name = in.u16("the name's length"), extra = in.u16("the extra field's length"),
                 comment = in.u16("the comment's length");
  in.skip(8, "the attributes");
  out.header = in.u32("the local header's offset");
  e.name = in.text(name, "an entry's name");
  read_zip64(in.name(), in.take(extra, "the extra field"), {&e.size, &e.packed, &out.header});
  in.skip(comment, "the comment");
  check_entry_name(in.name(), e.name);
  e.deflated = method == deflate;
  if (flags & encrypted) fail_file(in.name(), text("the entry ", quoted(e.name), " is encrypted"));
  if (method != stored && method != deflate)
    fail_file(in.name(), text("the entry ", quoted(e.name), " is compressed by method ", method,
                              "; only stored and deflate (8) are read"));
  if (!e.deflated && e.size != e.packed)
    fail_file(in.name(), text("the entry ", quoted(e.name),
                              " is stored, yet its sizes differ: ", e.packed, " and ", e.size));
  return out;
}

// Finds the entry's bytes behind its local header; returns where they end.
uint64_t locate(const File& file, Listed& listed, uint64_t directory) {
  ArchiveEntry& e = listed.entry;
  Reader in(file.name, file.bytes.span().first(directory));
  in.seek(listed.header, "a local header");
  in.check(in.u32("a local header") == local_signature, "the local header at byte ", listed.header,
           " has a wrong signature");
  in.skip(local_size - 8, "a local header");
  const uint16_t name = in.u16("the name's length"), extra = in.u16("the extra field's length");
  const auto bytes = in.take(name, "the name in a local header");
  if (!std::equal(bytes.begin(), bytes.end(), e.name.begin(), e.name.end()))
    fail_file(file.name, text("the local header of ", quoted(e.name), " has another name"));
  in.skip(extra, "the extra field");
  e.offset = in.at();
  if (e.packed > in.left())
    fail_file(file.name, text("the entry ", quoted(e.name), " of ", e.packed, " bytes at byte ",
                              e.offset, " runs into the directory at byte ", directory));
  return e.offset + e.packed;
}

}  // namespace

void check_entry_name(const std::string& file, std::string_view name) {
  auto refuse = [&](const char* why) {
    fail_file(file, text("the entry name ", quoted(name), " ", why));
  };
  if (name.empty()) refuse("is empty");
  if (!is_utf8(name)) refuse("is not valid UTF-8");
  if (name.find('\0') != std::string_view::npos) refuse("contains a zero byte");
  if (name[0] == '/') refuse("is an absolute path");
  for (size_t at = 0; at <= name.size();) {
    const size_t slash = std::min(name.find('/', at), name.size());
    if (name.substr(at, slash - at) == "..") refuse("leads out of the archive");
    at = slash + 1;
  }
}

void check_distinct_names(const std::string& file, std::vector<std::string_view> names) {
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) fail_file(file, text("the name ", quoted(*twice), " appears twice"));
}

bool is_zip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 4 && bytes[0] == 'P' && bytes[1] == 'K' &&
         ((bytes[2] == 3 && bytes[3] == 4) || (bytes[2] == 5 && bytes[3] == 6));
}

std::vector<ArchiveEntry> list_zip(const File& file) {
  const Directory directory = read_end(file);
  Reader in(file.name, file.bytes.span().first(directory.offset + directory.size));
  in.seek(directory.offset, "the directory");
  std::vector<ArchiveEntry> out;
  std::vector<std::string_view> names;
  struct Extent {
    uint64_t begin, end;
  };
  std::vector<Extent> extents;
  for (uint64_t i = 0; i < directory.entries; ++i) {
    Listed listed = read_central(in);
    extents.push_back({listed.header, locate(file, listed, directory.offset)});
    if (listed.entry.name.back() != '/') out.push_back(std::move(listed.entry));
  }
  for (const ArchiveEntry& e : out) names.push_back(e.name);
  check_distinct_names(file.name, std::move(names));
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i)
    check_file(extents[i - 1].end <= extents[i].begin, file.name, "the entries at bytes ",
               extents[i - 1].begin, " and ", extents[i].begin, " overlap");
  return out;
}

void check_unpacked_size(const File& file, const std::vector<ArchiveEntry>& entries) {
  uint64_t total = 0;
  for (const ArchiveEntry& e : entries)
    if (e.deflated && __builtin_add_overflow(total, e.size, &total)) total = UINT64_MAX;
  const UnpackLimit limit = unpack_limit(file.bytes.size(), std::min(total, kUnpackedLimit));
  check_file(total <= limit.bytes, file.name, "its entries unpack to ", total, " bytes, more than ",
             limit.bytes, limit.why);
}

Bytes unpack(const File& file, const ArchiveEntry& entry) {
  const Bytes packed = file.bytes.part(entry.offset, entry.packed);
  if (!entry.deflated) return packed;
  const std::string name = file.name + ": " + entry.name;
  Bytes out = inflate(name, packed.span(), entry.size);
  check_file(crc32(out.span()) == entry.crc, name, "does not match its checksum");
  return out;
}

namespace {

// Little-endian fields, one after another.
class Fields {
 public:
  Fields& u16(uint16_t v) { return add(&v, sizeof v); }
  Fields& u32(uint32_t v) { return add(&v, sizeof v); }
  Fields& u64(uint64_t v) { return add(&v, sizeof v); }
  Fields& bytes(std::string_view v) { return add(v.data(), v.size()); }
  const std::string& text() const { return out_; }

 private:
  Fields& add(const void* v, size_t size) {
    out_.append(static_cast<const char*>(v), size);
    return *this;
  }
  std::string out_;
};

}  // namespace

// Sizes are always in zip64 fields: one form, whatever the size.
void ZipWriter::add(const std::string& name,
                    std::initializer_list<std::span<const uint8_t>> parts) {
  constexpr size_t alignment = 64, zip64_size = 20, least_padding = 6;
  Written w{name, out_.size(), 0, 0};
  for (const auto& part : parts) w.crc = crc32(part, w.crc), w.size += part.size();
  const size_t data = w.offset + local_size + name.size() + zip64_size + least_padding;
  const size_t zeros = (alignment - data % alignment) % alignment;
  Fields f;
  f.u32(local_signature).u16(needs_zip64).u16(utf8_names).u16(stored).u16(0).u16(first_of_1980);
  f.u32(w.crc).u32(in_zip64).u32(in_zip64).u16(static_cast<uint16_t>(name.size()));
  f.u16(static_cast<uint16_t>(zip64_size + least_padding + zeros)).bytes(name);
  f.u16(zip64_extra).u16(zip64_size - 4).u64(w.size).u64(w.size);
  f.u16(alignment_extra).u16(static_cast<uint16_t>(least_padding - 4 + zeros)).u16(alignment);
  f.bytes(std::string(zeros, '\0'));
  out_.write(f.text());
  for (const auto& part : parts) out_.write(part);
  written_.push_back(std::move(w));
}

void ZipWriter::finish() {
  constexpr uint16_t zip64_size = 28;
  const uint64_t begin = out_.size();
  for (const Written& w : written_) {
    Fields f;
    f.u32(central_signature).u16(needs_zip64).u16(needs_zip64).u16(utf8_names).u16(stored);
    f.u16(0).u16(first_of_1980).u32(w.crc).u32(in_zip64).u32(in_zip64);
    f.u16(static_cast<uint16_t>(w.name.size())).u16(zip64_size).u16(0);
    f.u16(0).u16(0).u32(0).u32(in_zip64).bytes(w.name);
    f.u16(zip64_extra).u16(zip64_size - 4).u64(w.size).u64(w.size).u64(w.offset);
    out_.write(f.text());
  }
  const uint64_t end = out_.size(), count = written_.size();
  const auto short_count = static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff));
  Fields f;
  f.u32(end64_signature).u64(44).u16(needs_zip64).u16(needs_zip64).u32(0).u32(0);
  f.u64(count).u64(count).u64(end - begin).u64(begin);
  f.u32(locator_signature).u32(0).u64(end).u32(1);
  f.u32(end_signature).u16(0).u16(0).u16(short_count).u16(short_count);
  f.u32(static_cast<uint32_t>(std::min<uint64_t>(end - begin, in_zip64)));
  f.u32(static_cast<uint32_t>(std::min<uint64_t>(begin, in_zip64))).u16(0);
  out_.write(f.text());
}

}  // namespace mote
