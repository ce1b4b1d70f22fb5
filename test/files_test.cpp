// Files of tensors: what reference libraries wrote, what mote writes, and both read again.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <link.h>
#include <mote/io.h>
#include <mote/mote.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <sstream>

#include "io/archive.h"
#include "io/compress.h"
#include "test/file_builders.h"
#include "test/shared_data.h"
#include "test/temp_folder.h"
#include "test_paths.h"

using namespace mote;
using namespace mote::test;

namespace {

constexpr DType all_dtypes[] = {DType::boolean, DType::u8,     DType::u16,  DType::u32, DType::u64,
                                DType::i8,      DType::i16,    DType::i32,  DType::i64, DType::f16,
                                DType::f8e4m3,  DType::f8e5m2, DType::bf16, DType::f32, DType::f64};
constexpr bool in_numpy(DType d) {
  return d != DType::bf16 && d != DType::f8e4m3 && d != DType::f8e5m2;
}
const std::vector<std::vector<int64_t>> all_shapes{
    {},
    {1},
    {5},
    {2, 3},
    {3, 1, 4},
    {0, 3}
};

std::string bytes_of(const Tensor& t) {
  std::string out(static_cast<size_t>(t.nbytes()), '\0');
  t.copy_out(out.data(), t.nbytes());
  return out;
}

std::string hex(const std::string& bytes) {
  std::string out;
  for (const char c : bytes) {
    constexpr const char* digits = "0123456789abcdef";
    out += digits[static_cast<uint8_t>(c) >> 4];
    out += digits[c & 15];
  }
  return out;
}

// As tools/make_file_goldens.py writes what a file holds.
std::string line_of(const NamedTensor& t) {
  std::string shape;
  for (const int64_t d : t.tensor.shape()) shape += (shape.empty() ? "" : ",") + std::to_string(d);
  return t.name + "\t" + name(t.tensor.dtype()) + "\t" + shape + "\t" + hex(bytes_of(t.tensor)) +
         "\n";
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line + "\n");
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> sorted_lines(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> out;
  for (const NamedTensor& t : tensors) out.push_back(line_of(t));
  std::sort(out.begin(), out.end());
  return out;
}

// Tensors of random bytes of every dtype and shape.
std::vector<NamedTensor> make_tensors(bool (*wanted)(DType)) {
  std::mt19937 random(7);
  std::vector<NamedTensor> out;
  for (const DType dtype : all_dtypes) {
    if (!wanted(dtype)) continue;
    for (const std::vector<int64_t>& shape : all_shapes) {
      int64_t bytes = size_of(dtype);
      std::string label = name(dtype);
      for (const int64_t d : shape) bytes *= d, label += "." + std::to_string(d);
      std::string values(static_cast<size_t>(bytes), '\0');
      for (char& c : values)
        c = static_cast<char>(dtype == DType::boolean ? random() % 2 : random());
      out.push_back({label, from_bytes(values.data(), shape, dtype)});
    }
  }
  return out;
}

File file_of(const std::string& bytes) {
  return {"golden", Bytes(std::vector<uint8_t>(bytes.begin(), bytes.end()))};
}

}  // namespace

TEST_CASE("files of the reference libraries") {
  const std::string path = MOTE_SOURCE_DIR "/test/goldens/files.tar.gz";
  const File archive = unpacked({path, open_file(path).bytes});
  std::map<std::string, std::string> files;
  for (const ArchiveEntry& e : list_tar(archive)) files[e.name] = unpack(archive, e).text();
  MESSAGE("written by ", files.at("versions"));
  TempFolder folder;
  int read = 0;
  for (const auto& [name, expected] : files) {
    if (!name.ends_with(".expected")) continue;
    const std::string file = name.substr(0, name.size() - 9);
    INFO(file);
    write_file(folder / file, files.at(file));
    if (file == "module.pt") {
      CHECK_THROWS_WITH_AS(load(folder / file),
                           doctest::Contains("module.pt: archive/data.pkl: the pickle wants "
                                             "'torch.nn.modules.container.Sequential'"),
                           Error);
      continue;
    }
    CHECK(sorted_lines(load(folder / file)) == sorted_lines(expected));
    ++read;
  }
  CHECK(read > 60);
  // mote writes the very bytes that the reference library does.
  Metadata metadata;
  const std::vector<NamedTensor> all = load_safetensors(folder / "all.safetensors", &metadata);
  save_safetensors(folder / "again.safetensors", all, metadata);
  CHECK(read_file(folder / "again.safetensors") == files.at("all.safetensors"));
}

