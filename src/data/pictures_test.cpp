// Pictures in files, transforms, loaders, logs, files for PyTorch, memory of other libraries.
#include <doctest/doctest.h>
#include <mote/dlpack.h>
#include <mote/images.h>
#include <mote/io.h>
#include <mote/loader.h>
#include <mote/log.h>
#include <mote/mote.h>
#include <zlib.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <thread>

#include "io/compress.h"
#include "io/picture.h"
#include "test/error_of.h"
#include "test/process.h"
#include "test/temp_folder.h"
#include "test/training_goldens.h"

using namespace mote;

namespace {

File file_of(const std::string& bytes) {
  return {"input", Bytes(std::vector<uint8_t>(bytes.begin(), bytes.end()))};
}

}  // namespace

TEST_CASE("png: every colour type and depth, interlaced or not") {
  for (const test::GoldenCase* c : test::cases({"png"})) {
    CAPTURE(c->name);
    const std::string& bytes = c->inputs[0].value.bytes;
    const Picture p = parse_png(file_of(bytes));
    const test::GoldenTensor& want = c->outputs[0].value;
    REQUIRE(std::vector<int64_t>{p.channels, p.height, p.width} == want.shape);
    bool same = true;
    for (int64_t ch = 0; ch < p.channels; ++ch)
      for (int64_t i = 0; i < p.width * p.height; ++i)
        same &= p.pixels[static_cast<size_t>(i * p.channels + ch)] ==
                static_cast<uint8_t>(want.bytes[static_cast<size_t>(ch * p.width * p.height + i)]);
    CHECK(same);
    CHECK(parse_png(file_of(png_text(p))).pixels == p.pixels);
    // Cut anywhere, or with a byte changed, it is refused.
    for (size_t cut = 0; cut < bytes.size(); cut += 7)
      CHECK_THROWS_AS(parse_png(file_of(bytes.substr(0, cut))), Error);
    for (size_t at = 8; at < bytes.size(); at += 5) {
      std::string bad = bytes;
      bad[at] = static_cast<char>(bad[at] ^ 0x10);
      CHECK_THROWS_AS(parse_png(file_of(bad)), Error);
    }
  }
}

TEST_CASE("png: a small file that claims to be large is refused at once") {
  std::string bytes = png_text({4, 4, 1, std::vector<uint8_t>(16)});
  for (size_t i : {16, 17, 20, 21}) bytes[i] = '\x40';  // 2^30 pixels a side
  const uint32_t sum =
      __builtin_bswap32(crc32({reinterpret_cast<const uint8_t*>(bytes.data()) + 12, 17}));
  bytes.replace(29, 4, reinterpret_cast<const char*>(&sum), 4);
  CHECK(error_of([&] { parse_png(file_of(bytes)); }).find("more than 67108864 bytes") !=
        std::string::npos);
}

TEST_CASE("deflate: zlib unpacks what is packed here") {
  Tensor noise = randint(0, 256, {5000});
  const std::vector<uint8_t> random = noise.to(DType::u8).to_vector<uint8_t>();
  std::vector<uint8_t> steps(70000), all;
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = static_cast<uint8_t>(i / 300 * (i % 7 < 3));
  for (const std::vector<uint8_t>& bytes : {
           std::vector<uint8_t>{                        },
           { 1},
           { 1, 2, 3, 1, 2, 3},
           std::vector<uint8_t>(1000, 7),
           random,
           steps
  }) {
    const std::string packed = deflated(bytes);
    z_stream z{};
    REQUIRE(inflateInit2(&z, -15) == Z_OK);
    std::vector<uint8_t> out(bytes.size() + 1);
    z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    z.avail_in = static_cast<unsigned>(packed.size());
    z.next_out = out.data(), z.avail_out = static_cast<unsigned>(out.size());
    CHECK(::inflate(&z, Z_FINISH) == Z_STREAM_END);
    out.resize(z.total_out);
    inflateEnd(&z);
    CHECK(out == bytes);
  }
  CHECK(deflated(steps).size() < steps.size() / 20);
}

