// A graph as words: position-independent, comparable, a cache key that holds no nodes.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "ir/build.h"

namespace mote {

struct Storage;

// Nodes in an order where sources come first; interned arguments by address (they are never freed).
// Buffers of the tensor graph became Params numbered as met, bound Vars lost their values: two
// steps of a training loop give the same words.
struct Flat {
  std::vector<uint64_t> words;
  uint64_t hash = 0;
  std::vector<uint32_t> provenance;  // per node; no part of identity
  bool operator==(const Flat& o) const { return words == o.words; }
};

using VarValues = std::vector<std::pair<std::string, int64_t>>;  // of variables, by name
const int64_t* find_value(const VarValues& values, std::string_view name);
// A User error, said by a method, where it has another value in `what`.
void add_value(VarValues& values, const std::string& name, int64_t value, const char* method,
               const char* what);

// What is planned for one value of a variable holds for all of its class: one; up to the geometric
// mean of one and the bound, at least kFew; and the rest. Loops are chosen for the largest.
struct SizeClass {
  int64_t lo, hi;
  bool operator==(const SizeClass&) const = default;
  bool has(int64_t value) const { return lo <= value && value <= hi; }
};
constexpr int64_t kFew = 16;
SizeClass size_class(SizeClass all, int64_t value);
using SizeClasses = std::vector<std::pair<std::string, SizeClass>>;  // of variables, by name

struct FlatInputs {
  std::vector<UOp> buffers;  // by Param slot: Buffer nodes
  VarValues values;          // of the bound Vars
  SizeClasses classes;       // that it was written for
  bool torn = false;  // another thread wrote a buffer meanwhile: two versions of it are named
};

// Of a graph in an arena.
Flat flatten_graph(UOp root);
// Of effects in the tensor graph, under one Sink. A realized node is read from its buffer:
// `forward` gives the node that stands for it. Of a Given only the value is left.
class Flattener {
 public:
  virtual ~Flattener() = default;
  virtual UOp forward(UOp node) { return node; }  // itself when it is not realized
  // Whether the effects write it and nobody needs it afterwards: a Param in local space.
  virtual bool is_scratch(const Storage&) { return false; }
  // More effects, which those written so far turned out to need; asked for until there are none.
  virtual std::vector<UOp> further_roots() { return {}; }
  // Bound Vars are written as one of a class of values, as a number where that has only one.
  virtual bool by_size_class() { return false; }
  Flat run(std::span<const UOp> roots, FlatInputs* inputs);
};
// Rebuilds the graph in the current arena.
UOp unflatten_graph(const Flat& flat);
// The words with their arguments in full, for other processes, and back. False if the bytes are no
// graph. Provenance is left out.
std::vector<uint8_t> portable(const Flat& flat);
bool read_portable(std::span<const uint8_t> bytes, Flat& flat);

// Of an index expression of variables.
int64_t value_of(const Flat& expression, std::span<const std::string> names,
                 std::span<const int64_t> values);

// What memory of this shape has room for: symbolic sizes, bound to a value, as large as the largest
// of its class. Its elements lie in the front of each axis.
std::vector<int64_t> room_for(std::span<const Dim> dims);
int64_t count_with_room(const Shape& shape);

}  // namespace mote
