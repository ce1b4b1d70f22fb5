#include <fcntl.h>
#include <mote/log.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/number.h"
#include "base/utf8.h"
#include "runtime/output_file.h"
#include "tensor/impl.h"

namespace mote {

namespace {

std::string number_text(const Number& n, bool json) {
  if (n.kind == Number::Bool) return n.i ? "true" : "false";
  if (n.kind == Number::Int) return std::to_string(n.i);
  if (json && !std::isfinite(n.f)) return "null";
  return shortest_text(n.f);
}

// The number in the first column of a line that the log wrote.
bool first_number(const std::string& line, bool json, double& out) {
  size_t at = 0;
  if (json && (at = line.find(':')) == line.npos) return false;
  std::string_view rest(line);
  rest.remove_prefix(json ? at + 1 : 0);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  return take_number(rest, out);
}

}  // namespace

Log::Log(const std::string& path, std::vector<std::string> columns, int64_t done, Loc where)
    : path_(path),
      columns_(std::move(columns)),
      json_(path.ends_with(".jsonl") || path.ends_with(".json")) {
  OuterCall call("Log", where);
  expect(!columns_.empty(), "needs at least one column");
  std::string kept;
  std::string head;
  for (const std::string& c : columns_) head += (head.empty() ? "" : ",") + c;
  std::ifstream before(done > 0 ? path : std::string());
  std::string first;
  if (!json_ && std::getline(before, first))
    expect(first == head, printable(path), " has the columns ", printable(first), ", got ", head);
  for (std::string line; std::getline(before, line);)
    if (double step = 0; first_number(line, json_, step) && step <= static_cast<double>(done))
      kept += line + "\n";
  if (!json_) kept.insert(0, head + "\n");
  OutputFile file(path);
  file.write(kept);
  file.commit();
  fd_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (fd_ < 0) fail(ErrorKind::Device, text("[Log] ", printable(path), ": ", std::strerror(errno)));
}

Log::~Log() {
  if (fd_ >= 0) ::close(fd_);
}

std::string Log::line_of(const std::vector<Number>& values) const {
  std::string out;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += json_ ? ", " : ",";
    if (json_) out += "\"" + columns_[i] + "\": ";
    out += number_text(values[i], json_);
  }
  return (json_ ? "{" + out + "}" : out) + "\n";
}

void Log::row(const std::vector<Number>& values, Loc where) {
  OuterCall call("row", where);
  expect(values.size() == columns_.size(), "needs ", columns_.size(), " values, got ",
         values.size());
  const std::string line = line_of(values);
  ssize_t written = 0;
  do written = ::write(fd_, line.data(), line.size());
  while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(line.size()))
    fail(ErrorKind::Device,
         text("[Log] ", printable(path_), ": ", std::strerror(written < 0 ? errno : ENOSPC)));
}

}  // namespace mote
