// The inputs of `mote bench wide`, by a rule that tools/bench_wide.py has as well.
#include "base/error.h"
#include "cli/bench_wide.h"
#include "ir/dtype.h"

namespace mote::wide {

namespace {

uint32_t mixed(uint32_t i, uint32_t seed) {
  uint32_t x = i * 0x9e3779b1u + seed * 0x85ebca77u;
  x = (x ^ (x >> 15)) * 0x2c1b3c6du;
  x = (x ^ (x >> 12)) * 0x297a2d39u;
  return x ^ (x >> 15);
}

DType dtype_named(const std::string& name) {
  DType out = DType::none;
  check(parse_dtype(name, &out), "[bench] no dtype is called ", name);
  return out;
}

// F(sizes..., k=1, b=0, dtype='f32') and I(sizes..., n=2, low=0, dtype='i64').
Tensor make_one(const Args& args, const std::vector<int64_t>& shape, uint32_t seed, bool lazily) {
  const bool floats = args.callee() != "I";
  const DType dtype = dtype_named(args.text(99, "dtype", floats ? "f32" : "i64"));
  if (lazily) return zeros(shape, {dtype}).contiguous().realize();
  int64_t count = 1;
  for (int64_t n : shape) count *= n;
  Tensor out;
  if (floats) {
    const float k = static_cast<float>(args.number(99, "k", 1));
    const float b = static_cast<float>(args.number(99, "b", 0));
    out = from_data(uniform_values(count, seed, k, b), shape, {}, Loc::current());
  } else {
    const int64_t n = args.integer(99, "n", 2), low = args.integer(99, "low", 0);
    out = from_data(integer_values(count, seed, n, low), shape, {}, Loc::current());
  }
  return out.to(dtype).contiguous().realize();
}

}  // namespace

std::vector<float> uniform_values(int64_t count, uint32_t seed, float spread, float middle) {
  std::vector<float> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i) {
    const float unit =
        static_cast<float>(mixed(static_cast<uint32_t>(i), seed) >> 8) * 0x1p-23f - 1;
    out[i] = middle + spread * unit;
  }
  return out;
}

std::vector<int64_t> integer_values(int64_t count, uint32_t seed, int64_t below, int64_t low) {
  std::vector<int64_t> out(static_cast<size_t>(count));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = low + mixed(static_cast<uint32_t>(i), seed) % below;
  return out;
}

uint32_t name_seed(std::string_view name) {  // FNV-1a
  uint32_t h = 2166136261u;
  for (const char c : name) h = (h ^ static_cast<uint8_t>(c)) * 16777619u;
  return h;
}

Held make_input(const Args& args, uint32_t index, bool lazily) {
  std::vector<int64_t> shape = args.all_integers();
  Value value;
  if (args.callee() == "many") {  // many(60, sizes...): a list
    std::vector<Tensor> all;
    const int64_t n = shape.at(0);
    shape.erase(shape.begin());
    for (int64_t i = 0; i < n; ++i)
      all.push_back(make_one(args, shape, index * 1000 + static_cast<uint32_t>(i), lazily));
    value = all;
  } else {
    value = make_one(args, shape, index, lazily);
  }
  return [value](const Args&) { return value; };
}

}  // namespace mote::wide
