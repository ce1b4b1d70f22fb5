// A plan bound to memory: every address resolved, ready to run, once or again and again.
//
// Making one takes all memory it needs (its own temporaries, and that of buffers which had none),
// so that running cannot fail for lack of it. Between runs single buffers and variables may be
// replaced; a list that a device still works on is copied first. Kernels that follow each other on
// one device are one submission. A run waits, on the device, for the tokens of what it touches and
// adds its own. Not thread-safe: whoever runs one has a lease on the storages (engine/lease.h).
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan.h"

namespace mote {

class CallList {
 public:
  // `buffers` by slot of the plan's memories, `values` of the variables by name (one missing is a
  // User error).
  CallList(std::shared_ptr<const CompiledPlan> plan, std::span<DeviceBuffer* const> buffers,
           const VarValues& values);

  void run();  // with DEBUG >= 2 or PROFILE: kernel by kernel, timed

  void set_buffer(int param, DeviceBuffer& buffer);  // of the same device, dtype and size
  void set_value(std::string_view name, int64_t value);

 private:
  struct Use {
    int memory;
    bool writes;
  };
  struct Part {  // launches on one device, or one copy
    Device* device = nullptr;
    std::shared_ptr<std::vector<Launch>> launches;
    std::vector<UOp> steps;
    std::vector<Use> uses;  // each memory once
    Token last;             // of the latest submission
    std::array<int64_t, 2> offsets{};  // of a copy: in its memories
  };
  struct LatestUse {
    size_t parts = 0, use = 0;  // how many parts there were then; which use of the last one
  };
  struct Place {
    int part, launch, slot;
    int64_t offset;
  };
  // Of the loops over statements.
  using Positions = std::vector<std::pair<UOp, int64_t>>;

  int index_of(UOp place) const;
  DeviceAddress start_of(UOp place) const;  // of its memory
  void take_memory(std::span<DeviceBuffer* const> buffers);
  uint32_t add_statements(uint32_t from, Positions& loops);
  void add_step(UOp step, const Positions& loops);
  void add_launch(UOp call, const Positions& loops);
  void add_use(Part& part, int memory, bool writes);
  std::vector<Launch>& changeable(int part);
  void check_sources() const;
  void run_part(Part& part);
  Token run_timed(Part& part);
  Token copy(const Part& part, std::span<const Token> after);

  std::shared_ptr<const CompiledPlan> plan_;
  std::vector<std::shared_ptr<MemoryBlock>> memories_;  // params by slot, then one arena per device
  std::map<uint8_t, int> arenas_;                       // by device: which of them
  std::vector<Part> parts_;
  std::vector<LatestUse> latest_use_;       // by memory, while parts are made
  std::vector<std::vector<Place>> places_;  // by param slot
  struct Variable {
    std::string name;
    int64_t value;
    std::vector<Place> places;
  };
  std::vector<Variable> variables_;
  uint64_t kernels_ = 0;
  std::vector<Token> after_;  // kept for its memory
};

}  // namespace mote
