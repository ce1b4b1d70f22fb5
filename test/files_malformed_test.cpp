// Malformed files and what each loader says about them, in full.
#include <doctest/doctest.h>

#include "io/archive.h"
#include "io/json.h"
#include "io/pickle.h"
#include "onnx/model.h"
#include "test/file_builders.h"

using namespace mote;
using namespace mote::test;

namespace {

struct Case {
  std::string bytes, error;
};

// The error that `load` throws for the bytes, without the "bad: " that all begin with.
template <class Load>
std::string error_of(const std::string& bytes, Load load) {
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  try {
    load(File{"bad", Bytes(std::span(copy))});
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::Device);
    const std::string what = e.what();
    REQUIRE(what.starts_with("bad"));
    return what.starts_with("bad: ") ? what.substr(5) : what;
  }
  return "no error";
}

template <class Load>
void check_cases(const std::vector<Case>& cases, Load load) {
  for (const Case& c : cases) CHECK(error_of(c.bytes, load) == c.error);
}

std::string tensor_json(const std::string& dtype, const std::string& shape,
                        const std::string& offsets, const std::string& name = "w") {
  return "\"" + name + "\": {\"dtype\": " + dtype + ", \"shape\": " + shape +
         ", \"data_offsets\": " + offsets + "}";
}

std::string one_tensor(const std::string& dtype, const std::string& shape,
                       const std::string& offsets, size_t data = 8) {
  return make_safetensors("{" + tensor_json(dtype, shape, offsets) + "}", std::string(data, '\1'));
}

}  // namespace

// clang-format off

TEST_CASE("malformed safetensors") {
  const std::string good = one_tensor("\"F32\"", "[2]", "[0, 8]");
  const std::string first = tensor_json("\"U8\"", "[4]", "[0, 4]", "a");
  auto two = [&](const std::string& offsets, const std::string& name = "b") {
    return make_safetensors("{" + first + ", " + tensor_json("\"U8\"", "[4]", offsets, name) + "}",
                            std::string(8, '\1'));
  };
  check_cases(
      {
          {"", "the file ends in the header's length: 8 bytes from byte 0 on, of 0"},
          {cut(good, 5), "the file ends in the header's length: 8 bytes from byte 0 on, of 5"},
          {cut(good, 40), "header length 61 exceeds the file's 40 bytes"},
          {patched(good, 0, le<uint64_t>(UINT64_MAX)),
           "header length 18446744073709551615 exceeds the file's 77 bytes"},
          {make_safetensors("{\"\xff\": 1}", ""),
           "the header is not valid UTF-8: '{\"\\xff\": 1}'"},
          {make_safetensors("[]", ""), "the header must be an object"},
          {make_safetensors("{", ""), "JSON byte 1: expected a key in quotes"},
          {make_safetensors("{\"w\": 3}", ""), "the tensor 'w' must be an object"},
          {make_safetensors("{\"w\": {}}", ""), "the tensor 'w' has no 'dtype'"},
          {make_safetensors("{\"__metadata__\": {\"a\": 1}}", ""),
           "a value of __metadata__ must be a string"},
          {two("[4, 8]", "a"), "JSON byte 120: the key 'a' appears twice in an object"},
          {two("[2, 6]"), "the tensor 'b' overlaps another at byte 4 of the data"},
          {make_safetensors("{" + tensor_json("\"U8\"", "[4]", "[4, 8]") + "}", std::string(8, 1)),
           "there are bytes that belong to no tensor at byte 0 of the data"},
          {make_safetensors("{" + first + "}", std::string(8, 1)),
           "there are bytes that belong to no tensor at byte 4 of the data"},
          {one_tensor("\"F4\"", "[2]", "[0, 8]"),
           "the tensor 'w' has the dtype 'F4', which mote does not have"},
          {one_tensor("7", "[2]", "[0, 8]"), "the dtype of the tensor 'w' must be a string"},
          {one_tensor("\"F32\"", "2", "[0, 8]"), "the shape of the tensor 'w' must be an array"},
          {one_tensor("\"F32\"", "[2.0]", "[0, 8]"),
           "the shape of the tensor 'w' must be a whole number of at most 63 bits"},
          {one_tensor("\"F32\"", "[-2]", "[0, 8]"),
           "the tensor 'w' has the shape (-2), with a negative size"},
          {one_tensor("\"F32\"", "[4611686018427387904, 4]", "[0, 8]"),
           "the tensor 'w' has the shape (4611686018427387904, 4), more elements than there can "
           "be"},
          {one_tensor("\"F32\"", "[18446744073709551616]", "[0, 8]"),
           "the shape of the tensor 'w' must be a whole number of at most 63 bits"},
          {one_tensor("\"F32\"", "[2]", "[0]"),
           "the data_offsets of the tensor 'w' must be two numbers"},
          {one_tensor("\"F32\"", "[2]", "[0, 9]"),
           "the data_offsets of the tensor 'w' are 0 to 9, outside the 8 bytes of data"},
          {one_tensor("\"F32\"", "[2]", "[8, 0]"),
           "the data_offsets of the tensor 'w' are 8 to 0, outside the 8 bytes of data"},
          {one_tensor("\"F32\"", "[3]", "[0, 8]"),
           "the tensor 'w' has 8 bytes, but its shape (3) of f32 takes 12"},
      },
      parse_safetensors);
}