TEST_CASE("pictures: saved, loaded, put in a grid; JPEG says what it needs") {
  test::TempFolder folder;
  Tensor picture = (arange(3 * 5 * 4, {DType::f32}).reshape({3, 5, 4}) / 59).realize();
  save_png(folder / "a.png", picture);
  Tensor back = load_image(folder / "a.png");
  CHECK(back.dtype() == DType::u8);
  CHECK((back.to(DType::f32) / 255 - picture).abs().max().item<float>() < 0.5f / 255 + 1e-6f);
  CHECK(load_image(folder / "a.png", 1).shape() == std::vector<int64_t>{1, 5, 4});
  save_png(folder / "g.png", picture[0]);
  CHECK(load_image(folder / "g.png").shape() == std::vector<int64_t>{1, 5, 4});
  CHECK(load_image(folder / "g.png", 3).shape() == std::vector<int64_t>{3, 5, 4});
  CHECK(error_of([&] {
          save_png(folder / "x.png", ones({5, 2, 2}));
        }).find("1 to 4 channels") != std::string::npos);
  Tensor grid = image_grid(ones({3, 1, 2, 2}), 2, 1);
  CHECK(grid.shape() == std::vector<int64_t>{1, 8, 8});
  CHECK(grid.sum().item<float>() == 12);
  test::write_file(folder / "a.jpg", "\xff\xd8\xff\xe0 no picture");
  const std::string what = error_of([&] { load_image(folder / "a.jpg"); });
  CHECK((what.find("in the package libturbojpeg0") != what.npos ||
         what.find("the picture cannot be read") != what.npos));
  test::write_file(folder / "a.gif", "GIF89a");
  CHECK(error_of([&] { load_image(folder / "a.gif"); }).find("neither a PNG nor a JPEG") !=
        std::string::npos);
}

TEST_CASE("transforms: shapes, ranges, and what they are made of") {
  namespace tf = transforms;
  manual_seed(4);
  Tensor x = rand({6, 3, 8, 10}).realize();
  CHECK(tf::center_crop(x, {4, 6}).eq(x.narrow(2, 2, 4).narrow(3, 2, 6)).all().item<bool>());
  CHECK(tf::crop(x, 1, 2, 3, 4).eq(x.narrow(2, 1, 3).narrow(3, 2, 4)).all().item<bool>());
  // Each picture of the crop is a window of its picture; not all are the same one.
  Tensor place = arange(80, {DType::f32}).reshape({1, 1, 8, 10}).expand({6, 1, 8, 10});
  Tensor windows = tf::random_crop(place, {5, 7}).realize();
  Tensor corner = windows.narrow(2, 0, 1).narrow(3, 0, 1);
  Tensor inner = arange(5, {DType::f32}).reshape({5, 1}) * 10 + arange(7, {DType::f32});
  CHECK((windows - corner).eq(inner).all().item<bool>());
  CHECK(corner.std().item<float>() > 0);
  CHECK(tf::random_crop(x, 8, 4).shape() == std::vector<int64_t>{6, 3, 8, 8});
  Tensor flipped = tf::random_horizontal_flip(x).realize();
  Tensor either = flipped.eq(x).flatten(1).all(1) | flipped.eq(x.flip(-1)).flatten(1).all(1);
  CHECK(either.all().item<bool>());
  CHECK(tf::random_vertical_flip(x, 1).eq(x.flip(-2)).all().item<bool>());
  CHECK(tf::resize(x, {4, 5}).shape() == std::vector<int64_t>{6, 3, 4, 5});
  CHECK(tf::resize((x * 255).to(DType::u8), 4).dtype() == DType::u8);
  Tensor n = tf::normalize(x, {0.5, 0.4, 0.3}, {0.5, 1.0, 2.0});
  CHECK(n.narrow(1, 2, 1).isclose((x.narrow(1, 2, 1) - 0.3) / 2).all().item<bool>());
  Tensor j = tf::color_jitter(x, {0.4, 0.4, 0.4, 0.1}).realize();
  CHECK(j.ge(0).all().item<bool>());
  CHECK(j.le(1).all().item<bool>());
  CHECK(!j.isclose(x).all().item<bool>());
  CHECK((tf::color_jitter(x, {.hue = 1e-9}) - x).abs().max().item<float>() < 2e-3f);
  Tensor erased = tf::random_erase(ones({64, 1, 16, 16}), {.p = 0.5, .value = 0}).realize();
  Tensor part = erased.eq(0).to(DType::f32).mean({1, 2, 3});
  const double hit = part.gt(0).to(DType::f32).mean().item<double>();
  CHECK(hit > 0.25);
  CHECK(hit < 0.75);
  CHECK(part.max().item<double>() < 0.45);
}