// With MOTE_FILES_OUT they stay, for tools/check_files.py.
TEST_CASE("files for other libraries") {
  TempFolder temporary;
  const char* kept = std::getenv("MOTE_FILES_OUT");
  if (kept) std::filesystem::create_directories(kept);
  auto path_of = [&](const std::string& name) {
    return kept ? std::string(kept) + "/" + name : temporary / name;
  };
  auto expect = [&](const std::string& name, const std::vector<NamedTensor>& tensors) {
    INFO(name);
    CHECK(sorted_lines(load(path_of(name))) == sorted_lines(tensors));
    std::string lines;
    for (const NamedTensor& t : tensors) lines += line_of(t);
    write_file(path_of(name) + ".expected", lines);
  };
  const std::vector<NamedTensor> all = make_tensors([](DType) { return true; });
  save_safetensors(path_of("all.safetensors"), all,
                   {
                       {"step", "12"             },
                       {"note", "é \"quoted\"\n"}
  });
  expect("all.safetensors", all);
  save_safetensors(path_of("empty.safetensors"), {});
  expect("empty.safetensors", {});
  const std::vector<NamedTensor> plain = make_tensors(in_numpy);
  save_npz(path_of("all.npz"), plain);
  expect("all.npz", plain);
  for (const NamedTensor& t : plain) {
    save_npy(path_of(t.name + ".npy"), t.tensor);
    expect(t.name + ".npy", {
                                {"", t.tensor}
    });
  }
}

