// Small files that stand for much: loaders take time and memory by the size of the file.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <mote/io.h>
#include <mote/mote.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

#include "io/compress.h"
#include "test/file_builders.h"
#include "test/process.h"

using namespace mote;
using namespace mote::test;

namespace {

struct Cost {
  int status;
  double seconds;
  std::string output;
};

// The program on these words with so much memory at most; it is ended after 20 seconds.
Cost cost_of(const std::vector<std::string>& words, rlim_t memory = 256 << 20) {
  Folder folder;
  const std::string log = folder / "log";
  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int out = open(log.c_str(), O_WRONLY | O_CREAT, 0600);
    dup2(out, 1), dup2(out, 2);
    std::vector<const char*> arguments = {MOTE_BINARY_DIR "/mote"};
    for (const std::string& word : words) arguments.push_back(word.c_str());
    arguments.push_back(nullptr);
    alarm(20);
    const rlimit limit{memory, memory};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    setrlimit(RLIMIT_DATA, &limit);
#endif
    execv(arguments[0], const_cast<char* const*>(arguments.data()));
    _exit(127);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  std::ifstream in(log, std::ios::binary);
  return {
      WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      {std::istreambuf_iterator<char>(in), {}}
  };
}

std::string repeated(const std::string& piece, size_t times) {
  std::string out;
  while (times--) out += piece;
  return out;
}

std::string pickle_zip(const std::string& pickle) {
  return make_zip({
      {"archive/data.pkl", pickle, true}
  });
}

std::string many_axes(size_t count) { return "[" + repeated("1, ", count - 1) + "1]"; }

std::string checkpoint_with(const std::string& name, const std::string& value) {
  std::string metadata =
      "\"task\": \"gpt\", \"step\": \"0\", \"order.seed\": \"0\", "
      "\"order.epoch\": \"0\", \"order.position\": \"0\", "
      "\"setting.characters\": \"\\n abc\", \"setting." +
      name + "\": \"" + value + "\"";
  return make_safetensors("{\"__metadata__\": {" + metadata + "}}", "");
}

// One frame of blocks that each repeat a byte 128 KiB times.
std::string zstd_zeros(size_t size) {
  constexpr size_t block = 128 << 10;
  std::string out("\x28\xb5\x2f\xfd\x00\x58", 6);  // a window of 2 MiB
  for (size_t at = 0; at < size; at += block)
    out +=
        le<uint32_t>(block << 3 | 1 << 1 | (at + block >= size)).substr(0, 3) + std::string(1, 0);
  return out;
}

struct Bomb {
  const char* what;
  std::vector<std::string> words;  // FILE stands for the path
  std::string bytes;
  const char* error;  // "": none
};

// clang-format off
std::vector<Bomb> bombs() {
  const std::string zeros(70 << 20, '\0'), packed = make_gzip(zeros), info = "info";
  const std::string proto = "\x80\x02";
  const std::string shape =
      "{'descr': '|u1', 'fortran_order': True, 'shape': (" + repeated("1,", 5000) + "), }";
  const std::string axes = "{\"w\": {\"dtype\": \"U8\", \"shape\": " + many_axes(100'000) +
                           ", \"data_offsets\": [0, 1]}}";
  std::string deep_tensor = pickle_tensor(pickle_storage("0", 1), 0, std::vector<int>(5000, 1),
                                          std::vector<int>(5000, 1));
  auto run_gpt = std::vector<std::string>{"run", "gpt", "--model", "FILE"};
  return {
      {"zeros in gzip", {info, "FILE"}, packed, "unpacks to more than 67108864 bytes"},
      {"gzip in gzip", {info, "FILE"}, make_gzip(packed), ""},
      {"zeros in an npz", {info, "FILE"}, make_zip({{"a.npy", zeros, true}}),
       "its entries unpack to 73400320 bytes, more than 67108864, far more than"},
      {"a deflated storage", {info, "FILE"},
       make_zip({{"archive/data.pkl", proto + "N.", true}, {"archive/data/0", zeros, true}}),
       "its entries unpack to"},
      {"empty tuples", {info, "FILE"}, pickle_zip(proto + repeated(")0", 2 << 20) + "N."),
       "the pickle makes far more of its bytes"},
      {"empty tuples on the stack", {info, "FILE"}, pickle_zip(proto + repeated(")", 4 << 20)),
       "the pickle makes far more of its bytes"},
      {"empty lists in one", {info, "FILE"},
       pickle_zip(proto + "](" + repeated("]", 4 << 20) + "e."),
       "the pickle makes far more of its bytes"},
      {"a memo of nothing", {info, "FILE"},
       pickle_zip(proto + "N" + repeated("\x94", 4 << 20) + "."),
       "the pickle makes far more of its bytes"},
      {"marks", {info, "FILE"}, pickle_zip(proto + repeated("(", 4 << 20)),
       "the pickle makes far more of its bytes"},
      {"dicts of one list", {info, "FILE"},
       make_torch(proto + pickle_global("collections", "OrderedDict") + "q" + '\0' + "0](" +
                      repeated("K\1K\2\x86", 20000) + "e\x85q\1" "0(" +
                      repeated(std::string("h\0h\1R", 5), 2000) + "t.", {}),
       "the pickle makes far more of its bytes"},
      {"axes in safetensors", {info, "FILE"}, make_safetensors(axes, "x"),
       "the tensor 'w' has 100000 axes, more than 64"},
      {"axes in npy", {info, "FILE"}, make_npy(shape, "x", 2), "the array has 5000 axes"},
      {"axes in a checkpoint of PyTorch", {info, "FILE"},
       make_torch(proto + deep_tensor + ".", {"abcd"}),
       "a tensor's shape has 5000 axes, more than 64"},
      {"layers", run_gpt, checkpoint_with("layers", "1000000000"),
       "--layers needs a whole number from 1 to 4096"},
      {"width", run_gpt, checkpoint_with("width", "1048576"),
       "the weights of 4 layers, width 1048576"},
      {"heads", run_gpt, checkpoint_with("heads", "9223372036854775807"), "--heads needs"},
      {"context", run_gpt, checkpoint_with("context", "9223372036854775807"), "--context needs"},
      {"dropout", run_gpt, checkpoint_with("dropout", "nan"), "--dropout needs"},
      {"an empty tensor of many rows", {info, "FILE"},
       make_npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1099511627776, 0), }", ""), ""},
      {"a line without an end", {"search", "import", "FILE"}, std::string(4 << 20, '\0'),
       "has no searched actions"},
      {"empty nodes", {"onnx", "FILE"}, onnx_model(repeated(pb(1, pb(4, "A")), 1 << 20)),
       "describes far more than its size suggests"},
      {"empty attributes", {"onnx", "FILE"},
       onnx_model(onnx_node("Add", "a b", "c", repeated(pb(5, ""), 1 << 20))),
       "describes far more than its size suggests"},
      {"many unknown operators and functions", {"onnx", "FILE"},
       onnx_model(repeated(onnx_node("A", "a", "b"), 20000)) +
           repeated(pb(25, pb(1, "B") + pb(10, "c")), 20000),
       "has operators that are not supported"},
      {"zeros in zstd", {info, "FILE"}, zstd_zeros(70 << 20), "unpacks to more than 67108864 bytes"},
      {"a long line", {"search", "import", "FILE"}, 
       "mote searched actions 1\n" + std::string(4 << 20, 'x'),
       ":2: cannot read"},
  };
}
// clang-format on

}  // namespace