TEST_CASE("transforms: mixed pictures and targets have the same shares") {
  namespace tf = transforms;
  manual_seed(5);
  Tensor targets = arange(8).one_hot(8).to(DType::f32);
  Tensor images = targets.reshape({8, 8, 1, 1}).expand({8, 8, 6, 6});
  for (bool cut : {false, true}) {
    tf::Mixed m = cut ? tf::cutmix(images, targets) : tf::mixup(images, targets, 0.4);
    realize({m.images, m.targets});
    CHECK(m.images.mean({2, 3}).isclose(m.targets, 1e-4, 1e-5).all().item<bool>());
    CHECK(m.targets.sum(1).isclose(ones({8})).all().item<bool>());
  }
  for (double a : {0.2, 1.0, 3.0}) {
    Tensor b = tf::beta(a, a, {4000}).realize();
    CHECK(b.mean().item<double>() == doctest::Approx(0.5).epsilon(0.06));
    CHECK(b.var().item<double>() == doctest::Approx(0.25 / (2 * a + 1)).epsilon(0.12));
  }
}

TEST_CASE("loader: one order for any number of workers, bounded, and resumed") {
  auto rows_of = [](int workers, int64_t take, data::Order::State* state = nullptr) {
    std::atomic<int64_t> alive = 0, most = 0;
    struct Batch {
      std::vector<int64_t> rows;
      std::shared_ptr<void> counted;
    };
    std::vector<int64_t> seen;
    data::Loader<Batch> loader(
        data::Order(23, 3, 5),
        [&](std::span<const int64_t> rows) {
          most = std::max<int64_t>(most, ++alive);
          std::this_thread::sleep_for(std::chrono::microseconds(rows[0] * 20));
          return Batch{
              {rows.begin(), rows.end()             },
              {&alive,       [&](void*) { --alive; }}
          };
        },
        {.workers = workers, .ahead = 3});
    if (state) loader.restore(*state);
    for (int64_t i = 0; i < take; ++i)
      for (int64_t r : loader.next().rows) seen.push_back(r);
    CHECK(most <= 4);  // with the one that was taken
    if (state) *state = loader.state();
    return seen;
  };
  const std::vector<int64_t> plain = rows_of(0, 20);
  for (int workers : {1, 2, 5}) CHECK(rows_of(workers, 20) == plain);
  data::Order::State state{5, 0, 0};
  std::vector<int64_t> first = rows_of(3, 9, &state), second = rows_of(2, 11, &state);
  first.insert(first.end(), second.begin(), second.end());
  CHECK(first == plain);
}

TEST_CASE("loader: a worker's error comes out where its batch would have") {
  for (int workers : {0, 3}) {
    data::Loader<int64_t> loader(data::Order(8, 1, 1),
                                 [](std::span<const int64_t> rows) {
                                   if (rows[0] == 4) throw std::runtime_error("row 4");
                                   return rows[0];
                                 },
                                 {.workers = workers});
    int errors = 0;
    for (int i = 0; i < 16; ++i) {
      try {
        CHECK(loader.next() != 4);
      } catch (const std::runtime_error& e) {
        ++errors;
        CHECK(std::string(e.what()) == "row 4");
      }
    }
    CHECK(errors == 2);
  }
  CHECK(data::batches_in_order(7, 3) == std::vector<std::vector<int64_t>>{
                                            {0,  1, 2},
                                            {3, 4, 5},
                                            {6 }
  });
}

TEST_CASE("log: rows as CSV and JSON, and on from where a run was resumed") {
  test::TempFolder folder;
  for (const char* name : {"run.csv", "run.jsonl"}) {
    const std::string path = folder / name;
    {
      Log log(path, {"step", "loss"});
      for (int64_t i = 1; i <= 4; ++i) log.row({i, 0.5 / static_cast<double>(i)});
      CHECK(error_of([&] { log.row({1}); }).find("needs 2 values, got 1") != std::string::npos);
    }
    {
      Log log(path, {"step", "loss"}, 2);
      log.row({int64_t{3}, NAN});
    }
    CHECK(test::read_file(path) ==
          (std::string(name) == "run.csv"
               ? "step,loss\n1,0.5\n2,0.25\n3,nan\n"
               : "{\"step\": 1, \"loss\": 0.5}\n{\"step\": 2, \"loss\": 0.25}\n"
                 "{\"step\": 3, \"loss\": null}\n"));
  }
  const std::string said = error_of([&] { Log log(folder / "run.csv", {"step", "accuracy"}, 2); });
  CHECK_MESSAGE(said.find("has the columns step,loss, got step,accuracy") != said.npos, said);
}

