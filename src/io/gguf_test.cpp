#include "io/gguf.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "engine/realize.h"
#include "test/amount.h"
#include "test/shared_data.h"

using namespace mote;

namespace {

// One number of a block in double precision, and the size of the terms it is the sum of.
struct Value {
  double value, size;
};

double half_at(const uint8_t* b) {
  return to_double(Half{static_cast<uint16_t>(b[0] | b[1] << 8)});
}
Value scaled(double scale, int q) { return {scale * q, std::fabs(scale * q)}; }
Value scaled(double scale, int q, double plus) {
  return {scale * q + plus, std::fabs(scale * q) + std::fabs(plus)};
}

// 4-bit numbers: element i < 16 in the lower half of byte i, element i + 16 in its upper half.
int nibble(const uint8_t* b, int i) { return i < 16 ? b[i] & 15 : b[i - 16] >> 4; }
int bit(const uint8_t* b, int i) { return b[i / 8] >> (i % 8) & 1; }

// The eight pairs of 6-bit numbers of Q4_K and Q5_K.
int step6(const uint8_t* s, int j) {
  return j < 4 ? s[j] % 64 : s[j + 4] % 16 + s[j - 4] / 64 * 16;
}
int end6(const uint8_t* s, int j) { return j < 4 ? s[j + 4] % 64 : s[j + 4] / 16 + s[j] / 64 * 16; }

// The sixteen 6-bit scales of Q3_K.
int scale6(const uint8_t* s, int k) {
  int low = k < 8 ? s[k] % 16 : s[k - 8] / 16;
  return low + 16 * (s[8 + k % 4] >> (2 * (k / 4)) & 3) - 32;
}

// Element i of block b, from the description of each encoding.
Value reference(const std::string& name, const uint8_t* b, int i) {
  if (name == "q4_0") return scaled(half_at(b), nibble(b + 2, i) - 8);
  if (name == "q4_1") return scaled(half_at(b), nibble(b + 4, i), half_at(b + 2));
  if (name == "q5_0") return scaled(half_at(b), nibble(b + 6, i) + 16 * bit(b + 2, i) - 16);
  if (name == "q5_1")
    return scaled(half_at(b), nibble(b + 8, i) + 16 * bit(b + 4, i), half_at(b + 2));
  if (name == "q8_0") return scaled(half_at(b), static_cast<int8_t>(b[2 + i]));
  if (name == "q8_k") {
    float scale;
    std::memcpy(&scale, b, 4);
    return scaled(scale, static_cast<int8_t>(b[4 + i]));
  }
  if (name == "mxfp4") {
    constexpr double sizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    int code = nibble(b + 1, i);
    double value = std::ldexp(code < 8 ? sizes[code] : -sizes[code - 8], b[0] - 127);
    return {value, std::fabs(value)};
  }
  int half = i / 128, field = i % 128 / 32, in32 = i % 32, part = i / 16;
  if (name == "q2_k")
    return scaled(half_at(b + 80) * (b[part] % 16), b[16 + 32 * half + in32] >> (2 * field) & 3,
                  -half_at(b + 82) * (b[part] / 16));
  if (name == "q3_k") {
    int low = b[32 + 32 * half + in32] >> (2 * field) & 3;
    int high = b[in32] >> (4 * half + field) & 1;
    return scaled(half_at(b + 108) * scale6(b + 96, part), high ? low : low - 4);
  }
  if (name == "q4_k" || name == "q5_k") {
    bool five = name == "q5_k";
    uint8_t pair = b[(five ? 48 : 16) + i / 64 * 32 + in32];
    int q = i / 32 % 2 ? pair / 16 : pair % 16;
    if (five) q += 16 * (b[16 + in32] >> (i / 32) & 1);
    return scaled(half_at(b) * step6(b + 4, i / 32), q, -half_at(b + 2) * end6(b + 4, i / 32));
  }
  REQUIRE(name == "q6_k");
  uint8_t pair = b[64 * half + field % 2 * 32 + in32];
  int q = (field < 2 ? pair % 16 : pair / 16) + 16 * (b[128 + 32 * half + in32] >> (2 * field) & 3);
  return scaled(half_at(b + 208) * static_cast<int8_t>(b[192 + part]), q - 32);
}

// Where blocks keep their 16-bit floats.
std::vector<int> halves_of(const std::string& name) {
  if (name == "q2_k") return {80, 82};
  if (name == "q3_k") return {108};
  if (name == "q6_k") return {208};
  if (name == "q8_k" || name == "mxfp4") return {};
  if (name == "q4_0" || name == "q5_0" || name == "q8_0") return {0};
  return {0, 2};
}

// Random bytes; scales are drawn by bits and are often extreme, but finite.
std::vector<uint8_t> random_blocks(const GgufEncoding& e, int64_t count, std::mt19937& random) {
  constexpr uint16_t extremes[] = {0x0000, 0x8000, 0x0001, 0x03ff, 0x0400, 0x7bff, 0xfbff, 0x3c00};
  std::vector<uint8_t> out(static_cast<size_t>(count * e.bytes));
  for (uint8_t& b : out) b = static_cast<uint8_t>(random());
  for (int64_t i = 0; i < count; ++i) {
    uint8_t* block = out.data() + i * e.bytes;
    for (int at : halves_of(e.name)) {
      auto bits = static_cast<uint16_t>(random());
      if (random() % 3 == 0) bits = extremes[random() % std::size(extremes)];
      if ((bits & 0x7c00) == 0x7c00) bits ^= 0x4000;
      std::memcpy(block + at, &bits, 2);
    }
    if (e.name == std::string("q8_k")) {
      float scale = std::ldexp(1.f + static_cast<float>(random() % 1000) / 1000,
                               static_cast<int>(random() % 230) - 120);
      std::memcpy(block, &scale, 4);
    }
    if (e.name == std::string("mxfp4") && i < 4) block[0] = i % 2 ? 255 - i / 2 : i / 2;
  }
  return out;
}

// Writes GGUF files, right or wrong.
struct Writer {
  std::vector<uint8_t> out;
  template <class T>
  Writer& put(T value) {
    const auto* p = reinterpret_cast<const uint8_t*>(&value);
    out.insert(out.end(), p, p + sizeof(T));
    return *this;
  }
  Writer& raw(std::string_view s) {
    out.insert(out.end(), s.begin(), s.end());
    return *this;
  }
  Writer& string(std::string_view s) { return put<uint64_t>(s.size()).raw(s); }
  Writer& begin(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
    return raw("GGUF").put(version).put(tensors).put(pairs);
  }
  Writer& tensor(std::string_view name, std::vector<int64_t> sizes, uint32_t type,
                 uint64_t offset) {
    string(name).put<uint32_t>(static_cast<uint32_t>(sizes.size()));
    for (int64_t s : sizes) put(s);
    return put(type).put(offset);
  }
  Writer& align(size_t to = 32) {
    while (out.size() % to) out.push_back(0);
    return *this;
  }
  Writer& zeros(size_t count) {
    out.resize(out.size() + count);
    return *this;
  }
  File file() const { return {"w.gguf", Bytes(out)}; }
};

std::string refusal(const File& file) try {
  read_gguf(file);
  return "accepted";
} catch (const Error& e) { return e.what(); }

}  // namespace

