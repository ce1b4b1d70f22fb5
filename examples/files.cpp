// Tensors in files: a state dict saved as safetensors, what the file holds, and loading it again.
#include <mote/io.h>
#include <mote/models.h>

#include <cstdio>
#include <filesystem>

using namespace mote;

int main() {
  const std::string path = std::filesystem::temp_directory_path() / "mote_example.safetensors";
  manual_seed(0);
  models::MnistNet net;
  // Atomic: whatever happens meanwhile, the file is the old one or the new one.
  save_safetensors(path, state_dict(net),
                   {
                       {"made by", "examples/files.cpp"}
  });

  FileInfo info = file_info(path);
  std::printf("%s, %lld bytes\n", info.format.c_str(), static_cast<long long>(info.bytes));
  for (const FileInfo::Part& part : info.parts)
    std::printf("  %-24s %s\n", part.name.c_str(), part.type.c_str());

  models::MnistNet other;  // drawn anew, so different until it is loaded
  Tensor x = randn({1, 1, 28, 28}).realize();
  eval(net);
  eval(other);
  Tensor before = (net(x) - other(x)).abs().amax();
  std::printf("difference before %.3f", before.item<float>());
  load_state_dict(other, load(path));  // mapped; each tensor is copied once
  Tensor after = (net(x) - other(x)).abs().amax();
  std::printf(", after %.3f\n", after.item<float>());
  std::filesystem::remove(path);
}
