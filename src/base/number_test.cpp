#include "base/number.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/random.h"

using namespace mote;

// printf and strtod in the "C" locale, which the tests run in, are the judges.
static std::string printed(const char* format, int digits, double v) {
  char out[1100];
  std::snprintf(out, sizeof out, format, digits, v);
  return out;
}

TEST_CASE("numbers as text are those of printf and read back as strtod reads them") {
  Random random(7);
  const double special[] = {0.0,      -0.0,
                            1,        -1,
                            0.5,      2.5,
                            1e6,      1e-300,
                            5e-324,   1.7e308,
                            INFINITY, -INFINITY,
                            0.1,      123456.789,
                            1e16,     9.999999999e22,
                            1e22,     4503599627370497.5};
  for (int i = 0; i < 20'000; ++i) {
    double v = i < static_cast<int>(std::size(special)) ? special[i]
               : i % 2                                  ? std::bit_cast<double>(random.bits())
                                                        : random.between(-1e6, 1e6);
    if (std::isnan(v)) continue;
    const int digits = static_cast<int>(random.below(20));
    REQUIRE(fixed_text(v, digits) == printed("%.*f", digits, v));
    REQUIRE(scientific_text(v, digits) == printed("%.*e", digits, v));
    REQUIRE(general_text(v, digits) == printed("%.*g", digits, v));
    double back = 0;
    REQUIRE(read_number(shortest_text(v), back));
    REQUIRE(std::bit_cast<uint64_t>(back) == std::bit_cast<uint64_t>(v));
    if (!std::isfinite(v)) continue;
    REQUIRE(std::strtod(hex_text(v).c_str(), nullptr) == v);
    const std::string some = printed("%.*e", digits, v);
    if (read_number(some, back)) REQUIRE(back == std::strtod(some.c_str(), nullptr));
  }
  CHECK(fixed_text(1e308, 300).size() == 309 + 301);
}

TEST_CASE("only a whole text is a number, and words are split at spaces alone") {
  int n = 7;
  CHECK_FALSE(read_number("", n));
  CHECK_FALSE(read_number(" 1", n));
  CHECK_FALSE(read_number("1 ", n));
  CHECK_FALSE(read_number("+1", n));
  CHECK_FALSE(read_number("99999999999", n));
  CHECK_FALSE(read_number("1.5", n));
  CHECK(n == 7);
  CHECK(read_number("-12", n));
  CHECK(n == -12);
  std::string_view text = "3,4 rest";
  CHECK(take_number(text, n));
  CHECK(n == 3);
  CHECK(text == ",4 rest");
  CHECK(take_word(text) == ",4");
  CHECK(take_word(text) == "rest");
  CHECK(take_word(text).empty());
  CHECK(hex_text(uint64_t{0xbeef}, 6) == "00beef");
}
