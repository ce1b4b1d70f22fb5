// The walk that all renderers share: statements in order, tiles expanded to registers.
//
// A statement is written once per *form* that its users need. A form pins some tile ranges at
// position 0 and expands the others; positions are used in the form that pins every range they are
// linear in, and constant offsets make up for it. If the lane is among the ranges expanded, the
// registers are vectors. Values nobody needs are not written. Memory whose lanes lie apart, in a
// tile with another axis along which it is contiguous, is accessed along that axis, and the
// registers are transposed by shuffles. Where lanes step over two, in a tile with both neighbours,
// two vectors are loaded or stored and taken apart or put together.
#pragma once
#include <optional>
#include <span>
#include <string>

#include "ir/eval.h"
#include "render/tile.h"

namespace mote {

// One register or literal, as the target language spells it.
struct Value {
  std::string text;
  DType dtype = DType::none;
  int lanes = 1;
  std::optional<Scalar> literal;  // every lane has this value
};

using Gate = std::optional<Value>;

// Elements from here on: the address plus a constant number of elements of the memory.
struct Place {
  std::string address;
  int64_t offset = 0;
  DType dtype = DType::none;
  DType unit = DType::none;  // of the memory: narrower where words of it are read
  bool streamed = false;     // stored past the caches, where its address allows
  int64_t divisor = 1;       // of its number of elements from the start of the memory; 0: it is 0
};

// A target language. Functions that return a Value write its definition first.
class Writer {
 public:
  virtual ~Writer() = default;

  virtual Value literal(const Scalar& value, int lanes) = 0;
  virtual Value lane_numbers(DType dtype, int lanes) = 0;  // 0, 1, 2, ...
  virtual Value splat(const Value& scalar, int lanes) = 0;
  virtual Value slice(const Value& vector, int first, int lanes) = 0;  // of lane `first` on
  virtual Value join(std::span<const Value> elements) = 0;
  // Lane l of the result is lane from[l] of a, or from[l] - lanes of b.
  virtual Value shuffle(const Value& a, const Value& b, std::span<const int> from) = 0;
  // Sources and result have the same lanes. exact: integer arithmetic that does not wrap,
  // a sum of floats that is not fused with a product.
  virtual Value alu(Op op, DType dtype, std::span<const Value> src, bool exact) = 0;
  // How many words an instruction multiplies at most; at least 4.
  virtual int most_words() const { return 16; }

  virtual Value var(int number, DType dtype) = 0;  // once each, before any statement
  // The loop's position. Runs at least once if not may_be_empty.
  virtual Value open_loop(const Value& begin, const Value& end, bool may_be_empty) = 0;
  // A dimension of the launch, Globals first, then positions of a worker in its block. Nothing is
  // done from `end` on.
  virtual Value open_launched(int dimension, const Value& end, bool may_end_early) = 0;
  virtual void close_launched() { close_loop(); }
  virtual void close_loop() = 0;
  virtual Value fold(Op op, const Value& bools) = 0;  // one bool: And or Or of all lanes
  virtual void open_if(const Value& condition) = 0;
  virtual void open_else() = 0;  // may be left out
  virtual void close_if() = 0;

  virtual void declare_register(const std::string& name, DType dtype, int lanes) = 0;
  virtual Value read_register(const std::string& name, DType dtype, int lanes) = 0;
  virtual void write_register(const std::string& name, const Value& value) = 0;

  // Consecutive elements; a gate is empty, a scalar, or has as many lanes as the value.
  virtual std::string address(int slot, DType dtype, const Value& position) = 0;
  virtual Value load(const Place& place, int lanes, const Gate& gate) = 0;
  virtual void store(const Place& place, const Value& value, const Gate& gate) = 0;
  virtual void fetch(const Place& place, bool nearest) = 0;  // its line into a cache

  // Workers of a block; languages of one worker have none of it.
  virtual void barrier() { has_no_blocks(); }
  virtual Value of_lane(const Value&, const Value&) { return has_no_blocks(); }  // Shuffle
  // A Store of what a Load gives: 0 where `filled` is false, nothing where `gate` is. It is there
  // after a wait().
  virtual void copy(const Place&, const Place&, int, const Gate&, const Gate&) { has_no_blocks(); }
  virtual void wait(int64_t) { has_no_blocks(); }
  // Registers of c + a * b, by a row of the target.
  virtual std::vector<Value> multiply_tiles(int64_t, std::span<const Value>, std::span<const Value>,
                                            std::span<const Value>) {
    return {has_no_blocks()};
  }

 private:
  static Value has_no_blocks();
};

void expand(const Program& program, Writer& writer);

}  // namespace mote