TEST_CASE("safetensors: metadata, layout and laziness") {
  TempFolder folder;
  const std::string path = folder / "a.safetensors";
  Tensor x = arange(6).to(float32).reshape({2, 3});
  save_safetensors(path,
                   {
                       {"b", x.to(int8)   },
                       {"z", x.t()        },
                       {"a", x            },
                       {"d", x.to(float64)}
  },
                   {{"k", "v"}});
  std::vector<std::string> names;
  for (const FileInfo::Part& p : file_info(path).parts) {
    names.push_back(p.name);
    CHECK(p.offset % static_cast<int64_t>(p.type == "f64" ? 8 : p.type == "f32" ? 4 : 1) == 0);
  }
  CHECK(names == std::vector<std::string>{"d", "a", "z", "b"});  // the widest dtypes come first
  Metadata metadata;
  const std::vector<NamedTensor> loaded = load_safetensors(path, &metadata);
  CHECK(metadata == Metadata{
                        {"k", "v"}
  });
  REQUIRE(loaded.size() == 4);
  for (const NamedTensor& t : loaded) CHECK(t.tensor.device() == "DISK");
  CHECK(loaded[2].name == "z");
  CHECK((loaded[2].tensor.to("CPU") + 1).to_vector<float>() ==
        std::vector<float>{1, 4, 2, 5, 3, 6});
  // The old file stays as long as a tensor of it does.
  save_safetensors(path, {
                             {"a", x * 2}
  });
  CHECK(loaded[1].tensor.to("CPU").to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(load_safetensors(path)[0].tensor.to_vector<float>()[5] == 10);
  save_safetensors(path, load_safetensors(path));
  CHECK(load_safetensors(path)[0].tensor.to_vector<float>()[5] == 10);
}

TEST_CASE("safetensors: a real file") {
  const std::string path = shared_data("models/silero_vad/silero_vad_16k.safetensors");
  if (path.empty()) return;
  const std::vector<NamedTensor> loaded = load(path);
  REQUIRE(loaded.size() == 15);
  CHECK(loaded[0].name == "stft_conv.weight");
  CHECK(loaded[0].tensor.shape() == std::vector<int64_t>{258, 1, 256});
  CHECK(loaded[14].tensor.to("CPU").item<float>() == doctest::Approx(-0.574039));
}

TEST_CASE("npz entries can be mapped: their data is aligned") {
  TempFolder folder;
  save_npz(folder / "a.npz", {
                                 {"x",             arange(3)},
                                 {"a/longer/name", arange(5)}
  });
  const FileInfo info = file_info(folder / "a.npz");
  CHECK(info.format == "npz");
  REQUIRE(info.parts.size() == 2);
  for (const FileInfo::Part& p : info.parts) CHECK(p.offset % 64 == 0);
  CHECK(info.parts[1].name == "a/longer/name");
  CHECK(info.parts[1].shape == std::vector<int64_t>{5});
}

TEST_CASE("file_info describes any file") {
  TempFolder folder;
  auto info = [&](const std::string& bytes) {
    write_file(folder / "file", bytes);
    return file_info(folder / "file");
  };
  for (const SeedFile& seed : seed_files()) {
    const std::string target = seed.target;
    if (target == "json" || target == "pickle" || target == "idx" || target == "vocabulary" ||
        target == "onnx" || target == "png")
      continue;  // formats that cannot be told by content, and pictures
    CAPTURE(target);
    const FileInfo found = info(seed.bytes);
    CHECK(found.format == (target == "zip" ? "npz" : target));
    CHECK(found.bytes == static_cast<int64_t>(seed.bytes.size()));
  }
  const FileInfo tar = info(make_gzip(make_tar({
      {"a/b", "hello"}
  })));
  CHECK(tar.format == "tar in gzip");
  REQUIRE(tar.parts.size() == 1);
  CHECK(tar.parts[0].name == "a/b");
  CHECK(tar.parts[0].type == "file");
  CHECK(tar.parts[0].bytes == 5);
  CHECK(info(make_zip({
                 {"x.txt", "hello", true}
  }))
            .parts[0]
            .offset == -1);
  const FileInfo torch = info(make_torch("\x80\x02}(" + pickle_text("w") +
                                             pickle_tensor(pickle_storage("0", 4), 0, {2}, {2}) +
                                             pickle_text("epoch") + "K\x05u.",
                                         {std::string(16, 1)}));
  CHECK(torch.metadata == Metadata{
                              {"epoch", "5"}
  });
  CHECK(torch.parts[0].type == "f32");
}

TEST_CASE("archives: long names, several members, folders and links") {
  const std::string long_name = "folder/" + std::string(150, 'n');
  const std::string path = "path=" + std::string("p/ä.txt");
  const File tar = file_of(make_tar({
      {"././@LongLink", long_name + '\0', false, 'L'},
      {"cut", "one"},
      {"pax", "17 " + path + "\n", false, 'x'},
      {"other", "two"},
      {"folder", "", false, '5'},
      {"link", "", false, '2'},
      {"plain", std::string(512, 'x')}
  }));
  const std::vector<ArchiveEntry> entries = list_tar(tar);
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].name == long_name);
  CHECK(unpack(tar, entries[0]).text() == "one");
  CHECK(entries[1].name == "p/ä.txt");
  CHECK(unpack(tar, entries[1]).text() == "two");
  CHECK(unpack(tar, entries[2]).text() == std::string(512, 'x'));
  CHECK(unpack_gzip(file_of(make_gzip("ab") + make_gzip("") + make_gzip("c"))).text() == "abc");
  const std::string large(3'000'000, 'q');
  CHECK(unpack_gzip(file_of(make_gzip(large))).text() == large);
}

