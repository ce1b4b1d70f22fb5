#include "io/compress.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/memory_at_hand.h"

namespace mote {

namespace {

void* open_library(const std::string& name, const char* file, const char* package) {
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    fail_file(name, text("is compressed, and reading it needs ", file, ", which cannot be opened (",
                         ::dlerror(), "); on Debian it is in the package ", package));
  return library;
}

template <class F>
F* symbol(void* library, const char* name) {
  auto* found = reinterpret_cast<F*>(::dlsym(library, name));
  ensure(found != nullptr, "a compression library has no ", name);
  return found;
}

// The part of zlib.h that is used; its layout has been the same since 1995.
struct ZStream {
  const uint8_t* next_in = nullptr;
  unsigned avail_in = 0;
  unsigned long total_in = 0;
  uint8_t* next_out = nullptr;
  unsigned avail_out = 0;
  unsigned long total_out = 0;
  const char* msg = nullptr;
  void* state = nullptr;
  void* (*zalloc)(void*, unsigned, unsigned) = nullptr;
  void (*zfree)(void*, void*) = nullptr;
  void* opaque = nullptr;
  int data_type = 0;
  unsigned long adler = 0, reserved = 0;
};
constexpr int z_ok = 0, z_stream_end = 1, z_buf_error = -5, z_no_flush = 0;
constexpr int gzip_window = 15 + 16, raw_window = -15;

struct Zlib {
  int (*init)(ZStream*, int window, const char* version, int stream_size);
  int (*run)(ZStream*, int flush);
  int (*reset)(ZStream*);
  int (*end)(ZStream*);
};

const Zlib& zlib(const std::string& name) {
  static const Zlib functions = [&] {
    void* library = open_library(name, "libz.so.1", "zlib1g");
    return Zlib{symbol<int(ZStream*, int, const char*, int)>(library, "inflateInit2_"),
                symbol<int(ZStream*, int)>(library, "inflate"),
                symbol<int(ZStream*)>(library, "inflateReset"),
                symbol<int(ZStream*)>(library, "inflateEnd")};
  }();
  return functions;
}

// The part of lzma.h that is used.
struct LzmaStream {
  const uint8_t* next_in = nullptr;
  size_t avail_in = 0;
  uint64_t total_in = 0;
  uint8_t* next_out = nullptr;
  size_t avail_out = 0;
  uint64_t total_out = 0;
  const void* allocator = nullptr;
  void* internal = nullptr;
  void* reserved_pointers[4] = {};
  uint64_t seek = 0, reserved_integer = 0;
  size_t reserved_sizes[2] = {};
  int reserved_enums[2] = {};
};
constexpr int lzma_ok = 0, lzma_stream_end = 1, lzma_memory_error = 5, lzma_memory_limit = 6;
constexpr int lzma_finish = 3;
constexpr uint32_t lzma_concatenated = 8;
// What `xz -9` needs is 65 MiB; the format allows 4 GiB for a file of a few bytes.
constexpr uint64_t lzma_memory = 80 << 20;

struct Lzma {
  int (*init)(LzmaStream*, uint64_t memory, uint32_t flags);
  int (*run)(LzmaStream*, int action);
  void (*end)(LzmaStream*);
};

const Lzma& lzma(const std::string& name) {
  static const Lzma functions = [&] {
    void* library = open_library(name, "liblzma.so.5", "liblzma5");
    return Lzma{symbol<int(LzmaStream*, uint64_t, uint32_t)>(library, "lzma_stream_decoder"),
                symbol<int(LzmaStream*, int)>(library, "lzma_code"),
                symbol<void(LzmaStream*)>(library, "lzma_end")};
  }();
  return functions;
}

// The part of zstd.h that is used.
struct ZstdPart {
  const void* data = nullptr;
  size_t size = 0, at = 0;
};
struct ZstdRoom {
  void* data = nullptr;
  size_t size = 0, at = 0;
};
struct Zstd {
  void* (*make)();
  size_t (*run)(void* stream, ZstdRoom*, ZstdPart*);
  size_t (*end)(void* stream);
  unsigned (*is_error)(size_t);
  const char* (*error_name)(size_t);
};

const Zstd& zstd(const std::string& name) {
  static const Zstd functions = [&] {
    void* library = open_library(name, "libzstd.so.1", "libzstd1");
    return Zstd{symbol<void*()>(library, "ZSTD_createDStream"),
                symbol<size_t(void*, ZstdRoom*, ZstdPart*)>(library, "ZSTD_decompressStream"),
                symbol<size_t(void*)>(library, "ZSTD_freeDStream"),
                symbol<unsigned(size_t)>(library, "ZSTD_isError"),
                symbol<const char*(size_t)>(library, "ZSTD_getErrorName")};
  }();
  return functions;
}

// Output that doubles its room when it is full, up to the limit. Large blocks grow in place, and
// pages take memory only once they are written to.
class Growing {
 public:
  Growing(const std::string& name, size_t packed, const UnpackLimit& limit)
      : name_(name), limit_(limit) {
    grow(std::min<uint64_t>(packed + 256, limit.bytes));
  }
  // Makes room for more. One byte beyond the limit shows that the limit is exceeded.
  std::span<uint8_t> room() {
    if (used_ == size_) {
      check_limit();
      grow(std::min<uint64_t>(2 * used_ + 1, limit_.bytes + 1));
    }
    return {data_.get() + used_, size_ - used_};
  }
  void use(size_t count) { used_ += count; }
  Bytes finish() {
    check_limit();
    grow(used_);
    const std::span<const uint8_t> all(data_.get(), used_);
    return Bytes(all, std::shared_ptr<const void>(std::move(data_)));
  }

