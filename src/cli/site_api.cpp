#include "cli/site_api.h"

#include <algorithm>

#include "base/error.h"
#include "cli/highlight.h"

namespace mote {

namespace {

constexpr size_t kSeveral = static_cast<size_t>(-1);

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// What may stand behind a # in a link as it is.
std::string anchor_text(const std::string& name) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : name) {
    if (is_name(c) || c == ':') {
      out += c;
    } else {
      out += '-';
      out += digits[static_cast<unsigned char>(c) / 16];
      out += digits[static_cast<unsigned char>(c) % 16];
    }
  }
  return out;
}

// The anchors of a header's declarations, in their order: a second overload gets a number.
class Anchors {
 public:
  std::string next(const std::string& name) {
    const int before = seen_[name]++;
    return anchor_text(name) + (before ? text("-", before + 1) : "");
  }

 private:
  std::map<std::string, int> seen_;
};

std::string_view last_part(std::string_view name) {
  const size_t symbol = name.find("operator");
  const size_t at = name.substr(0, symbol).rfind("::");
  return at == name.npos ? name : name.substr(at + 2);
}

// The first sentence, on one line.
std::string in_short(std::string_view comment) {
  comment = comment.substr(0, std::min(comment.find("\n\n"), comment.find("\n  ")));
  std::string out;
  for (const char c : comment) out += c == '\n' ? ' ' : c;
  while (out.ends_with(' ')) out.pop_back();
  const size_t end = out.find(". ");
  if (end != out.npos) out.resize(end + 1);
  if (out.ends_with(':')) out.back() = '.';
  return out;
}

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 'a' - 'A');
  return out;
}

// `code` in a comment.
std::string words_html(std::string_view words) {
  std::string out;
  for (bool code = false; !words.empty(); code = !code) {
    const size_t tick = std::min(words.find('`'), words.size());
    const std::string part = escape_html(words.substr(0, tick));
    out += code ? "<code>" + part + "</code>" : part;
    words.remove_prefix(std::min(tick + 1, words.size()));
  }
  return out;
}

// A declaration with its name set off.
std::string declaration_html(const Declaration& d) {
  const std::string& name = d.names[0];
  size_t at = d.text.find(d.is_class ? " " + name : name + "(");
  if (d.is_class) ++at;
  const bool part_of_word = at > 0 && at < d.text.size() && is_name(d.text[at - 1]);
  if (at == d.text.npos || part_of_word) return highlight("cpp", d.text);
  const std::string_view s = d.text;
  return highlight("cpp", s.substr(0, at)) + "<b>" + escape_html(name) + "</b>" +
         highlight("cpp", s.substr(at + name.size()));
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// Lines that are set in: "* item", "name  what it is", or code.
std::string set_in_html(std::string_view text) {
  const std::vector<std::string_view> lines = lines_of(text);
  const bool list = lines[0].starts_with("* ");
  const size_t gap = lines[0].find("  "), column = lines[0].find_first_not_of(' ', gap);
  const bool code =
      text.starts_with("//") || text.find(";\n") != text.npos || text.find(";  ") != text.npos;
  const bool terms = !list && !code && gap != 0 && column != text.npos;
  if (!list && !terms) return "<pre><code>" + highlight("cpp", text) + "</code></pre>\n";
  std::string out = list ? "<ul>\n" : "<dl>\n";
  const char* end = list ? "</li>\n" : "</dd>\n";
  for (const std::string_view line : lines) {
    const bool begins = list ? line.starts_with("* ") : !line.starts_with(' ');
    if (begins && !out.ends_with(">\n")) out += end;
    if (begins && list) out += "<li>";
    if (begins && !list) out += "<dt>" + words_html(line.substr(0, line.find("  "))) + "</dt><dd>";
    const size_t from = list ? 2 : begins ? std::min(column, line.size()) : 0;
    const size_t first = line.find_first_not_of(' ', from);
    if (!begins) out += ' ';
    if (first != line.npos) out += words_html(line.substr(first));
  }
  return out + end + (list ? "</ul>\n" : "</dl>\n");
}

// Paragraphs, and what is set in.
std::string comment_html(std::string_view comment) {
  std::string out, paragraph, code;
  auto flush = [&] {
    if (!paragraph.empty()) out += "<p>" + words_html(paragraph) + "</p>\n";
    if (!code.empty()) out += set_in_html(code);
    paragraph.clear(), code.clear();
  };
  for (const std::string_view line : lines_of(comment)) {
    const bool set_in = line.starts_with("  ");
    if (line.empty() || (set_in ? !paragraph.empty() : !code.empty())) flush();
    if (set_in)
      code += std::string(line.substr(2)) + "\n";
    else if (!line.empty())
      paragraph += (paragraph.empty() ? "" : " ") + std::string(line);
  }
  flush();
  return out;
}

std::string page_links(const std::set<std::string>& pages, const ApiIndex::Titles& titles) {
  std::string out;
  for (const std::string& page : pages) {
    const auto title = titles.find(page);
    if (title == titles.end()) continue;
    out += (out.empty() ? "" : ", ") + ("<a href=\"" + page + "\">") + escape_html(title->second) +
           "</a>";
  }
  return out;
}

std::string source_page(const std::string& header) {
  std::string name = header;
  std::ranges::replace(name, '/', '-');
  return "source-include-" + name + ".html";
}

}  // namespace

