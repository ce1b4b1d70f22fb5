// The small parameter types of the Tensor interface: numbers, sizes, axes, slices.
#pragma once
#include <mote/compiler.h>
#include <mote/dtype.h>

#include <cstdint>
#include <initializer_list>
#include <source_location>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace mote {

struct Node;
class Tensor;

// The last argument of every call is the caller's file and line, by default. The library's own
// calls leave it empty, which saves a fifth of its code: errors show the line of the user's call.
using Loc = std::source_location;
#ifdef MOTE_INTERNAL
#define MOTE_HERE Loc()
#else
#define MOTE_HERE Loc::current()
#endif

template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;

// A C++ scalar that remembers its category. It never widens a tensor within that category.
struct Number {
  enum Kind : uint8_t { Bool, Int, Float } kind = Int;
  int64_t i = 0;
  double f = 0;
  Number() = default;
  template <Arithmetic T>
  Number(T v)
      : kind(std::is_same_v<T, bool> ? Bool
             : std::is_integral_v<T> ? Int
                                     : Float),
        i(std::is_integral_v<T> ? static_cast<int64_t>(v) : 0),
        f(static_cast<double>(v)) {}
  bool above_int64() const { return i < 0 && f > 0; }  // i holds the bits of an uint64_t
};

// Nested lists of numbers: {1, 2} or {{1, 2}, {3, 4}}. It refers to temporaries of the caller's
// expression, so use it only as an argument.
struct Literal {
  Number number;
  std::initializer_list<Literal> list;
  bool is_list = false;
  template <Arithmetic T>
  Literal(T v) : number(v) {}
  Literal(Number v) : number(v) {}
  Literal(std::initializer_list<Literal> l) : list(l), is_list(true) {}
};

// An operand of a + b and the like: a tensor or a number, with the file and line of the expression.
// It refers to the caller's tensor, so use it only as an argument.
struct Operand {
  const Tensor* tensor = nullptr;
  union {
    Number number;  // if there is no tensor
  };
  Loc where;
  Operand(const Tensor& t, Loc at = MOTE_HERE) : tensor(&t), where(at) {}
  template <Arithmetic T>
  Operand(T v, Loc at = MOTE_HERE) : number(v), where(at) {}
  Operand(Number v, Loc at = MOTE_HERE) : number(v), where(at) {}
};

// An integer expression of variables: a size or a bound that is known when the program runs.
class Sym {
 public:
  Sym() = default;
  Sym(const Sym& o);
  Sym(Sym&& o) noexcept : node_(o.node_) { o.node_ = nullptr; }
  Sym& operator=(Sym o) noexcept {
    std::swap(node_, o.node_);
    return *this;
  }
  ~Sym();
  static Sym adopt(Node* node);  // takes over a count already held
  Node* node() const { return node_; }
  int64_t lo() const;  // bounds of the value
  int64_t hi() const;
  std::string to_string() const;

 private:
  Node* node_ = nullptr;
};
// A named integer from lo to hi inclusive. Sizes made of it need lo >= 1.
class Variable : public Sym {
 public:
  Variable(const std::string& name, int64_t lo, int64_t hi, Loc where = MOTE_HERE);
  Sym bind(int64_t value, Loc where = MOTE_HERE) const;  // the variable with its value
};

// One size: a number or an expression.
class Size {
 public:
  Size() = default;
  template <class T>
  requires std::is_integral_v<T> Size(T n) : value_(static_cast<int64_t>(n)) {}
  Size(Sym s) : symbol_(std::move(s)) {}
  bool is_symbolic() const { return symbol_.node() != nullptr; }
  int64_t value() const { return value_; }  // of a number
  const Sym& symbol() const { return symbol_; }

 private:
  int64_t value_ = 0;
  Sym symbol_;
};
Size operator+(const Size& a, const Size& b);
Size operator-(const Size& a, const Size& b);
Size operator*(const Size& a, const Size& b);
Size operator/(const Size& a, const Size& b);  // rounds down
Size operator%(const Size& a, const Size& b);

// Constructors of lists are not inline, to keep std::vector's code out of every caller.

// A shape: {2, 3}, {n, 4} with n a Sym, a std::vector<int64_t>, or one number.
class Sizes {
 public:
  Sizes() = default;
  Sizes(std::initializer_list<Size> list);
  Sizes(const std::vector<int64_t>& list);
  Sizes(std::vector<Size> list) : list_(std::move(list)) {}
  template <class T>
  requires std::is_integral_v<T> Sizes(T n) : Sizes({Size(n)}) {}
  const Size* begin() const { return list_.data(); }
  const Size* end() const { return list_.data() + list_.size(); }
  size_t size() const { return list_.size(); }
  const Size& operator[](size_t i) const { return list_[i]; }

