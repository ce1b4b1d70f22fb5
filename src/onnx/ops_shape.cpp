// Shapes and movement: what an element is stays the same.
#include <algorithm>
#include <cmath>

#include "onnx/ops.h"
#include "onnx/run.h"

namespace mote::onnx {

namespace {

const std::vector<int64_t> shape_of_value(const Value& v) {
  return v.kind == Value::Strings ? v.shape : v.tensor.shape();
}

Outputs shape(Call& c) {
  const std::vector<int64_t> all = shape_of_value(c.value(0));
  const auto rank = static_cast<int64_t>(all.size());
  auto cut = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t begin = cut(c.i("start", 0)), end = std::max(begin, cut(c.i("end", rank)));
  const std::vector<int64_t> part(all.begin() + begin, all.begin() + end);
  return {c.known(part, Sizes({part.size()}))};
}

Outputs size(Call& c) { return {c.known({product(shape_of_value(c.value(0)))}, Sizes())}; }

Outputs identity(Call& c) { return {c.has(0) ? c.value(0) : Value()}; }

Outputs reshape(Call& c) {
  const Value& v = c.value(0);
  std::vector<int64_t> shape = c.ints(1, "shape");
  const std::vector<int64_t> from = shape_of_value(v);
  const bool copies = !c.i("allowzero", 0);
  int64_t known = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    expect(shape[d] != 0 || !copies || d < from.size(), "the shape ", shape,
           " copies an axis that is not there");
    if (shape[d] == 0 && copies) shape[d] = from[d];
    if (shape[d] != -1) known = size_mul(known, shape[d]);
  }
  // Also where there are no elements.
  for (int64_t& s : shape)
    if (s == -1) s = known ? product(from) / known : 0;
  if (v.kind == Value::Strings) {
    Value out = v;
    out.shape = shape;
    return {out};
  }
  return {c.x(0).reshape(shape)};
}

Outputs flatten(Call& c) {
  const Tensor x = c.x(0);
  const std::vector<int64_t> shape = x.shape();
  const int64_t axis = c.i("axis", 1), from_front = axis < 0 ? axis + x.dim() : axis;
  expect(from_front >= 0 && from_front <= x.dim(), "the axis ", axis, " is outside");
  const auto front = std::span(shape).first(static_cast<size_t>(from_front));
  return {x.reshape({product(front), product(std::span(shape).subspan(front.size()))})};
}

Outputs squeeze(Call& c) {
  const Tensor x = c.x(0);
  std::vector<int64_t> axes = c.ints(1, "axes"), shape;
  for (int64_t& a : axes) a = axis_of(a, x.dim());
  for (int64_t d = 0; d < x.dim(); ++d) {
    const bool named = std::find(axes.begin(), axes.end(), d) != axes.end();
    expect(!named || x.size(d) == 1, "axis ", d, " has the size ", x.size(d), " and not 1");
    if (!named && (!axes.empty() || x.size(d) != 1)) shape.push_back(x.size(d));
  }
  return {x.reshape(shape)};
}

Outputs unsqueeze(Call& c) {
  const Tensor x = c.x(0);
  std::vector<int64_t> axes = c.ints(1, "axes"), shape = x.shape();
  for (int64_t& a : axes) a = axis_of(a, x.dim() + static_cast<int64_t>(axes.size()));
  std::sort(axes.begin(), axes.end());
  const auto twice = std::adjacent_find(axes.begin(), axes.end());
  expect(twice == axes.end(), "axes name axis ", twice == axes.end() ? 0 : *twice, " twice");
  for (const int64_t a : axes) shape.insert(shape.begin() + a, 1);
  return {x.reshape(shape)};
}

Outputs transpose(Call& c) {
  const Tensor x = c.x(0);
  std::vector<int64_t> order = c.is("perm");
  if (!c.has("perm")) {
    order = iota(x.dim());
    std::reverse(order.begin(), order.end());
  }
  if (order.empty()) return {x};
  return {x.permute(order)};
}

Outputs concat(Call& c) {
  const std::vector<Tensor> all = c.all();
  expect(!all.empty(), "there is no input");
  expect(c.has("axis") || c.opset() < 4, "the attribute axis is missing");
  return {cat(all, axis_of(c.i("axis", c.opset() < 4 ? 1 : 0), all[0].dim()))};
}

std::vector<int64_t> part_sizes(Call& c, int64_t size) {
  std::vector<int64_t> sizes = c.ints(1, "split");
  if (!sizes.empty()) return sizes;
  const auto count = c.has("num_outputs") ? c.count_of("num_outputs", 1) : int64_t(c.wanted());
  expect(count > 0, "there are ", count, " outputs");
  const int64_t each = (size + count - 1) / count;
  for (int64_t at = 0, i = 0; i < count; ++i, at += each)
    sizes.push_back(std::clamp<int64_t>(size - at, 0, each));
  return sizes;
}

Outputs split(Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c.i("axis", 0), x.dim());
  Outputs out;
  int64_t at = 0;
  for (const int64_t size : part_sizes(c, x.size(axis))) {
    out.push_back(Value(x.narrow(axis, at, size), c.value(0).type));
    at += size;
  }
  expect(at == x.size(axis), "the parts have ", at, " elements together, not ", x.size(axis));
  return out;
}

