// A service for inputs of any length: one captured function serves all of them. The first input of
// its kind (one, few or many characters) compiles kernels; from then on a new length costs nothing.
//   service        answers a few lines of its own
//   service -      answers the lines of stdin
#include <mote/modules.h>
#include <mote/mote.h>

#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>

using namespace mote;

constexpr int64_t kMost = 256;  // characters of a request

struct Scorer {
  nn::Embedding letters{256, 64}, places{kMost, 64};
  nn::TransformerEncoder encoder{
      2, 64, 4, {.dim_feedforward = 128, .batch_first = true}
  };
  nn::Linear out{64, 1};
  MOTE_FIELDS(letters, places, encoder, out)
  // text: (kMost), of which the first `length` count
  Tensor operator()(const Tensor& text, const Sym& length) const {
    Tensor x = letters(text(Slice(0, length))) + places(arange(length));
    return out(encoder(x.unsqueeze(0)).mean(1)).sigmoid().squeeze();
  }
};

const char own_requests[] =
    "the first request compiles kernels for many characters\n"
    "and the second one is captured\nfrom the third one on a list is replayed\n"
    "whatever the length is, up to the bound\nfew\nis a kind\nof its own\nso is one\n1\n2\n3\n\n"
    "an error is an answer, too: the request above is empty, and the service goes on\n";

int main(int argc, char** argv) {
  manual_seed(0);
  Scorer scorer;
  eval(scorer);
  Variable length("length", 1, kMost);
  auto score = jit([&](const Tensor& text, const Sym& n) {
    auto scope = no_grad();
    return scorer(text, n);
  });
  std::istringstream own(own_requests);
  std::istream& in = argc > 1 && std::string(argv[1]) == "-" ? std::cin : own;
  for (std::string line; std::getline(in, line);) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<uint8_t> bytes(line.begin(), line.end());
    bytes.resize(kMost);
    try {
      const float answer = score(tensor(bytes), length.bind(line.size())).item<float>();
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - start;
      std::printf("%3zu characters  score %.3f  %9.0f us\n", line.size(), answer, time.count());
    } catch (const Error& error) {
      std::printf("%3zu characters  %s\n", line.size(), error.what());
    }
  }
}