TEST_CASE("malformed JSON") {
  const std::string deep(kJsonDepth + 1, '[');
  check_cases(
      {
          {"", "JSON byte 0: the text ends where a value is expected"},
          {"[1, 2", "JSON byte 5: expected ',' or ']'"},
          {"[1,]", "JSON byte 3: expected a value, got ']'"},
          {"{\"a\" 1}", "JSON byte 5: expected ':'"},
          {"01", "JSON byte 1: extra text after the value"},
          {"-", "JSON byte 1: expected a digit"},
          {"1.", "JSON byte 2: expected a digit"},
          {"nul", "JSON byte 0: expected a value, got 'n'"},
          {"\"a", "JSON byte 2: the text ends in a string"},
          {"\"\n\"", "JSON byte 2: a control character in a string"},
          {"\"\\x\"", "JSON byte 2: no such escape"},
          {"\"\\u12g4\"", "JSON byte 3: expected four hexadecimal digits"},
          {"\"\\ud800\"", "JSON byte 7: half of a surrogate pair"},
          {"\"\\udc00\"", "JSON byte 7: half of a surrogate pair"},
          {"\"\xc0\xaf\"", "JSON byte 0: not valid UTF-8"},
          {"\"\xed\xa0\x80\"", "JSON byte 0: not valid UTF-8"},
          {"{\"a\": 1, \"\\u0061\": 2}",
           "JSON byte 21: the key 'a' appears twice in an object"},
          {deep, "JSON byte 128: more than 128 levels"},
      },
      [](const File& file) { JsonDocument(file.name, file.bytes.text()); });
}

