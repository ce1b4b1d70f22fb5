#include "io/bytes.h"

#include <algorithm>

#include "base/memory_at_hand.h"
#include "base/number.h"
#include "ir/provenance.h"
#include "runtime/disk.h"

namespace mote {

Bytes::Bytes(std::vector<uint8_t> bytes) {
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  view_ = *owner;
  owner_ = std::move(owner);
}

Bytes Bytes::part(size_t offset, size_t size) const {
  ensure(offset <= view_.size() && size <= view_.size() - offset, "a part of ", view_.size(),
         " bytes ends outside them: ", size, " from ", offset);
  return Bytes(view_.subspan(offset, size), owner_);
}

File open_file(const std::string& path) {
  MappedFile mapped = map_file(path);
  std::shared_ptr<const void> owner;
  if (mapped.unmap) owner = {mapped.data, [mapped](const void*) { mapped.unmap(mapped.context); }};
  return {path, Bytes({static_cast<const uint8_t*>(mapped.data), static_cast<size_t>(mapped.bytes)},
                      std::move(owner))};
}

std::string quoted(std::string_view text) {
  constexpr size_t longest = 60;
  std::string out = "'";
  for (const char c : text.substr(0, longest)) {
    const auto code = static_cast<uint8_t>(c);
    if (code < 0x20 || code >= 0x7f)
      out += "\\x" + hex_text(uint64_t{code}, 2);
    else
      out += c;
  }
  return out + (text.size() > longest ? "...'" : "'");
}

void fail_file(const std::string& name, const std::string& what) {
  const std::string method = current_method();
  fail(ErrorKind::Device,
       text(method.empty() ? "" : "[" + method + "] ", printable(name), ": ", what));
}

void check_memory(const std::string& file, uint64_t bytes) {
  constexpr uint64_t little = 64 << 20;  // not worth the question
  if (bytes <= little) return;
  const auto at_hand = static_cast<uint64_t>(memory_at_hand());
  check_file(bytes <= at_hand, file, "takes ", bytes, " bytes of memory, but ", at_hand,
             " are at hand");
}

void resize(std::vector<uint8_t>& bytes, uint64_t size, const std::string& file) {
  check_memory(file, size);
  try {
    bytes.resize(size);
  } catch (const std::exception&) {
    fail_file(file, text("the host has no ", size, " bytes left to unpack it"));
  }
}

uint64_t byte_size(const std::string& file, std::string_view what, std::span<const int64_t> shape,
                   uint64_t each) {
  check_file(shape.size() <= kMostAxes, file, what, " has ", shape.size(), " axes, more than ",
             kMostAxes);
  auto bytes = static_cast<int64_t>(each);
  bool empty = false, overflows = false;
  for (const int64_t size : shape) {
    check_file(size >= 0, file, what, " has the shape ", shape, ", with a negative size");
    empty |= size == 0;
    overflows |= size > 0 && __builtin_mul_overflow(bytes, size, &bytes);
  }
  check_file(!overflows, file, what, " has the shape ", shape, ", more elements than there can be");
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

void Reader::seek(uint64_t to, const char* field) {
  check(to <= size(), field, " is at byte ", to, ", past the file's ", size(), " bytes");
  at_ = to;
}

std::span<const uint8_t> Reader::take(uint64_t count, const char* field) {
  check(count <= left(), "the file ends in ", field, ": ", count, " bytes from byte ", at_,
        " on, of ", size());
  at_ += count;
  return bytes_.subspan(at_ - count, count);
}

std::string_view Reader::text(uint64_t count, const char* field) {
  const auto bytes = take(count, field);
  const std::string_view out(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!is_utf8(out)) fail_file(name_, mote::text(field, " is not valid UTF-8: ", quoted(out)));
  return out;
}

size_t Reader::plausible(uint64_t count, uint64_t least_bytes, const char* field) {
  check(count <= left() / least_bytes, field, " is ", count, ", more than the ", left(),
        " bytes left can hold");
  return count;
}

}  // namespace mote
