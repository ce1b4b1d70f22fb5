// Sums of products: how they are found, and what their loops may be.
#pragma once
#include <optional>

#include "optimize/sketch.h"

namespace mote {

// A kernel, or one of its nests, that sums values made of two reads.
struct Product {
  std::vector<UOp> axes;  // of the result
  UOp result;             // its position
  Access first, second;
  int64_t depth = 1;  // products per sum
  int64_t bytes = 4;  // of an accumulator
};
std::optional<Product> find_product(const Sketch& sketch);

// The side that is read in windows, with gaps or behind a gate is staged for a stretch of outputs:
// what is summed on one side, positions of outputs on the other, these as one axis where they can
// be. What is left is a plain product. Of two such sides the first or second (`which`) is staged,
// one with windows or a gate before one with gaps. False: there is none, or it does not fit.
// As planes: windows are read from a copy without gates, and overlap there as they do in memory.
// More of them: for more sums than the caches hold; near ones: as many as the first cache holds.
enum class Gather { Matrix, Planes, MorePlanes, NearPlanes };
bool gather(Sketch& sketch, int which, Gather how);

// Register tile, blocks and packed operands of a product with reuse on two output axes. What the
// taste does not say is done as seems best. False: it is no such product, or nothing would differ.
struct ContractionTaste {
  int view = 0;              // which axes are rows and columns: the n-th best
  bool other_right = false;  // packed if it would not be, and the reverse
  bool whole = false;        // the sum in no blocks
  bool masks = false;        // gates are no loops that end early
  int gather = 0;            // first of all, this one of the sides that want it; 0: none
  Gather as = Gather::Matrix;
};
bool tile_contraction(Sketch& sketch, const ContractionTaste& taste);

}  // namespace mote
