// Building error texts. `check(cond, parts...)` throws a User error. The user's line is added to it
// (error_place).
#pragma once
#include <mote/error.h>

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace mote {

inline void append(std::string& out, std::string_view s) { out += s; }
inline void append(std::string& out, const char* s) { out += s; }
inline void append(std::string& out, const std::string& s) { out += s; }
inline void append(std::string& out, char c) { out += c; }
inline void append(std::string& out, bool b) { out += b ? "true" : "false"; }
void append(std::string& out, double v);
template <class T>
  requires(std::is_integral_v<T>)
void append(std::string& out, T v) {
  out += std::to_string(v);
}
template <class T>
void append(std::string& out, std::span<const T> items) {
  out += '(';
  for (size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    append(out, items[i]);
  }
  out += ')';
}
template <class T>
void append(std::string& out, const std::vector<T>& items) {
  append(out, std::span<const T>(items));
}

template <class... A>
std::string text(const A&... parts) {
  std::string out;
  (append(out, parts), ...);
  return out;
}

// Returns " (file:line)" or "" for the user's call in progress on this thread; set by
// ir/provenance.
extern std::string (*error_place)();

[[noreturn]] void fail(ErrorKind kind, std::string what);

template <class... A>
void check(bool ok, const A&... parts) {
  if (!ok) [[unlikely]] fail(ErrorKind::User, text(parts...));
}

// A broken invariant of the compiler itself.
template <class... A>
void ensure(bool ok, const A&... parts) {
  if (!ok) [[unlikely]] fail(ErrorKind::Internal, text("internal error: ", parts...));
}

}  // namespace mote
