#include "test/gpu.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "render/render.h"
#include "runtime/devices.h"
#include "runtime/gpu_target.h"

namespace mote::test {

namespace {

class Renderer : public Device {
 public:
  Renderer(const std::string& name, int architecture)
      : Device(name, gpu_target({.architecture = architecture})), architecture_(architecture) {
    target_.name = name;
  }
  std::string render(const Program& p) override { return render_ptx(p, target_, architecture_); }
  std::unique_ptr<Code> compile(const std::string&, const Program&) override {
    return std::make_unique<Code>();
  }
  Token submit(LaunchList, std::span<const Token>) override { return {}; }
  Token copy_in(DeviceAddress, const void*, int64_t, std::span<const Token>) override { return {}; }
  uint64_t allocate_raw(int64_t) override { return 64; }
  void free_raw(uint64_t, int64_t) override {}
  bool holds_data() const override { return false; }

 private:
  int architecture_;
};

template <int architecture>
std::unique_ptr<Device> open(const std::string& name) {
  return std::make_unique<Renderer>(name, architecture);
}
bool always(std::string*) { return true; }

// The module's entries, under other names.
std::string entries_of(const std::string& module, size_t number) {
  const std::string word = ".visible .entry ";
  std::string out;
  for (size_t at = module.find(word), n = 0; at != module.npos; ++n) {
    const size_t next = module.find(word, at + 1);
    const std::string entry = module.substr(at, next == module.npos ? next : next - at);
    out += word + text("k", number, "_", n) + entry.substr(entry.find('('));
    at = next;
  }
  return out;
}

}  // namespace

bool has_cuda() {
  for (const DeviceRow& r : device_rows()) {
    std::string why_not;
    if (r.name != std::string("CUDA")) continue;
    if (r.available(&why_not)) return true;
    std::printf("skipped: no CUDA, %s\n", why_not.c_str());
  }
  return false;
}

std::string ptx_device(int architecture) {
  static const bool added = [] {
    add_device({"PTX75", always, open<75>});
    add_device({"PTX80", always, open<80>});
    add_device({"PTX86", always, open<86>});
    add_device({"PTX89", always, open<89>});
    add_device({"PTX90", always, open<90>});
    add_device({"PTX100", always, open<100>});
    return true;
  }();
  (void)added;
  return text("PTX", architecture);
}

std::string ptxas() {
  for (const char* path : {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

std::string assemble_ptx(std::span<const std::string> kernels, const std::string& architecture) {
  std::string module = kernels[0].substr(0, kernels[0].find(".address_size"));
  module += ".address_size 64\n.extern .shared .align 16 .b8 block_memory[];\n";
  for (size_t i = 0; i < kernels.size(); ++i) module += entries_of(kernels[i], i);
  const std::string file =
      (std::filesystem::temp_directory_path() / text("mote_", getpid(), ".ptx")).string();
  std::ofstream(file) << module;
  const std::string command =
      ptxas() + " -O1 -arch=" + architecture + " -o /dev/null " + file + " 2>&1";
  std::string said;
  FILE* pipe = popen(command.c_str(), "r");
  char part[4096];
  while (const size_t n = pipe ? fread(part, 1, sizeof part, pipe) : 0) said.append(part, n);
  const bool failed = !pipe || pclose(pipe) != 0;
  if (failed && std::getenv("KEEP_PTX"))
    said += "\nkept: " + file;
  else
    std::filesystem::remove(file);
  return failed ? (said.empty() ? "ptxas failed" : said) : "";
}

}  // namespace mote::test
