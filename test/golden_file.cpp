#include "golden_file.h"

#include <zlib.h>

#include <cstring>
#include <stdexcept>
#include <string_view>

#include "test_paths.h"

namespace mote::test {

namespace {

std::string inflate_file(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file) throw std::runtime_error("[goldens] cannot open " + path);
  std::string data;
  char block[1 << 16];
  int got;
  while ((got = gzread(file, block, sizeof block)) > 0)
    data.append(block, static_cast<size_t>(got));
  gzclose(file);
  if (got < 0) throw std::runtime_error("[goldens] " + path + " does not inflate");
  return data;
}

DType parse_dtype_name(std::string_view text) {
  for (int d = 0; d < kDTypes; d++)
    if (text == name(static_cast<DType>(d))) return static_cast<DType>(d);
  throw std::runtime_error("[goldens] unknown dtype " + std::string(text));
}

class Cursor {
 public:
  Cursor(std::string path, std::string_view data) : path_(std::move(path)), data_(data) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string string() { return std::string(take(number<uint32_t>())); }
  template <class T>
  std::vector<T> list() {
    std::vector<T> out(number<uint32_t>());
    for (T& v : out) v = number<T>();
    return out;
  }
  std::string_view take(size_t n) {
    if (n > data_.size() - at_) fail("ends early");
    at_ += n;
    return data_.substr(at_ - n, n);
  }
  void fail(const std::string& why) const {
    throw std::runtime_error("[goldens] " + path_ + " " + why + " at byte " + std::to_string(at_));
  }
  bool at_end() const { return at_ == data_.size(); }

 private:
  std::string path_;
  std::string_view data_;
  size_t at_ = 0;
};

GoldenTensor read_tensor(Cursor& in) {
  GoldenTensor t;
  t.dtype = parse_dtype_name(in.string());
  t.shape = in.list<int64_t>();
  t.bytes = std::string(in.take(in.number<uint64_t>()));
  if (t.bytes.size() != static_cast<size_t>(t.numel() * size_of(t.dtype)))
    in.fail("has a tensor of the wrong size");
  return t;
}

std::optional<GoldenTensor> read_optional(Cursor& in) {
  if (!in.number<uint8_t>()) return std::nullopt;
  return read_tensor(in);
}

Attr read_attr(Cursor& in) {
  switch (in.number<uint8_t>()) {
    case 'b': return in.number<uint8_t>() != 0;
    case 'i': return in.number<int64_t>();
    case 'f': return in.number<double>();
    case 's': return in.string();
    case 'I': return in.list<int64_t>();
    case 'F': return in.list<double>();
  }
  in.fail("has an unknown attribute kind");
  return {};
}

GoldenCase read_case(Cursor& in) {
  GoldenCase c;
  c.name = in.string();
  c.op = in.string();
  for (uint32_t n = in.number<uint32_t>(); n > 0; n--) {
    std::string key = in.string();
    c.attrs[key] = read_attr(in);
  }
  for (uint32_t n = in.number<uint32_t>(); n > 0; n--) {
    std::string role = in.string();
    c.inputs.push_back({role, read_tensor(in)});
  }
  for (uint32_t n = in.number<uint32_t>(); n > 0; n--) {
    GoldenTensor value = read_tensor(in);
    c.outputs.push_back({std::move(value), read_optional(in)});
  }
  for (uint32_t n = in.number<uint32_t>(); n > 0; n--) c.gradients.push_back(read_optional(in));
  return c;
}

template <class T>
std::string list_text(const std::vector<T>& list) {
  std::string out;
  for (T v : list) out += (out.empty() ? "" : ", ") + std::to_string(v);
  return "[" + out + "]";
}

std::string attr_text(const Attr& attr) {
  if (auto* s = std::get_if<std::string>(&attr)) return '"' + *s + '"';
  if (auto* b = std::get_if<bool>(&attr)) return *b ? "true" : "false";
  if (auto* i = std::get_if<int64_t>(&attr)) return std::to_string(*i);
  if (auto* f = std::get_if<double>(&attr)) return std::to_string(*f);
  if (auto* l = std::get_if<std::vector<int64_t>>(&attr)) return list_text(*l);
  return list_text(std::get<std::vector<double>>(attr));
}

}  // namespace

int64_t GoldenTensor::numel() const {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

std::string GoldenCase::attrs_text() const {
  std::string out;
  for (auto& [key, value] : attrs) out += (out.empty() ? "" : ", ") + key + "=" + attr_text(value);
  return out;
}

GoldenFile read_goldens(const std::string& path) {
  std::string data = inflate_file(path);
  Cursor in(path, data);
  if (in.take(8) != "MOTEGOLD" || in.number<uint32_t>() != 1) in.fail("is no golden file");
  GoldenFile file;
  file.header = in.string();
  uint32_t count = in.number<uint32_t>();
  for (uint32_t i = 0; i < count; i++) file.cases.push_back(read_case(in));
  if (!in.at_end()) in.fail("goes on after the last case");
  return file;
}

GoldenFile read_goldens(std::initializer_list<const char*> names) {
  GoldenFile all;
  for (const char* name : names) {
    GoldenFile file = read_goldens(MOTE_SOURCE_DIR "/test/goldens/" + std::string(name));
    all.header += file.header;
    for (GoldenCase& c : file.cases) all.cases.push_back(std::move(c));
  }
  return all;
}

}  // namespace mote::test