 private:
  std::vector<Size> list_;
};

// Integers, such as strides or kernel sizes; one number stands for all entries.
struct Ints {
  std::vector<int64_t> list;
  Ints() = default;
  Ints(std::initializer_list<int64_t> l);
  Ints(std::vector<int64_t> l) : list(std::move(l)) {}
  template <class T>
  requires std::is_integral_v<T> Ints(T n) : Ints({static_cast<int64_t>(n)}) {}
  bool empty() const { return list.empty(); }
};
struct Floats {
  std::vector<double> list;
  Floats() = default;
  Floats(std::initializer_list<double> l);
  Floats(std::vector<double> l) : list(std::move(l)) {}
  template <Arithmetic T>
  Floats(T n) : Floats({static_cast<double>(n)}) {}
  bool empty() const { return list.empty(); }
};

// Axes: one, several, or (empty) all of them. Negative axes count from the end.
using Axes = Ints;

// What an index may contain besides numbers, slices and tensors.
struct NoneType {};
struct EllipsisType {};
inline constexpr NoneType None{};
inline constexpr EllipsisType Ellipsis{};

// start:stop:step. An omitted bound (or None) is the end of the axis. Negative numbers count from
// the end, positions past the end are clamped, and a negative step goes backwards.
struct Slice {
  struct Bound {
    bool given = false;
    Size at;
    Bound() = default;
    Bound(NoneType) {}
    template <class T>
    requires std::is_integral_v<T> Bound(T n) : given(true), at(n) {}
    Bound(Sym s) : given(true), at(std::move(s)) {}
    Bound(Size s) : given(true), at(std::move(s)) {}
  };
  Bound start, stop;
  int64_t step = 1;
  Slice() = default;
  Slice(Bound begin, Bound end, int64_t by = 1)
      : start(std::move(begin)), stop(std::move(end)), step(by) {}
};

// The dtype and device of a new tensor. Defaults: f32, or the dtype of the data; the default
// device.
struct Options {
  DType dtype = DType::none;
  std::string device = {};
};

template <class T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::boolean;
  else if constexpr (std::is_same_v<T, float>)
    return DType::f32;
  else if constexpr (std::is_same_v<T, double>)
    return DType::f64;
  else if constexpr (std::is_same_v<T, Half>)
    return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return DType::bf16;
  else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>)
    return sizeof(T) == 1   ? DType::i8
           : sizeof(T) == 2 ? DType::i16
           : sizeof(T) == 4 ? DType::i32
                            : DType::i64;
  else if constexpr (std::is_integral_v<T>)
    return sizeof(T) == 1   ? DType::u8
           : sizeof(T) == 2 ? DType::u16
           : sizeof(T) == 4 ? DType::u32
                            : DType::u64;
  else
    return DType::none;
}

enum class Reduction : uint8_t { none, mean, sum };

// Sizes of windows: one number for all spatial axes, or one per axis.
struct ConvOptions {
  Ints stride = 1, padding = 0, dilation = 1;
  int64_t groups = 1;
  bool same = false;  // PyTorch's padding="same"
};
struct ConvTransposeOptions {
  Ints stride = 1, padding = 0, output_padding = 0;
  int64_t groups = 1;
  Ints dilation = 1;
};
struct MaxPoolOptions {
  Ints stride = {};  // the kernel size
  Ints padding = 0, dilation = 1;
  bool ceil_mode = false;
};
struct AvgPoolOptions {
  Ints stride = {};  // the kernel size
  Ints padding = 0;
  bool ceil_mode = false, count_include_pad = true;
  int64_t divisor_override = 0;  // 0: the window's size
};
struct InterpolateOptions {
  Ints size = {};            // give either size
  Floats scale_factor = {};  // or scale_factor
  const char* mode =
      "nearest";  // nearest, nearest-exact, linear, bilinear, trilinear, bicubic, area
  bool align_corners = false;
  // With scale_factor: compute positions from the resulting sizes instead of the factors.
  bool recompute_scale_factor = false;
};
struct FoldOptions {
  Ints dilation = 1, padding = 0, stride = 1;
};
struct UnpoolOptions {
  Ints stride = {};  // the kernel size
  Ints padding = 0;
  Ints output_size = {};  // spatial; default: the smallest that fits
};
struct BatchNormOptions {
  bool training = false;  // normalise by the batch and update running statistics
  double momentum = 0.1, eps = 1e-5;
};

}  // namespace mote
