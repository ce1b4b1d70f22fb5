// Conversions between element types.
#include "base/number.h"
#include "onnx/narrow.h"

namespace mote::onnx {

namespace {

RoundScale scale_rounding(Call& c) {
  const std::string mode = c.s("round_mode", "up");
  if (mode == "down") return RoundScale::down;
  if (mode == "nearest") return RoundScale::nearest;
  expect(mode == "up", "round_mode ", quoted(mode), " is not known");
  return RoundScale::up;
}

Tensor parsed(Call& c, const Value& v) {
  std::vector<double> out;
  for (const std::string& s : v.strings) {
    std::string_view rest = s;
    expect(take_number(rest, out.emplace_back()) && rest.empty(), quoted(s), " is not a number");
  }
  c.depends_on_data();
  return from_data(out, v.shape, c.options(DType::f64));
}

// As NumPy writes them: floats with at least one digit behind the point.
Value spelled(Call& c) {
  Value out;
  out.kind = Value::Strings, out.type = kString, out.shape = c.x(0).shape();
  if (!is_float(c.x(0).dtype())) {
    for (const int64_t n : c.ints(0)) out.strings.push_back(std::to_string(n));
    return out;
  }
  const bool is_double = c.x(0).dtype() == DType::f64;
  for (const double d : c.reals(0)) {
    double shown = d;
    if (!is_double) {  // the number with a float's digits
      const std::string digits = shortest_scientific_text(static_cast<float>(d));
      std::string_view rest = digits;
      take_number(rest, shown);
    }
    std::string s = shortest_text(shown);
    if (s.find_first_of(".en") == s.npos) s += ".0";
    out.strings.push_back(s);
  }
  return out;
}

Outputs cast_to(Call& c, int type) {
  const Value& v = c.value(0);
  if (type == kString) return {v.kind == Value::Strings ? v : spelled(c)};
  const Element& to = element_of(type);
  const Tensor x = v.kind == Value::Strings ? parsed(c, v) : c.x(0);
  return {Value(to_element(x, to, c.i("saturate", 1) != 0, scale_rounding(c)), type)};
}

// Opsets before 6 named the type.
Outputs cast(Call& c) {
  const Attribute* to = c.attribute("to");
  expect(to != nullptr, "the attribute to is missing");
  if (to->text.empty()) return cast_to(c, static_cast<int>(to->integer));
  constexpr std::pair<std::string_view, int> names[] = {
      {"FLOAT",   kFloat  },
      {"UINT8",   kUint8  },
      {"INT8",    kInt8   },
      {"UINT16",  kUint16 },
      {"INT16",   kInt16  },
      {"INT32",   kInt32  },
      {"INT64",   kInt64  },
      {"BOOL",    kBool   },
      {"FLOAT16", kFloat16},
      {"DOUBLE",  kDouble },
      {"UINT32",  kUint32 },
      {"UINT64",  kUint64 }
  };
  for (const auto& [name, type] : names)
    if (to->text == name) return cast_to(c, type);
  fail_call("the type ", quoted(to->text), " is not supported");
}

Outputs cast_like(Call& c) {
  const Value& like = c.value(1);
  return cast_to(c, like.kind == Value::Strings ? int{kString} : type_of(like));
}

constexpr OpRow rows[] = {
    {"Cast",     1,  cast     },
    {"CastLike", 15, cast_like},
};

}  // namespace

OpTable cast_ops() { return rows; }

}  // namespace mote::onnx
