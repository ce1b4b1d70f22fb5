// How far a long command is, on stderr: one line that is drawn over on a terminal, a plain line
// every few seconds elsewhere. Never more than ten lines a second, each in one write.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace mote {

struct ProgressFigures {
  std::string what;  // "mnist"
  int64_t done = 0, total = 0;
  double loss = 0;          // of the last steps; NaN: none
  double accuracy = 0;      // of the last steps, 0 ... 1; NaN: none
  double step_seconds = 0;  // of the last steps; 0: none was measured
  double samples_per_second = 0;
};
// One line of at most `columns` characters. What does not fit is left out, the bar first.
std::string progress_line(const ProgressFigures&, int columns, bool utf8);

class Progress {
 public:
  // `samples`: of one step.
  Progress(std::string what, int64_t done, int64_t total, int64_t samples);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(const std::string& text);   // a line that stays
  void wait(const std::string& text);  // what is going on until the next step
  // A step has ended. NaN where there is no such figure.
  void step(double loss, double accuracy);
  void end() { clear(); }       // nothing of it is left on the line
  double step_seconds() const;  // the mean of all steps but the first, which compiles
  double seconds() const;       // since the start

 private:
  using Clock = std::chrono::steady_clock;
  void draw(const std::string& line);
  void clear();
  ProgressFigures figures_;
  int64_t samples_, steps_ = 0;
  bool terminal_, utf8_, drawn_ = false;
  Clock::time_point started_, last_step_, first_step_end_, last_drawn_;
};

}  // namespace mote
