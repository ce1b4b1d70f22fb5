// What a Tensor handle points to, and the few operations everything in tensor/ is written with.
//
// A tensor is a value or a view. A value holds a node of the tensor graph. A view holds the value
// it looks at (its base, never itself a view) and a chain: movement ops over a placeholder, applied
// to the base's node of the moment when it is read. So a view sees later writes to its base, and
// holds no graph of its own.
// Writing makes a new version of a buffer: a value is `stored` once it has a buffer that is its
// alone. A node is not enough to know that, for equal expressions are one node.
#pragma once
#include <mote/tensor.h>

#include <atomic>
#include <optional>

#include "base/flags.h"
#include "base/lifetime.h"
#include "ir/device_list.h"
#include "ir/graph.h"
#include "ir/grid.h"
#include "ir/provenance.h"
#include "ir/size_sum.h"
#include "tensor/primitives.h"

namespace mote {

struct TensorImpl {
  std::atomic<uint32_t> refs{1};
  std::atomic<uint32_t> known{0};  // of them: held by captured lists, which do not count as users
  DType dtype = DType::none;
  uint8_t device = kDefaultDevice;
  Storage* storage = nullptr;    // of a value that is `stored`: its own, which knows this impl
  Ref value;                     // of a value
  Tensor base;                   // of a view
  Ref chain;                     // of a view: movement (and Detach) over placeholder(base)
  std::vector<int64_t> strides;  // of a view with numeric shape: where PyTorch's elements would lie
  bool marked = false;           // a leaf of backward; it has storage
  Tensor grad;                   // of a marked leaf: what backward has added so far
  Ref hooks;  // of a marked leaf: what its gradient passes first (grad/custom.cpp)
  // Where it stands in a thread's list of tensors that may be pending (tensor/handles.h).
  std::atomic<struct PendingList*> pending{nullptr};
  TensorImpl *pending_before = nullptr, *pending_after = nullptr;
  ~TensorImpl();
};

// Marks t as a leaf of backward, or takes the mark away. A marked tensor has storage; a view
// becomes a tensor of its own.
void mark_leaf(const Tensor& t, bool marked);
// The tensor that has the storage for its own; undefined when there is none or no handle is left.
Tensor owner_of(Storage& storage);
// The buffer under impl's value is its own, or (false) no longer.
void set_own(TensorImpl& impl, bool own);

// While one lives, this thread reads values as the graphs they were made of, realized or not: what
// a derivative is made of must have derivatives too.
class UnrealizedScope {
 public:
  UnrealizedScope() : before_(open) { open = true; }
  ~UnrealizedScope() { open = before_; }
  UnrealizedScope(const UnrealizedScope&) = delete;
  static thread_local bool open;

 private:
  bool before_;
};

// The graph of a tensor's elements now. A value that was realized is replaced by its buffer.
Ref node_of(const TensorImpl& impl);
Ref node_of(const Tensor& t);
const Shape& shape_of(const Tensor& t);
inline const std::vector<Dim>& dims_of(const Tensor& t) { return shape_of(t).dims; }

Tensor make_value(Ref node, uint8_t device);
inline Tensor make_value(Ref node, const Tensor& like) {
  return make_value(std::move(node), like.impl()->device);
}
// A tensor with storage of its own that holds `buffer` (a Buffer node) in the given shape.
Tensor make_stored(const Ref& buffer, std::span<const Dim> shape);
// What movement is applied to: t's chain, or its node in a Call that gives values.
Ref chain_of(const Tensor& t);
// A view of `of`, or a value in a Call that gives values: movement of chain_of(of), and PyTorch's
// strides of the result.
Tensor make_view(const Tensor& of, Ref chain, std::vector<int64_t> strides);
// t where nothing has to be done to it: itself, or a new value in a Call that gives values.
Tensor unchanged(const Tensor& t);
// t, which has no views of its own, becomes `view`: a view of the same shape and dtype.
void become_view(const Tensor& t, const Tensor& view);
std::vector<int64_t> strides_of(const Tensor& t);
std::vector<int64_t> row_major_strides(std::span<const Dim> dims);

// t's elements on another device. Of a view of memory that can only be read, the stretch between
// its first and last element is copied.
Ref copied_to(const Tensor& t, uint8_t device);

// A flat buffer, or a version of it, in a tensor's shape. Symbolic sizes use each axis's front.
Ref fit(const Ref& flat, std::span<const Dim> dims);
// Makes the value under t `stored`. keep: its elements so far are still needed.
void give_storage(const Tensor& t, bool keep = true);
// t's elements become x's, which has t's shape, dtype and device.
void write(const Tensor& t, const Ref& x);

// What a part of a tensor is set to may have more axes than it, of size 1 and in front.
Tensor without_leading_ones(const Tensor& value, size_t rank);

// Set by the runtime: storage with these bytes (copied), and storage that is the caller's memory.
extern Storage* (*storage_from_bytes)(uint8_t device, DType dtype, int64_t count,
                                      const void* bytes);
extern Storage* (*storage_from_blob)(uint8_t device, DType dtype, int64_t count, void* data,
                                     void (*deleter)(void*), void* context);
// Set by the runtime: elements first ... first + count of a storage as one of its own, where the
// device only holds data; null where it computes.
extern Storage* (*storage_part)(Storage& whole, int64_t first, int64_t count);
// Set by the engine: an error for a device that is unknown or not available here.
extern void (*open_device)(uint8_t device);
// Set by the engine: an error where the device takes no programs as text, or this one is wrong.
extern void (*compile_source)(uint8_t device, UOp source);

// Opened by every public call: provenance, the life of the size expressions made meanwhile, and
// what movement gives. A method's result is a new tensor unless its documentation says that it is a
// view, so inside a Call movement gives values, and no result of it can share the operand's memory.
class Call {
 public:
  Call(const char* method, const Loc& where) : Call(method, where, true) {}
  ~Call() {
    values = outer_values_, composed = outer_composed_;
    if (Pins* p = PerThread<Pins>::if_made(); --depth == 0 && p && !p->empty()) p->clear();
  }
  static const Dim& keep(const Dim& d, Ref r) {  // r lives as long as the outermost call
    PerThread<Pins>::get().push_back(std::move(r));
    return d;
  }
  static bool gives_values() { return values; }
  const char* method() const { return method_; }
  // Whether the program or a module made it, and not another call.
  bool is_programs() const { return !outer_composed_; }

