// Figures as people read them.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mote {

std::string size_text(int64_t bytes);        // "1.5 MB"; INT64_MAX is "without limit"
std::string clock_text(double seconds);      // "1:05", "2:00:10"
std::string duration_text(double seconds);   // "1.25 s", "250 ms", "0.031 ms"
std::string decimal(double v, int digits);   // "98.70"
std::string as_utf8(std::string_view text);  // with U+FFFD for bytes that are not UTF-8

}  // namespace mote
