// Pictures: reading and writing files, and transforms of batches under torchvision's names.
//
// A picture is a tensor of (channels, height, width), a batch of (count, channels, height, width).
// Transforms are ordinary tensor functions on the batch's device and in its dtype (those that
// compute need floats). They work inside captured functions, and their random numbers come from the
// generator that manual_seed() sets and checkpoints save. Each picture of a batch draws its own.
#pragma once
#include <mote/fields.h>

#include <string>
#include <vector>

namespace mote {

// A PNG or JPEG file, recognised by its content, as u8. channels: convert to 1 or 3; 0: as in the
// file, 1 to 4 with alpha last. JPEG needs libturbojpeg; if it is missing, an error says so.
Tensor load_image(const std::string& path, int64_t channels = 0, Loc = MOTE_HERE);
// (channels, height, width) or (height, width); floats from 0 to 1, or u8. Written atomically.
void save_png(const std::string& path, const Tensor& picture, Loc = MOTE_HERE);
// Arranges a batch in rows of `columns` pictures, with `padding` pixels of `value` around each.
Tensor image_grid(const Tensor& batch, int64_t columns = 8, int64_t padding = 2, double value = 0,
                  Loc = MOTE_HERE);

namespace transforms {

Tensor center_crop(const Tensor& batch, const Ints& size, Loc = MOTE_HERE);
Tensor crop(const Tensor& batch, int64_t top, int64_t left, int64_t height, int64_t width,
            Loc = MOTE_HERE);
// First adds `padding` pixels of 0 around the pictures.
Tensor random_crop(const Tensor& batch, const Ints& size, int64_t padding = 0,
                   Loc = MOTE_HERE);
Tensor random_horizontal_flip(const Tensor& batch, double p = 0.5, Loc = MOTE_HERE);
Tensor random_vertical_flip(const Tensor& batch, double p = 0.5, Loc = MOTE_HERE);
Tensor resize(const Tensor& batch, const Ints& size, const char* mode = "bilinear",
              Loc = MOTE_HERE);
// (x - mean) / std, one number per channel.
Tensor normalize(const Tensor& batch, const Floats& mean, const Floats& std, Loc = MOTE_HERE);

// Factors are drawn between 1 - x and 1 + x; the hue is rotated by between -x and x of a full turn,
// in the colour plane of YIQ. Pictures are floats from 0 to 1, to which results are clamped. Only
// brightness and contrast change grey pictures.
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};
Tensor color_jitter(const Tensor& batch, const ColorJitter&, Loc = MOTE_HERE);

struct RandomErasing {
  double p = 0.5;
  double least = 0.02, most = 0.33;      // share of the picture's area
  double narrowest = 0.3, widest = 3.3;  // height by width
  double value = 0;
};
Tensor random_erase(const Tensor& batch, const RandomErasing& = {}, Loc = MOTE_HERE);

// Mixes each picture and its target (a row of probabilities, such as one_hot() of classes) with
// another of the batch. The share is drawn from Beta(alpha, alpha), once for the batch. mixup
// blends two pictures, cutmix pastes a rectangle of one into the other.
struct Mixed {
  Tensor images, targets;
  MOTE_FIELDS(images, targets)
};
Mixed mixup(const Tensor& images, const Tensor& targets, double alpha = 0.2, Loc = MOTE_HERE);
Mixed cutmix(const Tensor& images, const Tensor& targets, double alpha = 1, Loc = MOTE_HERE);
// Random numbers from Beta(a, b).
Tensor beta(double a, double b, const Sizes& shape, const Options& = {}, Loc = MOTE_HERE);

}  // namespace transforms
}  // namespace mote
