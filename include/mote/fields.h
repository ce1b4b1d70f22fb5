// One line in a struct lists the tensors it holds:
//
//   struct Block {
//     nn::Linear up, down;
//     MOTE_FIELDS(up, down)
//   };
//
// Parameters, state dicts (with PyTorch's names), checkpoints and the arguments of captured
// functions are derived from it. Fields are tensors, symbolic sizes, structs with such a line, and
// vectors, arrays, maps, optionals, pairs and tuples of these; anything else is a compile error.
// Leave numbers and other settings out of the line.
// Define such structs at namespace scope: the line expands to member templates, which C++ forbids
// in local classes.
#pragma once
#include <mote/each_field.h>
#include <mote/tensor.h>

#include <string>
#include <string_view>
#include <utility>

namespace mote {

// "layers.0" + "weight"
std::string join_path(const std::string& path, std::string_view name);

template <class T>
concept HasFields = requires(T& t) { t.each_field([](std::string_view, auto&) {}); };
template <class T>
concept FieldMap = requires(T& t) { typename T::mapped_type; t.begin()->second; };
template <class T>
concept FieldList = !FieldMap<T> && requires(T& t) { *t.begin(); t.end(); };
template <class T>
concept FieldOptional = requires(T& t) { t.has_value(); *t; };
template <class T>
concept FieldTuple = requires { std::tuple_size<std::remove_const_t<T>>::value; };

template <class T>
constexpr bool is_walkable = false;

inline std::string path_name(const std::string& key) { return key; }
template <class T>
  requires std::is_integral_v<T>
std::string path_name(T key) { return std::to_string(key); }

// Calls visit(path, x) for everything in value that visit accepts: tensors, symbolic sizes, and the
// structs on the way (before their members), in the order they are listed. To visit all modules of
// one type: walk_fields(net, "", [](const std::string&, nn::LayerNorm& norm) { ... }).
template <class T, class Visit>
void walk_fields(T& value, const std::string& path, Visit&& visit) {
  using Plain = std::remove_const_t<T>;
  if constexpr (requires { visit(path, value); }) visit(path, value);
  if constexpr (std::is_same_v<Plain, Tensor> || std::is_base_of_v<Sym, Plain>) {
  } else if constexpr (HasFields<T>) {
    value.each_field([&](std::string_view name, auto& field) {
      walk_fields(field, join_path(path, name), visit);
    });
  } else if constexpr (FieldMap<T>) {
    for (auto& [key, field] : value) walk_fields(field, join_path(path, path_name(key)), visit);
  } else if constexpr (FieldList<T>) {
    size_t i = 0;
    for (auto& field : value) walk_fields(field, join_path(path, std::to_string(i++)), visit);
  } else if constexpr (FieldOptional<T>) {
    if (value.has_value()) walk_fields(*value, path, visit);
  } else if constexpr (FieldTuple<T>) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      (walk_fields(get<I>(value), join_path(path, std::to_string(I)), visit), ...);
    }(std::make_index_sequence<std::tuple_size<Plain>::value>());
  } else {
    static_assert(is_walkable<T>,
                  "mote cannot find tensors in this type: give the struct a MOTE_FIELDS(...) line "
                  "that names its tensors, and leave numbers and settings out of it");
  }
}

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

// Every defined tensor in a value, by its path; a tensor with two paths appears twice.
template <class T>
std::vector<NamedTensor> named_tensors(T& value, const std::string& prefix = "") {
  std::vector<NamedTensor> out;
  walk_fields(value, prefix, [&](const std::string& path, const Tensor& t) {
    if (t.defined()) out.push_back({path, t});
  });
  return out;
}
template <class T>
std::vector<Tensor> tensors(T& value) {
  std::vector<Tensor> out;
  for (NamedTensor& n : named_tensors(value)) out.push_back(std::move(n.tensor));
  return out;
}

}  // namespace mote
