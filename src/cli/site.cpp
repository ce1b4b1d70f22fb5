#include "cli/site.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "base/error.h"
#include "cli/api_index.h"
#include "cli/highlight.h"
#include "cli/markdown.h"
#include "cli/site_api.h"
#include "io/json.h"

namespace mote {

namespace {

namespace fs = std::filesystem;

// The order of the pages on every page's side. What docs/ has beside these explains mote's inside.
constexpr std::string_view start_pages[] = {
    "README.md", "docs/quickstart.md", "docs/from_pytorch.md", "docs/install.md", "docs/mnist.md"};
constexpr std::string_view guide_pages[] = {
    "docs/modules.md",     "docs/data.md",           "docs/checkpoint.md",
    "docs/state_dicts.md", "docs/onnx.md",           "docs/mixed_precision.md",
    "docs/jit.md",         "docs/custom_kernels.md", "docs/profile.md",
    "docs/slow.md",        "docs/search.md",         "docs/troubleshooting.md"};
constexpr std::string_view reference_pages[] = {
    "include/mote", "docs/semantics.md", "docs/flags.md", "docs/coverage.md", "docs/bench.md"};
constexpr std::string_view project_pages[] = {"CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md",
                                              "LICENSE"};

struct Page {
  std::string source, file;  // "docs/jit.md", "jit.html"
  std::string chapter;       // of the list at the side; "" for what is not listed there
  std::string title, html;
  std::vector<Section> sections = {};
  bool wide = false;
};

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  check(in.good(), "[docs] ", path.string(), " cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> names_in(const fs::path& folder, const std::string& end) {
  std::vector<std::string> out;
  if (!fs::is_directory(folder)) return out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() && name.ends_with(end)) out.push_back(name);
  }
  std::ranges::sort(out);
  return out;
}

std::string lower(std::string s) {
  for (char& c : s)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 'a' - 'A');
  return s;
}

// "docs/jit.md" is jit.html; what is no page of its own is shown as text.
std::string file_of(const std::string& source) {
  const fs::path path(source);
  const std::string stem = path.stem().string(), folder = path.parent_path().string();
  if (source == "README.md") return "index.html";
  if (source == "include/mote") return "api.html";
  if (folder == "docs" || folder.empty()) return lower(stem) + ".html";
  if (folder == "docs/plans")
    return source == "docs/plans" ? "plans.html" : "plan-" + stem + ".html";
  if (folder == "examples") return "example-" + stem + ".html";
  std::string name = source;
  std::ranges::replace(name, '/', '-');
  return "source-" + name + ".html";
}

// Code with a number and an anchor in front of each line.
std::string listing(std::string_view language, std::string_view code) {
  std::string out = "<pre class=\"source\"><code>", html = highlight(language, code);
  int number = 0;
  for (size_t i = 0; i < html.size();) {
    const size_t end = std::min(html.find('\n', i), html.size());
    out +=
        text("<span class=\"row\" id=\"L", ++number, "\">", html.substr(i, end - i), "</span>\n");
    i = end + 1;
  }
  return out + "</code></pre>\n";
}

// Code that is quoted from the middle of a function, moved to the left.
std::string without_indent(std::string_view code) {
  size_t least = code.npos;
  for (size_t i = 0; i < code.size(); i = std::min(code.find('\n', i), code.size()) + 1) {
    const size_t first = code.find_first_not_of(' ', i);
    if (first == code.npos || code[first] == '\n' || code.substr(first).starts_with("...\n"))
      continue;
    least = std::min(least, first - i);
  }
  std::string out;
  while (!code.empty()) {
    const size_t end = std::min(code.find('\n'), code.size() - 1) + 1;
    const size_t indent = std::min({code.find_first_not_of(' '), least, end - 1});
    out += code.substr(indent, end - indent);
    code.remove_prefix(end);
  }
  return out;
}

std::string language_of(const std::string& path) {
  if (path.ends_with(".h") || path.ends_with(".cpp") || path.ends_with(".def")) return "cpp";
  return path.ends_with(".py") ? "python" : path.ends_with(".cmake") ? "cmake" : "";
}

class Maker {
 public:
  explicit Maker(const std::string& source) : root_(source) {}

  Website make() {
    read_headers_there();
    list_pages();
    for (size_t i = 0; i < pages_.size(); ++i) convert(i);  // which adds those that are linked to
    add_api_pages();
    Website site;
    for (const Page& page : pages_) site.files[page.file] = whole(page);
    site.files["style.css"] = site_style;
    site.files["search.js"] = site_script;
    site.files["search-index.js"] = "const search_index = " + search_index() + ";\n";
    site.pages = pages_.size();
    site.declarations = api_.names().size();
    return site;
  }

