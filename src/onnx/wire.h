// Protocol buffers' wire format: fields one after another, each a tag and a value. A message is a
// span of the file; nothing is copied, and a read that leaves the span is an error of the file.
#pragma once
#include "io/bytes.h"

namespace mote::onnx {

// What parsing may take: files are not trusted, and a message of two bytes would make a large
// struct. The structs of one file together stay below a multiple of its size.
class Budget {
 public:
  explicit Budget(const File& file) : file_(file), left_((64 << 20) + 4 * file.bytes.size()) {}
  void take(size_t bytes) {
    check_file(bytes <= left_, file_.name, "describes far more than its size suggests");
    left_ -= bytes;
  }
  const File& file() const { return file_; }

 private:
  File file_;
  size_t left_;
};

// One field of a message.
struct Field {
  enum Wire : uint8_t { Varint = 0, Fixed64 = 1, Length = 2, Fixed32 = 5 };
  uint32_t number = 0;
  Wire wire = Varint;
  uint64_t value = 0;  // of a varint or a fixed one, its bits
  Bytes bytes;         // of a Length one
};

class Message {
 public:
  // `what` names the message in errors: "the node 'conv1'".
  Message(Budget& budget, Bytes bytes, std::string what)
      : budget_(budget), bytes_(std::move(bytes)), what_(std::move(what)) {}

  bool next(Field& field);

  // Of the field read last; `name` is for errors.
  int64_t integer(const Field&, const char* name) const;
  float real(const Field&, const char* name) const;
  std::string_view text(const Field&, const char* name) const;  // UTF-8, a view of the file
  const Bytes& bytes(const Field&, const char* name) const;
  Message message(const Field&, const char* name, std::string what) const;
  // Repeated numbers, packed or one by one.
  void integers(const Field&, const char* name, std::vector<int64_t>& out) const;
  void reals(const Field&, const char* name, std::vector<float>& out) const;
  void doubles(const Field&, const char* name, std::vector<double>& out) const;

  void rename(std::string what) { what_ = std::move(what); }
  const std::string& what() const { return what_; }
  Budget& budget() const { return budget_; }
  template <class... A>
  void check(bool ok, const A&... parts) const {
    check_file(ok, budget_.file().name, what_, ": ", parts...);
  }
  // Room for one more element of a list.
  template <class T>
  T& add(std::vector<T>& list) const {
    budget_.take(sizeof(T));
    return list.emplace_back();
  }

 private:
  uint64_t varint();
  template <class T, class Out>
  void fixed(const Field&, const char* name, Field::Wire wire, std::vector<Out>& out) const;
  Budget& budget_;
  Bytes bytes_;
  std::string what_;
  size_t at_ = 0;
};

}  // namespace mote::onnx
