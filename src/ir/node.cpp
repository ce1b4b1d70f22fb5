#include "ir/node.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/hash.h"

namespace mote {

const ArgObject* intern_arg(std::span<const int64_t> ints, std::string_view str) {
  static std::mutex mutex;
  static auto& table = *new std::unordered_multimap<uint64_t, std::unique_ptr<ArgObject>>;
  uint64_t h = hash_bytes(ints.data(), ints.size_bytes(), hash_bytes(str.data(), str.size()));
  std::lock_guard lock(mutex);
  auto [begin, end] = table.equal_range(h);
  for (auto it = begin; it != end; ++it)
    if (std::ranges::equal(it->second->ints, ints) && it->second->str == str)
      return it->second.get();
  auto object = std::make_unique<ArgObject>(
      ArgObject{h, {ints.begin(), ints.end()}, std::string(str)});
  return table.emplace(h, std::move(object))->second.get();
}

Dim::Dim(UOp e) : size(e->hi) {
  if (e->lo != e->hi) symbol = e;
}

int64_t Shape::count() const {
  int64_t n = 1;
  for (const Dim& d : dims)
    check(!__builtin_mul_overflow(n, d.size, &n), "the shape ", *this, " has too many elements");
  return n;
}

std::vector<int64_t> Shape::sizes() const {
  std::vector<int64_t> out;
  for (const Dim& d : dims) out.push_back(d.size);
  return out;
}

void append(std::string& out, const Dim& d) {
  if (!d.is_symbolic()) return append(out, d.size);
  if (d.symbol->is(Op::Var)) return append(out, d.symbol->arg.object->str);
  out += "?<=";
  append(out, d.size);
}

void append(std::string& out, const Shape& s) { append(out, s.dims); }

static constexpr const char* role_names[] = {"loop",   "reduce", "global",
                                             "upcast", "unroll", "vector",
                                             "accumulate", "local", "group",
                                             "fragment", "ordered"};
const char* name(Role role) { return role_names[static_cast<int>(role)]; }

bool parse_role(std::string_view text, Role* role) {
  return parse_name(text, role_names, std::identity(), role);
}

}  // namespace mote
