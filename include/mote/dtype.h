// Element types.
#pragma once
#include <cstdint>

namespace mote {

// index is the compiler's exact integer for sizes and positions; no tensor has it.
enum class DType : uint8_t {
  none, boolean, u8, u16, u32, u64, i8, i16, i32, i64, f8e4m3, f8e5m2, bf16, f16, f32, f64, index
};
constexpr int kDTypes = 17;

constexpr DType float64 = DType::f64, float32 = DType::f32, float16 = DType::f16,
                bfloat16 = DType::bf16, float8_e4m3 = DType::f8e4m3, float8_e5m2 = DType::f8e5m2,
                int8 = DType::i8, int16 = DType::i16, int32 = DType::i32, int64 = DType::i64,
                uint8 = DType::u8, uint16 = DType::u16, uint32 = DType::u32, uint64 = DType::u64;

const char* name(DType dtype);          // "f32", "bool", ...
int size_of(DType dtype);               // bytes per element
bool is_float(DType dtype);
bool is_int(DType dtype);               // signed or unsigned, index included, bool excluded
bool is_signed(DType dtype);            // floats, signed ints, index
DType promote(DType a, DType b);        // PyTorch's result type of two tensors

// The 16- and 8-bit floats as bit patterns; round to nearest even.
struct Half { uint16_t bits = 0; };
struct BFloat16 { uint16_t bits = 0; };
Half to_half(double value);
BFloat16 to_bfloat16(double value);
double to_double(Half value);
double to_double(BFloat16 value);

}  // namespace mote