std::string ApiIndex::page_of(const std::string& header) {
  std::string name = header.substr(header.find('/') + 1);
  name.resize(name.rfind('.'));
  return "api-" + name + ".html";
}

ApiIndex::ApiIndex(std::vector<Header> headers) : headers_(std::move(headers)) {
  for (const Header& header : headers_) {
    Anchors anchors;
    std::map<std::string, size_t> here;
    for (const DeclarationGroup& group : header.groups)
      for (const Declaration& d : group.declarations)
        for (const std::string& name : d.names) {
          const std::string full = qualified(d.scope, name);
          const std::string anchor = anchors.next(full);
          auto [at, is_new] = here.emplace(full, names_.size());
          if (is_new)
            names_.push_back({full, header.name, page_of(header.name) + "#" + anchor, ""});
          std::string& about = names_[at->second].about;
          if (about.empty()) about = in_short(d.note.empty() ? group.comment : d.note);
        }
  }
  // A whole name beats the end of another one; the end of several names stands for none.
  for (size_t i = 0; i < names_.size(); ++i) by_name_.emplace(names_[i].name, i);
  for (size_t i = 0; i < names_.size(); ++i) {
    const std::string& name = names_[i].name;
    for (size_t at = name.find("::"); at != name.npos; at = name.find("::", at + 2)) {
      auto [found, is_new] = by_name_.emplace(name.substr(at + 2), i);
      if (!is_new && found->second != kSeveral && names_[found->second].name != found->first)
        found->second = kSeveral;
    }
  }
}

ApiName* ApiIndex::find(std::string_view code) {
  if (code.starts_with("mote::")) code.remove_prefix(6);
  size_t end = 0;
  while (end < code.size() && (is_name(code[end]) || code[end] == ':')) ++end;
  const bool method = end < code.size() && code[end] == '.' && code.find('(') != code.npos;
  if (method) {
    code.remove_prefix(end + 1);
    end = 0;
    while (end < code.size() && is_name(code[end])) ++end;
  }
  const std::string_view rest = code.substr(end);
  if (!rest.empty() && !rest.starts_with('(') && !rest.starts_with('<')) return nullptr;
  if (!rest.empty() && !rest.ends_with(')') && !rest.ends_with('>')) return nullptr;
  const std::string name(code.substr(0, end));
  if (name.size() < 3) return nullptr;
  // A tensor's method before what another class calls the same.
  auto found = method ? by_name_.end() : by_name_.find(name);
  if (found == by_name_.end() || found->second == kSeveral || names_[found->second].name != name) {
    const auto of_tensor = by_name_.find("Tensor::" + name);
    if (of_tensor != by_name_.end()) found = of_tensor;
  }
  if (found == by_name_.end() || found->second == kSeveral) return nullptr;
  return &names_[found->second];
}

std::string ApiIndex::link(std::string_view code, const std::string& page) {
  ApiName* name = find(code);
  if (!name) return "";
  name->pages.insert(page);
  return name->href;
}

void ApiIndex::note_code(std::string_view code, const std::string& page) {
  for (size_t i = 0; i < code.size();) {
    if (code.substr(i).starts_with("//")) {
      i = std::min(code.find('\n', i), code.size());
      continue;
    }
    size_t end = i;
    while (end < code.size() && (is_name(code[end]) || code[end] == ':')) ++end;
    if (end == i) {
      ++i;
      continue;
    }
    const std::string word(code.substr(i, end - i));
    const bool called = end < code.size() && (code[end] == '(' || code[end] == '<');
    const bool of_object = i > 0 && (code[i - 1] == '.' || code[i - 1] == '>');
    if (called || word.find("::") != word.npos)
      if (ApiName* name = find(of_object ? "x." + word + "()" : word)) name->pages.insert(page);
    i = end;
  }
}

