// A plan bound to memory: every address resolved, ready to run, once or again and again.
//
// Making one takes all memory it needs (its own temporaries, and that of buffers which had none),
// so that running cannot fail for lack of it. Between runs single buffers and variables may be
// replaced; a list that a device still works on is copied first. Kernels that follow each other on
// one device are one submission. A run waits, on the device, for the tokens of what it touches and
// adds its own. Not thread-safe: whoever runs one has a lease on the storages (engine/lease.h).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan.h"

namespace mote {

class CallList {
 public:
  // `buffers` by the plan's param slot, `values` of the variables by name (one missing is a User
  // error). `device` as in plan_for.
  CallList(std::shared_ptr<const CompiledPlan> plan, Device& device,
           std::span<DeviceBuffer* const> buffers,
           std::span<const std::pair<std::string, int64_t>> values);

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
    std::vector<const CompiledStep*> steps;
    std::vector<Use> uses;  // each memory once
    Token last;             // of the latest submission
  };
  struct LatestUse {
    size_t parts = 0, use = 0;  // how many parts there were then; which use of the last one
  };
  struct Place {
    int part, launch, slot;
  };

  Device& on(uint8_t id) const { return id ? mote::device(id) : device_; }
  int memory_index(int buffer) const { return memory_of_[static_cast<size_t>(buffer)]; }
  DeviceAddress address(int buffer) const;
  void take_memory(std::span<DeviceBuffer* const> buffers);
  void add_step(const CompiledStep& step);
  void add_launch(const CompiledStep& step);
  void add_use(Part& part, int memory, bool writes);
  std::vector<Launch>& changeable(int part);
  void check_sources() const;
  void run_part(Part& part);
  Token run_timed(Part& part);
  Token copy(const CompiledStep& step, std::span<const Token> after);

  std::shared_ptr<const CompiledPlan> plan_;
  Device& device_;
  std::vector<std::shared_ptr<MemoryBlock>> memories_;  // params by slot, then one arena per device
  std::vector<int> memory_of_;                          // by plan buffer
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
