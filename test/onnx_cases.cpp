#include "test/onnx_cases.h"

#include "io/archive.h"
#include "io/compress.h"
#include "test/shared_data.h"

namespace mote::test {

namespace {

void read_archive(const std::string& group, std::vector<OnnxCase>& out) {
  const std::string path = shared_data("onnx/" + group + ".tar.zst");
  if (path.empty()) return;
  const File tar = unpacked(open_file(path));
  std::map<std::string, OnnxCase> cases;
  std::map<std::string, File> files;
  for (const ArchiveEntry& e : list_tar(tar))
    files[e.name] = {e.name, tar.bytes.part(e.offset, e.size)};
  for (const auto& [name, file] : files) {
    const size_t slash = name.rfind('/');
    if (name.substr(slash + 1) != "model.onnx") continue;
    OnnxCase c{name.substr(0, slash), file, {}};
    for (size_t set = 0;; ++set) {
      const std::string folder = c.name + "/test_data_set_" + std::to_string(set) + "/";
      onnx::DataSet data;
      auto collect = [&](const char* kind, std::vector<File>& list) {
        for (size_t i = 0; files.contains(folder + kind + std::to_string(i) + ".pb"); ++i)
          list.push_back(files[folder + kind + std::to_string(i) + ".pb"]);
      };
      collect("input_", data.inputs), collect("output_", data.outputs);
      if (data.outputs.empty()) break;
      c.sets.push_back(std::move(data));
    }
    out.push_back(std::move(c));
  }
}

}  // namespace

std::vector<OnnxCase> onnx_cases() {
  std::vector<OnnxCase> out;
  for (const char* group : {"node", "simple", "pytorch-converted", "pytorch-operator"})
    read_archive(group, out);
  return out;
}

bool is_left_out(const std::string& name) {
  for (const char* part :
       {"test_adagrad", "test_adam", "test_momentum", "test_gradient_of", "ai_onnx_ml",
        "test_image_decoder", "test_regex_full_match", "test_strnorm", "test_bernoulli",
        "test_training_dropout"})
    if (name.find(part) != name.npos) return true;
  return false;
}

namespace {

// ONNX's own, but where what is stored has the rounding of a transform in f32 and the right result
// is 0.
onnx::Tolerance tolerance_of(const std::string& name) {
  return {.absolute = name.find("test_dft_inverse") != name.npos ? 2e-6 : 1e-7};
}

}  // namespace

std::string run_case(const OnnxCase& c, const std::string& device) {
  try {
    onnx::ModelCore model(c.model, {}, device);
    for (const onnx::DataSet& set : c.sets)
      if (std::string wrong = onnx::check(model, set, tolerance_of(c.name)); !wrong.empty())
        return wrong;
    return {};
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace mote::test