Outputs slice(Call& c) {
  const Tensor x = c.x(0);
  const std::vector<int64_t> starts = c.ints(1, "starts"), ends = c.ints(2, "ends");
  std::vector<int64_t> axes = c.ints(3, "axes"), steps = c.has(4) ? c.ints(4) : axes;
  if (axes.empty()) axes = iota(static_cast<int64_t>(starts.size()));
  if (!c.has(4)) steps.assign(starts.size(), 1);
  expect(
      starts.size() == ends.size() && starts.size() == axes.size() && starts.size() == steps.size(),
      "starts, ends, axes and steps have different lengths");
  std::vector<Slice> slices(static_cast<size_t>(x.dim()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = axis_of(axes[i], x.dim()), size = x.size(a);
    auto near = [&](int64_t at) { return std::clamp(at, -size - 1, size); };
    expect(steps[i] != 0, "a step is 0");
    slices[static_cast<size_t>(a)] =
        Slice(near(starts[i]), near(ends[i]), std::clamp(steps[i], -size - 1, size + 1));
  }
  std::vector<Index> index;
  for (const Slice& s : slices) index.push_back(s);
  return {index.empty() ? x : x.index(index)};
}

Outputs expand(Call& c) {
  const Tensor x = c.x(0);
  return {x.expand(broadcast_shapes({x.shape(), c.ints(1)}))};
}

// In opset 1 one axis was repeated.
Outputs tile(Call& c) {
  const Tensor x = c.x(0);
  std::vector<int64_t> repeats = c.ints(1);
  if (c.count() == 3) {
    const int64_t times = c.integer(1);
    repeats.assign(static_cast<size_t>(x.dim()), 1);
    repeats[static_cast<size_t>(axis_of(c.integer(2), x.dim()))] = times;
  }
  expect(static_cast<int64_t>(repeats.size()) == x.dim(), "there are ", repeats.size(),
         " repeats for ", x.dim(), " axes");
  return {repeats.empty() ? x : x.repeat(repeats)};
}

// Where element i of the padded axis comes from.
int64_t source_of(int64_t i, int64_t size, const std::string& mode) {
  if (mode == "edge") return std::clamp<int64_t>(i, 0, size - 1);
  if (mode == "wrap") return ((i % size) + size) % size;
  const int64_t period = std::max<int64_t>(2 * (size - 1), 1);
  const int64_t at = ((i % period) + period) % period;
  return at < size ? at : period - at;
}

Tensor pad_by_index(Call& c, Tensor x, int64_t axis, int64_t before, int64_t after,
                    const std::string& mode) {
  const int64_t size = x.size(axis);
  expect(size > 0, "an axis without elements cannot be padded by ", mode);
  std::vector<int64_t> from;
  for (int64_t i = -before; i < size + after; ++i) from.push_back(source_of(i, size, mode));
  return x.index_select(axis, c.constant(from));
}

// Opset 1 called the amounts paddings; since 11 they are an input, since 18 with axes.
Outputs pad(Call& c) {
  Tensor x = c.x(0);
  const std::string mode = c.s("mode", "constant");
  expect(mode == "constant" || mode == "edge" || mode == "reflect" || mode == "wrap", "the mode ",
         quoted(mode), " is not known");
  const std::vector<int64_t> pads =
      c.has(1) ? c.ints(1) : c.is(c.has("pads") ? "pads" : "paddings");
  std::vector<int64_t> axes = c.has(3) ? c.ints(3) : iota(x.dim());
  expect(pads.size() == 2 * axes.size(), "there are ", pads.size(), " pads for ", axes.size(),
         " axes");
  std::vector<int64_t> amounts(2 * static_cast<size_t>(x.dim()));  // from the last axis on
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = axis_of(axes[i], x.dim()), before = pads[i], after = pads[i + axes.size()];
    const int64_t cut_front = std::max<int64_t>(-before, 0),
                  cut_back = std::max<int64_t>(-after, 0);
    if (cut_front || cut_back) {
      expect(cut_front + cut_back <= x.size(a), "negative pads cut more than there is");
      x = x.narrow(a, cut_front, x.size(a) - cut_front - cut_back);
    }
    const int64_t front = std::max<int64_t>(before, 0), back = std::max<int64_t>(after, 0);
    if (mode != "constant" && (front || back)) x = pad_by_index(c, x, a, front, back, mode);
    const auto at = static_cast<size_t>(2 * (x.dim() - 1 - a));
    if (mode == "constant") amounts[at] = front, amounts[at + 1] = back;
  }
  if (mode != "constant") return {x};
  if (!c.has(2)) return {x.pad(amounts, "constant", c.f("value", 0))};
  const Tensor inside = x.ones_like(DType::boolean).pad(amounts, "constant", false);
  return {mote::where(inside, x.pad(amounts), c.x(2).reshape({}).cast(x.dtype()))};
}

