#include "cli/api_index.h"

#include <algorithm>
#include <map>
#include <utility>

namespace mote {

std::string qualified(const std::string& scope, const std::string& name) {
  return scope.empty() ? name : scope + "::" + name;
}

namespace {

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t'; }

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && is_space(s.front())) s.remove_prefix(1);
  while (!s.empty() && is_space(s.back())) s.remove_suffix(1);
  return s;
}
// White space as one space.
std::string joined(std::string_view s) {
  std::string out;
  for (const char c : trimmed(s))
    if (!is_space(c))
      out += c;
    else if (!out.ends_with(' '))
      out += ' ';
  return out;
}
std::string_view name_at(std::string_view s, size_t at) {
  size_t end = at;
  while (end < s.size() && is_name(s[end])) ++end;
  return s.substr(at, end - at);
}
std::string_view first_word(std::string_view s) { return name_at(s, 0); }

// The place behind the bracket that closes the one at `at`. Strings and comments count as one.
size_t behind_brackets(std::string_view s, size_t at) {
  int depth = 0;
  for (size_t i = at; i < s.size(); ++i) {
    const char c = s[i];
    if (c == '"' || (c == '\'' && (i == 0 || !is_name(s[i - 1])))) {
      for (++i; i < s.size() && s[i] != c; ++i) i += s[i] == '\\';
    } else if (s.substr(i).starts_with("//")) {
      i = std::min(s.find('\n', i), s.size());
    } else if (c == '(' || c == '{' || c == '[') {
      ++depth;
    } else if ((c == ')' || c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return s.size();
}
size_t behind_angles(std::string_view s, size_t at) {
  int depth = 0;
  for (size_t i = at; i < s.size(); ++i) {
    if (s[i] == '(') i = behind_brackets(s, i) - 1;
    depth += (s[i] == '<') - (s[i] == '>' && (i == 0 || s[i - 1] != '-'));
    if (depth == 0) return i + 1;
  }
  return s.size();
}

// What stands between commas outside of brackets.
std::vector<std::string> split_commas(std::string_view s) {
  std::vector<std::string> out(1);
  int angles = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '(' || s[i] == '{' || s[i] == '[') {
      const size_t end = behind_brackets(s, i);
      out.back() += s.substr(i, end - i);
      i = end - 1;
      continue;
    }
    angles += (s[i] == '<') - (s[i] == '>');
    if (s[i] == ',' && angles <= 0)
      out.emplace_back();
    else
      out.back() += s[i];
  }
  for (std::string& part : out) part = joined(part);
  return out;
}

// ---- macros that declare

constexpr std::string_view kFields = "MOTE_FIELDS";  // what programs call

struct Macro {
  std::vector<std::string> parameters;
  std::string body, comment;
};

std::string substituted(const Macro& macro, std::vector<std::string> arguments) {
  std::string out;
  const size_t named = macro.parameters.size();
  while (named && macro.parameters.back() == "..." && arguments.size() > named) {
    const std::string last = std::exchange(arguments.back(), "");
    arguments.pop_back();
    arguments.back() += ", " + last;
  }
  arguments.resize(named);
  for (size_t i = 0; i < macro.body.size();) {
    const std::string_view word = name_at(macro.body, i);
    if (word.empty()) {
      if (!std::string_view(macro.body).substr(i).starts_with("##"))
        out += macro.body[i++];
      else
        i += 2;
      continue;
    }
    const std::string_view parameter = word == "__VA_ARGS__" ? "..." : word;
    const auto at = std::ranges::find(macro.parameters, parameter);
    out += at == macro.parameters.end()
               ? std::string(word)
               : arguments[static_cast<size_t>(at - macro.parameters.begin())];
    i += word.size();
  }
  return out;
}

// ---- the text of a declaration

// Without "template <...>" and "requires ...".
std::string_view without_template(std::string_view s) {
  for (;;) {
    s = trimmed(s);
    if (s.starts_with("template")) {
      s.remove_prefix(behind_angles(s, s.find('<')));
    } else if (s.starts_with("requires")) {
      s = trimmed(s.substr(8));
      if (s.starts_with('(')) {
        s.remove_prefix(behind_brackets(s, 0));
      } else if (s.starts_with("requires")) {
        s.remove_prefix(behind_brackets(s, s.find('{')));
      } else {
        const size_t end = s.find('<');  // a concept and its arguments
        s.remove_prefix(behind_angles(s, end));
        if (s.starts_with("::value")) s.remove_prefix(7);
      }
    } else {
      return s;
    }
  }
}

// Every call takes the user's file and line as its last, defaulted argument. It says nothing here.
std::string without_place(std::string text) {
  for (size_t at = text.find("Loc"); at != text.npos; at = text.find("Loc", at + 1)) {
    const size_t end = text.find("= MOTE_HERE", at);
    if (end == text.npos) break;
    const std::string_view between = std::string_view(text).substr(at + 3, end - at - 3);
    if (between.find_first_of(",()") != between.npos || (at && is_name(text[at - 1]))) continue;
    const size_t from = at >= 2 && text.substr(at - 2, 2) == ", " ? at - 2 : at;
    text.erase(from, end + 11 - from);
    at = from;
  }
  return text;
}

size_t find_outside(std::string_view s, std::string_view any) {
  for (size_t i = 0; i < s.size(); ++i) {
    if (any.find(s[i]) != any.npos) return i;
    if (s[i] == '(' || s[i] == '{' || s[i] == '[') i = behind_brackets(s, i) - 1;
  }
  return s.npos;
}

std::string last_name(std::string_view s) {
  s = trimmed(s);
  while (s.ends_with(']')) s = trimmed(s.substr(0, s.rfind('[')));
  size_t begin = s.size();
  while (begin > 0 && is_name(s[begin - 1])) --begin;
  return std::string(s.substr(begin));
}

bool is_type_word(std::string_view word) {
  return word == "struct" || word == "class" || word == "enum" || word == "union";
}

// "operator()", "matmul", "~Tensor".
std::string function_name(std::string_view s) {
  const size_t symbol = s.find("operator");
  if (symbol != s.npos && (symbol == 0 || !is_name(s[symbol - 1]))) {
    size_t end = s.find('(', symbol);
    if (s.substr(end).starts_with("()")) end += 2;
    return joined(s.substr(symbol, end - symbol));
  }
  const size_t open = s.find('(');
  if (s.substr(open).starts_with("(*")) return std::string(name_at(s, open + 2));  // a pointer
  std::string name = last_name(s.substr(0, open));
  const size_t before = s.substr(0, open).rfind(name);
  return before > 0 && s[before - 1] == '~' ? "~" + name : name;
}

std::vector<std::string> names_of(std::string_view s) {
  s = without_template(s);
  const std::string_view word = first_word(s);
  if (word == "using" || word == "concept") {
    std::string_view rest = trimmed(s.substr(word.size()));
    return {std::string(first_word(rest))};
  }
  if (is_type_word(word)) {
    s = trimmed(s.substr(word.size()));
    if (word == "enum" && first_word(s) == "class") s = trimmed(s.substr(5));
    return {std::string(first_word(s))};
  }
  const size_t equals = find_outside(s, "=");
  const size_t open = s.find('(');
  if (s.find("operator") != s.npos || (open != s.npos && open < equals)) return {function_name(s)};
  std::vector<std::string> names;
  for (const std::string& part : split_commas(s))
    names.push_back(last_name(std::string_view(part).substr(0, find_outside(part, "={"))));
  return names;
}

// ---- the reader

class Reader {
 public:
  Reader(Header& header, std::map<std::string, Macro>& macros, std::string_view text)
      : header_(header), macros_(macros), text_(text) {}

  // fixed_line: that of the macro which the text came from.
  void read(std::vector<std::string> scopes, int fixed_line = 0) {
    scopes_.clear();
    for (std::string& name : scopes) scopes_.push_back({std::move(name), true});
    fixed_line_ = fixed_line;
    while (at_ < text_.size()) step();
  }

 private:
  struct Scope {
    std::string name;  // "" for one without
    bool shown;        // public
  };

  std::string scope() const {
    std::string out;
    for (const Scope& s : scopes_)
      if (!s.name.empty()) out = qualified(out, s.name);
    return out.substr(out.starts_with("mote::") ? 6 : out == "mote" ? 4 : 0);
  }
  bool shown() const {
    return std::ranges::all_of(scopes_, [](const Scope& s) { return s.shown; });
  }
  int line() const {
    return fixed_line_ ? fixed_line_
                       : 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + at_, '\n'));
  }

  void step() {
    const std::string_view rest = text_.substr(at_);
    if (rest.starts_with("\n\n")) {
      end_group();
      ++at_;
    } else if (is_space(rest[0]) || rest[0] == ';') {
      ++at_;
    } else if (rest.starts_with("//")) {
      comment();
    } else if (rest[0] == '#') {
      directive();
    } else if (rest[0] == '}') {
      if (!scopes_.empty()) scopes_.pop_back();
      at_ = std::min(text_.find_first_of(";\n", at_), text_.size());
      skip_note();
      end_group();
    } else if (!label()) {
      const std::string word(first_word(rest));
      const auto macro = macros_.find(word);
      if (macro != macros_.end())
        expand(macro->second, word.size());
      else
        statement();
    }
  }

  void end_group() {
    if (header_.comment.empty() && header_.groups.empty())
      header_.comment = std::move(comment_);
    else if (!comment_.empty() && shown())
      header_.groups.push_back({scope(), std::move(comment_), {}});  // over several groups
    comment_.clear();
    comment_open_ = false;
    new_group_ = true;
  }

  void comment() {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    std::string_view words = text_.substr(at_ + 2, end - at_ - 2);
    if (words.starts_with(' ')) words.remove_prefix(1);
    if (!comment_open_) {
      comment_.clear();
      new_group_ = true;
    }
    if (!words.starts_with("clang-format")) comment_ += std::string(words) + "\n";
    comment_open_ = true;
    at_ = end;
  }

  void directive() {
    std::string line;
    for (bool more = true; more && at_ < text_.size();) {
      const size_t end = std::min(text_.find('\n', at_), text_.size());
      std::string_view part = text_.substr(at_, end - at_);
      more = part.ends_with('\\');
      if (more) part.remove_suffix(1);
      line += std::string(part) + " ";
      at_ = end + (more ? 1 : 0);
    }
    std::string_view s = line;
    const bool defines = s.starts_with("#define ");
    if (!defines && !s.starts_with("#undef ")) {
      if (!s.starts_with("#pragma") || !comment_.empty()) end_group();
      return;
    }
    s.remove_prefix(s.find(' ') + 1);
    const std::string name(first_word(s));
    macros_.erase(name);
    s.remove_prefix(name.size());
    if (defines && name == kFields) add_macro(name);
    if (!defines || !s.starts_with('(')) return;
    const size_t end = behind_brackets(s, 0);
    std::string body = name == kFields ? "" : joined(s.substr(end));  // of no use to readers
    macros_[name] = {split_commas(s.substr(1, end - 2)), std::move(body),
                     std::exchange(comment_, "")};
    comment_open_ = false;
  }

  void add_macro(const std::string& name) {
    Declaration d;
    d.names = {name};
    d.text = "#define " + name + "(...)";
    d.line = line();
    header_.groups.push_back({"", std::exchange(comment_, ""), {std::move(d)}});
    comment_open_ = false;
  }

  bool label() {
    for (const std::string_view word : {"public:", "private:", "protected:"}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      scopes_.back().shown = word == "public:";
      at_ += word.size();
      end_group();
      return true;
    }
    return false;
  }

  void expand(const Macro& macro, size_t name_size) {
    const size_t end = behind_brackets(text_, at_ + name_size);
    const std::vector<std::string> arguments =
        split_commas(text_.substr(at_ + name_size + 1, end - at_ - name_size - 2));
    std::string expansion = substituted(macro, arguments);
    const bool has_comment = comment_.empty() && !macro.comment.empty();
    Reader inner(header_, macros_, expansion);
    inner.comment_ = has_comment ? macro.comment : comment_;
    inner.new_group_ = new_group_ || has_comment;
    std::vector<std::string> names;
    for (const Scope& s : scopes_) names.push_back(s.name);
    if (shown()) inner.read(std::move(names), line());
    comment_ = std::move(inner.comment_);
    comment_open_ = false;
    new_group_ = inner.new_group_ || has_comment;
    at_ = end;
  }

  // The end of a statement: its semicolon, or the brace that opens a namespace, a class or a body.
  size_t end_of_head(std::string_view s) const {
    for (size_t i = 0; i < s.size(); ++i) {
      if (s[i] == ';') return i;
      if (s[i] == '(' || s[i] == '[') {
        i = behind_brackets(s, i) - 1;
      } else if (s[i] == '"') {
        for (++i; i < s.size() && s[i] != '"'; ++i) i += s[i] == '\\';
      } else if (s.substr(i).starts_with("//")) {
        i = std::min(s.find('\n', i), s.size());
      } else if (s[i] == '{') {
        if (!is_initializer(s.substr(0, i))) return i;
        i = behind_brackets(s, i) - 1;
      }
    }
    return s.size();
  }
  // Whether a brace behind this belongs to the declaration: a value, or a requirement.
  static bool is_initializer(std::string_view before) {
    before = trimmed(before);
    const std::string_view plain = before.starts_with("template") ? without_angles(before) : before;
    if (is_type_word(first_word(trimmed(plain)))) return false;
    if (first_word(before) == "namespace") return false;
    if (before.ends_with("requires") || ends_requirement(before)) return true;
    if (find_outside(plain, "=") != plain.npos && plain.find("operator") == plain.npos) return true;
    return plain.find('(') == plain.npos && !plain.empty();
  }
  static std::string_view without_angles(std::string_view s) {
    return s.substr(behind_angles(s, s.find('<')));
  }
  static bool ends_requirement(std::string_view s) {
    if (!s.ends_with(')')) return false;
    int depth = 0;
    for (size_t i = s.size(); i-- > 0;) {
      depth += (s[i] == ')') - (s[i] == '(');
      if (depth == 0) return trimmed(s.substr(0, i)).ends_with("requires");
    }
    return false;
  }

  void statement() {
    const std::string_view rest = text_.substr(at_);
    const size_t end = end_of_head(rest);
    const std::string_view head = rest.substr(0, end);
    const int first_line = line();
    comment_open_ = false;
    if (first_word(head) == "namespace" || head.starts_with("inline namespace")) {
      at_ += std::min(end + 1, rest.size());
      scopes_.push_back({joined(head.substr(head.find("namespace") + 9)), true});
      end_group();
      return;
    }
    const bool has_body = end < rest.size() && rest[end] == '{';
    const std::string_view plain = without_template(head);
    const std::string_view word = first_word(plain);
    const bool is_class = has_body && (word == "struct" || word == "class" || word == "union");
    if (is_class) {
      at_ += end + 1;
      add(head, first_line, true);
      scopes_.push_back({names_of(head)[0], word != "class"});
      end_group();
      return;
    }
    std::string text(head);
    at_ += end;
    if (has_body) {
      size_t after = behind_brackets(text_, at_);
      if (word == "enum") {
        after = std::min(text_.find(';', after), text_.size());  // with a member of that type
        text += " " + std::string(text_.substr(at_, after - at_));
      }
      // A list of initialisers with braces goes on behind them.
      for (size_t next = text_.find_first_not_of(" \n", after);
           next != text_.npos && (text_[next] == ',' || (text_[next] == '{' && after > at_ + 2));
           next = text_.find_first_not_of(" \n", after)) {
        const size_t brace = text_.find('{', next);
        if (brace == text_.npos) break;
        after = behind_brackets(text_, brace);
      }
      at_ = after;
    }
    if (at_ < text_.size() && text_[at_] == ';') ++at_;
    if (!is_skipped(plain, has_body))
      add(text, first_line, false);
    else
      skip_note();
  }

  static bool is_skipped(std::string_view s, bool has_body) {
    const std::string_view word = first_word(s);
    if (word == "static_assert" || word == kFields || s.empty()) return true;
    if (is_type_word(word) && !has_body) return true;  // declared here, defined elsewhere
    if (word == "friend") return s.find("operator") == s.npos;
    return s.find("= delete") != s.npos || s.starts_with('~') ||
           s.starts_with("virtual ~");
  }

  // The comment behind a declaration, on its line.
  std::string take_note() {
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    const std::string_view tail = trimmed(text_.substr(at_, end - at_));
    if (!tail.starts_with("//")) return "";
    at_ = end;
    return std::string(trimmed(tail.substr(2)));
  }
  void skip_note() { take_note(); }

  // Comments of lines in the middle are notes, the rest is the text.
  void add(std::string_view head, int first_line, bool is_class) {
    Declaration d;
    d.line = first_line;
    d.scope = scope();
    d.is_class = is_class;
    std::string code;
    for (size_t i = 0; i < head.size(); ++i) {
      if (head.substr(i).starts_with("//")) {
        const size_t end = std::min(head.find('\n', i), head.size());
        d.note +=
            (d.note.empty() ? "" : " ") + std::string(trimmed(head.substr(i + 2, end - i - 2)));
        i = end - 1;
      } else {
        code += head[i];
      }
    }
    // What a constructor does with its arguments is no part of the declaration.
    const std::string_view plain = without_template(code);
    const size_t colon = find_outside(plain, ":");
    if (!is_class && colon != plain.npos && plain.find('(') < colon && colon + 1 < plain.size() &&
        plain[colon + 1] != ':' && plain[colon - 1] != ':')
      code.resize(static_cast<size_t>(plain.data() - code.data()) + colon);
    d.names = names_of(code);
    std::erase(d.names, "");
    if (code.starts_with("[[nodiscard]] ")) code.erase(0, 14);
    d.text = without_place(joined(code));
    const std::string note = take_note();
    d.note += (d.note.empty() || note.empty() ? "" : " ") + note;
    if (!shown()) comment_.clear();
    if (!shown() || d.names.empty()) return;
    if (new_group_ || header_.groups.empty() || header_.groups.back().scope != d.scope)
      header_.groups.push_back({d.scope, std::exchange(comment_, ""), {}});
    new_group_ = false;
    header_.groups.back().declarations.push_back(std::move(d));
  }

  Header& header_;
  std::map<std::string, Macro>& macros_;
  std::string_view text_;
  size_t at_ = 0;
  std::vector<Scope> scopes_;
  std::string comment_;
  bool comment_open_ = false, new_group_ = true;
  int fixed_line_ = 0;
};

}  // namespace

std::vector<Header> read_headers(const std::vector<HeaderFile>& files) {
  // What a header defines and leaves defined is there for all others.
  std::map<std::string, Macro> macros;
  std::vector<Header> headers;
  for (int pass = 0; pass < 2; ++pass) {
    headers.clear();
    for (const HeaderFile& file : files) {
      headers.push_back({file.name, "", {}});
      Reader(headers.back(), macros, file.text).read({});
    }
  }
  return headers;
}

}  // namespace mote
