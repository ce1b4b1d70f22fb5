// Movement on nodes, shared by views, indexing, windows and scans.
#pragma once
#include "tensor/impl.h"

namespace mote {

std::vector<prim::Extent> whole(std::span<const Dim> dims);  // the bounds that cut nothing
std::vector<prim::Extent> nothing(size_t rank);              // the amounts that pad nothing

// Is begin ... begin + length a part of an axis? Variables count with their values, unbound ones
// with all they may be. A length that is an expression must be at least 1.
bool lies_within(const Dim& begin, const Dim& length, const Dim& size);
struct AxisPart {
  Dim begin, length, size;
  bool is_reshape = false;  // instead: a shape of `size` elements is seen as one of `begin`
};
// What to say of one that does not fit.
std::string said_misfit(const AxisPart& part);
// The same with the values of now; nothing where a variable has none.
std::optional<bool> fits_now(const AxisPart& part);
// Set by the engine: told of a part that lies within, but might not with other values.
extern void (*note_extent)(const AxisPart& part);
// Such a part as bounds of a cut that no value of the variables can take out of the axis: a kernel
// is compiled for all of a variable's interval and may run again with another value.
prim::Extent kept_within(const Dim& begin, const Dim& length, const Dim& size);
// View of begin ... end of one axis.
Tensor cut(const Tensor& t, int64_t axis, const Dim& begin, const Dim& end);
// One element of an axis, without it. Errors call the axis said_axis.
Tensor selected(const Tensor& t, int64_t axis, const Size& index, int64_t said_axis);
// The elements of the tensor that t is or is a view of, at offset (< 0: where t begins) + the sum
// of stride * position.
Tensor strided_view(const Tensor& t, const std::vector<int64_t>& size,
                    const std::vector<int64_t>& strides, int64_t offset);
// Elements begin, begin + step, ... of one axis; the last one lies within it. step >= 1.
Ref every_nth(const Ref& r, int64_t axis, int64_t begin, int64_t count, int64_t step);
// The same as a view; step may be negative.
Tensor with_step(const Tensor& t, int64_t axis, int64_t begin, int64_t count, int64_t step);
// One axis becomes two: windows, and positions in a window.
Ref window_axis(const Ref& r, int64_t axis, int64_t kernel, int64_t stride, int64_t dilation);
// The last axes (spatial) become (windows of each..., positions of each...).
Ref windows(const Ref& r, std::span<const int64_t> kernel, std::span<const int64_t> stride,
            std::span<const int64_t> dilation);

}  // namespace mote
