#include "onnx/wire.h"

namespace mote::onnx {

namespace {

// Up to ten groups of seven bits. False where the bytes end first, or there are more than 64 bits.
bool read_varint(std::span<const uint8_t> bytes, size_t& at, uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const uint8_t byte = bytes[at++];
    if (shift == 63 && byte > 1) return false;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

}  // namespace

uint64_t Message::varint() {
  uint64_t value;
  check(read_varint(bytes_.span(), at_, value), "a number at byte ", at_,
        " is cut off or too long");
  return value;
}

bool Message::next(Field& field) {
  if (at_ == bytes_.size()) return false;
  const uint64_t tag = varint();
  check(tag >> 3 != 0 && tag >> 3 < 1u << 29, "a field has the number ", tag >> 3);
  field = {static_cast<uint32_t>(tag >> 3), static_cast<Field::Wire>(tag & 7)};
  auto take = [&](uint64_t count) {
    check(count <= bytes_.size() - at_, "field ", field.number, " takes ", count, " bytes, but ",
          bytes_.size() - at_, " are left");
    at_ += count;
    return at_ - count;
  };
  switch (field.wire) {
    case Field::Varint: field.value = varint(); break;
    case Field::Fixed64: std::memcpy(&field.value, bytes_.data() + take(8), 8); break;
    case Field::Fixed32: std::memcpy(&field.value, bytes_.data() + take(4), 4); break;
    case Field::Length: {
      const uint64_t count = varint();
      field.bytes = bytes_.part(take(count), count);
      break;
    }
    default: check(false, "field ", field.number, " has the wire type ", tag & 7);
  }
  return true;
}

int64_t Message::integer(const Field& f, const char* name) const {
  check(f.wire == Field::Varint, name, " is not a number");
  return static_cast<int64_t>(f.value);
}

float Message::real(const Field& f, const char* name) const {
  check(f.wire == Field::Fixed32, name, " is not a float");
  float value;
  std::memcpy(&value, &f.value, sizeof value);
  return value;
}

const Bytes& Message::bytes(const Field& f, const char* name) const {
  check(f.wire == Field::Length, name, " is not a string of bytes");
  return f.bytes;
}

std::string_view Message::text(const Field& f, const char* name) const {
  const std::string_view out = bytes(f, name).text();
  check(is_utf8(out), name, " is not valid UTF-8: ", quoted(out));
  return out;
}

Message Message::message(const Field& f, const char* name, std::string what) const {
  return {budget_, bytes(f, name), std::move(what)};
}

void Message::integers(const Field& f, const char* name, std::vector<int64_t>& out) const {
  if (f.wire == Field::Varint) {
    budget_.take(sizeof(int64_t));
    out.push_back(static_cast<int64_t>(f.value));
    return;
  }
  const Bytes& packed = bytes(f, name);
  budget_.take(packed.size());
  uint64_t value;
  for (size_t at = 0; at < packed.size(); out.push_back(static_cast<int64_t>(value)))
    check(read_varint(packed.span(), at, value), name, " is cut off");
}

template <class T, class Out>
void Message::fixed(const Field& f, const char* name, Field::Wire wire,
                    std::vector<Out>& out) const {
  T value;
  if (f.wire == wire) {
    budget_.take(sizeof(T));
    std::memcpy(&value, &f.value, sizeof(T));
    out.push_back(value);
    return;
  }
  const Bytes& packed = bytes(f, name);
  check(packed.size() % sizeof(T) == 0, name, " has ", packed.size(), " bytes, not a multiple of ",
        sizeof(T));
  budget_.take(packed.size());
  out.reserve(out.size() + packed.size() / sizeof(T));
  for (size_t at = 0; at < packed.size(); at += sizeof(T)) {
    std::memcpy(&value, packed.data() + at, sizeof(T));
    out.push_back(value);
  }
}

void Message::reals(const Field& f, const char* name, std::vector<float>& out) const {
  fixed<float>(f, name, Field::Fixed32, out);
}

void Message::doubles(const Field& f, const char* name, std::vector<double>& out) const {
  fixed<double>(f, name, Field::Fixed64, out);
}

}  // namespace mote::onnx