TEST_CASE("malformed npy") {
  const std::string dict = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
  const std::string good = make_npy(dict, std::string(8, 1));
  auto with = [](const std::string& text) { return make_npy(text, std::string(8, 1)); };
  auto descr = [&](const std::string& type) {
    return with("{'descr': " + type + ", 'fortran_order': False, 'shape': (2,), }");
  };
  auto shape = [&](const std::string& sizes) {
    return with("{'descr': '<f4', 'fortran_order': False, 'shape': " + sizes + ", }");
  };
  check_cases(
      {
          {"\x93NUMP", "is not an npy file"},
          {cut(good, 6), "the file ends in the version: 1 bytes from byte 6 on, of 6"},
          {cut(good, 9), "the file ends in the header's length: 2 bytes from byte 8 on, of 9"},
          {cut(good, 30), "header length 57 exceeds the file's 30 bytes"},
          {cut(good, 70), "the array's shape (2) of f32 takes 8 bytes, but 3 follow the header"},
          {good + "x", "the array's shape (2) of f32 takes 8 bytes, but 9 follow the header"},
          {patched(good, 6, "\4"), "version 4 of the format is not 1, 2 or 3"},
          {make_npy(dict, "", 2) + "", "the array's shape (2) of f32 takes 8 bytes, but 0 follow "
                                       "the header"},
          {patched(make_npy(dict, "", 2), 8, le(UINT32_MAX)),
           "header length 4294967295 exceeds the file's 69 bytes"},
          {with("{'descr': '<f4'"), "the header: expected '}', got its end"},
          {with("{'descr': '<f4'}"),
           "the header: descr, fortran_order or shape is missing"},
          {with(dict + "x"), "the header: extra text after the dict"},
          {with("{'descr': '<f4', 'descr': '<f4'}"), "the header has the key 'descr' twice"},
          {with("{'color': 1}"), "the header has the key 'color', which is unknown"},
          {with("{'descr': '<f4', 'fortran_order': 1}"),
           "the header: fortran_order must be True or False"},
          {with("\xff"), "the header is not valid UTF-8: '\\xff'"},
          {descr("'>f4'"), "descr '>f4' is big-endian; only little-endian is read"},
          {descr("'<c8'"), "descr '<c8' is a dtype that mote does not have"},
          {descr("'|O'"), "descr '|O' is a dtype that mote does not have"},
          {descr("''"), "descr '' is a dtype that mote does not have"},
          {descr("[('x', '<f4')]"),
           "the header: descr is a structured dtype, which is not read"},
          {shape("(-1,)"), "the array has the shape (-1), with a negative size"},
          {shape("(9223372036854775807, 4)"),
           "the array has the shape (9223372036854775807, 4), more elements than there can be"},
          {shape("(9223372036854775808,)"),
           "the header: a size in shape is not a number of at most 63 bits"},
          {shape("(2"), "the header: a size in shape is not a number of at most 63 bits"},
      },
      parse_npy);
}

TEST_CASE("malformed zip") {
  const std::string good = make_zip({{"a", "12345"}, {"b", "678"}});
  const size_t end = good.size() - 22, directory = end - 2 * 47;
  auto named = [](const std::string& name) { return make_zip({{name, "1"}}); };
  const std::string zip64 = cut(good, end) + "PK\6\6" + std::string(28, 0) + le<uint64_t>(2) +
                            le<uint64_t>(94) + le(uint64_t{directory}) + "PK\6\7" +
                            std::string(4, 0) + le(uint64_t{end}) + std::string(4, 0) +
                            good.substr(end);
  CHECK(list_zip({"good", Bytes(std::vector<uint8_t>(zip64.begin(), zip64.end()))}).size() == 2);
  const size_t end64 = end;
  check_cases(
      {
          {"PK\3\4", "no end of a zip archive in the last 64 KiB"},
          {cut(good, good.size() - 1), "no end of a zip archive in the last 64 KiB"},
          {patched(good, end + 4, le<uint16_t>(1)), "is a part of a spanned archive"},
          {patched(good, end + 10, le<uint16_t>(9)),
           "the number of entries is 9, more than a directory of 94 bytes can hold"},
          {patched(good, end + 12, le<uint32_t>(900)),
           "the directory of 900 bytes at byte 70 does not lie before the end record at byte 164"},
          {patched(good, directory, "XX"),
           "the directory entry at byte 70 has a wrong signature"},
          {patched(good, directory + 8, le<uint16_t>(1)), "the entry 'a' is encrypted"},
          {patched(good, directory + 10, le<uint16_t>(12)),
           "the entry 'a' is compressed by method 12; only stored and deflate (8) are read"},
          {patched(good, directory + 24, le<uint32_t>(9)),
           "the entry 'a' is stored, yet its sizes differ: 5 and 9"},
          {patched(good, directory + 20, le<uint32_t>(200) + le<uint32_t>(200)),
           "the entry 'a' of 200 bytes at byte 31 runs into the directory at byte 70"},
          {patched(good, directory + 42, le<uint32_t>(9)),
           "the local header at byte 9 has a wrong signature"},
          {patched(good, directory + 42, le<uint32_t>(900)),
           "a local header is at byte 900, past the file's 70 bytes"},
          {patched(good, directory + 46, "x"), "the local header of 'x' has another name"},
          {patched(good, directory + 28, le<uint16_t>(500)),
           "the file ends in an entry's name: 500 bytes from byte 116 on, of 164"},
          {make_zip({{"a", "1"}, {"a", "2"}}), "the name 'a' appears twice"},
          {patched(patched(good, directory + 47 + 42, le<uint32_t>(0)), directory + 47 + 46, "a"),
           "the name 'a' appears twice"},
          {patched(good, 26, le<uint16_t>(1) + le<uint16_t>(3)),
           "the entries at bytes 0 and 36 overlap"},
          {named("../up"), "the entry name '../up' leads out of the archive"},
          {named("a/.."), "the entry name 'a/..' leads out of the archive"},
          {named("/etc/passwd"), "the entry name '/etc/passwd' is an absolute path"},
          {named("\xff"), "an entry's name is not valid UTF-8: '\\xff'"},
          {named(std::string("a\0b", 3)), "the entry name 'a\\x00b' contains a zero byte"},
          {named(""), "the entry name '' is empty"},
          {patched(zip64, end64, "XX"), "the zip64 end record has a wrong signature"},
          {patched(zip64, end64 + 32, le(UINT64_MAX)),
           "the number of entries is 18446744073709551615, more than a directory of 94 bytes can "
           "hold"},
          {patched(zip64, end64 + 56 + 8, le(UINT64_MAX)),
           "the zip64 end record is at byte 18446744073709551615, past the file's 262 bytes"},
      },
      list_zip);
}