TEST_CASE("gguf: quantised blocks mean what their descriptions say") {
  unsigned seed = 1;
  int64_t count = test::scaled<int64_t>(40, 40);
  MESSAGE("seed ", seed, ", ", count, " blocks of each encoding");
  for (const GgufEncoding& e : gguf_encodings()) {
    if (!e.decode) continue;
    CAPTURE(std::string(e.name));
    std::mt19937 random(seed);
    std::vector<uint8_t> blocks = random_blocks(e, count, random);
    Tensor bytes = from_bytes(blocks.data(), {count, e.bytes}, DType::u8);
    std::vector<float> got = e.decode(bytes).to_vector<float>();
    REQUIRE(got.size() == static_cast<size_t>(count * e.elements));
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      auto [block, element] = std::lldiv(static_cast<int64_t>(i), e.elements);
      Value want = reference(e.name, blocks.data() + block * e.bytes, static_cast<int>(element));
      if (std::isinf(static_cast<float>(want.value)))
        CHECK(got[i] == static_cast<float>(want.value));
      else
        CHECK(std::fabs(got[i] - want.value) <= 3e-7 * want.size + 1e-44);
    }
  }
}

TEST_CASE("gguf: decoding fuses into the product that reads the weights") {
  for (const GgufEncoding& e : gguf_encodings()) {
    if (!e.decode) continue;
    CAPTURE(std::string(e.name));
    int64_t rows = 8, blocks = 2 * rows;
    Tensor bytes = zeros({blocks, e.bytes}, DType::u8).contiguous();
    Tensor x = ones({2 * e.elements}).contiguous();
    realize({bytes, x});
    Tensor product = e.decode(bytes).reshape({rows, 2 * e.elements}).mv(x);
    ScheduleReport report = explain(std::vector{product});
    CHECK(report.kernels.size() <= 2);  // the blocks' scales may be kept, their elements are not
    CHECK(report.unplanned_bytes <= blocks * e.elements / 2);
  }
}