 private:
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  void check_limit() const {
    check_file(used_ <= limit_.bytes, name_, "unpacks to more than ", limit_.bytes, " bytes",
               limit_.why);
  }
  void grow(uint64_t size) {
    void* moved = std::realloc(data_.get(), std::max<size_t>(size, 1));
    if (!moved) fail_file(name_, text("the host has no ", size, " bytes left to unpack it"));
    [[maybe_unused]] void* before = data_.release();
    data_.reset(static_cast<uint8_t*>(moved));
    size_ = size;
  }
  const std::string& name_;
  UnpackLimit limit_;
  std::unique_ptr<uint8_t, Free> data_;
  size_t size_ = 0, used_ = 0;
};

// One zlib stream over the input. The destructor ends it.
class Inflater {
 public:
  Inflater(const std::string& name, std::span<const uint8_t> packed, int window)
      : name_(name), zlib_(zlib(name)), rest_(packed) {
    if (zlib_.init(&stream_, window, "1", sizeof stream_) != z_ok)
      fail(ErrorKind::Device, text(name, ": zlib cannot be started"));
  }
  ~Inflater() { zlib_.end(&stream_); }
  Inflater(const Inflater&) = delete;

  // Fills `out` until it is full or the stream ends, and returns how much was written. Then ended()
  // says whether the stream is complete.
  size_t run(std::span<uint8_t> out) {
    constexpr size_t piece = 1u << 30;  // zlib counts in 32 bits
    size_t done = 0;
    while (!ended_ && done < out.size()) {
      const size_t in = std::min(piece, rest_.size());
      const size_t room = std::min(piece, out.size() - done);
      stream_.next_in = rest_.data(), stream_.avail_in = static_cast<unsigned>(in);
      stream_.next_out = out.data() + done, stream_.avail_out = static_cast<unsigned>(room);
      const int result = zlib_.run(&stream_, z_no_flush);
      rest_ = rest_.subspan(in - stream_.avail_in);
      done += room - stream_.avail_out;
      ended_ = result == z_stream_end;
      check_file(ended_ || result == z_ok || result == z_buf_error, name_,
                 "the compressed data is broken: ", stream_.msg ? stream_.msg : "no reason given");
      check_file(ended_ || stream_.avail_out == 0 || !rest_.empty(), name_,
                 "the compressed data ends early");
    }
    return done;
  }
  bool ended() const { return ended_; }
  std::span<const uint8_t> rest() const { return rest_; }
  void next_member() {
    zlib_.reset(&stream_);
    ended_ = false;
  }

 private:
  const std::string& name_;
  const Zlib& zlib_;
  ZStream stream_;
  std::span<const uint8_t> rest_;
  bool ended_ = false;
};

const char* lzma_problem(int result) {
  switch (result) {
    case lzma_memory_error: return "there is no memory to unpack it";
    case lzma_memory_limit: return "its dictionary is larger than that of xz -9";
    case 7: return "this is not an xz file";
    case 8: return "it uses options that liblzma does not know";
    case 10: return "the compressed data ends early";
    default: return "the compressed data is broken";
  }
}

}  // namespace

UnpackLimit unpack_limit(uint64_t packed, uint64_t most) {
  constexpr uint64_t ratio = 256, always = 64 << 20;
  const uint64_t by_ratio =
      packed > UINT64_MAX / ratio ? UINT64_MAX : std::max(ratio * packed, always);
  const uint64_t may = std::min(most, by_ratio);
  // For a little memory it is not worth asking.
  const uint64_t at_hand = may <= always ? may : static_cast<uint64_t>(memory_at_hand());
  if (at_hand < may) return {at_hand, ", the memory at hand"};
  if (may == most) return {most, ""};
  return {by_ratio, by_ratio == always
                        ? ", far more than its size suggests; unpack it first if you trust it"
                        : ", 256 times its size; unpack it first if you trust it"};
}

bool is_gzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 3 && bytes[0] == 0x1f && bytes[1] == 0x8b && bytes[2] == 8;
}