Value constant_value(const Attribute& a) {
  TensorData t{.type = kFloat};
  if (a.name == "value_int") t.type = kInt64, t.ints = {a.integer};
  if (a.name == "value_ints") t.type = kInt64, t.ints = a.integers;
  if (a.name == "value_float") t.floats = {a.real};
  if (a.name == "value_floats") t.floats = a.reals;
  if (a.name == "value_string") t.type = kString, t.strings = {a.text};
  if (a.name == "value_strings") t.type = kString, t.strings = a.texts;
  const size_t count = t.ints.size() + t.floats.size() + t.strings.size();
  if (a.name.ends_with("s")) t.dims = {static_cast<int64_t>(count)};
  return make_value(t, {"a constant", {}}, {});
}

Outputs constant(Call& c) {
  for (const char* name : {"value", "value_int", "value_ints", "value_float", "value_floats",
                           "value_string", "value_strings", "sparse_value"}) {
    const Attribute* a = c.attribute(name);
    if (!a) continue;
    const File file{"a constant", {}};
    if (a->tensor) return {known_value(make_value(*a->tensor, file, {}), 2)};
    if (a->sparse) return {known_value(make_value(*a->sparse, file, {}), 2)};
    return {known_value(constant_value(*a), 2)};
  }
  fail_call("it has no value");
}

Outputs constant_of_shape(Call& c) {
  const std::vector<int64_t> shape = c.ints(0);
  const Attribute* a = c.attribute("value");
  if (!a || !a->tensor) return {zeros(shape, c.options(DType::f32))};
  const Value v = make_value(*a->tensor, {"a constant", {}}, {});
  expect(v.kind == Value::Tensor && v.tensor.numel() == 1, "value must be one number");
  const Tensor on_host = v.tensor.to(kHost);
  const Number number = is_float(on_host.dtype()) ? Number(on_host.reshape({}).item<double>())
                                                  : Number(on_host.reshape({}).item<int64_t>());
  return {Value(full(shape, number, c.options(on_host.dtype())), v.type)};
}

Outputs range(Call& c) {
  const DType dtype = c.x(0).dtype();
  if (is_int(dtype)) {
    const int64_t start = c.integer(0), limit = c.integer(1), delta = c.integer(2);
    expect(delta != 0, "the step is 0");
    const bool none = delta > 0 ? start >= limit : start <= limit;
    return {none ? zeros({0}, c.options(dtype)) : arange(start, limit, delta, c.options(dtype))};
  }
  const double start = c.real(0), limit = c.real(1), delta = c.real(2);
  expect(delta != 0, "the step is 0");
  const double count = std::max(0.0, std::ceil((limit - start) / delta));
  const Tensor steps = arange(static_cast<int64_t>(count), c.options(DType::f64));
  return {(steps * delta + start).cast(dtype)};
}

