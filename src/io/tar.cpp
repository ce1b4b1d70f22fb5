#include <algorithm>
#include <charconv>
#include <utility>

#include "io/archive.h"

namespace mote {

namespace {

constexpr size_t block = 512;

// A field of a header: where it begins and how long it is.
struct Field {
  size_t at, size;
};
constexpr Field name_field{0, 100}, size_field{124, 12}, sum_field{148, 8}, magic_field{257, 6},
    prefix_field{345, 155};
constexpr size_t type_at = 156;

std::string_view text_of(std::span<const uint8_t> header, Field f) {
  const std::string_view all(reinterpret_cast<const char*>(header.data()) + f.at, f.size);
  return all.substr(0, all.find('\0'));
}

// Octal digits among spaces, or GNU's binary form, marked by the first bit.
uint64_t number_of(const std::string& file, std::span<const uint8_t> header, Field f,
                   const char* what) {
  if (header[f.at] & 0x80) {
    uint64_t value = header[f.at] & 0x7f;
    for (size_t i = 1; i < f.size; ++i) {
      check_file(value >> 56 == 0, file, what, " is more than 64 bits");
      value = value << 8 | header[f.at + i];
    }
    return value;
  }
  std::string_view digits = text_of(header, f);
  while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
  while (!digits.empty() && digits.back() == ' ') digits.remove_suffix(1);
  uint64_t value = 0;
  const auto [stop, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc() || stop != digits.data() + digits.size())
    fail_file(file, text(what, " is not an octal number: ", quoted(digits)));
  return value;
}

uint64_t sum_of(std::span<const uint8_t> header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < block; ++i)
    sum += i >= sum_field.at && i < sum_field.at + sum_field.size ? ' ' : header[i];
  return sum;
}

bool is_zero(std::span<const uint8_t> header) {
  return std::all_of(header.begin(), header.end(), [](uint8_t b) { return b == 0; });
}

// What the entries before a file say about it.
struct Override {
  std::string name;
  uint64_t size = 0;
  bool has_size = false;
};

// pax: records "LENGTH key=value\n", the length counting all of the record.
void read_pax(const std::string& file, std::string_view records, Override& out) {
  while (!records.empty()) {
    size_t length = 0;
    const auto [stop, error] =
        std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<size_t>(stop - records.data());
    check_file(error == std::errc() && length <= records.size() && length > digits + 1 &&
                   records[digits] == ' ' && records[length - 1] == '\n',
               file, "a pax record has no valid length");
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const size_t equals = record.find('=');
    check_file(equals != std::string_view::npos, file, "a pax record has no '='");
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") out.name = value;
    if (key == "size") {
      const auto result = std::from_chars(value.data(), value.data() + value.size(), out.size);
      out.has_size = result.ec == std::errc() && result.ptr == value.data() + value.size();
      check_file(out.has_size, file, "the size in a pax record is not a number");
    }
    records.remove_prefix(length);
  }
}

bool is_regular(char type) { return type == '0' || type == '\0' || type == '7'; }
// Links, devices, folders and pipes have a header and nothing else.
bool has_no_data(char type) { return type >= '1' && type <= '6'; }

std::string name_of(std::span<const uint8_t> header) {
  const std::string_view prefix = text_of(header, prefix_field), name = text_of(header, name_field);
  const bool ustar = text_of(header, magic_field) == "ustar";
  return ustar && !prefix.empty() ? text(prefix, "/", name) : std::string(name);
}

}  // namespace

bool is_tar(std::span<const uint8_t> bytes) {
  return bytes.size() >= block && std::memcmp(bytes.data() + magic_field.at, "ustar", 5) == 0;
}

std::vector<ArchiveEntry> list_tar(const File& file) {
  check_file(is_tar(file.bytes.span()), file.name, "is not a tar archive");
  std::vector<ArchiveEntry> out;
  Override override;
  Reader in(file);
  for (;;) {
    const std::span<const uint8_t> header = in.take(block, "a header");
    if (is_zero(header)) break;
    in.check(number_of(file.name, header, sum_field, "the sum of a header") == sum_of(header),
             "the header at byte ", in.at() - block, " does not match its checksum");
    const char type = static_cast<char>(header[type_at]);
    uint64_t size = number_of(file.name, header, size_field, "the size of an entry");
    const bool describes = type == 'x' || type == 'L' || type == 'K' || type == 'g';
    if (!describes && override.has_size) size = override.size;
    if (has_no_data(type)) size = 0;
    in.check(type != 'S', "has a sparse file at byte ", in.at() - block, ", which is not read");
    const size_t at = in.at();
    const auto data = in.take(size, "an entry");
    in.skip(std::min<size_t>((block - size % block) % block, in.left()), "an entry");
    const std::string_view content(reinterpret_cast<const char*>(data.data()), data.size());
    if (type == 'x') read_pax(file.name, content, override);
    if (type == 'L') override.name = content.substr(0, content.find('\0'));
    if (describes) continue;
    const Override said = std::exchange(override, {});
    if (!is_regular(type)) continue;
    ArchiveEntry entry{said.name.empty() ? name_of(header) : said.name, at, size, size};
    check_entry_name(file.name, entry.name);
    out.push_back(std::move(entry));
  }
  std::vector<std::string_view> names;
  for (const ArchiveEntry& e : out) names.push_back(e.name);
  check_distinct_names(file.name, std::move(names));
  return out;
}

}  // namespace mote
