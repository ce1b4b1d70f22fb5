// Pictures: files of them, and transforms of batches, as torchvision has them.
//
// A picture is a tensor of (channels, height, width), a batch of (count, channels, height, width).
// Transforms are ordinary graphs on a batch's device, in whatever dtype a batch has (floats where
// they compute): they can stand in a captured function, and their random numbers come from the
// generator that manual_seed() sets and checkpoints save. Each picture of a batch draws its own.
#pragma once
#include <mote/fields.h>

#include <string>
#include <vector>

namespace mote {

// A PNG or JPEG file, told apart by content, as u8. channels: 1 or 3 to have that many; 0: as many
// as there are, 1 to 4 with alpha last. JPEG needs libturbojpeg, an error says so.
Tensor load_image(const std::string& path, int64_t channels = 0, Loc = MOTE_HERE);
// (channels, height, width) or (height, width); floats from 0 to 1, or u8. Replaced in one step.
void save_png(const std::string& path, const Tensor& picture, Loc = MOTE_HERE);
// The pictures of a batch in rows of `columns`, with `padding` pixels of `value` around each.
Tensor image_grid(const Tensor& batch, int64_t columns = 8, int64_t padding = 2, double value = 0,
                  Loc = MOTE_HERE);

namespace transforms {

Tensor center_crop(const Tensor& batch, const Ints& size, Loc = MOTE_HERE);
Tensor crop(const Tensor& batch, int64_t top, int64_t left, int64_t height, int64_t width,
            Loc = MOTE_HERE);
// Of pictures with `padding` pixels of 0 around them.
Tensor random_crop(const Tensor& batch, const Ints& size, int64_t padding = 0,
                   Loc = MOTE_HERE);
Tensor random_horizontal_flip(const Tensor& batch, double p = 0.5, Loc = MOTE_HERE);
Tensor random_vertical_flip(const Tensor& batch, double p = 0.5, Loc = MOTE_HERE);
Tensor resize(const Tensor& batch, const Ints& size, const char* mode = "bilinear",
              Loc = MOTE_HERE);
// (x - mean) / std, one number per channel.
Tensor normalize(const Tensor& batch, const Floats& mean, const Floats& std, Loc = MOTE_HERE);

// Factors between 1 - x and 1 + x, and of the hue a turn between -x and x (of 1) in the plane of
// colour (YIQ). Of floats from 0 to 1, which is where results are cut. Only brightness and contrast
// change grey pictures.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
Tensor color_jitter(const Tensor& batch, const ColorJitter&, Loc = MOTE_HERE);

struct RandomErasing {
  double p = 0.5;
  double least = 0.02, most = 0.33;      // the part of the picture's area
  double narrowest = 0.3, widest = 3.3;  // height by width
  double value = 0;
};
Tensor random_erase(const Tensor& batch, const RandomErasing& = {}, Loc = MOTE_HERE);

// Each picture and its target (a row of probabilities, one_hot() of classes) mixed with another of
// the batch; the share is drawn from Beta(alpha, alpha), once for the batch. mixup blends them,
// cutmix puts a rectangle of one into the other.
struct Mixed {
  Tensor images, targets;
  MOTE_FIELDS(images, targets)
};
Mixed mixup(const Tensor& images, const Tensor& targets, double alpha = 0.2, Loc = MOTE_HERE);
Mixed cutmix(const Tensor& images, const Tensor& targets, double alpha = 1, Loc = MOTE_HERE);
// Numbers from Beta(a, b).
Tensor beta(double a, double b, const Sizes& shape, const Options& = {}, Loc = MOTE_HERE);

}  // namespace transforms
}  // namespace mote