Outputs eye_like(Call& c) {
  const Tensor x = c.x(0);
  expect(x.dim() == 2, "the input must have 2 axes");
  const Element& e = element_of(static_cast<int>(c.i("dtype", c.type(0))));
  const Tensor rows = arange(x.size(0), c.options(DType::i64)).unsqueeze(1);
  const Tensor columns = arange(x.size(1), c.options(DType::i64)).unsqueeze(0);
  return {Value((rows + c.i("k", 0)).eq(columns).cast(e.held), e.type)};
}

Outputs trilu(Call& c) {
  const Tensor x = c.x(0);
  const int64_t k = c.has(1) ? c.integer(1) : 0;
  if (x.numel() == 0) return {x};
  return {c.i("upper", 1) ? x.triu(k) : x.tril(k)};
}

Outputs depth_to_space(Call& c) {
  const Tensor x = c.x(0);
  const int64_t b = c.count_of("blocksize", 1), n = x.size(0), ch = x.size(1) / (b * b), h = x.size(2),
                w = x.size(3);
  if (c.s("mode", "DCR") == "CRD")
    return {
        x.reshape({n, ch, b, b, h, w}).permute({0, 1, 4, 2, 5, 3}).reshape({n, ch, h * b, w * b})};
  return {
      x.reshape({n, b, b, ch, h, w}).permute({0, 3, 4, 1, 5, 2}).reshape({n, ch, h * b, w * b})};
}

Outputs space_to_depth(Call& c) {
  const Tensor x = c.x(0);
  const int64_t b = c.count_of("blocksize", 1), n = x.size(0), ch = x.size(1), h = x.size(2) / b,
                w = x.size(3) / b;
  return {
      x.reshape({n, ch, h, b, w, b}).permute({0, 3, 5, 1, 2, 4}).reshape({n, ch * b * b, h, w})};
}

Outputs center_crop_pad(Call& c) {
  Tensor x = c.x(0);
  const std::vector<int64_t> wanted = c.ints(1);
  const std::vector<int64_t> axes = c.has("axes") ? c.is("axes") : iota(x.dim());
  expect(axes.size() == wanted.size(), "there are ", wanted.size(), " sizes for ", axes.size(),
         " axes");
  std::vector<int64_t> amounts(2 * static_cast<size_t>(x.dim()));
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t a = axis_of(axes[i], x.dim()), more = wanted[i] - x.size(a);
    const auto at = static_cast<size_t>(2 * (x.dim() - 1 - a));
    if (more < 0) x = x.narrow(a, -more / 2, wanted[i]);
    if (more > 0) amounts[at] = more / 2, amounts[at + 1] = more - more / 2;
  }
  return {x.pad(amounts)};
}

constexpr OpRow rows[] = {
    {"Shape", 1, shape},
    {"Size", 1, size},
    {"Identity", 1, identity},
    {"Reshape", 1, reshape, "", false, false, true},
    {"Flatten", 1, flatten, "", false, false, true},
    {"Squeeze", 1, squeeze, "", false, false, true},
    {"Unsqueeze", 1, unsqueeze, "", false, false, true},
    {"Transpose", 1, transpose, "", false, false, true},
    {"Concat", 1, concat, "", false, false, true},
    {"Split", 1, split},
    {"Slice", 1, slice},
    {"Expand", 8, expand},
    {"Tile", 1, tile},
    {"Pad", 1, pad},
    {"Constant", 1, constant},
    {"ConstantOfShape", 9, constant_of_shape},
    {"Range", 11, range},
    {"EyeLike", 9, eye_like},
    {"Trilu", 14, trilu},
    {"DepthToSpace", 1, depth_to_space},
    {"SpaceToDepth", 1, space_to_depth},
    {"CenterCropPad", 18, center_crop_pad},
};

}  // namespace

OpTable shape_ops() { return rows; }

}  // namespace mote::onnx