TEST_CASE("gguf: metadata of every type, and tensors") {
  Writer w;
  w.begin(4, 8);
  w.string("a").put<uint32_t>(GgufValue::U8).put<uint8_t>(200);
  w.string("b").put<uint32_t>(GgufValue::I64).put<int64_t>(-5);
  w.string("c").put<uint32_t>(GgufValue::F64).put(0.25);
  w.string("d").put<uint32_t>(GgufValue::Bool).put<uint8_t>(1);
  w.string("e").put<uint32_t>(GgufValue::String).string("é");
  w.string("f").put<uint32_t>(GgufValue::Array).put<uint32_t>(GgufValue::I16).put<uint64_t>(2);
  w.put<int16_t>(-1).put<int16_t>(7);
  w.string("g").put<uint32_t>(GgufValue::Array).put<uint32_t>(GgufValue::Array).put<uint64_t>(1);
  w.put<uint32_t>(GgufValue::String).put<uint64_t>(2).string("x").string("y");
  w.string("general.alignment").put<uint32_t>(GgufValue::U32).put<uint32_t>(64);
  w.tensor("second", {2, 3}, 0, 64).tensor("first", {32}, 2, 0).tensor("empty", {0}, 1, 0);
  w.tensor("no rows", {32, 0}, 2, 0);
  w.align(64).put<uint16_t>(0x3c00).raw(std::string(16, '\x98')).align(64);  // 1.0; 8 and 9
  for (int i = 0; i < 6; ++i) w.put<float>(static_cast<float>(i));
  File file = w.file();
  FileContents c = parse_gguf(file);
  CHECK(c.metadata == Metadata{
                          {"a",                 "200"         },
                          {"b",                 "-5"          },
                          {"c",                 "0.25"        },
                          {"d",                 "true"        },
                          {"e",                 "é"          },
                          {"f",                 "[-1, 7]"     },
                          {"g",                 "[['x', 'y']]"},
                          {"general.alignment", "64"          }
  });
  std::vector<NamedTensor> tensors = make_tensors(file, std::move(c));
  REQUIRE(tensors.size() == 4);
  CHECK(tensors[0].tensor.shape() == std::vector<int64_t>{3, 2});
  CHECK(tensors[0].tensor.device() == "DISK");
  CHECK(tensors[0].tensor.to("CPU").to_vector<int>() == std::vector<int>{0, 1, 2, 3, 4, 5});
  std::vector<int> q = tensors[1].tensor.to_vector<int>();
  CHECK(q[0] == 0);
  CHECK(q[31] == 1);
  CHECK(tensors[2].tensor.numel() == 0);
  CHECK(tensors[3].tensor.to_vector<float>().empty());
}