TEST_CASE("malformed npz") {
  const std::string npy =
      make_npy("{'descr': '|u1', 'fortran_order': False, 'shape': (99,), }", std::string(99, 7));
  const std::string good = make_zip({{"a.npy", npy, true}});
  const size_t directory = good.size() - 22 - 51, packed = 30 + 5;
  check_cases(
      {
          {make_zip({{"a.txt", "1"}}), "the entry 'a.txt' is not an .npy file"},
          {make_zip({{"a.npy", cut(npy, 100)}}),
           "a.npy: the array's shape (99) of u8 takes 99 bytes, but 32 follow the header"},
          {patched(good, directory + 16, "zzzz"),
           "a.npy: does not match its checksum"},
          {patched(good, directory + 24, le<uint32_t>(9)), "a.npy: unpacks to more than 9 bytes"},
          {patched(good, directory + 24, le<uint32_t>(900)),
           "a.npy: unpacks to 167 bytes, not to 900"},
          {patched(good, packed, "\xff"),
           "a.npy: the compressed data is broken: invalid block type"},
      },
      parse_npz);
}

TEST_CASE("malformed tar") {
  const std::string good = make_tar({{"a", "hello"}});
  auto resum = [&](std::string bytes, size_t header = 0) {
    set_tar_sum(bytes, header);
    return bytes;
  };
  auto pax = [](const std::string& records) {
    return make_tar({{"pax", records, false, 'x'}, {"a", "hello"}});
  };
  check_cases(
      {
          {"short", "is not a tar archive"},
          {cut(good, 600), "the file ends in a header: 512 bytes from byte 600 on, of 600"},
          {cut(good, 1024), "the file ends in a header: 512 bytes from byte 1024 on, of 1024"},
          {patched(good, 0, "b"), "the header at byte 0 does not match its checksum"},
          {patched(good, 148, "zzz"), "the sum of a header is not an octal number: 'zzz065'"},
          {resum(patched(good, 124, "9")),
           "the size of an entry is not an octal number: '90000000005'"},
          {resum(patched(good, 124, "77777777777")),
           "the file ends in an entry: 8589934591 bytes from byte 512 on, of 2048"},
          {resum(patched(good, 124, std::string(12, '\xff'))),
           "the size of an entry is more than 64 bits"},
          {resum(patched(good, 156, "S")), "has a sparse file at byte 0, which is not read"},
          {make_tar({{"../a", "x"}}), "the entry name '../a' leads out of the archive"},
          {make_tar({{"/a", "x"}}), "the entry name '/a' is an absolute path"},
          {make_tar({{"a", "x"}, {"a", "y"}}), "the name 'a' appears twice"},
          {make_tar({{"\xfe", "x"}}), "the entry name '\\xfe' is not valid UTF-8"},
          {pax("99 path=a\n"), "a pax record has no valid length"},
          {pax("5 ab\n"), "a pax record has no '='"},
          {pax("10 size=x\n"), "the size in a pax record is not a number"},
          {pax("14 size=999999\n" + std::string()), "a pax record has no valid length"},
          {pax("15 path=../../a\n"), "a pax record has no valid length"},
          {pax("16 path=../../a\n"), "the entry name '../../a' leads out of the archive"},
      },
      list_tar);
}

