// Nothing that a file or a name holds can work on a terminal.
#include <doctest/doctest.h>
#include <mote/io.h>
#include <mote/mote.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>

#include "base/utf8.h"
#include "io/bytes.h"
#include "io/json.h"
#include "test/amount.h"
#include "test/file_builders.h"
#include "test/process.h"

using namespace mote;
using namespace mote::test;

namespace {

// Independent of is_control: by what a terminal does with them.
const std::vector<uint32_t>& hostile_characters() {
  static const std::vector<uint32_t> all = [] {
    std::vector<uint32_t> out = {0x7f, 0x61c, 0x200e, 0x200f, 0x2028, 0x2029};
    for (uint32_t c = 1; c < 0x20; ++c) out.push_back(c);
    for (uint32_t c = 0x80; c < 0xa0; ++c) out.push_back(c);
    for (uint32_t c = 0x202a; c <= 0x202e; ++c) out.push_back(c);
    for (uint32_t c = 0x2066; c <= 0x2069; ++c) out.push_back(c);
    return out;
  }();
  return all;
}

class Hostile {
 public:
  explicit Hostile(unsigned seed) : random_(seed) {}
  // A name with hostile characters; with bytes that are no UTF-8 where they are wanted.
  std::string name(bool bytes, bool slash = false) {
    std::string out = "n" + std::to_string(serial_++);
    for (int i = 0; i < 6; ++i) {
      const auto& all = hostile_characters();
      append_character(out, all[random_() % all.size()]);
      out += static_cast<char>('a' + random_() % 26);
      if (bytes && random_() % 3 == 0) out += static_cast<char>(0x80 + random_() % 0x80);
    }
    out += "\033[31m\u202e\u009b2J";
    return slash ? out + "/x" : out;
  }

