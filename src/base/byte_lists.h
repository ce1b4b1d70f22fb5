// Numbers and lists of them as bytes, for this machine's own files.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

namespace mote {

struct ByteWriter {
  std::vector<uint8_t> bytes;
  template <class T>
  void number(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    bytes.insert(bytes.end(), p, p + sizeof value);
  }
  template <class List>
  void list(const List& items) {
    static_assert(std::is_trivially_copyable_v<typename List::value_type>);
    number(uint64_t{items.size()});
    const auto* p = reinterpret_cast<const uint8_t*>(items.data());
    bytes.insert(bytes.end(), p, p + items.size() * sizeof(typename List::value_type));
  }
};

// False where the bytes end before.
struct ByteReader {
  std::span<const uint8_t> rest;
  template <class T>
  bool number(T& value) {
    if (rest.size() < sizeof value) return false;
    std::memcpy(&value, rest.data(), sizeof value);
    rest = rest.subspan(sizeof value);
    return true;
  }
  template <class List>
  bool list(List& items) {
    constexpr size_t one = sizeof(typename List::value_type);
    uint64_t count;
    if (!number(count) || count > rest.size() / one) return false;
    items.resize(count);
    if (count) std::memcpy(items.data(), rest.data(), count * one);
    rest = rest.subspan(count * one);
    return true;
  }
};

}  // namespace mote
