// Other people's models on other people's data: what they are for, and what ONNX Runtime says.
#include <doctest/doctest.h>
#include <mote/fft.h>
#include <mote/images.h>
#include <mote/mote.h>
#include <mote/onnx.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "cli/bench_onnx.h"
#include "onnx/compare.h"
#include "onnx/values.h"
#include "test/shared_data.h"

using namespace mote;

namespace {

// The samples of a file with one channel of 16 bits.
std::vector<float> read_wav(const std::string& path) {
  const std::string bytes = read_text(path);
  const size_t data = bytes.find("data", 12);
  REQUIRE(data != bytes.npos);
  std::vector<float> out;
  for (size_t at = data + 8; at + 2 <= bytes.size(); at += 2) {
    int16_t sample;
    std::memcpy(&sample, bytes.data() + at, sizeof sample);
    out.push_back(static_cast<float>(sample) / 32768);
  }
  return out;
}

// (1, channels, height, width); undefined, after a line that says so, where nothing reads JPEG.
Tensor photo(const std::string& path, int64_t channels) {
  try {
    return load_image(path, channels).unsqueeze(0).to(float32);
  } catch (const Error& error) {
    const std::string what = error.what();
    if (what.find("libturbojpeg0") == what.npos) throw;
    MESSAGE("skipped: there is no libturbojpeg");
    return {};
  }
}

int64_t largest(const Tensor& scores) { return scores.argmax().item<int64_t>(); }

}  // namespace

TEST_CASE("onnx: digits on photos") {
  const std::string path = shared_data("models/opt-mnist.onnx"), images = shared_data("images");
  if (path.empty() || images.empty()) return;
  const onnx::Model model(path);
  for (const int64_t digit : {0, 3, 5, 7}) {
    const Tensor picture = photo(images + "/mnist_digit_" + std::to_string(digit) + ".jpg", 1);
    if (!picture.defined()) return;
    const Tensor small = transforms::resize(picture, {28, 28}) / 255;
    CHECK(largest(model
                      .run({
                          {"Input3", small}
    })[0]
                      .value.tensor) == digit);
  }
}

