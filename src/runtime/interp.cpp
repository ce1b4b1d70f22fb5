// INTERP: the engine hands it the unscheduled graph (interp_graph.h). INTERP_PROGRAM: compiles as
// any device, but its code is the printed program, run statement by statement.
#include "base/error.h"
#include "ir/graph.h"
#include "ir/print.h"
#include "ir/provenance.h"
#include "runtime/devices.h"
#include "runtime/interp_program.h"

namespace mote {

namespace {

struct InterpCode : Code {
  InterpProgram program;
  explicit InterpCode(InterpProgram p) : program(std::move(p)) {}
};

Target interp_target() {
  Target t = cpu_target();
  t.name = "interp";
  t.threads = 1;
  return t;
}

class InterpProgramDevice : public Device {
 public:
  explicit InterpProgramDevice(std::string name, Target target = interp_target())
      : Device(std::move(name), std::move(target)) {}

  std::string render(const Program& p) override { return print(p.linear); }

  std::unique_ptr<Code> compile(const std::string& text, const Program& p) override {
    Arena own;
    ArenaScope scope(own);
    return std::make_unique<InterpCode>(InterpProgram(parse(text), p.name, p.var_names()));
  }

  Token submit(LaunchList list, std::span<const Token> after) override {
    for (const Token& t : after) t.wait();
    std::vector<void*> buffers;
    for (const Launch& l : *list) {
      host_addresses(l, buffers);
      static_cast<const InterpCode&>(*l.code).program.run(buffers, l.vars, 0, l.extent);
    }
    return {};
  }

  std::string about() const override { return "runs lowered kernels statement by statement"; }
};

class Interp : public InterpProgramDevice {
 public:
  explicit Interp(std::string name) : InterpProgramDevice(std::move(name)) {}
  bool interprets_graphs() const override { return true; }
  std::string about() const override { return "the reference: evaluates tensor graphs op by op"; }
};

}  // namespace

std::unique_ptr<Device> open_interp_program(const std::string& name, Target target) {
  return std::make_unique<InterpProgramDevice>(name, std::move(target));
}

MOTE_DEVICE(interp_device){"INTERP", is_always_there, open_as<Interp>};
MOTE_DEVICE(interp_program_device){"INTERP_PROGRAM", is_always_there, open_as<InterpProgramDevice>};

}  // namespace mote
