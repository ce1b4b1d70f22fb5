// Files and memory read without trust: bytes that keep themselves alive, and a reader that stops at
// their end. Whatever is wrong with a file is one error: "[method] name: what is wrong".
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"

namespace mote {

// Read-only bytes and a share in whatever holds them: a mapped file, the output of a decompressor.
// Copies and parts share; without an owner the bytes are the caller's.
class Bytes {
 public:
  Bytes() = default;
  explicit Bytes(std::span<const uint8_t> view, std::shared_ptr<const void> owner = {})
      : view_(view), owner_(std::move(owner)) {}
  explicit Bytes(std::vector<uint8_t> bytes);

  const uint8_t* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  std::span<const uint8_t> span() const { return view_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(view_.data()), view_.size()};
  }
  Bytes part(size_t offset, size_t size) const;  // must lie inside
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::span<const uint8_t> view_;
  std::shared_ptr<const void> owner_;
};

// What loaders take. The name is for errors: a path, or "weights.npz: layer.npy" for a part of one.
struct File {
  std::string name;
  Bytes bytes;
};

// The whole file, mapped. Device error if it cannot be.
File open_file(const std::string& path);

// For error texts: in quotes, cut to 60 bytes, with what does not print escaped.
std::string quoted(std::string_view text);

// Throws "[method] name: parts". All that is wrong with the content of files comes through here.
[[noreturn]] void fail_file(const std::string& name, const std::string& what);
template <class... A>
void check_file(bool ok, const std::string& name, const A&... parts) {
  if (!ok) [[unlikely]]
    fail_file(name, text(parts...));
}

// An error where this much more memory is not at hand: before it is taken, for a system that
// promises more than it has ends programs.
void check_memory(const std::string& file, uint64_t bytes);

// Sets aside memory; one device error in place of std::bad_alloc.
void resize(std::vector<uint8_t>& bytes, uint64_t size, const std::string& file);

// Of a tensor in a file. PyTorch's kernels take no more either.
constexpr size_t kMostAxes = 64;

// The bytes of a shape of elements of `each` bytes; errors name what has the shape when it has too
// many axes, a size is negative or the product is more than there can be.
uint64_t byte_size(const std::string& file, std::string_view what, std::span<const int64_t> shape,
                   uint64_t each);

// Reads little-endian fields one after another. A read names its field, for the error when the file
// ends inside it.
class Reader {
 public:
  explicit Reader(const File& file) : Reader(file.name, file.bytes.span()) {}
  Reader(std::string name, std::span<const uint8_t> bytes)
      : name_(std::move(name)), bytes_(bytes) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  size_t size() const { return bytes_.size(); }
  void seek(uint64_t to, const char* field);
  void skip(uint64_t count, const char* field) { take(count, field); }

  template <class T>
  requires std::is_arithmetic_v<T> T read(const char* field) {
    T value;
    std::memcpy(&value, take(sizeof(T), field).data(), sizeof(T));
    return value;
  }
  uint8_t u8(const char* field) { return read<uint8_t>(field); }
  uint16_t u16(const char* field) { return read<uint16_t>(field); }
  uint32_t u32(const char* field) { return read<uint32_t>(field); }
  uint64_t u64(const char* field) { return read<uint64_t>(field); }

  std::span<const uint8_t> take(uint64_t count, const char* field);
  std::string_view text(uint64_t count, const char* field);  // must be UTF-8
  // `count` if that many things of at least `least_bytes` each can still follow. To be asked before
  // memory is set aside for them.
  size_t plausible(uint64_t count, uint64_t least_bytes, const char* field);

  template <class... A>
  void check(bool ok, const A&... parts) {
    check_file(ok, name_, parts...);
  }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

}  // namespace mote