TEST_CASE("malformed gzip and xz") {
  const std::string gzip = make_gzip(std::string(1000, 'a'));
  check_cases(
      {
          {"no", "is not a gzip file"},
          {cut(gzip, 12), "the compressed data ends early"},
          {cut(gzip, gzip.size() - 1), "the compressed data ends early"},
          {patched(gzip, 10, "\xff"), "the compressed data is broken: invalid block type"},
          {patched(gzip, gzip.size() - 8, "zzzz"),
           "the compressed data is broken: incorrect data check"},
          {gzip + "tail", "has 4 bytes after the compressed data"},
      },
      [](const File& file) { unpack_gzip(file); });
  CHECK(error_of(gzip, [](const File& file) { unpack_gzip(file, 999); }) ==
        "unpacks to more than 999 bytes");
  CHECK(error_of(gzip, [](const File& file) { unpack_gzip(file, 1000); }) == "no error");
  std::string xz;
  for (const SeedFile& f : seed_files())
    if (f.target == std::string("xz")) xz = f.bytes;
  check_cases(
      {
          {"no", "is not an xz file"},
          {cut(xz, xz.size() - 1), "the compressed data ends early"},
          {patched(xz, 30, "zz"), "the compressed data is broken"},
          {xz + std::string(12, 'x'), "the compressed data is broken"},
      },
      [](const File& file) { unpack_xz(file); });
  CHECK(error_of(xz, [](const File& file) { unpack_xz(file, 79); }) ==
        "unpacks to more than 79 bytes");
}

