// Writing protocol buffers' wire format, which wire.h reads: a message is the bytes of its fields.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace mote::onnx {

class MessageWriter {
 public:
  MessageWriter& integer(unsigned field, int64_t value);
  MessageWriter& real(unsigned field, float value);
  MessageWriter& bytes(unsigned field, std::string_view bytes);
  MessageWriter& message(unsigned field, const MessageWriter& m) { return bytes(field, m.text_); }
  MessageWriter& append(const MessageWriter& m) {
    text_ += m.text_;
    return *this;
  }
  // Numbers that are a list: packed.
  MessageWriter& integers(unsigned field, std::span<const int64_t> list);
  const std::string& text() const { return text_; }

 private:
  void varint(uint64_t value);
  std::string text_;
};

// TensorProto with these bytes; `type` as ONNX numbers element types.
MessageWriter tensor_message(std::string_view name, int type, std::span<const int64_t> shape,
                             std::string_view raw);

}  // namespace mote::onnx
