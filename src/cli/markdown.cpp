#include "cli/markdown.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace mote {

namespace {

using Lines = std::vector<std::string_view>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '_' || (c & 0x80); }
bool is_punctuation(char c) { return c > ' ' && c < 127 && !is_letter(c) && !is_digit(c); }

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && (s.front() == ' ' || s.front() == '\t')) s.remove_prefix(1);
  while (!s.empty() && (s.back() == ' ' || s.back() == '\t')) s.remove_suffix(1);
  return s;
}
size_t indent_of(std::string_view line) {
  return std::min(line.find_first_not_of(' '), line.size());
}
bool is_blank(std::string_view line) { return trimmed(line).empty(); }

Lines lines_of(std::string_view text) {
  Lines out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    out.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// "- ", "* " or "3. " at the beginning of an item; the width of all that stands before its text.
struct Marker {
  bool ordered = false;
  size_t width = 0;
  std::string number;
};
std::optional<Marker> marker_of(std::string_view line) {
  const size_t indent = indent_of(line);
  std::string_view rest = line.substr(indent);
  size_t digits = 0;
  while (digits < rest.size() && digits < 9 && is_digit(rest[digits])) ++digits;
  size_t after = digits + 1;
  if (digits == 0 && !rest.starts_with('-') && !rest.starts_with('*') && !rest.starts_with('+'))
    return {};
  if (digits > 0 && (rest.size() <= digits || rest[digits] != '.')) return {};
  if (after < rest.size() && rest[after] != ' ') return {};
  while (after < rest.size() && rest[after] == ' ') ++after;
  return Marker{digits > 0, indent + after, std::string(rest.substr(0, digits))};
}

bool is_rule(std::string_view line) {
  line = trimmed(line);
  return line.size() >= 3 && (line[0] == '-' || line[0] == '*' || line[0] == '_') &&
         line.find_first_not_of(line[0]) == line.npos;
}
int heading_level(std::string_view line) {
  const size_t n = std::min(line.find_first_not_of('#'), line.size());
  return n >= 1 && n <= 6 && n < line.size() && line[n] == ' ' ? static_cast<int>(n) : 0;
}

// The cells of "| a | `b | c` |"; a bar in code or behind a backslash is text.
std::vector<std::string> cells_of(std::string_view line) {
  line = trimmed(line);
  if (line.starts_with('|')) line.remove_prefix(1);
  if (line.ends_with('|') && !line.ends_with("\\|")) line.remove_suffix(1);
  std::vector<std::string> out(1);
  bool code = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      out.back() += line[++i];
    } else if (line[i] == '|' && !code) {
      out.emplace_back();
    } else {
      code ^= line[i] == '`';
      out.back() += line[i];
    }
  }
  for (std::string& cell : out) cell = std::string(trimmed(cell));
  return out;
}
bool is_table_rule(std::string_view line) {
  return line.find('|') != line.npos && line.find('-') != line.npos &&
         line.find_first_not_of(" |:-") == line.npos;
}

class Converter {
 public:
  explicit Converter(const MarkdownOptions& options) : options_(options) {
    page_.sections.emplace_back();
  }
  MarkdownPage convert(std::string_view text) {
    blocks(lines_of(text), true);
    return std::move(page_);
  }

 private:
  // ---- what stands in a line

  size_t code_span(std::string_view s, size_t at, std::string& out) {
    size_t ticks = 0;
    while (at + ticks < s.size() && s[at + ticks] == '`') ++ticks;
    const std::string fence(ticks, '`');
    size_t end = s.find(fence, at + ticks);
    while (end != s.npos && end + ticks < s.size() && s[end + ticks] == '`')
      end = s.find(fence, s.find_first_not_of('`', end));
    if (end == s.npos) {
      out += fence;
      return at + ticks;
    }
    std::string_view code = s.substr(at + ticks, end - at - ticks);
    if (ticks > 1) code = trimmed(code);
    std::string html = "<code>" + escape_html(code) + "</code>";
    if (options_.code_link && !in_link_) {
      const std::string href = options_.code_link(code);
      if (!href.empty()) html = "<a href=\"" + escape_html(href) + "\">" + html + "</a>";
    }
    out += html;
    say(code);
    return end + ticks;
  }

  // [text](target); the place behind it, or `at` where there is no link.
  size_t link(std::string_view s, size_t at, std::string& out) {
    size_t depth = 0, close = at;
    for (; close < s.size(); ++close) {
      if (s[close] == '`') {
        const size_t other = s.find('`', close + 1);
        if (other == s.npos) return at;
        close = other;
      } else if (s[close] == '[') {
        ++depth;
      } else if (s[close] == ']' && --depth == 0) {
        break;
      }
    }
    if (close + 1 >= s.size() || s[close + 1] != '(') return at;
    const size_t end = s.find(')', close);
    if (end == s.npos) return at;
    const std::string_view target = s.substr(close + 2, end - close - 2);
    if (target.empty() || target.find_first_of(" <>\"") != target.npos) return at;
    const std::string href = options_.link ? options_.link(target) : std::string(target);
    std::string_view words = s.substr(at + 1, close - at - 1);
    const std::string title = options_.title && target.substr(0, target.find('#')).ends_with(words)
                                  ? options_.title(target)
                                  : "";
    in_link_ = true;
    out += "<a href=\"" + escape_html(href) + "\">" + line(title.empty() ? words : title) + "</a>";
    in_link_ = false;
    return end + 1;
  }

