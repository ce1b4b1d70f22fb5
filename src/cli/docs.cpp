// `mote docs`: the documentation as a static site.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/site.h"
#include "runtime/output_file.h"

using namespace mote;

namespace {

namespace fs = std::filesystem;

// Names the files that were written into a folder: these may be replaced, and nothing else.
constexpr const char* kList = ".mote-docs";

std::set<std::string> files_of_before(const fs::path& folder) {
  std::set<std::string> out;
  std::ifstream in(folder / kList);
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line.find('/') == line.npos && line != "." && line != "..")
      out.insert(line);
  return out;
}

// Leaves a file alone that is as it should be.
void write_text(const fs::path& path, std::string_view bytes) {
  std::ifstream before(path, std::ios::binary);
  if (before && std::string(std::istreambuf_iterator<char>(before), {}) == bytes) return;
  OutputFile out(path.string());
  out.write(bytes);
  out.commit();
}

void write_site(const Website& site, const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  check(!error && fs::is_directory(folder), "[docs] the folder ", folder.string(),
        " cannot be created", error ? ": " + error.message() : "");
  const std::set<std::string> before = files_of_before(folder);
  std::string names;
  for (const auto& [name, bytes] : site.files) {
    check(before.contains(name) || !fs::exists(fs::symlink_status(folder / name)), "[docs] ",
          (folder / name).string(),
          " already exists and was not written by `mote docs`: choose another folder with --out");
    names += name + "\n";
  }
  // The list comes first: what is cut short can be written again.
  for (const std::string& name : before)
    if (!site.files.contains(name)) fs::remove(folder / name, error);
  write_text(folder / kList, names);
  for (const auto& [name, bytes] : site.files) write_text(folder / name, bytes);
}

int run_docs(const Words& words) {
  const std::string source = words.text("from", tool_path(".."));
  const fs::path folder = words.text("out", "mote-docs");
  const Website site = make_website(fs::path(source).lexically_normal().string());
  write_site(site, folder);
  std::printf("wrote %zu pages and %zu API names; open %s\n", site.pages, site.declarations,
              printable((folder / "index.html").string()).c_str());
  return 0;
}

// clang-format off
constexpr Option options[] = {
    {"out",  "FOLDER", "write the site into this folder (mote-docs)"},
    {"from", "FOLDER", "mote's source tree (default: the one this program was built from)"},
};
// clang-format on

}  // namespace

const Command mote::docs_command = {
    "docs",
    "",
    "write the documentation as a website",
    options,
    run_docs,
    "The site is one folder of plain files: README, docs/, examples/ and an index of the API made\n"
    "from the headers, with search. It needs no server; open its index.html. A folder that was\n"
    "written before is brought up to date. Files that are not from `mote docs` are never "
    "replaced."};
