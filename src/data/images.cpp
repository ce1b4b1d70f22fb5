// Sets of pictures: batches of them, and the files of MNIST and CIFAR-10.
#include "data/images.h"

#include <mote/data.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "io/compress.h"
#include "tensor/impl.h"

namespace mote::data {

static int64_t bytes_each(const Images& set) { return set.channels * set.height * set.width; }

Images::Batch Images::batch(std::span<const int64_t> rows, const std::string& device,
                            Loc where) const {
  OuterCall call("batch", where);
  const auto each = static_cast<size_t>(bytes_each(*this));
  std::vector<uint8_t> picked(rows.size() * each);
  std::vector<int64_t> classes_of(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    expect(rows[i] >= 0 && rows[i] < count(), "there is no row ", rows[i], " in a set of ",
           count());
    auto row = static_cast<size_t>(rows[i]);
    std::memcpy(picked.data() + i * each, pixels.data() + row * each, each);
    classes_of[i] = labels[row];
  }
  return {from_bytes(picked.data(), {rows.size(), channels, height, width}, DType::u8, device),
          from_bytes(classes_of.data(), {rows.size()}, DType::i64, device)};
}

Images Images::slice(int64_t first, int64_t end, Loc where) const {
  OuterCall call("slice", where);
  expect(0 <= first && first <= end && end <= count(), "no rows ", first, " ... ", end,
         " in a set of ", count());
  Images out;
  out.channels = channels, out.height = height, out.width = width, out.classes = classes;
  out.pixels.assign(pixels.begin() + first * bytes_each(*this),
                    pixels.begin() + end * bytes_each(*this));
  out.labels.assign(labels.begin() + first, labels.begin() + end);
  return out;
}

// Two zero bytes, the element's type, the number of axes; then the sizes and the elements.
Idx parse_idx(const File& file) {
  constexpr uint8_t kBytes = 8;
  Reader in(file);
  in.check(in.u16("the magic number") == 0,
           "not an idx file: it does not begin with two zero bytes");
  uint8_t type = in.u8("the element type"), axes = in.u8("the number of axes");
  in.check(type == kBytes, "the elements must be bytes (type 8), got type ", type);
  in.check(axes >= 1 && axes <= 8, "the number of axes must be 1 ... 8, got ", axes);
  Idx out;
  for (int i = 0; i < axes; ++i)
    out.shape.push_back(__builtin_bswap32(in.u32("a size")));  // big-endian
  uint64_t size = byte_size(file.name, "the array", out.shape, 1);
  in.check(size == in.left(), "the sizes ", out.shape, " need ", size, " elements, the file has ",
           in.left());
  check_memory(file.name, size);
  std::span<const uint8_t> elements = in.take(size, "the elements");
  out.bytes.assign(elements.begin(), elements.end());
  return out;
}

Idx read_idx(const std::string& path, Loc where) {
  OuterCall call("read_idx", where);
  return parse_idx(unpacked(open_file(path)));
}

// folder/name or folder/name.gz, whichever is there.
static std::string find_file(const std::string& folder, const std::string& name) {
  std::string path = folder + "/" + name;
  for (const char* ending : {"", ".gz", ".xz"})
    if (std::filesystem::exists(path + ending)) return path + ending;
  fail(ErrorKind::Device, text("[", current_method(), "] ", printable(folder), " holds no ", name,
                               ", plain, .gz or .xz"));
}

static Images mnist_part(const std::string& folder, const std::string& prefix) {
  std::string pictures = find_file(folder, prefix + "-images-idx3-ubyte");
  std::string classes = find_file(folder, prefix + "-labels-idx1-ubyte");
  Idx images = read_idx(pictures), labels = read_idx(classes);
  check_file(images.shape.size() == 3, pictures, "pictures have 3 axes, got sizes ", images.shape);
  check_file(labels.shape.size() == 1, classes, "labels have 1 axis, got sizes ", labels.shape);
  check_file(labels.shape[0] == images.shape[0], classes, "there are ", labels.shape[0],
             " labels for ", images.shape[0], " pictures");
  for (uint8_t label : labels.bytes)
    check_file(label < 10, classes, "labels must be 0 ... 9, got ", label);
  Images out;
  out.pixels = std::move(images.bytes), out.labels = std::move(labels.bytes);
  out.height = images.shape[1], out.width = images.shape[2], out.classes = 10;
  return out;
}

Split mnist(const std::string& folder, Loc where) {
  OuterCall call("mnist", where);
  return {mnist_part(folder, "train"), mnist_part(folder, "t10k")};
}

void append_cifar10(const File& file, Images& out) {
  constexpr size_t kPixels = 3 * 32 * 32, kRecord = 1 + kPixels;
  std::span<const uint8_t> bytes = file.bytes.span();
  check_file(bytes.size() % kRecord == 0, file.name, "records have ", kRecord,
             " bytes, the file has ", bytes.size());
  check_memory(file.name, bytes.size());
  for (size_t at = 0; at < bytes.size(); at += kRecord) {
    check_file(bytes[at] < 10, file.name, "the class of record ", at / kRecord,
               " must be 0 ... 9, got ", bytes[at]);
    out.labels.push_back(bytes[at]);
    auto pixels = bytes.subspan(at + 1, kPixels);
    out.pixels.insert(out.pixels.end(), pixels.begin(), pixels.end());
  }
}

Images cifar10(const std::vector<std::string>& files, Loc where) {
  OuterCall call("cifar10", where);
  Images out;
  out.channels = 3, out.height = out.width = 32, out.classes = 10;
  for (const std::string& path : files) append_cifar10(unpacked(open_file(path)), out);
  return out;
}

Split cifar10(const std::string& folder, Loc where) {
  OuterCall call("cifar10", where);
  std::vector<std::string> train, test;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (name.find(".bin") == std::string::npos) continue;
    (name.starts_with("test_batch") ? test : train).push_back(entry.path().string());
  }
  if (error || train.empty())
    fail(ErrorKind::Device, text("[cifar10] ", printable(folder), " holds no .bin files",
                                 error ? ": " + error.message() : ""));
  std::sort(train.begin(), train.end());
  Images all = cifar10(train);
  if (!test.empty()) return {std::move(all), cifar10(test)};
  int64_t first_test = all.count() - all.count() / 10;
  return {all.slice(0, first_test), all.slice(first_test, all.count())};
}

}  // namespace mote::data