TEST_CASE("torch: files that are written load here and in PyTorch") {
  test::TempFolder folder;
  const std::string path = folder / "out.pt";
  std::vector<NamedTensor> all;
  for (DType d : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::u8, DType::i8, DType::i16,
                  DType::i32, DType::i64, DType::boolean})
    all.push_back({"t." + std::string(name(d)), arange(6).reshape({2, 3}).to(d)});
  all.push_back({"scalar", tensor(2.5)});
  all.push_back({"none", zeros({0, 3})});
  save_torch(path, all);
  const std::vector<NamedTensor> back = load_torch(path);
  REQUIRE(back.size() == all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(back[i].name == all[i].name);
    CHECK(back[i].tensor.dtype() == all[i].tensor.dtype());
    CHECK(back[i].tensor.shape() == all[i].tensor.shape());
    CHECK(back[i].tensor.to("CPU").to(DType::f32).to_vector<float>() ==
          all[i].tensor.to(DType::f32).to_vector<float>());
  }
  CHECK(error_of([&] {
          save_torch(path, {
                               {"w", zeros({2}, DType::u32)}
          });
        }).find("PyTorch has no u32 storage") != std::string::npos);
  if (run("/usr/bin/python3 -c 'import torch'").status != 0) return;
  Ran ran =
      run("/usr/bin/python3 -c \"import torch\n"
          "for kw in ({}, {'weights_only': True}):\n"
          "  d = torch.load('" +
          path +
          "', **kw)\n"
          "  print(len(d), d['t.bf16'].tolist(), d['scalar'].item(), tuple(d['none'].shape),"
          " d['t.bool'].tolist(), d['t.i64'].stride())\"");
  CHECK(ran.status == 0);
  const std::string line =
      "12 [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]] 2.5 (0, 3) "
      "[[False, True, True], [True, True, True]] (3, 1)\n";
  CHECK(has(ran, line + line));
}

// The struct as another library declares it.
struct TheirTensor {
  struct {
    void* data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
  } t;
  void* context;
  void (*deleter)(TheirTensor*);
};

static DLManagedTensor* ours(TheirTensor* t) { return reinterpret_cast<DLManagedTensor*>(t); }

TEST_CASE("dlpack: a tensor in another shape lends its memory too") {
  Tensor x = arange(6).to_float().reshape({2, 3}).realize();
  Tensor lent = from_dlpack(to_dlpack(x));
  CHECK(lent.shape() == std::vector<int64_t>{2, 3});
  lent.fill_(7);
  lent.realize();
  CHECK((x == 7).all().item<bool>());
  Tensor turned = from_dlpack(to_dlpack(x.t()));  // in another order: a copy
  turned.fill_(1);
  turned.realize();
  CHECK((x == 7).all().item<bool>());
}

TEST_CASE("dlpack: memory is shared both ways and let go of once") {
  Tensor x = arange(6, {DType::f32}).reshape({2, 3}).clone().realize();
  auto* lent = reinterpret_cast<TheirTensor*>(to_dlpack(x));
  CHECK(lent->t.ndim == 2);
  CHECK(lent->t.shape[1] == 3);
  CHECK(lent->t.strides[0] == 3);
  CHECK((lent->t.code == 2 && lent->t.bits == 32 && lent->t.lanes == 1));
  static_cast<float*>(lent->t.data)[4] = 40;
  CHECK(x.to_vector<float>()[4] == 40);
  {
    Tensor again = from_dlpack(ours(lent));
    CHECK(again.to_vector<float>() == x.to_vector<float>());
    again.fill_(1).realize();
    CHECK(x.sum().item<float>() == 6);
  }
  static int deleted = 0;
  float values[] = {1, 2, 3, 4, 5, 6};
  int64_t shape[] = {3, 2}, strides[] = {1, 3}, gaps[] = {4, 1};
  TheirTensor theirs{
      {values, 1, 0, 2, 2, 32, 1, shape, strides, 0},
      nullptr, [](TheirTensor*) { ++deleted;    }
  };
  {
    Tensor t = from_dlpack(ours(&theirs));
    CHECK(t.shape() == std::vector<int64_t>{3, 2});
    CHECK(t.to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
  }
  CHECK(deleted == 1);
  theirs.t.strides = gaps;
  CHECK(error_of([&] { from_dlpack(ours(&theirs)); }).find("gaps between them") !=
        std::string::npos);
  theirs.t.device_type = 2;
  CHECK(error_of([&] { from_dlpack(ours(&theirs)); }).find("needs memory of the CPU") !=
        std::string::npos);
}
