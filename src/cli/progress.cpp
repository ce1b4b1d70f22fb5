#include "cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "cli/figures.h"

namespace mote {

namespace {

double seconds_between(auto from, auto to) {
  return std::chrono::duration<double>(to - from).count();
}

// The new figure moves the mean of the last ones by a tenth.
void blend(double& mean, double value, bool first) {
  mean = first || std::isnan(mean) ? value : mean + (value - mean) * 0.1;
}

bool speaks_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value && *value) return std::strstr(value, "UTF-8") || std::strstr(value, "utf8");
  }
  return false;
}

int terminal_columns() {
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_out(const std::string& text) {
  // Progress that cannot be shown is no reason to stop.
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, text.data(), text.size());
}

std::string bar(double part, int cells, bool utf8) {
  int full = static_cast<int>(part * cells);
  std::string out;
  for (int i = 0; i < cells; ++i) out += i < full ? utf8 ? "\u2501" : "=" : utf8 ? "\u2500" : "-";
  return out;
}

}  // namespace

std::string progress_line(const ProgressFigures& f, int columns, bool utf8) {
  std::string head = text(f.what, ' '), tail = text(' ', f.done, '/', f.total);
  std::vector<std::string> parts;
  if (!std::isnan(f.loss)) parts.push_back("  loss " + decimal(f.loss, 4));
  if (!std::isnan(f.accuracy)) parts.push_back("  accuracy " + decimal(f.accuracy * 100, 1) + " %");
  if (f.step_seconds > 0) {
    parts.push_back("  " + duration_text(f.step_seconds) + "/step");
    parts.push_back("  " + decimal(f.samples_per_second, 0) + " samples/s");
    parts.push_back("  ETA " + clock_text(f.step_seconds * static_cast<double>(f.total - f.done)));
  }
  auto fits = [&](const std::string& part) {
    return head.size() + tail.size() + part.size() <= static_cast<size_t>(std::max(columns, 0));
  };
  for (const std::string& part : parts)
    if (fits(part)) tail += part;
  int cells = std::min(columns - static_cast<int>(head.size() + tail.size()), 30);
  if (cells < 5) return head + tail.substr(1);
  double part = f.total > 0 ? static_cast<double>(f.done) / static_cast<double>(f.total) : 1;
  return head + bar(part, cells, utf8) + tail;
}

Progress::Progress(std::string what, int64_t done, int64_t total, int64_t samples)
    : figures_{std::move(what), done, total, std::nan(""), std::nan("")},
      samples_(samples),
      terminal_(isatty(STDERR_FILENO)),
      utf8_(speaks_utf8()),
      started_(Clock::now()),
      last_step_(started_),
      first_step_end_(started_),
      last_drawn_(started_ - std::chrono::hours(1)) {}

Progress::~Progress() { clear(); }

void Progress::clear() {
  if (drawn_) write_out("\r\033[K");
  drawn_ = false;
}

void Progress::draw(const std::string& line) {
  last_drawn_ = Clock::now();
  write_out(terminal_ ? "\r" + line + "\033[K" : line + "\n");
  drawn_ = terminal_;
}

void Progress::say(const std::string& line) {
  clear();
  write_out(printable(line) + "\n");
}

void Progress::wait(const std::string& line) {
  if (terminal_) draw(printable(line).substr(0, static_cast<size_t>(terminal_columns())));
}

void Progress::step(double loss, double accuracy) {
  Clock::time_point now = Clock::now();
  const bool first = steps_++ == 0;
  ++figures_.done;
  blend(figures_.loss, loss, first);
  blend(figures_.accuracy, accuracy, first);
  if (first)
    first_step_end_ = now;
  else
    blend(figures_.step_seconds, seconds_between(last_step_, now), steps_ == 2);
  if (figures_.step_seconds > 0)
    figures_.samples_per_second = static_cast<double>(samples_) / figures_.step_seconds;
  last_step_ = now;
  const bool last = figures_.done == figures_.total;
  if (last || seconds_between(last_drawn_, now) >= (terminal_ ? 0.1 : 5.0))
    draw(progress_line(figures_, terminal_ ? terminal_columns() - 1 : 160, utf8_ && terminal_));
}

double Progress::step_seconds() const {
  return steps_ < 2
             ? 0
             : seconds_between(first_step_end_, last_step_) / static_cast<double>(steps_ - 1);
}
double Progress::seconds() const { return seconds_between(started_, Clock::now()); }

}  // namespace mote
