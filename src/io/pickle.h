// Python pickles of tensors, read and never run. A pickle is a program for a small stack machine;
// of the things it could call, only those in a short table are known, and each is imitated here.
// Anything else is an error that names it. Memory is a multiple of the bytes that the pickle takes
// in its file, where it may be compressed; more is an error.
#pragma once
#include <deque>
#include <functional>

#include "io/formats.h"

namespace mote {

class Pickle {
 public:
  enum Kind : uint8_t { None, Bool, Int, Float, Text, Tuple, List, Dict, Tensor, Storage, Global };
  struct Value {
    Kind kind = None;
    uint32_t length = 0;  // of a text
    union {
      int64_t number = 0;  // or which container, tensor, storage or global
      double real;
      const char* text;
    };
    std::string_view as_text() const { return {text, length}; }
  };

  // `storage` gives the bytes of a storage by its key, `stored` says how many bytes the pickle
  // takes in its file. The file must outlive the pickle.
  using FindStorage = std::function<Bytes(std::string_view key)>;
  Pickle(const File& file, const FindStorage& storage, uint64_t stored);

  const Value& root() const { return root_; }
  // Items of a tuple or list; of a dict keys and values in turns. A container can hold itself.
  std::span<const Value> items(const Value& container) const {
    return containers_[static_cast<size_t>(container.number)];
  }
  const StoredTensor& tensor(const Value& v) const {
    return tensors_[static_cast<size_t>(v.number)];
  }
  static std::string global_name(const Value& v);  // "torch.float32"

 private:
  friend class Unpickler;
  std::deque<std::vector<Value>> containers_;
  std::deque<StoredTensor> tensors_;
  Value root_;
};

// Dicts, lists and tuples as tensors with dotted names; plain values become metadata. Shared
// containers can stand for far more values than there are bytes: what comes out is held to a
// multiple of the pickle's stored size.
FileContents flatten(const File& file, const Pickle& pickle, uint64_t stored);

}  // namespace mote