 private:
  bool there(const std::string& source) const { return fs::is_regular_file(root_ / source); }

  void read_headers_there() {
    std::vector<HeaderFile> files;
    for (const std::string& name : names_in(root_ / "include/mote", ".h"))
      files.push_back({"mote/" + name, read_text(root_ / "include/mote" / name)});
    api_ = ApiIndex(read_headers(files));
  }

  void add(const std::string& source, const std::string& chapter) {
    if (!by_source_.emplace(source, pages_.size()).second) return;
    pages_.push_back({source, file_of(source), chapter, source, ""});
  }

  void list_pages() {
    auto add_all = [&](auto& list, const char* chapter) {
      for (const std::string_view source : list)
        if (there(std::string(source)) || source == "include/mote")
          add(std::string(source), chapter);
    };
    add_all(start_pages, "Start");
    add_all(guide_pages, "Guides");
    add_all(reference_pages, "Reference");
    for (const std::string& name : names_in(root_ / "examples", ".cpp"))
      add("examples/" + name, "Examples");
    for (const char* name : {"architecture", "ir"})
      if (there(text("docs/", name, ".md"))) add(text("docs/", name, ".md"), "Inside");
    for (const std::string& name : names_in(root_ / "docs", ".md")) add("docs/" + name, "Inside");
    const std::vector<std::string> plans = names_in(root_ / "docs/plans", ".md");
    if (!plans.empty()) add("docs/plans", "Inside");
    for (const std::string& name : plans) add("docs/plans/" + name, "");
    add_all(project_pages, "Project");
  }

  static std::string path_from(const std::string& from, std::string_view target) {
    const fs::path path = fs::path(from).parent_path() / target.substr(0, target.find('#'));
    return path.lexically_normal().string();
  }
  // The first heading of a Markdown page; "" for other files.
  std::string title(const std::string& from, std::string_view target) const {
    const std::string source = path_from(from, target);
    if (!source.ends_with(".md") || !there(source)) return "";
    const std::string words = read_text(root_ / source);
    const size_t end = words.find('\n');
    return words.starts_with("# ") ? words.substr(2, end - 2) : "";
  }
  // Where a link in a page leads to on the site.
  std::string link(const std::string& from, std::string_view target) {
    if (target.find("://") != target.npos || target.starts_with('#')) return std::string(target);
    const size_t hash = std::min(target.find('#'), target.size());
    const std::string source = path_from(from, target);
    const bool known = by_source_.contains(source);
    check(known || (!source.starts_with("..") && there(source)), "[docs] ", from, " links to ",
          std::string(target), ", which is not there");
    if (!known) add(source, "");
    return file_of(source) + std::string(target.substr(hash));
  }

  // What a word of code names: a file that has a page, or something that the headers declare.
  std::string code_link(const Page& page, std::string_view code) {
    const std::string word(code);
    for (const std::string& source : {word, "include/" + word}) {
      if (source.ends_with(".h") && source.starts_with("include/mote/") && there(source))
        return api_.page_of(source.substr(8));
      if (by_source_.contains(source) && source.find('/') != source.npos) return file_of(source);
    }
    return explains_use(page) ? api_.link(code, page.file) : "";
  }
  static bool explains_use(const Page& page) {
    return page.chapter != "Inside" && page.chapter != "Project" && !page.chapter.empty();
  }

  void convert(size_t i) {
    const Page page = pages_[i];  // a copy, because links add pages
    const std::string& source = page.source;
    if (source == "include/mote") return;  // made last
    if (source == "docs/plans") return list_plans(i);
    const std::string words = read_text(root_ / source);
    if (!source.ends_with(".md")) {
      const std::string language = language_of(source);
      if (language == "cpp" && explains_use(page)) api_.note_code(words, page.file);
      pages_[i].html = "<h1>" + escape_html(source) + "</h1>\n" + listing(language, words);
      pages_[i].title = page.chapter == "Examples" ? fs::path(source).stem().string() : source;
      pages_[i].sections = {
          {1, source, "", words}
      };
      pages_[i].wide = true;
      return;
    }
    MarkdownOptions options;
    options.link = [&](std::string_view target) { return link(source, target); };
    options.title = [&](std::string_view target) { return title(source, target); };
    options.code_link = [&](std::string_view code) { return code_link(page, code); };
    options.code = [&](std::string_view language, std::string_view code) {
      if (language == "cpp" && explains_use(page)) api_.note_code(code, page.file);
      return highlight(language, without_indent(code));
    };
    MarkdownPage converted = convert_markdown(words, options);
    pages_[i].html = std::move(converted.html);
    pages_[i].sections = std::move(converted.sections);
    if (!converted.title.empty()) pages_[i].title = converted.title;
  }