std::string ApiIndex::index_page(const Titles& titles) const {
  std::vector<const ApiName*> order;
  for (const ApiName& name : names_) order.push_back(&name);
  auto key = [](const ApiName* n) {
    return std::pair(lower(last_part(n->name)), n->name + n->header);
  };
  std::ranges::sort(order, {}, key);
  std::string out =
      "<h1>Index of the API</h1>\n<p>Everything that the public headers declare. Every call also "
      "takes the caller's file and line in a last argument that is left out here.</p>\n"
      "<h2 id=\"headers\">Headers</h2>\n<div class=\"table\"><table>\n";
  for (const Header& header : headers_)
    out += "<tr><td><a href=\"" + page_of(header.name) + "\"><code>" + header.name +
           "</code></a></td><td>" + escape_html(in_short(header.comment)) + "</td></tr>\n";
  out += "</table></div>\n<h2 id=\"names\">Names</h2>\n";
  std::string letters, rows;
  char letter = 0;
  for (const ApiName* n : order) {
    const char first = lower(last_part(n->name))[0];
    const std::string last(last_part(n->name));
    const std::string before = n->name.substr(0, n->name.size() - last.size());
    rows += "<tr";
    if (first != letter && is_name(first)) {
      letter = first;
      rows += text(" id=\"letter-", first, "\"");
      letters += text("<a href=\"#letter-", first, "\">", first, "</a> ");
    }
    rows += "><td><a href=\"" + n->href + "\"><code>" + escape_html(before) + "<b>" +
            escape_html(last) + "</b></code></a></td><td>" + escape_html(n->about) +
            "</td><td><a href=\"" + page_of(n->header) + "\">" + n->header + "</a></td><td>" +
            page_links(n->pages, titles) + "</td></tr>\n";
  }
  return out + "<p class=\"letters\">" + letters +
         "</p>\n<div class=\"table\"><table class=\"index\">\n"
         "<tr><th>Name</th><th>What it is</th><th>Header</th><th>Pages</th></tr>\n" +
         rows + "</table></div>\n";
}

std::vector<Section> ApiIndex::classes_of(const Header& header) {
  std::vector<Section> out;
  std::set<std::string> classes;
  for (const DeclarationGroup& group : header.groups)
    for (const Declaration& d : group.declarations) {
      if (!d.is_class) continue;
      const std::string full = qualified(d.scope, d.names[0]);
      if (!classes.contains(d.scope)) out.push_back({2, d.names[0], anchor_text(full), ""});
      classes.insert(full);
    }
  return out;
}

std::string ApiIndex::header_page(const Header& header, const Titles& titles) const {
  const std::string source = source_page(header.name);
  std::string out = "<h1>" + header.name + "</h1>\n" + comment_html(header.comment) +
                    "<p class=\"also\"><a href=\"" + source + "\">include/" + header.name +
                    "</a></p>\n";
  std::map<std::string, const ApiName*> by_href;
  for (const ApiName& n : names_)
    if (n.header == header.name) by_href[n.name] = &n;
  Anchors anchors;
  std::vector<std::string> open;  // classes around
  std::set<std::string> pages_shown;
  for (const DeclarationGroup& group : header.groups) {
    while (!open.empty() && group.scope != open.back() &&
           !group.scope.starts_with(open.back() + "::")) {
      out += "</div>\n";
      open.pop_back();
    }
    out += comment_html(group.comment);
    if (group.declarations.empty()) continue;
    std::string rows, opened;
    std::set<std::string> pages;
    for (const Declaration& d : group.declarations) {
      std::string spots, id;
      for (const std::string& name : d.names) {
        const std::string full = qualified(d.scope, name), anchor = anchors.next(full);
        if (id.empty())
          id = anchor;
        else
          spots += "<a id=\"" + anchor + "\"></a>";
        const auto found = by_href.find(full);
        if (found != by_href.end() && pages_shown.insert(full).second)
          pages.insert(found->second->pages.begin(), found->second->pages.end());
      }
      rows += "<div id=\"" + id + "\"" + (d.is_class ? " class=\"type\"" : "") + ">" + spots +
              "<a class=\"line\" href=\"" + source + text("#L", d.line, "\">line ", d.line) +
              "</a><code>" + declaration_html(d) + "</code>" +
              (d.note.empty() ? "" : " <span class=\"c\">" + words_html(d.note) + "</span>") +
              "</div>\n";
      if (d.is_class) opened = qualified(d.scope, d.names[0]);
    }
    out += "<div class=\"declarations\">\n" + rows + "</div>\n";
    const std::string links = page_links(pages, titles);
    if (!links.empty()) out += "<p class=\"also\">Used in " + links + "</p>\n";
    if (!opened.empty()) {
      out += "<div class=\"members\">\n";
      open.push_back(opened);
    }
  }
  for (size_t i = 0; i < open.size(); ++i) out += "</div>\n";
  return out;
}

}  // namespace mote