TEST_CASE("gguf: malformed files are refused by name and field") {
  auto head = [](uint64_t tensors, uint64_t pairs) { return Writer().begin(tensors, pairs); };
  auto refuses = [](const Writer& w, const char* because) {
    std::string why = refusal(w.file());
    CAPTURE(why);
    CHECK(why.find("w.gguf: ") != std::string::npos);
    CHECK(why.find(because) != std::string::npos);
  };
  CHECK(refusal(head(0, 0).file()) == "accepted");
  refuses(Writer().raw("GGU"), "does not begin with");
  refuses(Writer().begin(0, 0, 1), "version must be 2 or 3, got 1");
  refuses(Writer().begin(0, 0, 0x03000000), "big-endian");
  refuses(head(0, uint64_t{1} << 60), "number of metadata pairs");
  refuses(head(uint64_t{1} << 60, 0), "number of tensors");
  refuses(head(0, 1).string("k").put<uint32_t>(13).zeros(8), "unknown type 13");
  refuses(head(0, 1).string("\xff\xfe").put<uint32_t>(0).zeros(8), "UTF-8");
  refuses(head(0, 1).string("k").put<uint32_t>(GgufValue::Bool).put<uint8_t>(2), "neither 0 nor 1");
  refuses(head(0, 1).string("k").put<uint32_t>(GgufValue::String).put(uint64_t{1} << 62),
          "metadata string");
  refuses(head(0, 1)
              .string("k")
              .put<uint32_t>(GgufValue::Array)
              .put<uint32_t>(GgufValue::U64)
              .put(uint64_t{1} << 61)
              .zeros(64),
          "array's length");
  Writer deep = head(0, 1).string("k").put<uint32_t>(GgufValue::Array);
  for (int i = 0; i < 9; ++i) deep.put<uint32_t>(GgufValue::Array).put<uint64_t>(1);
  refuses(deep.zeros(64), "nested");
  Writer twice = head(0, 2);
  for (int i = 0; i < 2; ++i) twice.string("k").put<uint32_t>(GgufValue::U64).put<uint64_t>(0);
  refuses(twice, "'k' appears twice");
  refuses(head(0, 1).string("general.alignment").put<uint32_t>(GgufValue::U32).put<uint32_t>(24),
          "power of two");
  refuses(head(1, 0).tensor("t", {4}, 16, 0).align().zeros(64), "type 16");
  refuses(head(1, 0).tensor("t", {1, 1, 1, 1, 1}, 0, 0).align().zeros(64), "5 axes");
  refuses(head(1, 0).tensor("t", {-4}, 0, 0).align().zeros(64), "the tensor 't' has the shape");
  refuses(head(1, 0).tensor("t", {1 << 30, 1 << 30, 1 << 30}, 0, 0).align().zeros(64),
          "the tensor 't' has the shape");
  refuses(head(1, 0).tensor("t", {48}, 2, 0).align().zeros(64), "whole q4_0 blocks of 32");
  refuses(head(1, 0).tensor("t", {4}, 0, 8).align().zeros(64), "multiple of 32");
  refuses(head(1, 0).tensor("t", {32}, 0, 0).align().zeros(64), "which ends at 64");
  refuses(head(2, 0).tensor("t", {4}, 0, 0).tensor("t", {4}, 0, 32).align().zeros(64), "twice");
  refuses(head(2, 0).tensor("t", {16}, 0, 0).tensor("u", {4}, 0, 32).align().zeros(64), "overlaps");
}

TEST_CASE("gguf: a file cut short anywhere is refused") {
  Writer w;
  w.begin(1, 1).string("k").put<uint32_t>(GgufValue::Array).put<uint32_t>(GgufValue::String);
  w.put<uint64_t>(2).string("x").string("yy").tensor("t", {8}, 0, 0).align().zeros(32);
  REQUIRE(refusal(w.file()) == "accepted");
  for (size_t size = 0; size < w.out.size(); ++size) {
    Writer cut = w;
    cut.out.resize(size);
    CHECK(refusal(cut.file()).find("w.gguf: ") != std::string::npos);
  }
}

TEST_CASE("gguf: the vocabulary files load") {
  for (const char* name : {"ggml-vocab-gpt-2.gguf", "ggml-vocab-llama-spm.gguf"}) {
    std::string path = shared_data(std::string("tokenizers/") + name);
    if (path.empty()) return;
    File file = open_file(path);
    Gguf gguf = read_gguf(file);
    const GgufValue* tokens = gguf.find("tokenizer.ggml.tokens");
    REQUIRE(tokens);
    CHECK(tokens->strings.size() == (name[11] == 'g' ? 50257 : 32000));
    CHECK(gguf.tensors.empty());
  }
}
