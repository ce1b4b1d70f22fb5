#include "cli/highlight.h"

#include <algorithm>

#include "cli/markdown.h"

namespace mote {

namespace {

constexpr std::string_view cpp_keywords[] = {
    "auto",      "break",    "case",      "catch",    "class",    "concept", "const",
    "constexpr", "continue", "decltype",  "default",  "delete",   "do",      "else",
    "enum",      "explicit", "extern",    "false",    "for",      "friend",  "if",
    "inline",    "mutable",  "namespace", "new",      "noexcept", "nullptr", "operator",
    "override",  "private",  "protected", "public",   "requires", "return",  "sizeof",
    "static",    "struct",   "switch",    "template", "this",     "throw",   "true",
    "try",       "typedef",  "typename",  "union",    "using",    "virtual", "while"};
constexpr std::string_view cpp_types[] = {"bool",  "char",     "double",  "float",    "int",
                                          "long",  "int8_t",   "int32_t", "int64_t",  "size_t",
                                          "short", "unsigned", "uint8_t", "uint64_t", "void"};
constexpr std::string_view python_keywords[] = {
    "and",    "as", "assert", "class", "def", "elif", "else",   "False", "for",   "from", "if",
    "import", "in", "is",     "None",  "not", "or",   "return", "True",  "while", "with"};

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_digit(char c) { return c >= '0' && c <= '9'; }

template <size_t N>
bool is_among(std::string_view word, const std::string_view (&list)[N]) {
  return std::ranges::find(list, word) != std::end(list);
}

struct Language {
  bool cpp = false, python = false, cmake = false;
  bool known() const { return cpp || python || cmake; }
};

const char* class_of_word(const Language& language, std::string_view word) {
  if (language.cpp && is_among(word, cpp_keywords)) return "k";
  if (language.cpp && is_among(word, cpp_types)) return "t";
  // Types are CamelCase, macros are UPPER_CASE.
  if (language.cpp && word.size() > 1 && word[0] >= 'A' && word[0] <= 'Z')
    return word.find_first_of("abcdefghijklmnopqrstuvwxyz") == word.npos ? "d" : "t";
  if (language.python && is_among(word, python_keywords)) return "k";
  return nullptr;
}

size_t end_of_string(std::string_view code, size_t at) {
  for (size_t i = at + 1; i < code.size() && code[i] != '\n'; ++i) {
    if (code[i] == '\\')
      ++i;
    else if (code[i] == code[at])
      return i + 1;
  }
  return at + 1;
}

bool begins_comment(const Language& language, std::string_view code, size_t at) {
  if (language.cpp) return code.substr(at).starts_with("//");
  if (code[at] != '#') return false;
  if (language.known() || at == 0 || code[at - 1] == '\n') return true;
  return at >= 2 && code.substr(at - 2, 2) == "  ";
}

bool begins_line(std::string_view code, size_t at) {
  const size_t before = code.substr(0, at).find_last_not_of(' ');
  return before == code.npos || code[before] == '\n';
}

// The piece of code at a place that has one colour, and its class.
struct Piece {
  size_t end;
  const char* kind;
};
Piece piece_at(const Language& language, std::string_view code, size_t at) {
  const char c = code[at];
  auto to_end_of_line = [&] { return std::min(code.find('\n', at), code.size()); };
  if (begins_comment(language, code, at)) return {to_end_of_line(), "c"};
  if (language.cpp && code.substr(at).starts_with("/*"))
    return {std::min(code.find("*/", at), code.size() - 2) + 2, "c"};
  if (!language.known()) return {at + 1, nullptr};
  if (language.cpp && c == '#' && begins_line(code, at)) {
    size_t end = at + 1;
    while (end < code.size() && is_name(code[end])) ++end;
    if (code.substr(at, end - at) == "#include") end = to_end_of_line();
    return {end, "d"};
  }
  if (c == '"' || (c == '\'' && !language.cmake)) {
    const size_t end = end_of_string(code, at);
    return {end, end > at + 1 ? "s" : nullptr};
  }
  size_t end = at;
  while (end < code.size() && (is_name(code[end]) || (is_digit(c) && code[end] == '.'))) ++end;
  if (end == at) return {at + 1, nullptr};
  const std::string_view word = code.substr(at, end - at);
  return {end, is_digit(c) ? "n" : class_of_word(language, word)};
}

}  // namespace

std::string highlight(std::string_view language_name, std::string_view code) {
  const Language language{language_name == "cpp", language_name == "python",
                          language_name == "cmake"};
  std::string out;
  for (size_t i = 0; i < code.size();) {
    const auto [end, kind] = piece_at(language, code, i);
    const std::string html = escape_html(code.substr(i, end - i));
    out += kind ? std::string("<span class=\"") + kind + "\">" + html + "</span>" : html;
    i = end;
  }
  return out;
}

}  // namespace mote
