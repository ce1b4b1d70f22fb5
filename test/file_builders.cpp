#include "test/file_builders.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "io/picture.h"

namespace mote::test {

std::string patched(std::string bytes, size_t at, const std::string& with) {
  if (at > bytes.size()) throw std::runtime_error("patched: outside");
  return bytes.replace(at, with.size(), with);
}

std::string cut(const std::string& bytes, size_t size) { return bytes.substr(0, size); }

std::string make_safetensors(const std::string& header, const std::string& data) {
  return le(uint64_t{header.size()}) + header + data;
}

std::string make_npy(const std::string& dict, const std::string& data, int version) {
  std::string out = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  out += version == 1 ? le(static_cast<uint16_t>(dict.size()))
                      : le(static_cast<uint32_t>(dict.size()));
  return out + dict + data;
}

namespace {

// One zlib stream: window 31 for gzip, -15 for raw deflate.
std::string deflated(const std::string& data, int window) {
  z_stream z{};
  if (deflateInit2(&z, 9, Z_DEFLATED, window, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("deflateInit2");
  std::string out(compressBound(data.size()) + 32, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  z.avail_in = static_cast<unsigned>(data.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<unsigned>(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace

std::string make_gzip(const std::string& data) { return deflated(data, 31); }

std::string make_zip(const std::vector<TestEntry>& entries) {
  std::string out, directory;
  for (const TestEntry& e : entries) {
    const std::string packed = e.deflated ? deflated(e.data, -15) : e.data;
    const auto crc = static_cast<uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(e.data.data()), static_cast<uInt>(e.data.size())));
    const std::string common = le<uint16_t>(20) + le<uint16_t>(0) +
                               le<uint16_t>(e.deflated ? 8 : 0) + le<uint32_t>(0) + le(crc) +
                               le(static_cast<uint32_t>(packed.size())) +
                               le(static_cast<uint32_t>(e.data.size())) +
                               le(static_cast<uint16_t>(e.name.size())) + le<uint16_t>(0);
    directory += "PK\1\2" + le<uint16_t>(20) + common + std::string(10, '\0') +
                 le(static_cast<uint32_t>(out.size())) + e.name;
    out += "PK\3\4" + common + e.name + packed;
  }
  const auto count = static_cast<uint16_t>(entries.size());
  return out + directory + "PK\5\6" + std::string(4, '\0') + le(count) + le(count) +
         le(static_cast<uint32_t>(directory.size())) + le(static_cast<uint32_t>(out.size())) +
         le<uint16_t>(0);
}

void set_tar_sum(std::string& bytes, size_t header) {
  bytes.replace(header + 148, 8, 8, ' ');
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>(bytes[header + i]);
  char digits[8];
  std::snprintf(digits, sizeof digits, "%06o", sum);
  bytes.replace(header + 148, 7, digits, 7);
}

std::string make_tar(const std::vector<TestEntry>& entries, bool end) {
  std::string out;
  for (const TestEntry& e : entries) {
    const size_t at = out.size();
    out.append(512, '\0');
    out.replace(at, e.name.size(), e.name);
    char size[13];
    std::snprintf(size, sizeof size, "%011zo", e.data.size());
    out.replace(at + 124, 12, size, 12);
    out[at + 156] = e.type;
    out.replace(at + 257, 8, std::string("ustar\00000", 8));
    set_tar_sum(out, at);
    out += e.data;
    out.append((512 - e.data.size() % 512) % 512, '\0');
  }
  if (end) out.append(1024, '\0');
  return out;
}

std::string pickle_text(const std::string& text) {
  return "X" + le(static_cast<uint32_t>(text.size())) + text;
}

std::string pickle_global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}

namespace {

std::string pickle_number(int n) { return "J" + le(n); }

std::string pickle_numbers(const std::vector<int>& numbers) {
  std::string out = "(";
  for (const int n : numbers) out += pickle_number(n);
  return out + "t";
}

// A dict with a transposed tensor, a shared storage, a list, nested values and the memo.
std::string seed_pickle() {
  const std::string storage = pickle_storage("0", 24);
  return "\x80\x02}q" + le<uint8_t>(0) + "(" + pickle_text("a") + "q" + le<uint8_t>(1) +
         pickle_tensor(storage, 0, {4, 6}, {6, 1}) + pickle_text("t") +
         pickle_tensor(storage, 2, {3, 4}, {1, 4}) + pickle_text("nested") + "}(" +
         pickle_text("epoch") + "K\x03" + pickle_text("rate") + "G" +
         std::string("\x3f\xf0\0\0\0\0\0\0", 8) + pickle_text("list") + "](K\x01K\x02\x88Ne" +
         pickle_text("again") + "h\x01u" + pickle_text("state") +
         pickle_global("collections", "OrderedDict") + ")R(" + pickle_text("w") +
         pickle_tensor(storage, 23, {}, {}) + "u" + "u.";
}

std::string seed_gguf() {
  auto text = [](const std::string& s) { return le(uint64_t{s.size()}) + s; };
  std::string out = "GGUF" + le<uint32_t>(3) + le<uint64_t>(2) + le<uint64_t>(3);
  out += text("general.name") + le<uint32_t>(8) + text("seed");
  out += text("numbers") + le<uint32_t>(9) + le<uint32_t>(4) + le<uint64_t>(3);
  out += le<uint32_t>(1) + le<uint32_t>(2) + le<uint32_t>(3);
  out += text("rate") + le<uint32_t>(6) + le(0.5f);
  out += text("plain") + le<uint32_t>(2) + le<uint64_t>(4) + le<uint64_t>(2);
  out += le<uint32_t>(0) + le<uint64_t>(0);
  out += text("blocks") + le<uint32_t>(1) + le<uint64_t>(32) + le<uint32_t>(8) + le<uint64_t>(32);
  out.append((32 - out.size() % 32) % 32, '\0');
  return out + std::string(32 + 34, '\1');
}

std::string seed_xz() {
  constexpr const char* digits =
      "fd377a585a0000016922de36020021010c0000008f98419ce0004f00225d0030880a671395ff2639ff75"
      "779c66b9350439ceddf8e722a4034888876b55ed768000000000fcc08df800013a50a63a446e9042990d"
      "010000000001595a";
  std::string out;
  for (size_t i = 0; i < std::strlen(digits); i += 2)
    out += static_cast<char>(std::stoi(std::string(digits + i, 2), nullptr, 16));
  return out;
}

}  // namespace

std::string pickle_storage(const std::string& key, int count, const std::string& type) {
  return "(" + pickle_text("storage") + pickle_global("torch", type) + pickle_text(key) +
         pickle_text("cpu") + pickle_number(count) + "tQ";
}

std::string pickle_tensor(const std::string& storage, int offset, const std::vector<int>& shape,
                          const std::vector<int>& strides) {
  return pickle_global("torch._utils", "_rebuild_tensor_v2") + "(" + storage +
         pickle_number(offset) + pickle_numbers(shape) + pickle_numbers(strides) + "\x89" +
         pickle_global("collections", "OrderedDict") + ")RtR";
}

std::string make_torch(const std::string& pickle, const std::vector<std::string>& storages) {
  std::vector<TestEntry> entries{
      {"archive/data.pkl",  pickle  },
      {"archive/byteorder", "little"}
  };
  for (const std::string& s : storages)
    entries.push_back({"archive/data/" + std::to_string(entries.size() - 2), s});
  entries.push_back({"archive/version", "3\n"});
  return make_zip(entries);
}

std::string make_zstd(const std::string& bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  std::string out("\x28\xb5\x2f\xfd\x20", 5);
  out += static_cast<char>(size);
  return out + le<uint32_t>(size << 3 | 1).substr(0, 3) + bytes;
}

namespace {

std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}

std::string words(unsigned field, const std::string& list) {
  std::string out;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(' ', at), list.size());
    out += pb(field, list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

}  // namespace

std::string pb_int(unsigned field, uint64_t value) { return varint(field << 3) + varint(value); }
std::string pb(unsigned field, const std::string& bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string onnx_node(const std::string& op, const std::string& inputs, const std::string& outputs,
                      const std::string& more) {
  return pb(1, words(1, inputs) + words(2, outputs) + pb(4, op) + more);
}

std::string onnx_port(const std::string& name, unsigned type, const std::vector<int64_t>& dims) {
  std::string shape;
  for (const int64_t d : dims) shape += pb(1, pb_int(1, static_cast<uint64_t>(d)));
  return pb(1, name) + pb(2, pb(1, pb_int(1, type) + pb(2, shape)));
}

std::string onnx_tensor(const std::string& name, unsigned type, const std::vector<int64_t>& dims,
                        const std::string& raw) {
  std::string out;
  for (const int64_t d : dims) out += pb_int(1, static_cast<uint64_t>(d));
  return out + pb_int(2, type) + pb(8, name) + pb(9, raw);
}

std::string onnx_model(const std::string& graph, unsigned opset) {
  return pb_int(1, 10) + pb(7, graph) + pb(8, pb(1, "") + pb_int(2, opset));
}

static std::string seed_onnx() {
  const std::string branch = onnx_node("Identity", "w", "b") + pb(12, onnx_port("b", 1, {2}));
  auto graph_attribute = [&](const char* name) {
    return pb(5, pb(1, name) + pb(6, branch) + pb_int(20, 5));
  };
  return onnx_model(
      onnx_node("Add", "x w", "y", pb(3, "sum")) +
      onnx_node("If", "c", "z", graph_attribute("then_branch") + graph_attribute("else_branch")) +
      pb(5, onnx_tensor("w", 1, {2}, std::string(8, '\1'))) +
      pb(5, onnx_tensor("q", 22, {3}, "ab")) + pb(11, onnx_port("x", 1, {2})) +
      pb(11, onnx_port("c", 9, {})) + pb(12, onnx_port("y", 1, {2})) +
      pb(12, onnx_port("z", 1, {2})));
}

// clang-format off
std::vector<SeedFile> seed_files() {
  const std::string safetensors = make_safetensors(
      R"({"__metadata__": {"step": "3"}, "w": {"dtype": "F32", "shape": [2, 3], )"
      R"("data_offsets": [0, 24]}, "b\u00e9": {"dtype": "U8", "shape": [], )"
      R"("data_offsets": [24, 25]}})", std::string(25, '\1'));
  const std::string npy = make_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n",
                                   std::string(24, '\1'));
  const std::string npz = make_zip({{"a.npy", npy}, {"folder/b.npy", npy, true}, {"folder/", ""}});
  const std::string tar = make_tar({
      {"long", std::string("a/long/name\0", 12), false, 'L'},
      {"x", "hello"},
      {"pax", "14 path=a/pax\n10 size=3\n", false, 'x'},
      {"y", "abc"},
      {"link", "", false, '2'},
  });
  return {
      {"safetensors", safetensors},
      {"npy", npy},
      {"npy", make_npy("{'shape': (3,), 'fortran_order': False, 'descr': '|b1'}", "abc", 3)},
      {"npz", npz},
      {"zip", npz},
      {"tar", tar},
      {"gzip", make_gzip("some text, some text, some text") + make_gzip("more")},
      {"xz", seed_xz()},
      {"zstd", make_zstd("some text, some text, some text")},
      {"onnx", seed_onnx()},
      {"json", R"({"a": [1, -2.5e3, true, null, "\u00e9\ud83d\ude00\n"], "b": {"c": []}})"},
      {"pickle", seed_pickle()},
      {"torch", make_torch(seed_pickle(), {std::string(96, '\1')})},
      {"gguf", seed_gguf()},
      {"idx", std::string("\0\0\x08\x02\0\0\0\x02\0\0\0\x03", 12) + "abcdef"},
      {"png", png_text({5, 4, 3, std::vector<uint8_t>(60, 9)})},
      {"png", png_text({3, 2, 1, {0, 50, 100, 150, 200, 250}})},
      {"vocabulary", seed_vocabularies()[0]},
      {"vocabulary", seed_vocabularies()[1]},
      {"vocabulary", seed_vocabularies()[2]},
  };
}
// clang-format on

}  // namespace mote::test
