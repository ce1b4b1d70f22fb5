// MOTE_FIELDS, the line of a struct that lists its tensors; see fields.h.
#pragma once
#include <string_view>

#define MOTE_FIELDS(...)                                                        \
  template <class F>                                                            \
  void each_field(F&& f) {                                                      \
    ::mote::each_named(#__VA_ARGS__, f __VA_OPT__(, ) __VA_ARGS__);             \
  }                                                                             \
  template <class F>                                                            \
  void each_field(F&& f) const {                                                \
    ::mote::each_named(#__VA_ARGS__, f __VA_OPT__(, ) __VA_ARGS__);             \
  }

namespace mote {

// Removes and returns the first name of a list such as "weight, bias".
std::string_view take_name(std::string_view& names);

template <class F, class... Fields>
void each_named([[maybe_unused]] std::string_view names, F&& f, Fields&... fields) {
  (f(take_name(names), fields), ...);
}

}  // namespace mote
