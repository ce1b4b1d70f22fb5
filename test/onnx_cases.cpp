#include "test/onnx_cases.h"

#include <algorithm>

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

// Training, classic machine learning, image files, patterns, text clean-up; and results that depend
// on NumPy's random numbers.
bool is_left_out(const std::string& name) {
  constexpr std::string_view all[] = {
      "node/test_adagrad",
      "node/test_adam_multiple",
      "node/test_momentum",
      "node/test_momentum_multiple",
      "node/test_ai_onnx_ml_label_encoder_string_int",
      "node/test_ai_onnx_ml_label_encoder_string_int_no_default",
      "node/test_ai_onnx_ml_label_encoder_tensor_mapping",
      "node/test_ai_onnx_ml_tree_ensemble_single_tree",
      "node/test_image_decoder_decode_bmp_rgb",
      "node/test_image_decoder_decode_jpeg_grayscale",
      "node/test_image_decoder_decode_png_rgb",
      "node/test_image_decoder_decode_pnm_rgb",
      "node/test_image_decoder_decode_tiff_rgb",
      "node/test_image_decoder_decode_webp_rgb",
      "node/test_regex_full_match_basic",
      "node/test_regex_full_match_email_domain",
      "node/test_strnormalizer_export_monday_casesensintive_upper",
      "node/test_strnormalizer_export_monday_empty_output",
      "node/test_strnormalizer_export_monday_insensintive_upper_twodim",
      "node/test_strnormalizer_nostopwords_nochangecase",
      "node/test_bernoulli",
      "node/test_bernoulli_double_expanded",
      "node/test_bernoulli_seed",
      "node/test_bernoulli_seed_expanded",
      "node/test_training_dropout",
      "node/test_training_dropout_default",
      "node/test_training_dropout_default_mask",
      "node/test_training_dropout_mask",
      "simple/test_gradient_of_add_and_mul",
      "simple/test_strnorm_model_monday_casesensintive_lower",
      "simple/test_strnorm_model_monday_casesensintive_nochangecase",
      "simple/test_strnorm_model_monday_casesensintive_upper",
      "simple/test_strnorm_model_nostopwords_nochangecase"};
  return std::find(std::begin(all), std::end(all), name) != std::end(all);
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
  } catch (const std::exception& e) { return e.what(); }
}

}  // namespace mote::test