 private:
  std::mt19937 random_;
  int serial_ = 0;
};

// The first thing in the text that works on a terminal, or "". The program's own ends of lines,
// tabs and the bar's \r\033[K are left out by the caller.
std::string found_in(const std::string& text) {
  for (std::string_view rest = text; !rest.empty();) {
    const uint32_t c = take_character(rest);
    if (c >= 0x110000) return "a byte that is not UTF-8";
    if (c == '\n' || c == '\t') continue;
    for (const uint32_t bad : hostile_characters())
      if (c == bad) return "U+" + std::to_string(c) + " in " + mote::quoted(text);
  }
  return "";
}

std::string shell(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string json_string(const std::string& text) { return JsonWriter().value(text).text(); }

// Files of all formats whose names and texts are hostile.
std::vector<std::string> hostile_files(Hostile& h) {
  std::vector<std::string> out;
  auto tensor = [](const std::string& name, const char* dtype) {
    return json_string(name) + ": {\"dtype\": \"" + dtype +
           "\", \"shape\": [1], \"data_offsets\": [0, 4]}";
  };
  const std::string data(4, '\1');
  out.push_back(make_safetensors("{\"__metadata__\": {" + json_string(h.name(false)) + ": " +
                                     json_string(h.name(false)) + "}, " +
                                     tensor(h.name(false), "F32") + "}",
                                 data));
  out.push_back(make_safetensors("{" + tensor(h.name(false), "F4") + "}", data));
  out.push_back(make_safetensors("{\"a\": " + json_string(h.name(false)), data));
  out.push_back(make_safetensors("{\"a\"\033[31m", data));
  out.push_back(make_zip({
      {h.name(false), "x"}
  }));
  out.push_back(make_zip({
      {h.name(true), "x"}
  }));
  out.push_back(make_zip({
      {h.name(false) + ".npy", "not an array"}
  }));
  out.push_back(make_tar({
      {h.name(false), "x"}
  }));
  out.push_back(make_gzip(make_tar({
      {h.name(true), "x"}
  })));
  out.push_back(make_npy("{'" + h.name(false) + "': 1}", data));
  const std::string key = pickle_text(h.name(false)), value = pickle_text(h.name(false));
  out.push_back(make_torch("\x80\x02}" + key + value + "s.", {}));
  out.push_back(
      make_torch("\x80\x02" + pickle_global(h.name(false).substr(0, 4), "x\x1b") + ".", {}));
  auto gguf_text = [](const std::string& s) { return le(uint64_t{s.size()}) + s; };
  out.push_back("GGUF" + le(uint32_t{3}) + le(uint64_t{0}) + le(uint64_t{1}) +
                gguf_text(h.name(false)) + le(uint32_t{8}) + gguf_text(h.name(false)));
  out.push_back("GGUF" + le(uint32_t{3}) + le(uint64_t{0}) + le(uint64_t{1}) +
                gguf_text(h.name(false)) + le(uint32_t{99}));
  out.push_back(h.name(true));
  return out;
}

}  // namespace

TEST_SUITE("terminal") {
  TEST_CASE("text that is shown has no control characters") {
    for (const uint32_t c : hostile_characters()) {
      std::string text = "a";
      append_character(text, c);
      CHECK(is_control(c));
      CHECK(found_in(printable(text)) == "");
      CHECK(printable(text).size() > text.size());
      const bool stays = c == '\n' || c == '\t';
      CHECK((printable(text, Lines::Keep) == text) == stays);
      CHECK(found_in(JsonWriter().value(text).text()) == "");
      JsonDocument back("x", JsonWriter().value(text).text());
      CHECK(back.root().string("x") == text);
    }
    CHECK(printable("a\r\nb\rc", Lines::Keep) == "a\r\nb\\x0dc");
    CHECK(printable("a\x80\xe2\x80z\xff") == "a\\x80\\xe2\\x80z\\xff");
    CHECK(printable("\u202eabc\u0085") == "\\u202eabc\\u0085");
    for (const char* fine : {"plain", "größer", "日本語", "🙂", "a\u200db"})
      CHECK(printable(fine) == fine);
    CHECK(std::string([] {
            try {
              fail(ErrorKind::User, "x\033[31m\xff");
            } catch (const Error& e) { return std::string(e.what()); }
            return std::string();
          }())
              .starts_with("x\\x1b[31m\\xff"));
  }

  // A model writes what it has learned: a terminal gets it escaped, a file as it is.
  TEST_CASE("text of a model that has learned control characters") {
    Folder folder;
    std::string text;
    while (text.size() < 8000) text += "a\033[31m\u202e\u0085\xc3\xbc\n\tb\r\n";
    std::ofstream(folder / "text.txt") << text;
    const std::string model = folder / "model", run_it = "run gpt --steps 60 --model " + model;
    const Ran trained = run_mote(
        "train gpt --layers 1 --heads 1 --width 8 --context 8 --batch 4 "
        "--steps 30 --lr 0.05 --out " +
        model + " --data " + folder / "text.txt");
    REQUIRE(trained.status == 0);
    auto shown = [](std::string s) {  // without the ends of lines of a terminal
      std::erase(s, '\r');
      return found_in(s);
    };
    CHECK(shown(trained.output) == "");
    const std::string raw = run(MOTE_BINARY_DIR "/mote " + run_it + " 2>/dev/null").output;
    CHECK(found_in(raw) != "");
    const std::string seen = on_terminal(run_it);
    CHECK(shown(seen) == "");
    CHECK(seen.find("\\x1b") != seen.npos);
    CHECK(seen.find("\u00fc") != seen.npos);
  }

  TEST_CASE("nothing in a file or a name reaches a terminal as it is") {
    const int rounds = test::scaled(1);
    const unsigned seed = std::random_device{}();
    Hostile h(seed);
    int runs = 0;
    auto check = [&](const std::string& arguments) {
      ++runs;
      const Ran ran = run(MOTE_BINARY_DIR "/mote " + arguments);
      CAPTURE(arguments);
      CHECK(ran.status <= 2);
      CHECK(found_in(ran.output) == "");
    };
    for (int round = 0; round < rounds; ++round) {
      Folder folder;
      const std::string path = folder / h.name(true);
      for (const std::string& bytes : hostile_files(h)) {
        std::ofstream(path, std::ios::binary) << bytes;
        check("info " + shell(path));
        check("info --json " + shell(path));
      }
      for (const char* command :
           {"train gpt --data ", "train mnist --data ", "train cifar --data ",
            "train gpt --resume ", "run gpt --model ", "run mnist --model ",
            "run llama2c --tokenizer x --model ", "search import ", "search export ", "info "}) {
        check(command + shell(path));                       // no such format
        check(command + shell(path + "/" + h.name(true)));  // no such folder
        check(command + shell(folder / h.name(true)));      // not there
      }
      check("train gpt --data " + shell(path) + " --out " + shell(path));
      save_safetensors(path,
                       {
                           {"x", ones({1})}
      },
                       {{"task", h.name(false)}, {"step", h.name(false)}});
      check("run gpt --model " + shell(path));
      check("train gpt --resume " + shell(path));
      save_safetensors(path,
                       {
                           {h.name(false), ones({1})}
      },
                       {{"task", "gpt"},
                        {"step", "1"},
                        {"order.seed", "0"},
                        {"order.epoch", "0"},
                        {"order.position", "0"},
                        {"setting.characters", "ab\033[31m"},
                        {"setting.layers", h.name(false)}});
      check("run gpt --model " + shell(path));
      check(shell(h.name(true)));
      check("train " + shell(h.name(true)));
      check("train gpt --steps " + shell(h.name(true)));
    }
    MESSAGE("seed ", seed, ", ", runs, " runs");
  }
}
