// Colours for code on the pages of `mote docs`.
#pragma once
#include <string>
#include <string_view>

namespace mote {

// Escaped, with <span class="..."> around comments (c), strings (s), numbers (n), keywords (k),
// types (t) and directives (d). Languages: cpp, cmake, python; of any other only comments that
// begin with # after two spaces or at the beginning of a line.
std::string highlight(std::string_view language, std::string_view code);

}  // namespace mote
