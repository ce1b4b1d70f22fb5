#include <mote/checkpoint.h>
#include <mote/nn.h>

#include <algorithm>

#include "base/error.h"
#include "base/number.h"
#include "base/utf8.h"
#include "io/formats.h"
#include "nn/parameters.h"
#include "tensor/impl.h"

namespace mote {

namespace checkpoint_text {

namespace {

template <class T>
Tensor list_of(const T* values, size_t count) {
  return from_data(std::vector<T>(values, values + count), static_cast<int64_t>(count),
                   {dtype_of<T>(), "CPU"});
}

}  // namespace

std::string of(int64_t value) { return std::to_string(value); }
std::string of(double value) { return shortest_text(value); }
void read(const std::string& text, const std::string& name, int64_t& value, int64_t lo,
          int64_t hi) {
  expect(read_number(text, value) && value >= lo && value <= hi, "'", name,
         "' must be a whole number from ", lo, " to ", hi, ", got '", printable(text), "'");
}
void read(const std::string& text, const std::string& name, double& value) {
  expect(read_number(text, value), "'", name, "' must be a number, got '", printable(text), "'");
}
Tensor list(const float* values, size_t count) { return list_of(values, count); }
Tensor list(const double* values, size_t count) { return list_of(values, count); }
Tensor list(const int64_t* values, size_t count) { return list_of(values, count); }

}  // namespace checkpoint_text

namespace {

std::vector<NamedTensor> random_tensors() {
  std::vector<Tensor> state = random_state();
  return {
      {"random.seed",    state[0]},
      {"random.counter", state[1]}
  };
}

std::string joined(const std::string& part, const std::string& key) {
  return key.empty() ? part : part + "." + key;
}

bool belongs(const std::string& name, const std::string& part) {
  return name == part || (name.starts_with(part) && name[part.size()] == '.');
}

void check_names(const CheckpointParts& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    expect(!parts[i].name.empty(), "part ", i, " has no name");
    expect(!belongs(parts[i].name, "random"), "'random' is the random numbers' own name");
    for (size_t j = 0; j < parts.size(); ++j)
      expect(i == j || !belongs(parts[j].name, parts[i].name), "the names '",
             printable(parts[i].name), "' and '", printable(parts[j].name), "' overlap");
  }
}

FileContents open_checkpoint(const std::string& path, File& file) {
  file = open_file(path);
  check_file(is_safetensors(file), file.name, "needs a safetensors file, which checkpoints are");
  return parse_safetensors(file);
}

// What the file has of a part that is no tensors.
Metadata values_of(const CheckpointPart& part, const FileContents& contents, const File& file) {
  Metadata out;
  for (const auto& [name, value] : contents.metadata)
    if (belongs(name, part.name))
      out.emplace_back(name == part.name ? "" : name.substr(part.name.size() + 1), value);
  for (const auto& [key, unused] : part.values(part.object))
    check_file(std::ranges::count(out, key, &Metadata::value_type::first) == 1, file.name,
               "the metadata has no '", printable(joined(part.name, key)), "'");
  return out;
}

// Sets the values of all parts, or leaves them all as they were.
void restore_values(const CheckpointParts& parts, const std::vector<Metadata>& values) {
  std::vector<Metadata> before;
  for (const CheckpointPart& p : parts)
    before.push_back(p.values ? p.values(p.object) : Metadata());
  auto set = [&](const std::vector<Metadata>& to) {
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].values) parts[i].restore(parts[i].object, to[i], parts[i].name);
  };
  try {
    set(values);
  } catch (...) {
    set(before);
    throw;
  }
}

// The tensors of the file that a load puts to use.
struct Wanted {
  std::vector<NamedTensor> into, from;
  std::vector<std::pair<const CheckpointPart*, Tensor>> lists;
};

Wanted wanted_of(const CheckpointParts& parts, std::vector<NamedTensor> stored, bool random,
                 const File& file) {
  Wanted out;
  if (random) out.into = random_tensors();
  for (const CheckpointPart& p : parts)
    out.into.insert(out.into.end(), p.tensors.begin(), p.tensors.end());
  for (NamedTensor& t : stored) {
    bool known = random && belongs(t.name, "random");
    for (const CheckpointPart& p : parts) {
      if (!belongs(t.name, p.name)) continue;
      if (p.list)
        out.lists.emplace_back(&p, t.tensor);
      else
        known = true;
    }
    if (known) out.from.push_back(std::move(t));
  }
  for (const CheckpointPart& p : parts)
    check_file(
        !p.list || std::ranges::count(out.lists, &p, &decltype(out.lists)::value_type::first) == 1,
        file.name, "there are no numbers '", printable(p.name), "'");
  return out;
}

}  // namespace

void save_checkpoint(const std::string& path, const CheckpointParts& parts, Loc where) {
  OuterCall call("save_checkpoint", where);
  check_names(parts);
  std::vector<NamedTensor> tensors = random_tensors();
  Metadata metadata;
  for (const CheckpointPart& p : parts) {
    tensors.insert(tensors.end(), p.tensors.begin(), p.tensors.end());
    if (p.list) tensors.push_back({p.name, p.list(p.object)});
    if (!p.values) continue;
    for (auto& [key, value] : p.values(p.object)) metadata.emplace_back(joined(p.name, key), value);
  }
  save_safetensors(path, tensors, metadata);
}

void load_checkpoint(const std::string& path, const CheckpointParts& parts, bool random,
                     Loc where) {
  OuterCall call("load_checkpoint", where);
  check_names(parts);
  File file;
  const FileContents contents = open_checkpoint(path, file);
  std::vector<Metadata> values;
  for (const CheckpointPart& p : parts)
    values.push_back(p.values ? values_of(p, contents, file) : Metadata());
  const Wanted wanted = wanted_of(parts, make_tensors(file, contents), random, file);
  check_fit(wanted.into, wanted.from);
  restore_values(parts, values);
  load_tensors(wanted.into, wanted.from, /*strict=*/true, where);
  for (const auto& [part, numbers] : wanted.lists) part->fill(part->object, numbers.to("CPU"));
}

Metadata checkpoint_values(const std::string& path, Loc where) {
  OuterCall call("checkpoint_values", where);
  File file;
  return open_checkpoint(path, file).metadata;
}

}  // namespace mote