TEST_SUITE("bombs") {
  TEST_CASE("a small file takes little time and memory") {
    Folder folder;
    const std::string path = folder / "bomb";
    size_t count = 0;
    for (const Bomb& bomb : bombs()) {
      const std::string what = bomb.what;
      CAPTURE(what);
      std::ofstream(path, std::ios::binary) << bomb.bytes;
      std::vector<std::string> words = bomb.words;
      for (std::string& word : words)
        if (word == "FILE") word = path;
      const Cost cost = cost_of(words, (256 << 20) + 8 * bomb.bytes.size());
      CAPTURE(cost.output);
      CHECK(cost.output.find(bomb.error) != std::string::npos);
      CHECK(cost.status == (*bomb.error ? 1 : 0));
      CHECK(cost.seconds < 10);
      ++count;
    }
    MESSAGE(count, " bombs");
  }

  TEST_CASE("what is not a regular file is refused at once, by every command that reads") {
    Folder folder;
    const std::string pipe = folder / "pipe", socket_path = folder / "socket";
    REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
    const int s = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{.sun_family = AF_UNIX};
    socket_path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(s, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    // clang-format off
    const std::vector<std::vector<std::string>> commands = {
        {"info"}, {"search", "import"}, {"train", "gpt", "--data"}, {"train", "gpt", "--resume"},
        {"run", "gpt", "--model"}, {"run", "mnist", "--model"},
        {"run", "llama2c", "--tokenizer", "x", "--model"}};
    // clang-format on
    int runs = 0;
    for (const std::string& path : {pipe, socket_path, std::string("/dev/zero"),
                                    std::string("/proc/self/status"), folder.path.string()})
      for (std::vector<std::string> words : commands) {
        words.push_back(path);
        const Cost cost = cost_of(words);
        CAPTURE(cost.output);
        CHECK(cost.status == 1);
        CHECK(cost.output.find(path) != std::string::npos);
        CHECK(cost.seconds < 5);
        ++runs;
      }
    close(s);
    MESSAGE(runs, " runs");
  }

  TEST_CASE("files that are larger than memory are refused at once") {
    Folder folder;
    const off_t size = off_t{1} << 40;
    auto sparse = [&](const std::string& name, const std::string& begin, off_t bytes) {
      std::ofstream(folder / name, std::ios::binary) << begin;
      return truncate((folder / name).c_str(), bytes) == 0;
    };
    auto refused = [&](const std::vector<std::string>& words, const char* error) {
      const Cost cost = cost_of(words);
      CAPTURE(cost.output);
      CHECK(cost.status == 1);
      CHECK(cost.output.find(error) != std::string::npos);
      CHECK(cost.seconds < 5);
    };
    const std::string header("\0\0\x08\x03\0\x10\0\0\0\0\x04\0\0\0\x04\0", 16);
    if (!sparse("train-images-idx3-ubyte", header, size + 16)) return;  // no sparse files here
    sparse("train-labels-idx1-ubyte", "", 0);
    sparse("data_batch_1.bin", "", size / 3073 * 3073);
    sparse("text.txt", "", size);
    const std::string at = folder.path.string();
    refused({"train", "mnist", "--data", at}, "-ubyte: takes 1099511627776 bytes of memory");
    refused({"train", "cifar", "--data", at}, ".bin: takes 10995116");
    refused({"train", "gpt", "--data", at + "/text.txt"}, "text.txt: takes 4398046511104 bytes");
    refused({"search", "import", at + "/text.txt"}, "has no searched actions");
  }

  TEST_CASE("limits of unpacking") {
    CHECK(unpack_limit(1).bytes == 64 << 20);
    CHECK(unpack_limit(1 << 20).bytes == 256 << 20);
    CHECK(unpack_limit(1 << 20, 100).bytes == 100);
    CHECK(unpack_limit(UINT64_MAX).bytes <= kUnpackedLimit);
  }
}
