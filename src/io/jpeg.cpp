// JPEG by libturbojpeg, which is opened at run time.
#include <dlfcn.h>

#include "io/compress.h"
#include "io/picture.h"

namespace mote {

namespace {

// The part of turbojpeg.h that is used; the same since version 1.4.
struct Turbo {
  void* (*init)();
  int (*header)(void*, const uint8_t*, unsigned long, int* width, int* height, int* sampling,
                int* colorspace);
  int (*run)(void*, const uint8_t*, unsigned long, uint8_t*, int width, int pitch, int height,
             int format, int flags);
  int (*destroy)(void*);
  const char* (*error)(void*);
};
constexpr int format_rgb = 0, format_grey = 6, colorspace_grey = 2;

const Turbo& turbo(const std::string& name) {
  static const Turbo functions = [&] {
    void* library = ::dlopen("libturbojpeg.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      fail_file(name,
                text("is a JPEG picture, and reading it needs libturbojpeg.so.0, which cannot "
                     "be opened (",
                     ::dlerror(),
                     "); on Debian it is in the package "
                     "libturbojpeg0"));
    auto get = [&](const char* symbol) {
      void* found = ::dlsym(library, symbol);
      ensure(found != nullptr, "libturbojpeg has no ", symbol);
      return found;
    };
    Turbo t{};
    t.init = reinterpret_cast<decltype(t.init)>(get("tjInitDecompress"));
    t.header = reinterpret_cast<decltype(t.header)>(get("tjDecompressHeader3"));
    t.run = reinterpret_cast<decltype(t.run)>(get("tjDecompress2"));
    t.destroy = reinterpret_cast<decltype(t.destroy)>(get("tjDestroy"));
    t.error = reinterpret_cast<decltype(t.error)>(get("tjGetErrorStr2"));
    return t;
  }();
  return functions;
}

}  // namespace

bool is_jpeg(const File& file) { return file.bytes.text().starts_with("\xff\xd8\xff"); }

Picture parse_jpeg(const File& file) {
  check_file(is_jpeg(file), file.name, "is not a JPEG file");
  const Turbo& t = turbo(file.name);
  struct Handle {
    const Turbo& turbo;
    void* handle;
    ~Handle() { turbo.destroy(handle); }
  } open{t, t.init()};
  const size_t size = file.bytes.size();
  auto check_done = [&](int status) {
    check_file(status == 0, file.name,
               "the picture cannot be read: ", printable(t.error(open.handle)));
  };
  int width = 0, height = 0, sampling = 0, colorspace = 0;
  check_done(
      t.header(open.handle, file.bytes.data(), size, &width, &height, &sampling, &colorspace));
  Picture out{width, height, colorspace == colorspace_grey ? 1 : 3, {}};
  const auto bytes = static_cast<uint64_t>(out.width) * static_cast<uint64_t>(out.height) *
                     static_cast<uint64_t>(out.channels);
  const UnpackLimit limit = unpack_limit(size);
  check_file(bytes <= limit.bytes, file.name, "a picture of ", width, " x ", height, " takes ",
             bytes, " bytes, more than ", limit.bytes, " bytes, ", limit.why);
  resize(out.pixels, bytes, file.name);
  check_done(t.run(open.handle, file.bytes.data(), size, out.pixels.data(), width, 0, height,
                   out.channels == 1 ? format_grey : format_rgb, 0));
  return out;
}

}  // namespace mote
