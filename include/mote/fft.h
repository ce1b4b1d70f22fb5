// Fourier transforms, PyTorch's torch.fft. mote has no complex dtype: a complex tensor is a real
// one whose last axis has size 2, the real and the imaginary part (torch.view_as_real). Axes (dim)
// and sizes count without that axis. Sizes may be any; the time is that of n log n.
#pragma once
#include <mote/tensor.h>

namespace mote::fft {

// Pairs of their parts; an undefined part is 0.
Tensor complex(const Tensor& real, const Tensor& imag = {}, Loc = MOTE_HERE);
Tensor polar(const Tensor& abs, const Tensor& angle, Loc = MOTE_HERE);
Tensor real(const Tensor& z, Loc = MOTE_HERE);
Tensor imag(const Tensor& z, Loc = MOTE_HERE);
Tensor abs(const Tensor& z, Loc = MOTE_HERE);
Tensor angle(const Tensor& z, Loc = MOTE_HERE);
Tensor conj(const Tensor& z, Loc = MOTE_HERE);
Tensor mul(const Tensor& a, const Tensor& b, Loc = MOTE_HERE);

// Complex to complex. n < 0: the axis' size; else it is cut or filled with zeros to n first.
// norm: backward (the inverse divides by n), ortho (both by its root), forward.
Tensor fft(const Tensor& z, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
           Loc = MOTE_HERE);
Tensor ifft(const Tensor& z, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
            Loc = MOTE_HERE);
// Real to the n / 2 + 1 frequencies that say all, and back; irfft's n < 0: 2 * (size - 1).
Tensor rfft(const Tensor& x, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
            Loc = MOTE_HERE);
Tensor irfft(const Tensor& z, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
             Loc = MOTE_HERE);
// Of a Hermitian half to a real spectrum, and back.
Tensor hfft(const Tensor& z, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
            Loc = MOTE_HERE);
Tensor ihfft(const Tensor& x, int64_t n = -1, int64_t dim = -1, const char* norm = "backward",
             Loc = MOTE_HERE);

// Over several axes; none named: the last ones that s has sizes for, or all.
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
// Frequency 0 to the middle, and back; of real tensors: complex ones have one more axis to leave.
Tensor fftshift(const Tensor& x, const Axes& dim = {}, Loc = MOTE_HERE);
Tensor ifftshift(const Tensor& x, const Axes& dim = {}, Loc = MOTE_HERE);

struct StftOptions {
  int64_t hop_length = 0;  // n_fft / 4
  int64_t win_length = 0;  // n_fft
  Tensor window = {};      // ones
  bool center = true;      // frames are centred, with n_fft / 2 elements added on both sides
  const char* pad_mode = "reflect";
  bool normalized = false, onesided = true;
  int64_t length = -1;     // of istft: how many elements to give
};
// (L) or (N, L) to (..., frequencies, frames, 2), and back.
Tensor stft(const Tensor& x, int64_t n_fft, const StftOptions& = {}, Loc = MOTE_HERE);
Tensor istft(const Tensor& z, int64_t n_fft, const StftOptions& = {}, Loc = MOTE_HERE);

}  // namespace mote::fft
