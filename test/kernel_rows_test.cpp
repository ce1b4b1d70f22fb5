// Kernels of the rows of `mote bench cpu`: as the heuristic makes them against the interpreter
// where they are small, against plain loops (NOOPT=1) as large as the bench has them.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/flags.h"
#include "cli/bench_cpu.h"
#include "test/odd_devices.h"

using namespace mote;
using namespace mote::bench;

namespace {

// Those that are one function; models are tested elsewhere.
std::vector<Row> kernel_rows() {
  std::vector<Row> rows = all_rows(), models;
  add_model_rows(models);
  std::erase_if(rows, [&](const Row& r) {
    return std::ranges::any_of(models, [&](const Row& m) { return m.name == r.name; });
  });
  return rows;
}

void compare_row(const Row& row, const Tensor& got, const Tensor& wanted) {
  CAPTURE(row.name);
  CHECK(got.dim() == wanted.dim());
  CHECK(got.numel() == wanted.numel());
  CHECK(compare(got, wanted.to_vector<float>(), 1e-4) == "");
}

}  // namespace

TEST_CASE("bench rows: small ones give what the interpreter gives") {
  add_odd_devices();
  SmallRows small;
  for (const Row& row : kernel_rows()) {
    const Sides sides = row.make();
    const Tensor wanted = sides.ours.on("INTERP");
    for (const char* device : {"CPU", "TIGHT", "PARTED", "INTERP_PROGRAM"}) {
      CAPTURE(std::string(device));
      compare_row(row, sides.ours.on(device), wanted);
    }
  }
}

TEST_CASE("bench rows: as large as they are they give what plain loops give" *
          doctest::test_suite("soak")) {
  for (const Row& row : kernel_rows()) {
    const Sides sides = row.make();
    const Tensor got = sides.ours.on("CPU");
    FlagScope plain(Flag::NOOPT, 1);
    compare_row(row, got, sides.ours.on("CPU"));
  }
}
