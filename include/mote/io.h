// Files of tensors: safetensors, NumPy, PyTorch, GGUF.
//
// Loading maps the file and copies nothing: the tensors are on the device DISK (see file.h), and
// `.to("CPU")` copies each of them once. Names are in the order of the file. Files are not trusted:
// a malformed file is an error that names the file and the field, and no code in a file is ever
// run. Saving is atomic and durable: a temporary file in the same folder is flushed to disk and
// replaces the old one. If anything fails, the old file stays as it was.
#pragma once
#include <mote/fields.h>

#include <string>
#include <utility>
#include <vector>

namespace mote {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Any of these formats, recognised by its content, also compressed by gzip or xz. The tensor of a
// .npy file has the name "".
std::vector<NamedTensor> load(const std::string& path, Loc = MOTE_HERE);

std::vector<NamedTensor> load_safetensors(const std::string& path, Metadata* metadata = nullptr,
                                          Loc = MOTE_HERE);
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata = {}, Loc = MOTE_HERE);

// NumPy has no bf16 and no 8-bit floats: saving one is an error.
Tensor load_npy(const std::string& path, Loc = MOTE_HERE);
void save_npy(const std::string& path, const Tensor& tensor, Loc = MOTE_HERE);
std::vector<NamedTensor> load_npz(const std::string& path, Loc = MOTE_HERE);
void save_npz(const std::string& path, const std::vector<NamedTensor>& tensors,
              Loc = MOTE_HERE);

// Files of torch.save (PyTorch 1.6 or later), read without running their pickle: dicts, lists and
// tuples of tensors and plain values. Nested names are joined by dots ("model.layer.0.weight");
// values that are not tensors are in the file's metadata (file_info).
std::vector<NamedTensor> load_torch(const std::string& path, Loc = MOTE_HERE);
// For torch.load, also with weights_only=True: an OrderedDict of tensors.
void save_torch(const std::string& path, const std::vector<NamedTensor>& tensors,
                Loc = MOTE_HERE);

// The tensors of a GGUF file; quantised ones are graphs that decode them.
std::vector<NamedTensor> load_gguf(const std::string& path, Loc = MOTE_HERE);

// What a file holds, without loading it.
struct FileInfo {
  struct Part {
    std::string name;
    std::string type;  // "f32", a quantised encoding, or "file" in an archive
    std::vector<int64_t> shape;
    int64_t offset = 0;  // in the file, or -1 where the part is compressed
    int64_t bytes = 0;
  };
  std::string format;  // "safetensors", "npy", "npz", "torch", "gguf", "zip", "tar", ...
  int64_t bytes = 0;
  Metadata metadata;
  std::vector<Part> parts;
};
FileInfo file_info(const std::string& path, Loc = MOTE_HERE);

}  // namespace mote