  void list_plans(size_t i) {
    std::string html =
        "<h1>Plans</h1>\n<p>Decisions that are costly to reverse, and why they were "
        "taken.</p>\n<ul>\n";
    for (const std::string& name : names_in(root_ / "docs/plans", ".md")) {
      const std::string source = "docs/plans/" + name;
      html += "<li><a href=\"" + file_of(source) + "\">" +
              escape_html(convert_markdown(read_text(root_ / source)).title) + "</a></li>\n";
    }
    pages_[i].html = html + "</ul>\n";
    pages_[i].title = "Plans";
  }

  // After all others, because they list the pages that mention a name.
  void add_api_pages() {
    std::map<std::string, std::string> titles;
    for (const Page& page : pages_) titles[page.file] = page.title;
    Page& index = pages_[by_source_.at("include/mote")];
    index.title = "Index of the API";
    index.html = api_.index_page(titles);
    index.wide = true;
    for (const Header& header : api_.headers()) {
      const std::string source = "include/" + header.name;
      Page page{"", api_.page_of(header.name), "", header.name, api_.header_page(header, titles)};
      page.sections = api_.classes_of(header);
      page.wide = page.sections.empty();
      pages_.push_back(std::move(page));
      pages_.push_back(
          {source, file_of(source), "", source,
           "<h1>" + escape_html(source) + "</h1>\n" + listing("cpp", read_text(root_ / source))});
      pages_.back().wide = true;
    }
  }

  std::string label(const Page& page) const {
    return page.source == "README.md" ? "Overview" : page.title;
  }

  std::string side(const Page& here) const {
    std::string out, chapter;
    for (const Page& page : pages_) {
      if (page.chapter.empty()) continue;
      if (page.chapter != chapter)
        out += (chapter.empty() ? "<h2>" : "</ul>\n<h2>") + page.chapter + "</h2>\n<ul>\n";
      chapter = page.chapter;
      out += "<li><a href=\"" + page.file + "\"" +
             (page.file == here.file ? " class=\"here\" aria-current=\"page\"" : "") + ">" +
             escape_html(label(page)) + "</a></li>\n";
    }
    return out + "</ul>\n";
  }

  static std::string contents(const Page& page) {
    std::string out;
    for (const Section& s : page.sections)
      if (!s.anchor.empty() && (s.level == 2 || s.level == 3))
        out += text("<li class=\"level", s.level, "\"><a href=\"#", s.anchor, "\">",
                    escape_html(s.title), "</a></li>\n");
    if (out.empty()) return "";
    return "<aside class=\"contents\" aria-label=\"On this page\"><ul>\n" + out + "</ul></aside>\n";
  }

  std::string whole(const Page& page) const {
    const std::string title = page.file == "index.html" ? "mote" : page.title + " · mote";
    return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
           escape_html(title) +
           "</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n"
           "<link rel=\"icon\" href=\"data:,\">\n</head>\n<body>\n"
           "<header><a class=\"home\" href=\"index.html\">mote</a>\n"
           "<input id=\"search-box\" type=\"search\" placeholder=\"Search ( / )\" "
           "autocomplete=\"off\" "
           "aria-label=\"Search\"><ul id=\"search-results\"></ul></header>\n<div class=\"frame\">\n"
           "<nav><details open><summary>Contents</summary>\n" +
           side(page) + "</details></nav>\n<main" + (page.wide ? " class=\"wide\"" : "") +
           ">\n<article>\n" + page.html + "</article>\n" + (page.wide ? "" : contents(page)) +
           "</main>\n</div>\n<script src=\"search-index.js\"></script>\n"
           "<script src=\"search.js\"></script>\n</body>\n</html>\n";
  }

  // Each section of each page, and each name of the headers: [title, link, place, text].
  std::string search_index() const {
    JsonWriter json;
    json.begin('[');
    auto entry = [&](const std::string& title, const std::string& href, const std::string& place,
                     const std::string& words) {
      json.begin('[').value(title).value(href).value(place).value(words).end();
    };
    for (const Page& page : pages_)
      for (const Section& s : page.sections)
        if (!s.title.empty() && !page.source.empty())
          entry(s.title, s.anchor.empty() ? page.file : page.file + "#" + s.anchor, label(page),
                s.words);
    for (const ApiName& name : api_.names()) entry(name.name, name.href, name.header, name.about);
    return json.end().text();
  }

  fs::path root_;
  std::vector<Page> pages_;
  std::map<std::string, size_t> by_source_;
  ApiIndex api_;
};

}  // namespace

Website make_website(const std::string& source) {
  check(fs::is_regular_file(fs::path(source) / "README.md") &&
            fs::is_directory(fs::path(source) / "include/mote"),
        "[docs] ", source, " is not mote's source tree: it lacks README.md or include/mote");
  return Maker(source).make();
}

}  // namespace mote
