// Pictures in files, and grids of them.
#include <mote/images.h>

#include "io/compress.h"
#include "io/picture.h"
#include "runtime/output_file.h"
#include "tensor/impl.h"

namespace mote {

namespace {

Tensor tensor_of(const Picture& p) {
  return from_bytes(p.pixels.data(), {p.height, p.width, p.channels}, DType::u8, "CPU")
      .permute({2, 0, 1})
      .contiguous();
}

// Grey by the usual weights of red, green and blue; alpha is dropped.
Tensor with_channels(const Tensor& picture, int64_t wanted) {
  const int64_t has = picture.size(0);
  if (wanted == 0 || wanted == has) return picture;
  const int64_t colors = has >= 3 ? 3 : 1;
  Tensor plain = picture.narrow(0, 0, colors);
  if (wanted == colors) return plain.contiguous();
  if (wanted == 3) return plain.expand({3, -1, -1}).contiguous();
  Tensor weights = tensor({0.299, 0.587, 0.114}).reshape({3, 1, 1});
  return (plain.to(DType::f32) * weights).sum(0, true).round().to(DType::u8);
}

}  // namespace

Tensor load_image(const std::string& path, int64_t channels, Loc where) {
  OuterCall call("load_image", where);
  expect(channels == 0 || channels == 1 || channels == 3, "channels must be 0, 1 or 3, got ",
         channels);
  const File file = open_file(path);
  check_file(is_png(file) || is_jpeg(file), file.name, "is neither a PNG nor a JPEG file");
  return with_channels(tensor_of(is_png(file) ? parse_png(file) : parse_jpeg(file)), channels)
      .realize();
}

void save_png(const std::string& path, const Tensor& picture, Loc where) {
  OuterCall call("save_png", where);
  expect_defined(picture, "the picture");
  Tensor t = picture.detach().to("CPU");
  if (t.dim() == 2) t = t.unsqueeze(0);
  expect(t.dim() == 3 && t.size(0) >= 1 && t.size(0) <= 4 && t.size(1) > 0 && t.size(2) > 0,
         "needs (channels, height, width) with 1 to 4 channels, or (height, width), got ", picture);
  expect(is_float(t.dtype()) || t.dtype() == DType::u8, "needs floats from 0 to 1 or u8, got ",
         t.dtype());
  if (is_float(t.dtype()))
    t = (t.to(DType::f32).nan_to_num(0).clamp(0, 1) * 255).round().to(DType::u8);
  const Picture p{t.size(2), t.size(1), t.size(0), t.permute({1, 2, 0}).to_vector<uint8_t>()};
  OutputFile out(path);
  out.write(png_text(p));
  out.commit();
}

Tensor image_grid(const Tensor& batch, int64_t columns, int64_t padding, double value, Loc where) {
  OuterCall call("image_grid", where);
  expect(batch.defined() && batch.dim() == 4 && batch.size(0) > 0,
         "needs pictures of (count, channels, height, width)");
  expect(columns > 0 && padding >= 0, "needs columns > 0 and padding >= 0");
  const int64_t count = batch.size(0), wide = std::min(columns, count);
  const int64_t high = (count + wide - 1) / wide;
  Tensor framed = batch.pad({padding, padding, padding, padding}, "constant", value);
  framed = framed.pad({0, 0, 0, 0, 0, 0, 0, high * wide - count}, "constant", value);
  const int64_t h = framed.size(2), w = framed.size(3), c = framed.size(1);
  return framed.reshape({high, wide, c, h, w})
      .permute({2, 0, 3, 1, 4})
      .reshape({c, high * h, wide * w});
}

}  // namespace mote
