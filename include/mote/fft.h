// Fourier transforms: PyTorch's torch.fft. mote has no complex dtype. A complex tensor is a real
// one whose last axis has size 2, the real and the imaginary part (as torch.view_as_real gives).
// Axes (dim) and sizes do not count that axis. Any size works, in time proportional to n log n.
#pragma once
#include <mote/tensor.h>

namespace mote::fft {

// Complex tensors from their parts; an undefined part is 0.
Tensor complex(const Tensor& real, const Tensor& imag = {}, Loc = MOTE_HERE);
Tensor polar(const Tensor& abs, const Tensor& angle, Loc = MOTE_HERE);
Tensor real(const Tensor& z, Loc = MOTE_HERE);
Tensor imag(const Tensor& z, Loc = MOTE_HERE);
Tensor abs(const Tensor& z, Loc = MOTE_HERE);
Tensor angle(const Tensor& z, Loc = MOTE_HERE);
Tensor conj(const Tensor& z, Loc = MOTE_HERE);
Tensor mul(const Tensor& a, const Tensor& b, Loc = MOTE_HERE);

// Complex to complex. n < 0: the size of the axis; otherwise the axis is first cut or padded with
// zeros to n. norm: backward (the inverse divides by n), ortho (both divide by its root), forward.
Tensor fft(const Tensor& z, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
           Loc = MOTE_HERE);
Tensor ifft(const Tensor& z, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
            Loc = MOTE_HERE);
// Real to the n / 2 + 1 frequencies that determine it, and back. irfft's n < 0: 2 * (size - 1).
Tensor rfft(const Tensor& x, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
            Loc = MOTE_HERE);
Tensor irfft(const Tensor& z, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
             Loc = MOTE_HERE);
// From half of a Hermitian signal to its real spectrum, and back.
Tensor hfft(const Tensor& z, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
            Loc = MOTE_HERE);
Tensor ihfft(const Tensor& x, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
             Loc = MOTE_HERE);

// Over several axes. Without dim: the last axes, as many as s has sizes; without both: all axes.
Tensor fftn(const Tensor& z, const Ints& s = {}, const Axes& dim = {},
            const char* norm = "backward", Loc = MOTE_HERE);
Tensor ifftn(const Tensor& z, const Ints& s = {}, const Axes& dim = {},
             const char* norm = "backward", Loc = MOTE_HERE);
Tensor rfftn(const Tensor& x, const Ints& s = {}, const Axes& dim = {},
             const char* norm = "backward", Loc = MOTE_HERE);
Tensor irfftn(const Tensor& z, const Ints& s = {}, const Axes& dim = {},
              const char* norm = "backward", Loc = MOTE_HERE);
// clang-format off
#define MOTE_OVER_TWO(name, all) \
  inline Tensor name(const Tensor& z, const Ints& s = {}, const Axes& dim = {-2, -1}, \
                     const char* norm = "backward", Loc w = MOTE_HERE) { \
    return all(z, s, dim, norm, w); }
MOTE_OVER_TWO(fft2, fftn)
MOTE_OVER_TWO(ifft2, ifftn)
MOTE_OVER_TWO(rfft2, rfftn)
MOTE_OVER_TWO(irfft2, irfftn)
#undef MOTE_OVER_TWO
// clang-format on

Tensor fftfreq(int64_t n, double d = 1, const Options& = {}, Loc = MOTE_HERE);
Tensor rfftfreq(int64_t n, double d = 1, const Options& = {}, Loc = MOTE_HERE);
// Moves frequency 0 to the middle, and back. They count all axes: name those of a complex tensor.
Tensor fftshift(const Tensor& x, const Axes& dim = {}, Loc = MOTE_HERE);
Tensor ifftshift(const Tensor& x, const Axes& dim = {}, Loc = MOTE_HERE);

struct StftOptions {
  int64_t hop_length = 0;  // n_fft / 4
  int64_t win_length = 0;  // n_fft
  Tensor window = {};      // ones
  bool center = true;      // frames are centred, with n_fft / 2 elements added on both sides
  const char* pad_mode = "reflect";
  bool normalized = false, onesided = true;
  int64_t length = -1;     // istft: the length of the result
};
// (L) or (N, L) to (..., frequencies, frames, 2), and back.
Tensor stft(const Tensor& x, int64_t n_fft, const StftOptions& = {}, Loc = MOTE_HERE);
Tensor istft(const Tensor& z, int64_t n_fft, const StftOptions& = {}, Loc = MOTE_HERE);

}  // namespace mote::fft
