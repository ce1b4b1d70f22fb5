// A file of figures, one row per step, which other programs can read while the run goes on.
//
//   Log log("run.csv", {"step", "loss", "lr"}, step);
//   log.row({step, loss, rate});
//
// A name that ends in .jsonl or .json gives one JSON object per line; any other name gives CSV with
// a header line. Each row is in the file when row() returns. A resumed run continues after the row
// of its step: rows of later steps, which will be made again, are dropped.
#pragma once
#include <mote/types.h>

namespace mote {

class Log {
 public:
  // Rows whose first column is above `done` are dropped. done = 0: a new file.
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
