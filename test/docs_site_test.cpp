// `mote docs`: every link and anchor of the site leads somewhere, and what the headers declare is
// in its index. How it looks is checked by eye: docs/sound.md says how.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "cli/site.h"
#include "io/json.h"
#include "test/process.h"
#include "test/temp_folder.h"

using namespace mote;
using test::read_file;
using test::TempFolder;
using test::write_file;

namespace {

const std::string root = MOTE_SOURCE_DIR "/";

const Website& site() {
  static const Website made = make_website(root);
  return made;
}

// All values of an attribute, such as href="...".
std::vector<std::string> values(const std::string& html, const std::string& attribute) {
  std::vector<std::string> out;
  const std::string begin = " " + attribute + "=\"";
  for (size_t at = html.find(begin); at != html.npos; at = html.find(begin, at + 1)) {
    const size_t from = at + begin.size();
    out.push_back(html.substr(from, html.find('"', from) - from));
  }
  return out;
}

const std::map<std::string, std::set<std::string>>& anchors() {
  static const std::map<std::string, std::set<std::string>> all = [] {
    std::map<std::string, std::set<std::string>> out;
    for (const auto& [name, html] : site().files)
      for (const std::string& id : values(html, "id"))
        CHECK_MESSAGE(out[name].insert(id).second, name, " has two anchors ", id);
    return out;
  }();
  return all;
}

bool leads_somewhere(const std::string& from, const std::string& href) {
  const size_t hash = href.find('#');
  const std::string file = hash == 0 ? from : href.substr(0, hash);
  if (!site().files.contains(file)) return false;
  const auto there = anchors().find(file);
  return hash == href.npos ||
         (there != anchors().end() && there->second.contains(href.substr(hash + 1)));
}

std::vector<std::filesystem::path> files_of(const std::string& folder, const char* extension) {
  std::vector<std::filesystem::path> out;
  for (const auto& entry : std::filesystem::directory_iterator(root + folder))
    if (entry.path().extension() == extension) out.push_back(entry.path());
  return out;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The function that a line of a header seems to declare, by its looks alone; "" for none.
std::string declared_on(std::string line, bool& shown) {
  const size_t indent = line.find_first_not_of(' ');
  if (indent == line.npos) return "";
  if (indent == 0 && line.starts_with("}")) shown = true;
  line = line.substr(indent);
  if (line.starts_with("private:") || line.starts_with("protected:")) shown = false;
  if (line.starts_with("public:")) shown = true;
  const size_t open = line.find('(');
  if (!shown || indent > 2 || open == line.npos || open == 0 || !is_name(line[open - 1])) return "";
  for (const char* other : {"//", "#", "return", "if", "for", "static_assert", "friend", "using",
                            "requires", "virtual ~", "F(", ":", "else", "constexpr bool is_number"})
    if (line.starts_with(other)) return "";
  if (line.substr(0, open).find_first_of("=~.") != line.npos || line.ends_with("\\")) return "";
  if (line.find("= delete") != line.npos) return "";
  size_t begin = open;
  while (begin > 0 && is_name(line[begin - 1])) --begin;
  const std::string name = line.substr(begin, open - begin);
  if (line.substr(0, begin).ends_with("operator ")) return "";  // a conversion
  const bool typed = begin > 0 && (line[begin - 1] == ' ' || line[begin - 1] == '&');
  return typed && !name.starts_with("MOTE_") && name != "requires" ? name : "";
}

}  // namespace

TEST_CASE("docs site: links and anchors lead somewhere, and nothing comes from outside") {
  size_t links = 0;
  for (const auto& [name, html] : site().files) {
    if (!name.ends_with(".html")) continue;
    for (const std::string& href : values(html, "href")) {
      if (href.starts_with("https://") || href.starts_with("http://") || href == "data:,") continue;
      ++links;
      CHECK_MESSAGE(leads_somewhere(name, href), name, " links to ", href);
    }
    for (const std::string& src : values(html, "src"))
      CHECK_MESSAGE(site().files.contains(src), name, " loads ", src);
    CHECK(html.find("<link rel=\"stylesheet\" href=\"style.css\">") != html.npos);
    CHECK(html.find("@import") == html.npos);
  }
  CHECK(links > 10'000);
  CHECK(site().files.at("style.css").find("url(") == std::string::npos);
  CHECK(site().files.at("search.js").find("http") == std::string::npos);
}

TEST_CASE("docs site: every page is listed, and has a title") {
  const std::string& index = site().files.at("index.html");
  for (const char* folder : {"docs", "examples"})
    for (const auto& path : files_of(folder, folder[0] == 'd' ? ".md" : ".cpp")) {
      const std::string stem = path.stem().string();
      const std::string page = (folder[0] == 'd' ? "" : "example-") + stem + ".html";
      REQUIRE_MESSAGE(site().files.contains(page), page);
      const size_t side = index.find("<nav>"), end = index.find("</nav>");
      const size_t at = index.find("href=\"" + page + "\"", side);
      CHECK_MESSAGE(at < end, page, " is not at the side of the pages");
      CHECK(site().files.at(page).find("<h1") != std::string::npos);
    }
}

TEST_CASE("docs site: the index has what the headers declare") {
  const std::string& index = site().files.at("api.html");
  std::set<std::string> names;  // with the last part alone, and with the header
  for (const auto& [file, ids] : anchors())
    if (file.starts_with("api-"))
      for (const std::string& id : ids) {
        const std::string plain = id.substr(0, id.find('-'));
        names.insert(file + " " +
                     plain.substr(plain.rfind(':') == plain.npos ? 0 : plain.rfind(':') + 1));
        names.insert(plain);
      }
  size_t found = 0;
  for (const auto& path : files_of("include/mote", ".h")) {
    std::istringstream lines(read_file(path));
    const std::string page = "api-" + path.stem().string() + ".html";
    CHECK_MESSAGE(index.find("href=\"" + page) != index.npos, page);
    bool shown = true, in_class = false, continued = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("class ") || line.starts_with("struct "))
        in_class = true, shown = line[0] == 's';
      const bool macro = continued || line.starts_with("#define");
      continued = line.ends_with("\\");
      const std::string name = macro ? "" : declared_on(line, shown);
      if (line.starts_with("}")) in_class = false;
      if (name.empty() || (line.starts_with("  ") && !in_class)) continue;
      ++found;
      CHECK_MESSAGE(names.contains(page + " " + name), page, " lacks ", name, ": ", line);
    }
  }
  CHECK(found > 900);
  for (const char* name : {"Tensor::cos", "cos", "nn::ReLU", "nn::ZeroPad2d", "fft::rfft2",
                           "optim::AdamW", "nn::Linear::weight", "DType", "Tensor::matmul",
                           "MOTE_FIELDS"})
    CHECK_MESSAGE(names.contains(name), name);
  // Both sides of the table of PyTorch's names.
  std::istringstream page(read_file(root + "docs/coverage.md"));
  std::string text, part, line;
  while (std::getline(page, line)) {
    if (line.starts_with("## ")) part = line;
    if (part == "## torch.Tensor" &&
        (line.starts_with("Have:") || (!text.empty() && text.back() == ',')))
      text += line;
  }
  size_t methods = 0;
  for (size_t at = text.find('`'); at != text.npos; at = text.find('`', at + 1)) {
    const size_t end = text.find('`', at + 1);
    const std::string name = text.substr(at + 1, end - at - 1);
    CHECK_MESSAGE((names.contains("Tensor::" + name) || names.contains(name)), name);
    ++methods, at = end;
  }
  CHECK(methods > 200);
}