TEST_CASE("malformed checkpoints of PyTorch") {
  const std::string storage = pickle_storage("0", 4);
  auto with = [](const std::string& pickle) {
    return make_torch("\x80\x02" + pickle + ".", {std::string(16, 1)});
  };
  auto strided = [&](int offset, const std::vector<int>& shape, const std::vector<int>& strides) {
    return with(pickle_tensor(storage, offset, shape, strides));
  };
  auto dict = [](const std::string& items) { return "}(" + items + "u"; };
  std::string deep, shared = "]q" + le<uint8_t>(0);
  for (int i = 0; i < 70; ++i) deep += "](";
  deep += "K\1";
  for (int i = 0; i < 70; ++i) deep += "e";
  for (int i = 1; i < 60; ++i)
    shared += "](h" + le(static_cast<uint8_t>(i - 1)) + "h" + le(static_cast<uint8_t>(i - 1)) +
              "eq" + le(static_cast<uint8_t>(i));
  const std::string in_pickle = "archive/data.pkl: ";
  std::vector<Case> cases{
      {"not a zip", "is not a zip archive"},
      {make_zip({{"a/other.pkl", "1"}}),
       "is a zip archive without a data.pkl, not a PyTorch checkpoint"},
      {patched(strided(0, {4}, {1}), 30 + 16, "z"),
       in_pickle + "does not match its checksum"},
      {make_zip({{"a/data.pkl", "N."}, {"a/byteorder", "big"}}),
       "byteorder is not little; only little-endian files are read"},
      {make_torch("", {}), in_pickle + "the file ends in the pickle: 1 bytes from byte 0 on, of 0"},
      {with(""), in_pickle + "the pickle takes a value from an empty stack at byte 2"},
      {with("NN"), in_pickle + "the pickle ends with values left over"},
      {with("\x80\x09N"), in_pickle + "the pickle's protocol 9 is not 2 to 5"},
      {with("i"), in_pickle + "the pickle's opcode 105 at byte 2 is not one that a checkpoint "
                              "needs"},
      {with(pickle_global("os", "system") + pickle_text("true") + "\x85R"),
       in_pickle + "the pickle wants 'os.system', which is not among what a checkpoint of tensors "
                   "needs"},
      {with(pickle_text("builtins") + pickle_text("eval") + "\x93"),
       in_pickle + "the pickle wants 'builtins.eval', which is not among what a checkpoint of "
                   "tensors needs"},
      {with("cos\nsystem"), in_pickle + "the file ends in a global's name: 1 bytes from byte 13 "
                                        "on, of 13"},
      {with("K\1K\2\x85R"), in_pickle + "what is called in the pickle has the wrong type"},
      {with(pickle_global("torch", "FloatStorage") + ")R"),
       in_pickle + "the pickle calls 'torch.FloatStorage', which is not a function"},
      {with(pickle_global("torch._utils", "_rebuild_tensor_v2") + ")R"),
       in_pickle + "_rebuild_tensor_v2 is called with 0 arguments"},
      {with("t"), in_pickle + "the pickle looks for a mark that is not there at byte 2"},
      {with("h\7"), in_pickle + "the memo has no entry 7"},
      {with("Nr" + le<uint32_t>(1 << 30)),
       in_pickle + "the memo index 1073741824 is more than a pickle of 9 bytes can need"},
      {with("K\1K\2a"), in_pickle + "the pickle adds items to what is not a list"},
      {with("}(K\1u"), in_pickle + "a dict has a key without a value"},
      {with("X" + le(UINT32_MAX)),
       in_pickle + "the file ends in a text: 4294967295 bytes from byte 7 on, of 8"},
      {with(pickle_text("\xff")), in_pickle + "a text is not valid UTF-8: '\\xff'"},
      {with(pickle_text("x") + "Q"), in_pickle + "a storage's identity in the pickle has the wrong "
                                                 "type"},
      {with(pickle_storage("9", 4)), in_pickle + "there is no storage '9'"},
      {with(pickle_storage("0", 5)),
       in_pickle + "the storage '0' has 16 bytes, not 5 elements of 4 bytes"},
      {with(pickle_storage("0", -1)),
       in_pickle + "the storage '0' has 16 bytes, not -1 elements of 4 bytes"},
      {strided(0, {5}, {1}), in_pickle + "a tensor of shape (5) and strides (1) from element 0 on "
                                         "reaches outside its storage of 4 elements"},
      {strided(-1, {2}, {1}), in_pickle + "a tensor of shape (2) and strides (1) from element -1 "
                                          "on reaches outside its storage of 4 elements"},
      {strided(0, {2}, {-1}), in_pickle + "a tensor of shape (2) and strides (-1) from element 0 "
                                          "on reaches outside its storage of 4 elements"},
      {strided(3, {2, 2}, {2147483647, 2147483647}),
       in_pickle + "a tensor of shape (2, 2) and strides (2147483647, 2147483647) from element 3 "
                   "on reaches outside its storage of 4 elements"},
      {strided(0, {-4}, {1}), in_pickle + "a tensor has the shape (-4), with a negative size"},
      {strided(0, {2147483647, 2147483647, 2147483647}, {0, 0, 0}),
       in_pickle + "a tensor has the shape (2147483647, 2147483647, 2147483647), more elements "
                   "than there can be"},
      {strided(0, {2, 2}, {1}), in_pickle + "a tensor of shape (2, 2) has the strides (1)"},
      {with(dict("NN")), in_pickle + "a dict's key is neither a text nor a whole number"},
      {with(dict(pickle_text("a.b") + pickle_tensor(storage, 0, {4}, {1}) + pickle_text("a") +
                 dict(pickle_text("b") + pickle_tensor(storage, 0, {4}, {1})))),
       in_pickle + "the name 'a.b' appears twice"},
      {with(deep), in_pickle + "dicts and lists are more than 64 levels deep"},
      {with("]q" + le<uint8_t>(0) + "h" + le<uint8_t>(0) + "a"),
       in_pickle + "dicts and lists are more than 64 levels deep"},
      {with("(" + shared + "t"),
       in_pickle + "the pickle names the same values over and over, far more than its size allows"},
      {strided(0, {1000000, 4}, {0, 1}),
       "the tensor '' has the strides (0, 1), by which the strided tensors are larger than the "
       "file"},
  };
  check_cases(cases, [](const File& file) { make_tensors(file, parse_torch(file)); });
}

