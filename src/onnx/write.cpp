#include "onnx/write.h"

#include <cstring>

#include "onnx/wire.h"

namespace mote::onnx {

void MessageWriter::varint(uint64_t value) {
  for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
  text_ += static_cast<char>(value);
}

MessageWriter& MessageWriter::integer(unsigned field, int64_t value) {
  varint(field << 3 | Field::Varint);
  varint(static_cast<uint64_t>(value));
  return *this;
}

MessageWriter& MessageWriter::real(unsigned field, float value) {
  varint(field << 3 | Field::Fixed32);
  char bits[sizeof value];
  std::memcpy(bits, &value, sizeof value);
  text_.append(bits, sizeof bits);
  return *this;
}

MessageWriter& MessageWriter::bytes(unsigned field, std::string_view bytes) {
  varint(field << 3 | Field::Length);
  varint(bytes.size());
  text_ += bytes;
  return *this;
}

MessageWriter& MessageWriter::integers(unsigned field, std::span<const int64_t> list) {
  MessageWriter packed;
  for (const int64_t v : list) packed.varint(static_cast<uint64_t>(v));
  return bytes(field, packed.text_);
}

MessageWriter tensor_message(std::string_view name, int type, std::span<const int64_t> shape,
                             std::string_view raw) {
  MessageWriter out;
  out.integers(1, shape).integer(2, type).bytes(8, name).bytes(9, raw);
  return out;
}

}  // namespace mote::onnx