  // *text*, **text**, _text_; the place behind it, or `at`.
  size_t emphasis(std::string_view s, size_t at, std::string& out) {
    const char c = s[at];
    const size_t width = at + 1 < s.size() && s[at + 1] == c ? 2 : 1;
    const size_t first = at + width;
    if (first >= s.size() || s[first] == ' ' || s[first] == c) return at;
    if (c == '_' && at > 0 && is_word(s[at - 1])) return at;
    const std::string mark(width, c);
    for (size_t end = s.find(mark, first); end != s.npos; end = s.find(mark, end + 1)) {
      if (std::count(s.begin() + first, s.begin() + end, '`') % 2 || s[end - 1] == ' ') continue;
      const size_t after = end + width;
      if (width == 1 && after < s.size() && s[after] == c) {
        ++end;
        continue;
      }
      if (c == '_' && after < s.size() && is_word(s[after])) continue;
      const char* name = width == 2 ? "strong" : "em";
      out += std::string("<") + name + ">" + line(s.substr(first, end - first)) + "</" + name + ">";
      return after;
    }
    return at;
  }

  std::string line(std::string_view s) {
    std::string out;
    for (size_t i = 0; i < s.size();) {
      const char c = s[i];
      size_t next = i;
      if (c == '`') {
        i = code_span(s, i, out);
        continue;
      }
      if (c == '\\' && i + 1 < s.size() && is_punctuation(s[i + 1])) {
        plain(s.substr(i + 1, 1), out);
        i += 2;
        continue;
      }
      if (c == '[' && !in_link_) next = link(s, i, out);
      if (c == '*' || c == '_') next = emphasis(s, i, out);
      if (next == i) plain(s.substr(next++, 1), out);
      i = next;
    }
    return out;
  }

  void plain(std::string_view s, std::string& out) {
    out += escape_html(s);
    say(s);
  }
  void say(std::string_view words) { page_.sections.back().words += words; }

  // ---- blocks

  // The name that a link to a heading has; a second one of the same name gets a number.
  std::string anchor_of(std::string_view title) {
    std::string out;
    for (const char c : title) {
      if (c >= 'A' && c <= 'Z')
        out += static_cast<char>(c + 'a' - 'A');
      else if (is_word(c) || c == '-')
        out += c;
      else if (c == ' ')
        out += '-';
    }
    const int before = anchors_[out]++;
    return before ? out + "-" + std::to_string(before) : out;
  }

  void heading(std::string_view text, int level) {
    page_.sections.emplace_back();
    const std::string html = line(text);
    Section& section = page_.sections.back();
    section.level = level;
    section.title = std::exchange(section.words, "");
    section.anchor = anchor_of(section.title);
    if (page_.title.empty()) page_.title = section.title;
    const std::string tag = "h" + std::to_string(level);
    page_.html += "<" + tag + " id=\"" + section.anchor + "\">" + html +
                  "<a class=\"anchor\" href=\"#" + section.anchor +
                  "\" aria-label=\"Link to this section\">#</a></" + tag + ">\n";
  }

  size_t fence(const Lines& lines, size_t i) {
    const size_t indent = indent_of(lines[i]);
    const std::string_view language = trimmed(lines[i].substr(indent + 3));
    std::string code;
    for (++i; i < lines.size() && !trimmed(lines[i]).starts_with("```"); ++i)
      code += std::string(lines[i].substr(std::min(indent, indent_of(lines[i])))) + "\n";
    code_block(language, code);
    return i + 1;
  }
  size_t indented_code(const Lines& lines, size_t i) {
    std::string code;
    for (; i < lines.size() && (is_blank(lines[i]) || indent_of(lines[i]) >= 4); ++i)
      code += std::string(lines[i].substr(std::min<size_t>(4, lines[i].size()))) + "\n";
    while (code.ends_with("\n\n")) code.pop_back();
    code_block("", code);
    return i;
  }
  void code_block(std::string_view language, const std::string& code) {
    page_.html += "<pre><code>" +
                  (options_.code ? options_.code(language, code) : escape_html(code)) +
                  "</code></pre>\n";
    say(code);
    say(" ");
  }

