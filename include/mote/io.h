// Files of tensors: safetensors, NumPy, PyTorch, GGUF.
//
// Loading maps the file and copies nothing: the tensors live on DISK (see file.h), and `.to("CPU")`
// copies each once. Names come in the order of the file. Files are not trusted: a malformed one is
// an error that names the file and the field, and nothing in a file is ever run.
// Saving is atomic and durable: a temporary file in the same folder, flushed to disk, takes the
// place of the old one, which stays as it was if anything fails.
#pragma once
#include <mote/fields.h>

#include <string>
#include <utility>
#include <vector>

namespace mote {

using Metadata = std::vector<std::pair<std::string, std::string>>;

// Any of the formats, recognised by content; gzip and xz around it are undone. A .npy file's tensor
// has the name "".
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

// What torch.save writes since PyTorch 1.6, read without running it: dicts, lists and tuples of
// tensors and plain values. Nested names are joined with dots ("model.layer.0.weight"); what is not
// a tensor is in the file's metadata.
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
