// A child process that speaks in lines: "ready" once it is, then one line for each it is asked.
#pragma once
#include <string>
#include <vector>

namespace mote {

class LineChild {
 public:
  // The program and its words. `absent` begins the error where it does not get ready, which ends
  // with the last line it wrote.
  LineChild(const std::vector<std::string>& words, const std::string& absent);
  ~LineChild();
  LineChild(const LineChild&) = delete;
  std::string ask(const std::string& line);

 private:
  std::string read_line();
  std::string name_;
  int to_ = -1, from_ = -1, pid_ = -1;
};

}  // namespace mote
