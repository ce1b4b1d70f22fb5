// Lowered kernels as instructions on registers, and what runs them: inside this folder, for the
// interpreter of one worker (interp_program.h) and the model of many (simt_block.h).
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "ir/eval.h"
#include "ir/program.h"

namespace mote {

// Where an operand's elements are: register base + offsets[element of the instruction's tile].
struct RegisterTile {
  int base = -1;
  std::vector<int> offsets;
};

struct Instruction {
  enum Kind : uint8_t {
    Compute,
    Fold,
    Load,
    Store,
    Move,
    Loop,
    End,
    Barrier,
    Shuffle,
    Fragment,
    Wait,
    Box,
    Arrive,
    Await,  // from Barrier on of several workers, or of their copies: not for step()
  } kind;
  Op op = Op::Sink;           // of Compute and Fold
  DType dtype = DType::none;  // of the result, or of the memory of Load and Store
  bool gated = false;         // the last source says whether an element is accessed
  bool later = false;         // of Store: it is there after a Wait
  int statement = -1;         // its number in the program
  int dimension = -1;         // of Loop: of the launch, Globals first; -1: a loop of the program
  int to = -1;                // register of the result, or of the loop's position
  int count = 1;              // elements of the tile
  int param = -1;             // of Load and Store: slot, and how many elements it has
  int unit = 0;               // bytes of such an element; a Load of a word begins at one
  int64_t size = 0;           // of Box, Arrive, Await: arrivals; of Fragment: the row; of Wait: how many later ones may be missing
  int staged[3] = {-1, -1, -1};  // Params that sources are places of
  int64_t limits[3] = {};     // and how many elements these have
  bool products = false;      // of Wait: for these, not for copies
  int jump = -1;              // Loop: past its End; End: its Loop
  std::vector<int> places;    // of Fold and Move: where each element goes, from `to`
  std::vector<RegisterTile> src;  // of Barrier: positions of the loops it stands in
};

struct Instructions {
  std::string name;  // of the kernel
  std::vector<Instruction> list;
  std::vector<Scalar> registers;          // at the start: constants and tile positions
  std::vector<std::pair<int, int>> vars;  // (register, number of the scalar argument)
  std::vector<Scratch> scratch;
};
Instructions assemble(UOp linear, std::string name, std::span<const std::string> vars);

// One worker.
struct Machine {
  // Is told of every access to memory before it happens.
  struct Watch {
    virtual void accessed(const Instruction& in, int64_t element) = 0;
    virtual void stored_later(const Instruction& in, int64_t element, const Scalar& value) = 0;
  };
  struct Positions {
    int64_t begin, end;
  };

  const Instructions& code;
  std::span<void* const> buffers;     // by Param slot
  std::span<const Positions> launch;  // of each of its dimensions
  Watch* watch = nullptr;
  std::vector<Scalar> registers = code.registers;
  size_t at = 0;

  bool is_done() const { return at == code.list.size(); }
  bool is_at_meeting() const { return !is_done() && code.list[at].kind >= Instruction::Barrier; }
  void step();
  void set_vars(std::span<const int64_t> values);
  Scalar& reg(int i) { return registers[static_cast<size_t>(i)]; }
  const Scalar& get(const RegisterTile& o, int element) {
    return reg(o.base + o.offsets[static_cast<size_t>(element)]);
  }

 private:
  std::byte* element(const Instruction& in, const Scalar& position);
  void compute(const Instruction& in);
  void fold(const Instruction& in);
  void load(const Instruction& in);
  void store(const Instruction& in);
  void move(const Instruction& in);
  int64_t end_of(const Instruction& loop);
};

}  // namespace mote