TEST_CASE("docs site: the search index is JSON whose links lead somewhere") {
  const std::string& script = site().files.at("search-index.js");
  const std::string_view begin = "const search_index = ";
  REQUIRE(script.starts_with(begin));
  const std::string json = script.substr(begin.size(), script.rfind(';') - begin.size());
  JsonDocument document("search-index.js", json);
  size_t entries = 0;
  bool finds_name = false, finds_words = false;
  for (JsonValue entry : document.root().items("index")) {
    std::vector<std::string> parts;
    for (JsonValue part : entry.items("entry")) parts.emplace_back(part.string("part"));
    REQUIRE(parts.size() == 4);
    CHECK_MESSAGE(leads_somewhere("", parts[1]), parts[1]);
    finds_name |= parts[0] == "Tensor::matmul" && parts[1] == "api-tensor.html#Tensor::matmul";
    finds_words |= parts[0] == "Beside PyTorch" && parts[3].find("interpolate") != parts[3].npos;
    ++entries;
  }
  CHECK(entries > 2000);
  CHECK(finds_name);
  CHECK(finds_words);
}

TEST_CASE("docs site: a folder of other files stays as it is") {
  TempFolder folder;
  const std::string out = folder / "site";
  Ran first = run_mote("docs --out " + out + " --from " MOTE_SOURCE_DIR);
  CHECK(has(first, "open " + out + "/index.html"));
  CHECK(first.status == 0);
  CHECK(read_file(out + "/index.html") == site().files.at("index.html"));

  write_file(out + "/.mote-docs", read_file(out + "/.mote-docs") + "old.html\n../kept.html\n");
  write_file(out + "/old.html", "old"), write_file(folder / "kept.html", "kept");
  write_file(out + "/mine.txt", "mine");
  CHECK(run_mote("docs --out " + out).status == 0);
  CHECK(!std::filesystem::exists(out + "/old.html"));
  CHECK(read_file(folder / "kept.html") == "kept");
  CHECK(read_file(out + "/mine.txt") == "mine");

  const std::string other = folder / "other";
  std::filesystem::create_directory(other);
  write_file(other + "/index.html", "mine");
  Ran refused = run_mote("docs --out " + other);
  CHECK(refused.status == 1);
  CHECK(has(refused, "[docs] " + other + "/index.html already exists and was not written by `mote docs`"));
  CHECK(read_file(other + "/index.html") == "mine");
  CHECK(!std::filesystem::exists(other + "/style.css"));
  CHECK(has(run_mote("docs --from " + other + " --out " + out), "is not mote's source tree"));
  Ran file = run_mote("docs --out " + other + "/index.html");
  CHECK(file.status == 1);
  CHECK(has(file, "cannot be created"));
}
