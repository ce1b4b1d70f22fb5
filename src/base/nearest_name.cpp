#include "base/nearest_name.h"

#include <algorithm>
#include <vector>

namespace mote {

namespace {

// How many letters have to be put in, left out, replaced or swapped with the next.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i)
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] =
          std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

std::string_view nearest_name(std::string_view typed, std::span<const std::string_view> names) {
  std::string_view best;
  size_t least = typed.size() / 3 + 2;  // further away is another word
  for (std::string_view name : names) {
    size_t distance = edit_distance(typed, name);
    if (name.starts_with(typed) && typed.size() >= 2) distance = 1;
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

}  // namespace mote