  size_t table(const Lines& lines, size_t i) {
    const std::vector<std::string> head = cells_of(lines[i]);
    page_.html += "<div class=\"table\"><table>\n";
    row(head, "th");
    for (i += 2; i < lines.size() && lines[i].find('|') != std::string_view::npos; ++i) {
      std::vector<std::string> cells = cells_of(lines[i]);
      cells.resize(head.size());
      row(cells, "td");
    }
    page_.html += "</table></div>\n";
    return i;
  }
  void row(const std::vector<std::string>& cells, const std::string& tag) {
    page_.html += "<tr>";
    for (const std::string& cell : cells) {
      page_.html += "<" + tag + ">" + line(cell) + "</" + tag + ">";
      say(" ");
    }
    page_.html += "</tr>\n";
  }

  // An item is its first line and what follows it with at least the indent of its text, or goes on
  // with its paragraph. Blank lines between items make paragraphs of them.
  size_t list(const Lines& lines, size_t i) {
    const Marker first = *marker_of(lines[i]);
    const size_t indent = indent_of(lines[i]);
    std::vector<Lines> items;
    bool loose = false, blank = false;
    for (; i < lines.size(); ++i) {
      const std::string_view text = lines[i];
      const std::optional<Marker> marker = marker_of(text);
      if (is_blank(text)) {
        blank = true;
        items.back().emplace_back();
        continue;
      }
      const bool inside = !items.empty() && indent_of(text) > indent;
      if (!inside && marker && marker->ordered == first.ordered && indent_of(text) == indent) {
        items.push_back({text.substr(std::min(marker->width, text.size()))});
        loose |= blank && items.size() > 1;
      } else if (inside) {
        const size_t cut = std::min({indent_of(text), first.width, text.size()});
        loose |= blank && !marker;
        items.back().push_back(text.substr(cut));
      } else if (!blank && !marker && !heading_level(text) && !text.starts_with("```")) {
        items.back().push_back(text);
      } else {
        break;
      }
      blank = false;
    }
    const std::string tag = first.ordered ? "ol" : "ul";
    const bool counted = first.ordered && first.number != "1";
    page_.html += "<" + tag + (counted ? " start=\"" + first.number + "\"" : "") + ">\n";
    for (const Lines& item : items) {
      page_.html += "<li>";
      blocks(item, loose);
      page_.html += "</li>\n";
    }
    page_.html += "</" + tag + ">\n";
    return i;
  }

  bool begins_table(const Lines& lines, size_t i) {
    return i + 1 < lines.size() && lines[i].find('|') != std::string_view::npos &&
           is_table_rule(lines[i + 1]);
  }
  bool ends_paragraph(const Lines& lines, size_t i) {
    const std::string_view text = lines[i];
    const std::optional<Marker> marker = marker_of(text);
    return is_blank(text) || heading_level(text) || trimmed(text).starts_with("```") ||
           text.starts_with('>') || is_rule(text) || begins_table(lines, i) ||
           (marker && (!marker->ordered || marker->number == "1"));
  }

  size_t paragraph(const Lines& lines, size_t i, bool loose) {
    std::string text(trimmed(lines[i++]));
    for (; i < lines.size() && !ends_paragraph(lines, i); ++i) {
      text += '\n';
      text += trimmed(lines[i]);
    }
    page_.html += (loose ? "<p>" : "") + line(text) + (loose ? "</p>\n" : "");
    say(" ");
    return i;
  }

  size_t quote(const Lines& lines, size_t i) {
    Lines inside;
    for (; i < lines.size() && lines[i].starts_with('>'); ++i)
      inside.push_back(lines[i].substr(lines[i].starts_with("> ") ? 2 : 1));
    page_.html += "<blockquote>";
    blocks(inside, true);
    page_.html += "</blockquote>\n";
    return i;
  }

  void blocks(const Lines& lines, bool loose) {
    for (size_t i = 0; i < lines.size();) {
      const std::string_view text = lines[i];
      if (is_blank(text)) {
        ++i;
      } else if (trimmed(text).starts_with("```")) {
        i = fence(lines, i);
      } else if (indent_of(text) >= 4) {
        i = indented_code(lines, i);
      } else if (const int level = heading_level(text)) {
        heading(trimmed(text.substr(static_cast<size_t>(level))), level);
        ++i;
      } else if (is_rule(text)) {
        page_.html += "<hr>\n";
        ++i;
      } else if (text.starts_with('>')) {
        i = quote(lines, i);
      } else if (begins_table(lines, i)) {
        i = table(lines, i);
      } else if (marker_of(text)) {
        i = list(lines, i);
      } else {
        i = paragraph(lines, i, loose);
      }
    }
  }

  const MarkdownOptions& options_;
  MarkdownPage page_;
  std::map<std::string, int> anchors_;
  bool in_link_ = false;
};

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

MarkdownPage convert_markdown(std::string_view text, const MarkdownOptions& options) {
  return Converter(options).convert(text);
}

}  // namespace mote
