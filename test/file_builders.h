// Files made byte by byte, for tests of loaders: well-formed ones, to be broken by the caller.
// Independent of the library's own writers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace mote::test {

// Little-endian bytes of a number.
template <class T>
std::string le(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// `bytes` with those from `at` on replaced, or cut to `size`.
std::string patched(std::string bytes, size_t at, const std::string& with);
std::string cut(const std::string& bytes, size_t size);

std::string make_safetensors(const std::string& header, const std::string& data);
std::string make_npy(const std::string& dict, const std::string& data, int version = 1);

struct TestEntry {
  std::string name, data;
  bool deflated = false;  // of a zip
  char type = '0';        // of a tar
};
std::string make_zip(const std::vector<TestEntry>& entries);
std::string make_tar(const std::vector<TestEntry>& entries, bool end = true);
void set_tar_sum(std::string& bytes, size_t header);  // makes the header at this byte valid
std::string make_gzip(const std::string& data);

// A checkpoint with this pickle and storages "0", "1", ...
std::string make_torch(const std::string& pickle, const std::vector<std::string>& storages);
// Pieces of pickles: a text, a global, a storage of f32, a tensor of it.
std::string pickle_text(const std::string& text);
std::string pickle_global(const std::string& module, const std::string& name);
std::string pickle_storage(const std::string& key, int count,
                           const std::string& type = "FloatStorage");
std::string pickle_tensor(const std::string& storage, int offset, const std::vector<int>& shape,
                          const std::vector<int>& strides);

// One well-formed file of each kind, with several features each.
// One frame of at most 255 bytes, stored.
std::string make_zstd(const std::string& bytes);

// Fields of protocol buffers: a number, and bytes or a message.
std::string pb_int(unsigned field, uint64_t value);
std::string pb(unsigned field, const std::string& bytes);
// Parts of ONNX files; a list of inputs or outputs is words between spaces.
std::string onnx_node(const std::string& op, const std::string& inputs, const std::string& outputs,
                      const std::string& more = "");
std::string onnx_port(const std::string& name, unsigned type, const std::vector<int64_t>& dims);
std::string onnx_tensor(const std::string& name, unsigned type, const std::vector<int64_t>& dims,
                        const std::string& raw);
// The graph's fields as a model.
std::string onnx_model(const std::string& graph, unsigned opset = 21);

struct SeedFile {
  const char* target;
  std::string bytes;
};
std::vector<SeedFile> seed_files();
std::vector<std::string> seed_vocabularies();

}  // namespace mote::test