TEST_CASE("files of no known format") {
  check_cases(
      {
          {"",
           "is not a file that mote can read, of 0 bytes that begin with ''; it reads gguf, npy, "
           "zip (PyTorch, npz), tar, safetensors, PyTorch before 1.6, gzip and xz"},
          {"#!/bin/sh\n",
           "is not a file that mote can read, of 10 bytes that begin with '#!/bin/s'; it reads "
           "gguf, npy, zip (PyTorch, npz), tar, safetensors, PyTorch before 1.6, gzip and xz"},
          {make_tar({{"a", "x"}}), "is a tar file without tensors"},
          {make_gzip("text"), "is a gzip file without tensors"},
          {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
           "is what torch.save wrote before PyTorch 1.6; load and save it with a newer one"},
      },
      [](const File& file) { make_tensors(file, parse_any(file)); });
}

TEST_CASE("malformed zstd") {
  const std::string good = make_zstd("some text");
  check_cases(
      {
          {"no", "is not a zstd file"},
          {cut(good, good.size() - 1), "the compressed data ends early"},
          {good + "xxxx", "the compressed data is broken: Unknown frame descriptor"},
      },
      [](const File& file) { unpack_zstd(file); });
  CHECK(error_of(good, [](const File& file) { unpack_zstd(file, 8); }) ==
        "unpacks to more than 8 bytes");
  CHECK(error_of(good + good, [](const File& file) { unpack_zstd(file, 18); }) == "no error");
}

TEST_CASE("malformed ONNX") {
  auto graph = [](const std::string& more) { return onnx_model(more); };
  auto weight = [&](unsigned type, const std::vector<int64_t>& dims, const std::string& raw) {
    return graph(pb(5, onnx_tensor("w", type, dims, raw)));
  };
  const std::string outside = pb(5, pb_int(1, 1) + pb_int(2, 1) + pb(8, "w") +
                                        pb(13, pb(1, "location") + pb(2, "../secret")) +
                                        pb_int(14, 1));
  std::string nested = pb(1, "g");
  for (int i = 0; i < 40; ++i)
    nested = onnx_node("If", "c", "y", pb(5, pb(1, "then_branch") + pb(6, nested)));
  check_cases(
      {
          {"", "the model: there is no graph, so this is not an ONNX file"},
          {"\x08", "the model: a number at byte 1 is cut off or too long"},
          {std::string(12, '\xff'), "the model: a number at byte 10 is cut off or too long"},
          {"\x0b", "the model: field 1 has the wire type 3"},
          {pb(1, "x"), "the model: ir_version is not a number"},
          {cut(graph(onnx_node("Add", "a b", "c")), 10),
           "the model: field 7 takes 16 bytes, but 6 are left"},
          {graph(pb(1, pb(3, "n"))), "the graph: a node has no op_type"},
          {graph(onnx_node("Add", "a b", "c", pb(3, "n") + pb(5, pb(1, "axis") + pb(3, "x")))),
           "Add 'n', attribute 'axis': i is not a number"},
          {graph(onnx_node("Nope", "a", "b", pb(3, "n")) + onnx_node("Never", "a", "c")),
           "has operators that are not supported:\n  Nope 'n' (opset 21)\n"
           "  Never -> 'c' (opset 21)"},
          {graph(pb(1, pb(4, "Add") + pb(3, "\xff"))), "the graph: name is not valid UTF-8: '\\xff'"},
          {weight(1, {3}, "abcdefgh"),
           "the tensor 'w' has 8 bytes, but its shape (3) of f32 takes 12"},
          {weight(1, {-1}, ""), "the tensor 'w' has the shape (-1), with a negative size"},
          {weight(1, {INT64_MAX, 9}, ""), "the tensor 'w' has the shape (9223372036854775807, 9), "
                                          "more elements than there can be"},
          {weight(99, {1}, "a"), "the tensor 'w' has the element type 99, which mote lacks"},
          {weight(1, std::vector<int64_t>(65, 1), "abcd"),
           "the tensor 'w': it has 65 axes, more than 64"},
          {graph(pb(5, onnx_tensor("w", 2, {1}, "a")) + pb(5, onnx_tensor("w", 2, {1}, "a"))),
           "the initializer 'w' appears twice"},
          {graph(outside), "the tensor 'w': its external data cannot be read, for the model has no "
                           "folder"},
          {graph(nested), "If -> 'y', attribute 'then_branch': graphs are nested more than 32 deep"},
      },
      [](const File& file) { onnx::ModelCore(file, {}, "CPU"); });
}
