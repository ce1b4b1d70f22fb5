// The encodings of GGUF tensors. A quantised one is decoded by ordinary tensor operations on its
// bytes, which fuse into whatever reads the values. `b` is a tensor of blocks, u8 (n, bytes).
#include "io/gguf.h"

namespace mote {
namespace {

// Bytes of each block as i32, (n, count).
Tensor bytes(const Tensor& b, int64_t at, int64_t count) {
  return b.narrow(1, at, count).to(DType::i32);
}
Tensor signed_bytes(const Tensor& b, int64_t at, int64_t count) {
  return b.narrow(1, at, count).bitcast(DType::i8).to(DType::f32);
}
// A 16-bit float of each block as f32, (n, 1).
Tensor half(const Tensor& b, int64_t at) {
  Tensor bits = bytes(b, at, 1) | (bytes(b, at + 1, 1) << 8);
  return bits.to(DType::u16).bitcast(DType::f16).to(DType::f32);
}
// Each integer's fields of `width` bits, lowest first, along a new last axis.
Tensor spread(const Tensor& x, int width, int64_t count) {
  Tensor shifts = arange(count, Options{DType::i32, x.device()}) * width;
  return (x.unsqueeze(-1) >> shifts) & ((1 << width) - 1);
}
// The same with all lowest fields first: (n, count, k).
Tensor planes(const Tensor& x, int width, int64_t count) {
  return spread(x, width, count).transpose(-1, -2);
}
Tensor nibbles(const Tensor& b, int64_t at, int64_t count) {
  return planes(bytes(b, at, count), 4, 2).flatten(1);
}
// The fifth bits of 32 numbers, one per bit of 4 bytes.
Tensor fifth_bits(const Tensor& b, int64_t at) {
  return spread(bytes(b, at, 4), 1, 8).flatten(1) * 16;
}

Tensor q4_0(const Tensor& b) { return half(b, 0) * (nibbles(b, 2, 16) - 8); }
Tensor q4_1(const Tensor& b) { return half(b, 0) * nibbles(b, 4, 16) + half(b, 2); }
Tensor q5_0(const Tensor& b) { return half(b, 0) * (nibbles(b, 6, 16) + fifth_bits(b, 2) - 16); }
Tensor q5_1(const Tensor& b) {
  return half(b, 0) * (nibbles(b, 8, 16) + fifth_bits(b, 4)) + half(b, 2);
}
Tensor q8_0(const Tensor& b) { return half(b, 0) * signed_bytes(b, 2, 32); }

// The K encodings: blocks of 256. One that has 16 parts of 16 keeps the 2-bit fields of
// (half, field, part, 16) in bytes of (half, part, 16).
Tensor by_parts(const Tensor& x) { return x.reshape({-1, 2, 4, 2, 16}); }
Tensor two_bits(const Tensor& b, int64_t at) {
  return planes(bytes(b, at, 64).unflatten(1, {2, 32}), 2, 4);
}
Tensor per_part(const Tensor& x) { return x.reshape({-1, 2, 4, 2, 1}); }
Tensor per_block(const Tensor& x) { return x.reshape({-1, 1, 1, 1, 1}); }

Tensor q2_k(const Tensor& b) {
  Tensor scales = per_part(bytes(b, 0, 16));
  Tensor step = per_block(half(b, 80)) * (scales & 15),
         low = per_block(half(b, 82)) * (scales >> 4);
  return (step * by_parts(two_bits(b, 16)) - low).flatten(1);
}

Tensor q3_k(const Tensor& b) {
  Tensor q = by_parts(two_bits(b, 32)) + by_parts(planes(bytes(b, 0, 32), 1, 8)) * 4 - 4;
  Tensor low = planes(bytes(b, 96, 8), 4, 2).flatten(1);    // 4 bits of 16 scales
  Tensor high = planes(bytes(b, 104, 4), 2, 4).flatten(1);  // and 2 bits
  Tensor scales = per_part((low | (high << 4)) - 32);
  return (per_block(half(b, 108)) * scales * q).flatten(1);
}

// Q4_K and Q5_K: 8 parts of 32, with 6 bits each for a step and a lower end, packed in 12 bytes.
Tensor with_ends(const Tensor& b, const Tensor& q) {
  Tensor steps = bytes(b, 4, 4), ends = bytes(b, 8, 4), rest = bytes(b, 12, 4);
  Tensor step = cat({steps & 63, (rest & 15) | ((steps >> 6) << 4)}, 1);
  Tensor end = cat({ends & 63, (rest >> 4) | ((ends >> 6) << 4)}, 1);
  return ((half(b, 0) * step).unsqueeze(-1) * q - (half(b, 2) * end).unsqueeze(-1)).flatten(1);
}
// Bytes of (4, 32), whose lower halves are parts 0, 2, 4 and 6.
Tensor eight_parts(const Tensor& b, int64_t at) {
  return planes(bytes(b, at, 128).unflatten(1, {4, 32}), 4, 2).flatten(1, 2);
}
Tensor q4_k(const Tensor& b) { return with_ends(b, eight_parts(b, 16)); }
Tensor q5_k(const Tensor& b) {
  return with_ends(b, eight_parts(b, 48) + planes(bytes(b, 16, 32), 1, 8) * 16);
}

Tensor q6_k(const Tensor& b) {
  Tensor low = spread(bytes(b, 0, 128).unflatten(1, {2, 2, 32}), 4, 2).permute({0, 1, 4, 2, 3});
  Tensor q = (by_parts(low) | (by_parts(two_bits(b, 128)) << 4)) - 32;
  Tensor scales = per_part(signed_bytes(b, 192, 16));
  return (per_block(half(b, 208)) * scales * q).flatten(1);
}

Tensor q8_k(const Tensor& b) {
  Tensor scale =
      (bytes(b, 0, 1) | (bytes(b, 1, 1) << 8) | (bytes(b, 2, 1) << 16) | (bytes(b, 3, 1) << 24))
          .bitcast(DType::f32);
  return scale * signed_bytes(b, 4, 256);
}

// The OCP's 4-bit floats with a power of two for 32 of them. Twice the 4-bit value is whole, and
// half the scale, 2^(e - 128), is a float for every e: subnormal for e < 2.
Tensor mxfp4(const Tensor& b) {
  Tensor code = nibbles(b, 1, 16), size = code & 7;
  Tensor twice = where(size < 2, size, (2 | (size & 1)) << ((size >> 1).maximum(1) - 1));
  Tensor e = bytes(b, 0, 1);
  Tensor bits = where(e < 2, 0x200000 << (e & 1), (e - 1) << 23);
  return where(code < 8, twice, -twice) * bits.bitcast(DType::f32);
}

constexpr GgufEncoding encodings[] = {
  // number, name, elements and bytes of a block, dtype, decode
    {0,  "f32",   1,   4,   DType::f32,  nullptr},
    {1,  "f16",   1,   2,   DType::f16,  nullptr},
    {2,  "q4_0",  32,  18,  DType::none, q4_0   },
    {3,  "q4_1",  32,  20,  DType::none, q4_1   },
    {6,  "q5_0",  32,  22,  DType::none, q5_0   },
    {7,  "q5_1",  32,  24,  DType::none, q5_1   },
    {8,  "q8_0",  32,  34,  DType::none, q8_0   },
    {10, "q2_k",  256, 84,  DType::none, q2_k   },
    {11, "q3_k",  256, 110, DType::none, q3_k   },
    {12, "q4_k",  256, 144, DType::none, q4_k   },
    {13, "q5_k",  256, 176, DType::none, q5_k   },
    {14, "q6_k",  256, 210, DType::none, q6_k   },
    {15, "q8_k",  256, 292, DType::none, q8_k   },
    {24, "i8",    1,   1,   DType::i8,   nullptr},
    {25, "i16",   1,   2,   DType::i16,  nullptr},
    {26, "i32",   1,   4,   DType::i32,  nullptr},
    {27, "i64",   1,   8,   DType::i64,  nullptr},
    {28, "f64",   1,   8,   DType::f64,  nullptr},
    {30, "bf16",  1,   2,   DType::bf16, nullptr},
    {39, "mxfp4", 32,  17,  DType::none, mxfp4  },
};

}  // namespace

std::span<const GgufEncoding> gguf_encodings() { return encodings; }

const GgufEncoding* find_gguf_encoding(uint32_t number) {
  for (const GgufEncoding& e : encodings)
    if (e.number == number) return &e;
  return nullptr;
}

}  // namespace mote
