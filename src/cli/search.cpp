// `mote search`: what searches found, as files.
#include <mote/search.h>

#include <cstdio>

#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/same_file.h"

namespace mote {

namespace {

int run_search(const Words& words) {
  const bool in = words.operand(0) == "import";
  const std::string& path = words.operand(1);
  check_distinct_files("search", std::vector<UsedPath>{
                                     {"FILE", path, !in}
  });
  const int64_t lines = in ? import_searched(path) : export_searched(path);
  std::printf("%lld kernels %s %s\n", static_cast<long long>(lines),
              in ? "read from" : "written to", printable(path).c_str());
  return 0;
}

constexpr char more[] =
    "The loops found by searches (BEAM=n, search(), `mote bench cpu --search`) are kept in the\n"
    "folder of the compile cache. export writes them to a file; import adds those of a file. So a\n"
    "program can be shipped with the loops found for it. See docs/search.md.\n";

}  // namespace

const Command search_command = {"search", "export|import FILE", "export or import searched kernels",
                                {},       run_search,           more};

}  // namespace mote
