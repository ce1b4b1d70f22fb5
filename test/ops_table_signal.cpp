// Windows of signals and Fourier transforms.
#include <mote/fft.h>

#include "ops_table.h"

namespace mote::test {

namespace {

bool periodic(const Call& c) { return c.flag("periodic", true); }
int64_t n(const Call& c) { return c.integer("n", -1); }
int64_t dim(const Call& c) { return c.integer("dim", -1); }
const char* norm(const Call& c) { return c.text("norm", "backward"); }

fft::StftOptions stft_options(const Call& c) {
  fft::StftOptions o;
  o.hop_length = c.integer("hop_length", 0), o.win_length = c.integer("win_length", 0);
  o.window = c.role("window");
  o.center = c.flag("center", true), o.onesided = c.flag("onesided", true);
  o.normalized = c.flag("normalized"), o.length = c.integer("length", -1);
  return o;
}

#define WINDOW(name) MOTE_ROW(#name, name(n(c), periodic(c), c.options()))
#define ONE_AXIS(name) MOTE_ROW(#name, fft::name(c.x(), n(c), dim(c), norm(c)))
#define AXES(name) MOTE_ROW(#name, fft::name(c.x(), c.ints("s"), c.ints("dim"), norm(c)))

const TestedOp rows[] = {
    WINDOW(hann_window), WINDOW(blackman_window), WINDOW(bartlett_window),
    MOTE_ROW("hamming_window", hamming_window(n(c), periodic(c), 0.54, 0.46, c.options())),
    MOTE_ROW("kaiser_window", kaiser_window(n(c), periodic(c), 12, c.options())),
    MOTE_ROW("logspace", logspace(c.number("start"), c.number("end"), c.integer("steps"),
                                  c.real("base", 10), c.options())),
    ONE_AXIS(fft), ONE_AXIS(ifft), ONE_AXIS(rfft), ONE_AXIS(irfft), ONE_AXIS(hfft),
    ONE_AXIS(ihfft), AXES(fftn), AXES(ifftn), AXES(rfftn), AXES(irfftn),
    MOTE_ROW("fft2", fft::fft2(c.x())),
    MOTE_ROW("rfft2", fft::rfft2(c.x())),
    MOTE_ROW("fftfreq", fft::fftfreq(n(c), c.real("d"), c.options())),
    MOTE_ROW("rfftfreq", fft::rfftfreq(n(c), c.real("d"), c.options())),
    MOTE_ROW("fftshift", fft::fftshift(c.x(), c.ints("dim"))),
    MOTE_ROW("ifftshift", fft::ifftshift(c.x(), c.ints("dim"))),
    MOTE_ROW("stft", fft::stft(c.x(), c.integer("n_fft"), stft_options(c))),
    MOTE_ROW("istft", fft::istft(c.x(), c.integer("n_fft"), stft_options(c))),
};

}  // namespace

std::span<const TestedOp> signal_rows() { return rows; }

}  // namespace mote::test