bool is_xz(std::span<const uint8_t> bytes) {
  return bytes.size() >= 6 && std::memcmp(bytes.data(),
                                          "\xfd"
                                          "7zXZ",
                                          6) == 0;
}

Bytes unpack_gzip(const File& file, uint64_t limit) {
  check_file(is_gzip(file.bytes.span()), file.name, "is not a gzip file");
  Growing out(file.name, file.bytes.size(), unpack_limit(file.bytes.size(), limit));
  Inflater in(file.name, file.bytes.span(), gzip_window);
  for (;;) {
    while (!in.ended()) out.use(in.run(out.room()));
    if (in.rest().empty()) return out.finish();
    check_file(is_gzip(in.rest()), file.name, "has ", in.rest().size(),
               " bytes after the compressed data");
    in.next_member();
  }
}

Bytes unpack_xz(const File& file, uint64_t limit) {
  check_file(is_xz(file.bytes.span()), file.name, "is not an xz file");
  const Lzma& library = lzma(file.name);
  LzmaStream stream;
  Growing out(file.name, file.bytes.size(), unpack_limit(file.bytes.size(), limit));
  const std::unique_ptr<LzmaStream, void (*)(LzmaStream*)> guard(&stream, library.end);
  int result = library.init(&stream, lzma_memory, lzma_concatenated);
  stream.next_in = file.bytes.data(), stream.avail_in = file.bytes.size();
  while (result == lzma_ok) {
    const std::span<uint8_t> room = out.room();
    stream.next_out = room.data(), stream.avail_out = room.size();
    result = library.run(&stream, lzma_finish);
    out.use(room.size() - stream.avail_out);
  }
  check_file(result == lzma_stream_end, file.name, lzma_problem(result));
  return out.finish();
}

bool is_zstd(std::span<const uint8_t> bytes) {
  return bytes.size() >= 4 && std::memcmp(bytes.data(), "\x28\xb5\x2f\xfd", 4) == 0;
}

// All frames. The library refuses windows above 128 MiB by itself.
Bytes unpack_zstd(const File& file, uint64_t limit) {
  check_file(is_zstd(file.bytes.span()), file.name, "is not a zstd file");
  const Zstd& library = zstd(file.name);
  Growing out(file.name, file.bytes.size(), unpack_limit(file.bytes.size(), limit));
  const std::unique_ptr<void, size_t (*)(void*)> stream(library.make(), library.end);
  check_file(stream != nullptr, file.name, "there is no memory to unpack it");
  ZstdPart in{file.bytes.data(), file.bytes.size()};
  size_t left = 1;  // 0: a frame is complete
  for (bool filled = false; in.at < in.size || (filled && left != 0);) {
    const std::span<uint8_t> room = out.room();
    ZstdRoom to{room.data(), room.size()};
    left = library.run(stream.get(), &to, &in);
    check_file(!library.is_error(left), file.name,
               "the compressed data is broken: ", library.error_name(left));
    out.use(to.at);
    filled = to.at == to.size;
  }
  check_file(left == 0, file.name, "the compressed data ends early");
  return out.finish();
}

File unpacked(const File& file, uint64_t limit) {
  if (is_gzip(file.bytes.span())) return {file.name, unpack_gzip(file, limit)};
  if (is_xz(file.bytes.span())) return {file.name, unpack_xz(file, limit)};
  if (is_zstd(file.bytes.span())) return {file.name, unpack_zstd(file, limit)};
  return file;
}

Bytes inflate(const std::string& name, std::span<const uint8_t> packed, uint64_t size) {
  const UnpackLimit limit = unpack_limit(packed.size(), size);
  check_file(limit.bytes >= size, name, "unpacks to ", size, " bytes, more than ", limit.bytes,
             limit.why);
  Growing out(name, packed.size(), {size, ""});
  Inflater in(name, packed, raw_window);
  while (!in.ended()) out.use(in.run(out.room()));
  check_file(in.rest().empty(), name, "has ", in.rest().size(), " bytes after the compressed data");
  Bytes bytes = out.finish();
  check_file(bytes.size() == size, name, "unpacks to ", bytes.size(), " bytes, not to ", size);
  return bytes;
}

// Eight bytes at a time, by eight tables of 256 remainders.
uint32_t crc32(std::span<const uint8_t> bytes, uint32_t before) {
  static const auto tables = [] {
    std::array<std::array<uint32_t, 256>, 8> t;
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t c = i;
      for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
      t[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; ++i)
      for (int k = 1; k < 8; ++k) t[k][i] = t[0][t[k - 1][i] & 0xff] ^ t[k - 1][i] >> 8;
    return t;
  }();
  uint32_t crc = ~before;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + i, 8);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < 8; ++k) crc ^= tables[7 - k][word >> 8 * k & 0xff];
  }
  for (; i < bytes.size(); ++i) crc = tables[0][(crc ^ bytes[i]) & 0xff] ^ crc >> 8;
  return ~crc;
}

}  // namespace mote