 protected:
  Call(const char* method, const Loc& where, bool gives_values, bool is_composed = true)
      : method_(method),
        scope_(method, where),
        outer_values_(values),
        outer_composed_(composed) {
    values = gives_values, composed = is_composed;
    ++depth;
  }

 private:
  const char* method_;
  CallScope scope_;
  bool outer_values_, outer_composed_;
  static thread_local bool values, composed;
  static thread_local int depth;
  using Pins = std::vector<Ref>;
};
// Of a method that gives views; called to compute a value, it gives values as well.
class ViewCall : public Call {
 public:
  ViewCall(const char* method, const Loc& where) : Call(method, where, gives_values()) {}
};
// Of what uses tensors as a program does: it may write through the views that it takes.
class OuterCall : public Call {
 public:
  OuterCall(const char* method, const Loc& where) : Call(method, where, false) {}

 protected:
  OuterCall(const char* method, const Loc& where, bool is_composed)
      : Call(method, where, false, is_composed) {}
};
// Of what runs modules: what they call is called by the program.
class ProgramCall : public OuterCall {
 public:
  ProgramCall(const char* method, const Loc& where) : OuterCall(method, where, false) {}
};

// A User error that names the method the user called.
template <class... A>
[[noreturn, gnu::cold]] void fail_call(const A&... parts) {
  fail(ErrorKind::User, text("[", current_method(), "] ", parts...));
}
template <class... A>
void expect(bool ok, const A&... parts) {
  if (!ok) [[unlikely]] fail_call(parts...);
}
inline void expect_defined(const Tensor& t, const char* what = "the tensor") {
  expect(t.defined(), what, " is undefined");
}
// A word among the arguments.
inline std::string word(const char* given, const char* what) {
  expect(given != nullptr, what, " is null");
  return given;
}
inline void append(std::string& out, const Tensor& t) { append(out, shape_of(t)); }

// Arithmetic of sizes; folds numbers. A User error where a number leaves 64 bits.
Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
Dim operator*(const Dim& a, const Dim& b);
Dim operator/(const Dim& a, const Dim& b);  // rounds down
Dim operator%(const Dim& a, const Dim& b);
Dim smaller(const Dim& a, const Dim& b);
Dim larger(const Dim& a, const Dim& b);
Dim product(std::span<const Dim> dims);
int64_t least(const Dim& d);   // the lower bound; d.size is the upper one
// What it is when the program runs: nothing while one of its variables is not bound.
std::optional<int64_t> value_of(const Dim& d);
std::string said(const Dim& d);  // for errors: 5, n = 7, n (1 to 10)
Ref index_node(const Dim& d);  // rank 0
Dim to_dim(const Size& s);
Size to_size(const Dim& d);
std::vector<Dim> to_dims(const Sizes& s);
// The numeric sizes; an error that says so where one is symbolic.
std::vector<int64_t> numeric_shape(const Tensor& t);
int64_t numeric(const Dim& d);
// The sizes that the values have: of symbolic ones those that bound variables give.
std::vector<int64_t> value_shape(const Tensor& t);

// Axes in 0 ... rank-1 from what the user wrote; errors name the range.
int64_t to_axis(int64_t axis, int64_t rank);
std::vector<int64_t> to_axes(const Axes& axes, int64_t rank);         // distinct, as given
std::vector<int64_t> to_axes_or_all(const Axes& axes, int64_t rank);  // none means all
std::vector<int64_t> range_of(int64_t n);                             // 0 ... n-1

// dtype promotion and broadcasting.
DType result_dtype(std::span<const Operand> operands);
DType float_dtype(DType d);  // d if a float, else f32
std::vector<Dim> broadcast_dims(std::span<const Dim> a, std::span<const Dim> b);
bool can_expand(std::span<const Dim> from, std::span<const Dim> to);
Ref expand_to(const Ref& r, std::span<const Dim> dims);
uint8_t common_device(std::initializer_list<const Tensor*> tensors);

// op on operands of one dtype (a comparison's result is bool), broadcast.
Tensor elementwise(Op op, std::initializer_list<Operand> operands, DType dtype);
// A tensor of the operand: unchanged, cast, or a rank-0 one on like's device.
Tensor to_tensor(const Operand& o, const Tensor& like, DType dtype = DType::none);
Ref constant(DType dtype, const Number& n);
// n.f of an integer was rounded in the caller's code, in whatever mode its thread is.
double real(const Number& n);
uint8_t device_from(const std::string& name);

// Internal building blocks that several families share; no call is opened.
Tensor broadcast_tensor(const Tensor& t, std::span<const Dim> dims);  // a new value
Tensor reduce_tensor(Op op, const Tensor& t, std::span<const int64_t> axes, bool keepdim);
Tensor where_tensor(const Tensor& c, const Tensor& a, const Tensor& b);
Tensor iota_tensor(const Dim& length, DType dtype, uint8_t device);
Tensor reshaped(const Tensor& t, std::span<const Dim> dims);  // copies as it must
Tensor shrunk(const Tensor& t, std::span<const prim::Extent> bounds);

}  // namespace mote
