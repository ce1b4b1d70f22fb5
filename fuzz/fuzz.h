// What fuzz targets share. A target is one file that gives arbitrary bytes to one loader, which
// must accept them or throw mote's error, and nothing else. Built with MOTE_FUZZ each target is a
// libFuzzer program; the tests call them all with mutated seeds (test/fuzz_test.cpp).
#pragma once
#include <set>

#include "io/formats.h"

#ifdef MOTE_LIBFUZZER
#define FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
#else
#define FUZZ_TARGET(name) int fuzz_##name(const uint8_t* data, size_t size)
#endif

namespace mote {

constexpr uint64_t kFuzzUnpackedLimit = 1 << 20;

// Calls load(file); returns 0, or -1 where the file is refused. An error of the library's own
// (Internal) is a finding, as any other exception is.
template <class Load>
int fuzz(const uint8_t* data, size_t size, Load load) {
  try {
    load(File{"input", Bytes(std::span(data, size))});
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Internal) throw;
    return -1;
  }
  return 0;
}

// Reads every byte, so that a sanitizer sees those outside.
inline void touch(std::span<const uint8_t> bytes) {
  volatile uint8_t sum = 0;
  for (const uint8_t b : bytes) sum = sum ^ b;
}

// What any parser promises of what it gives; makes the tensors too.
inline void check_contents(const File& file, const FileContents& contents) {
  std::set<std::string_view> names;
  for (const StoredTensor& t : contents.tensors) {
    ensure(is_utf8(t.name) && names.insert(t.name).second, "a name is not valid, or stands twice");
    touch(t.bytes.span());
    if (t.decode) continue;
    ensure(t.strides.empty() || t.strides.size() == t.shape.size(), "strides do not fit the shape");
    const uint64_t bytes =
        byte_size(file.name, "a tensor", t.shape, static_cast<uint64_t>(size_of(t.dtype)));
    ensure(!t.strides.empty() || bytes == t.bytes.size(), "the bytes do not fit the shape");
  }
  if (!contents.archive) make_tensors(file, contents);
}

}  // namespace mote
