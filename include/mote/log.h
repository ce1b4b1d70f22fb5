// Figures of a run, a row per step, in a file that other programs read while the run goes on.
//
//   Log log("run.csv", {"step", "loss", "lr"}, step);
//   log.row({step, loss, rate});
//
// A name that ends in .jsonl or .json gives one JSON object per line, any other CSV with a first
// line of names. Each row is in the file once row() returns. A run that is resumed writes on behind
// the row of its step: rows of later steps, which it makes again, are left out.
#pragma once
#include <mote/types.h>

namespace mote {

class Log {
 public:
  // The first column counts; rows in which it is above `done` are dropped. done = 0: a new file.
  Log(const std::string& path, std::vector<std::string> columns, int64_t done = 0,
      Loc = MOTE_HERE);
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  void row(const std::vector<Number>& values, Loc = MOTE_HERE);

 private:
  std::string line_of(const std::vector<Number>& values) const;
  std::string path_;
  std::vector<std::string> columns_;
  bool json_;
  int fd_ = -1;
};

}  // namespace mote
