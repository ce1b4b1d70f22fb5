#include "runtime/interp_program.h"

#include "runtime/machine.h"

namespace mote {

struct InterpProgram::Code : Instructions {};

InterpProgram::InterpProgram(UOp linear, std::string name, std::span<const std::string> vars)
    : code_(new Code{assemble(linear, std::move(name), vars)}) {}
InterpProgram::~InterpProgram() = default;
InterpProgram::InterpProgram(InterpProgram&&) noexcept = default;

void InterpProgram::run(std::span<void* const> buffers, std::span<const int64_t> vars,
                        int64_t begin, int64_t end) const {
  std::vector<void*> memories(buffers.begin(), buffers.end());
  std::vector<std::vector<std::byte>> local;
  for (const Scratch& s : code_->scratch) {
    memories.resize(std::max(memories.size(), static_cast<size_t>(s.slot) + 1));
    memories[static_cast<size_t>(s.slot)] = local.emplace_back(static_cast<size_t>(s.bytes)).data();
  }
  const Machine::Positions whole[] = {
      {begin, end}
  };
  Machine m{*code_, memories, whole};
  m.set_vars(vars);
  while (!m.is_done()) m.step();
}

}  // namespace mote
