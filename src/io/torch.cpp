// PyTorch checkpoints: a zip with a pickle (data.pkl) and one entry per storage (data/0, ...).
#include <algorithm>
#include <map>

#include "io/archive.h"
#include "io/pickle.h"
#include "tensor/impl.h"

namespace mote {

namespace {

constexpr std::string_view pickle_name = "data.pkl";

// "archive/data.pkl"
const ArchiveEntry& find_pickle(const std::string& file, const std::vector<ArchiveEntry>& entries) {
  for (const ArchiveEntry& e : entries)
    if (is_torch_pickle(e.name)) return e;
  fail_file(file, "is a zip archive without a data.pkl, not a PyTorch checkpoint");
}

class Flatten {
 public:
  Flatten(const File& file, const Pickle& pickle, uint64_t stored, FileContents& out)
      : file_(file.name), pickle_(pickle), out_(out), budget_(64 * stored + 4096) {}

  void visit(const Pickle::Value& v, const std::string& name, int depth = 0) {
    check_file(depth < deepest, file_, "dicts and lists are more than ", deepest, " levels deep");
    spend(name.size() + 1);
    if (v.kind == Pickle::Tensor) {
      StoredTensor t = pickle_.tensor(v);
      spend(sizeof t + 2 * sizeof(int64_t) * t.shape.size());
      t.name = name;
      out_.tensors.push_back(std::move(t));
    } else if (v.kind == Pickle::Dict) {
      const auto items = pickle_.items(v);
      for (size_t i = 0; i < items.size(); i += 2)
        visit(items[i + 1], join_path(name, key_text(items[i])), depth + 1);
    } else if ((v.kind == Pickle::List || v.kind == Pickle::Tuple) && !is_plain_list(v)) {
      size_t i = 0;
      for (const Pickle::Value& item : pickle_.items(v))
        visit(item, join_path(name, std::to_string(i++)), depth + 1);
    } else {
      out_.metadata.push_back({name, value_text(v)});
    }
  }

 private:
  static constexpr int deepest = 64;

  void spend(size_t amount) {
    check_file(amount <= budget_, file_,
               "the pickle names the same values over and over, far more than its size allows");
    budget_ -= amount;
  }
  static bool is_plain(const Pickle::Value& v) { return v.kind <= Pickle::Text; }
  bool is_plain_list(const Pickle::Value& v) const {
    const auto items = pickle_.items(v);
    return std::all_of(items.begin(), items.end(), is_plain);
  }
  std::string key_text(const Pickle::Value& key) {
    check_file(key.kind == Pickle::Text || key.kind == Pickle::Int, file_,
               "a dict's key is neither a text nor a whole number");
    return value_text(key);
  }
  std::string value_text(const Pickle::Value& v) {
    std::string out =
        v.kind == Pickle::List || v.kind == Pickle::Tuple ? list_text(v) : plain_text(v);
    spend(out.size());
    return out;
  }
  std::string list_text(const Pickle::Value& list) {
    std::string out;
    for (const Pickle::Value& v : pickle_.items(list))
      out += (out.empty() ? "" : ", ") + value_text(v);
    return "[" + out + "]";
  }
  std::string plain_text(const Pickle::Value& v) {
    switch (v.kind) {
      case Pickle::None: return "None";
      case Pickle::Bool: return v.number ? "True" : "False";
      case Pickle::Int: return std::to_string(v.number);
      case Pickle::Float: return text(v.real);
      case Pickle::Text: return std::string(v.as_text());
      case Pickle::Global: return Pickle::global_name(v);
      default: return "(storage)";
    }
  }

  const std::string& file_;
  const Pickle& pickle_;
  FileContents& out_;
  size_t budget_;
};

void check_byte_order(const File& file, const std::vector<ArchiveEntry>& entries,
                      const std::string& prefix) {
  for (const ArchiveEntry& e : entries)
    if (e.name == prefix + "byteorder")
      check_file(unpack(file, e).text() == "little", file.name,
                 "byteorder is not little; only little-endian files are read");
}

}  // namespace

bool is_torch_pickle(std::string_view name) {
  return name.ends_with(pickle_name) && name.find('/') == name.size() - pickle_name.size() - 1;
}

bool is_old_torch(const File& file) {
  constexpr std::string_view pickled_magic(
      "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 14);
  return file.bytes.text().starts_with(pickled_magic);
}

FileContents flatten(const File& file, const Pickle& pickle, uint64_t stored) {
  FileContents out{.format = "torch"};
  Flatten(file, pickle, stored, out).visit(pickle.root(), "");
  std::vector<std::string_view> names;
  for (const StoredTensor& t : out.tensors) names.push_back(t.name);
  check_distinct_names(file.name, std::move(names));
  return out;
}

FileContents parse_torch(const File& file) {
  check_file(!is_old_torch(file), file.name,
             "is what torch.save wrote before PyTorch 1.6; load and save it with a newer one");
  check_file(is_zip(file.bytes.span()), file.name, "is not a zip archive");
  const std::vector<ArchiveEntry> entries = list_zip(file);
  check_unpacked_size(file, entries);
  const ArchiveEntry& entry = find_pickle(file.name, entries);
  const std::string prefix = entry.name.substr(0, entry.name.size() - pickle_name.size());
  check_byte_order(file, entries, prefix);
  const std::string folder = prefix + "data/";
  std::map<std::string, Bytes, std::less<>> storages;
  uint64_t unpacked = 0;
  for (const ArchiveEntry& e : entries) {
    if (!e.name.starts_with(folder)) continue;
    storages[e.name.substr(folder.size())] = unpack(file, e);
    if (e.deflated) unpacked += e.size;
  }
  const File content{file.name + ": " + entry.name, unpack(file, entry)};
  check_file(crc32(content.bytes.span()) == entry.crc, content.name,
             "does not match its checksum");
  auto storage_of = [&](std::string_view key) {
    const auto at = storages.find(key);
    if (at == storages.end()) fail_file(content.name, text("there is no storage ", quoted(key)));
    return at->second;
  };
  const Pickle pickle(content, storage_of, entry.packed);
  FileContents out = flatten(content, pickle, entry.packed);
  out.unpacked = unpacked;
  return out;
}

}  // namespace mote
