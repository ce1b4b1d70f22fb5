// SIMT, SIMT_SMALL, SIMT_BROWSER: devices with blocks of workers, as simt_block.h models them.
#include "ir/graph.h"
#include "ir/print.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"
#include "runtime/simt_block.h"

namespace mote {

namespace {

struct SimtCode : Code {
  SimtKernel kernel;
  explicit SimtCode(SimtKernel k) : kernel(std::move(k)) {}
};

class Simt : public Device {
 public:
  using Device::Device;

  std::string render(const Program& p) override { return print(p.linear); }

  std::unique_ptr<Code> compile(const std::string& text, const Program& p) override {
    Arena own;
    ArenaScope scope(own);
    return std::make_unique<SimtCode>(SimtKernel{assemble(parse(text), p.name, p.var_names()),
                                                 p.grid, p.block, target_.warp, target_.fragments,
                                                 target_.box});
  }

  Token submit(LaunchList list, std::span<const Token> after) override {
    for (const Token& t : after) t.wait();
    std::vector<void*> buffers;
    for (const Launch& l : *list) {
      host_addresses(l, buffers);
      run_blocks(static_cast<const SimtCode&>(*l.code).kernel, buffers, l.vars);
    }
    return {};
  }

  std::string about() const override {
    return "a model of a GPU: " + std::to_string(target_.workers) +
           " workers in a block, interpreted";
  }
};

void leave_out(Target& t, std::initializer_list<DType> dtypes) {
  for (DType d : dtypes) t.dtypes &= ~(1u << static_cast<int>(d));
}

// As wgmma is, of 128 lanes: rows of a lane are those of mma.sync, 16 more for each 32 lanes.
Fragment wgmma_bf16() {
  Fragment f{.name = "wgmma64x16x16.bf16",
             .rows = 64,
             .columns = 16,
             .depth = 16,
             .lanes = 128,
             .factor = DType::bf16,
             .sum = DType::f32};
  f.c = {
      {{0, 2},  {0, 4},  {1, 0},  {2, 0}, {4, 0}, {16, 0}, {32, 0}},
      {{0, 1}, {8, 0}, {0, 8}}
  };
  f.a_staged = f.b_staged = f.pending = true;
  return f;
}

// An H200, with more than is rendered for it.
Target large() {
  Target t = gpu_target({});
  t.name = "simt";
  t.box = 256;
  t.fragments.push_back(wgmma_bf16());
  t.dtypes = Target().dtypes;
  return t;
}

Target small() {
  Target t = large();
  t.name = "simt_small";
  t.copies = false, t.box = 0;
  t.fragments.clear();
  t.workers = 64, t.warp = 64;
  t.shared_bytes = 16 << 10;
  t.max_blocks = 65535;
  t.parallel_results = 8;
  t.max_buffers = 16;
  leave_out(t, {DType::f64});
  return t;
}

Target browser() {
  Target t = small();
  t.name = "simt_browser";
  t.workers = 256, t.warp = 32;
  t.max_buffers = 8;
  t.fma = false;
  leave_out(t, {DType::i64, DType::u64, DType::f16, DType::bf16});
  return t;
}

bool always(std::string*) { return true; }
template <Target describe()>
std::unique_ptr<Device> open(const std::string& name) {
  return std::make_unique<Simt>(name, describe());
}

}  // namespace

MOTE_DEVICE(simt_device){"SIMT", always, open<large>};
MOTE_DEVICE(simt_small_device){"SIMT_SMALL", always, open<small>};
MOTE_DEVICE(simt_browser_device){"SIMT_BROWSER", always, open<browser>};

}  // namespace mote