TEST_SUITE("soak") {
  // Where whisper.cpp's own test says there is speech in this file; in between nobody speaks.
  TEST_CASE("onnx: speech is found where it is") {
    const std::string folder = shared_data("models/silero_vad");
    if (folder.empty()) return;
    constexpr size_t window = 512, context = 64;
    const std::vector<float> all = read_wav(folder + "/jfk.wav");
    const onnx::Model model(folder + "/silero_vad.onnx");
    Tensor state = zeros({2, 1, 128});
    std::vector<float> heard(context);
    std::vector<double> chance;
    for (size_t at = 0; at + window <= all.size(); at += window) {
      heard.insert(heard.end(), all.begin() + static_cast<long>(at),
                   all.begin() + static_cast<long>(at + window));
      const auto out = model.run({
          {"input", from_data(heard, {1, context + window})},
          {"state", state},
          {"sr", full({}, 16000, int64)}
      });
      chance.push_back(out[0].value.tensor.item<float>());
      state = out[1].value.tensor;
      heard.erase(heard.begin(), heard.end() - context);
    }
    auto share = [&](double from, double to) {  // of the windows between these seconds
      int speech = 0, count = 0;
      for (size_t i = 0; i < chance.size(); ++i) {
        const double middle = (static_cast<double>(i) + 0.5) * window / 16000;
        if (middle < from || middle > to) continue;
        ++count, speech += chance[i] > 0.5;
      }
      REQUIRE(count > 0);
      return static_cast<double>(speech) / count;
    };
    for (const auto& [from, to] : {
             std::pair{0.4, 2.1 },
             {5.5, 7.5 },
             {8.3, 10.5}
    })
      CHECK(share(from, to) > 0.9);
    for (const auto& [from, to] : {
             std::pair{2.4, 3.2},
             {4.6, 5.2},
             {7.8, 8.0}
    })
      CHECK(share(from, to) < 0.1);
  }

  TEST_CASE("onnx: noise is taken away as the authors' own program does") {
    const std::string folder = shared_data("models/gtcrn");
    if (folder.empty()) return;
    const std::vector<float> noisy = read_wav(folder + "/mix.wav"),
                             wanted = read_wav(folder + "/enh_stream.wav");
    const auto length = static_cast<int64_t>(noisy.size());
    const fft::StftOptions o{.hop_length = 256, .window = hann_window(512).sqrt()};
    const Tensor spectrum = fft::stft(from_data(noisy, {length}), 512, o).realize();
    const onnx::Model model(folder + "/gtcrn_simple.onnx");
    std::vector<onnx::Value> in = {
        {}, zeros({2, 1, 16, 16, 33}), zeros({2, 3, 1, 1, 16}), zeros({2, 1, 33, 16})};
    std::vector<Tensor> frames;
    for (int64_t t = 0; t < spectrum.size(1); ++t) {
      in[0] = spectrum.narrow(1, t, 1).unsqueeze(0).contiguous();
      const std::vector<onnx::Value> out = model.run(in);
      frames.push_back(out[0].tensor.squeeze(0));
      for (size_t i = 1; i < in.size(); ++i) in[i] = out[i];
    }
    const auto got = fft::istft(cat(frames, 1), 512, o).to_vector<float>();
    REQUIRE(got.size() + 512 >= wanted.size());  // less than a frame is missing
    double signal = 0, off = 0;
    for (size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
      signal += std::pow(wanted[i], 2);
      off += std::pow(got[i] - wanted[i], 2);
    }
    // What is stored was rounded to 16 bits.
    CHECK(10 * std::log10(signal / off) > 50);
    MESSAGE("decibels: " << 10 * std::log10(signal / off));
  }

  TEST_CASE("onnx: a face is found where it is") {
    const std::string path = shared_data("models/ultraface_RFB-320.onnx"),
                      images = shared_data("images");
    if (path.empty() || images.empty()) return;
    const Tensor picture = photo(images + "/grace_hopper.jpg", 3);
    if (!picture.defined()) return;
    const Tensor in = (transforms::resize(picture, {240, 320}) - 127) / 128;
    const auto out = onnx::Model(path).run({
        {"input", in}
    });
    const Tensor faces = out[0].value.tensor[0].select(1, 1);  // the chance that it is one
    const int64_t best = largest(faces);
    CHECK(faces[best].item<float>() > 0.9f);
    const auto box = out[1].value.tensor[0][best].to_vector<float>();  // left, top, right, bottom
    // By eye: from the hair's edge to the chin, from ear to ear.
    const float face[] = {0.37f, 0.15f, 0.68f, 0.52f};
    for (size_t i = 0; i < 4; ++i) CHECK(std::abs(box[i] - face[i]) < 0.08f);
  }

  TEST_CASE("onnx: models give what ONNX Runtime gives") {
    if (shared_data("models").empty()) return;
    if (!onnx_runtime_missing().empty()) {
      MESSAGE("skipped: " << onnx_runtime_missing());
      return;
    }
    for (const onnx_bench::Row& row : onnx_bench::rows()) {
      if (row.lacks_weights || row.name == "mobilenet_qdq") continue;
      CAPTURE(row.name);
      const std::string path = shared_data(row.file);
      const std::vector<PlainTensor> inputs = onnx_bench::inputs_of(row);
      RuntimeModel theirs(path, 1);
      theirs.set_inputs(inputs);
      theirs.run();
      const std::vector<PlainTensor> wanted = theirs.take();
      const onnx::Model model(path);
      std::vector<onnx::Value> in;
      for (const PlainTensor& t : inputs) in.push_back(onnx_bench::tensor_of(t));
      const std::vector<onnx::Value> got = model.run(in);
      REQUIRE(got.size() == wanted.size());
      for (size_t i = 0; i < got.size(); ++i)
        CHECK(onnx::difference(got[i], onnx_bench::tensor_of(wanted[i]), {1e-3, 1e-4}) == "");
    }
  }
}