// Hides a library from the program, in a mount namespace of its own; needs the right to make one.
TEST_CASE("compressed files without the library say which package has it") {
  TempFolder folder;
  const std::vector<std::array<std::string, 3>> cases{
      {"xz",   "liblzma.so.5", "liblzma5"},
      {"gzip", "libz.so.1",    "zlib1g"  }
  };
  for (const auto& [target, library, package] : cases) {
    for (const SeedFile& f : seed_files())
      if (f.target == target) write_file(folder / "file", f.bytes);
    link_map* map = nullptr;
    void* opened = ::dlopen(library.c_str(), RTLD_NOW);
    REQUIRE((opened && ::dlinfo(opened, RTLD_DI_LINKMAP, &map) == 0));
    const std::string path = std::filesystem::canonical(map->l_name);
    auto without_library = [&](const std::string& command) {
      return std::system(("unshare -m sh -c 'mount --bind /dev/null " + path + " && " + command +
                          "' >" + (folder / "said") + " 2>&1")
                             .c_str());
    };
    if (without_library("true") != 0) {
      MESSAGE("skipped: " << library << " cannot be hidden here");
      continue;
    }
    CHECK(without_library(MOTE_BINARY_DIR "/mote info " + (folder / "file")) != 0);
    const std::string said = read_file(folder / "said");
    INFO(said);
    CHECK(said.find("file: is compressed, and reading it needs " + library) != std::string::npos);
    CHECK(said.find("on Debian it is in the package " + package) != std::string::npos);
  }
}

TEST_CASE("crc32") {
  const std::string text = "123456789";
  const std::span bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  CHECK(crc32(bytes) == 0xcbf43926);
  CHECK(crc32(bytes.subspan(4), crc32(bytes.first(4))) == 0xcbf43926);
}

TEST_CASE("mistakes in saving and loading") {
  TempFolder folder;
  auto says = [](auto f) {
    try {
      f();
    } catch (const Error& e) {
      const std::string what = e.what();
      return what.substr(0, what.rfind(" ("));
    }
    return std::string("no error");
  };
  const std::string path = folder / "x";
  const Tensor x = arange(3);
  CHECK(says([&] { load(path); }) == "[load] cannot open " + path + ": No such file or directory");
  write_file(path, "abc");
  CHECK(says([&] { load_safetensors(path); }) ==
        "[load_safetensors] " + path +
            ": the file ends in the header's length: 8 bytes from byte 0 on, of 3");
  CHECK(says([&] { load_npy(path); }) == "[load_npy] " + path + ": is not an npy file");
  CHECK(says([&] { save_npy(path, x.to(bfloat16)); }) ==
        "[save_npy] NumPy has no bf16: convert the tensor first, for example with .to(float32)");
  CHECK(says([&] {
          save_npz(path, {
                             {"a", x},
                             {"a", x}
          });
        }) == "[save_npz] the name 'a' appears twice");
  CHECK(says([&] {
          save_npz(path, {
                             {"../a", x}
          });
        }) == "[save_npz] " + path + ": the entry name '../a.npy' leads out of the archive");
  CHECK(says([&] {
          save_safetensors(path, {
                                     {"a", Tensor()}
          });
        }) == "[save_safetensors] the tensor 'a' is undefined");
  CHECK(says([&] {
          save_safetensors(path, {
                                     {"\xff", x}
          });
        }) == "[save_safetensors] the name '\\xff' is not valid UTF-8");
  CHECK(says([&] {
          save_safetensors(path, {
                                     {"__metadata__", x}
          });
        }) == "[save_safetensors] a tensor cannot be called __metadata__");
  CHECK(says([&] {
          save_safetensors(path,
                           {
          },
                           {{"k", "\xff"}});
        }) == "[save_safetensors] the metadata of 'k' is not valid UTF-8");
  CHECK(says([&] {
          save_safetensors(path,
                           {
          },
                           {{"k", "1"}, {"k", "2"}});
        }) == "[save_safetensors] the metadata has 'k' twice");
  CHECK(read_file(path) == "abc");
}
