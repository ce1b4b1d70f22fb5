// The one exception type of the library.
#pragma once
#include <exception>
#include <string>

namespace mote {

enum class ErrorKind { User, Internal, Device };

// User: a mistake of the caller. Internal: a bug in mote. Device: memory, compiler, I/O.
// `what()` reads "[op] what is wrong, got ... (file:line)".
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string text) : kind_(kind), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
  std::string text_;
};

}  // namespace mote
