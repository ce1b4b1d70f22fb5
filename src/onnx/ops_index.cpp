// Reading and writing at computed places.
#include <algorithm>
#include <numeric>

#include "onnx/ops.h"

namespace mote::onnx {

namespace {

// Counted from the front.
Tensor from_front(const Tensor& index, int64_t size) {
  expect(is_int(index.dtype()), "indices are integers, not ", index.dtype());
  const Tensor i = index.cast(DType::i64);
  return mote::where(i < 0, i + size, i);
}

Outputs gather(Call& c) {
  const Tensor x = c.x(0), index = c.x(1);
  const int64_t axis = axis_of(c.i("axis", 0), x.dim());
  std::vector<int64_t> shape = x.shape(), places = index.shape();
  shape.erase(shape.begin() + axis);
  shape.insert(shape.begin() + axis, places.begin(), places.end());
  if (product(shape) == 0) return {x.reshape({-1}).narrow(0, 0, 0).reshape(shape)};
  return {x.index_select(axis, from_front(index, x.size(axis)).reshape({-1})).reshape(shape)};
}

Outputs gather_elements(Call& c) {
  const Tensor x = c.x(0);
  const int64_t axis = axis_of(c.i("axis", 0), x.dim());
  return {x.gather(axis, from_front(c.x(1), x.size(axis)))};
}

// Indices of the leading axes as one index each of rows.
struct Rows {
  Tensor rows;                  // (rows, elements of one)
  Tensor index;                 // of a row, flat
  std::vector<int64_t> behind;  // the shape of a row
};

Rows rows_of(const Tensor& x, const Tensor& indices, int64_t batch) {
  const std::vector<int64_t> shape = x.shape();
  const int64_t depth = indices.size(-1), last = indices.dim() - 1;
  expect(batch + depth <= x.dim(), "the indices have ", depth, " axes, more than there are");
  Rows r;
  r.behind.assign(shape.begin() + batch + depth, shape.end());
  r.rows = x.reshape({product(std::span(shape).first(size_t(batch + depth))), product(r.behind)});
  Tensor at = zeros({1}, Options{DType::i64, x.device()});
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<int64_t> along(static_cast<size_t>(last), 1);
    along[static_cast<size_t>(b)] = shape[static_cast<size_t>(b)];
    const Tensor place = arange(shape[static_cast<size_t>(b)], Options{DType::i64, x.device()});
    at = at * shape[static_cast<size_t>(b)] + place.reshape(along);
  }
  for (int64_t k = 0; k < depth; ++k) {
    const int64_t size = shape[static_cast<size_t>(batch + k)];
    at = at * size + from_front(indices.select(last, k), size);
  }
  std::vector<int64_t> full = indices.shape();
  full.pop_back();
  r.index = at.expand(full).reshape({-1});
  return r;
}

Outputs gather_nd(Call& c) {
  const Tensor indices = c.x(1);
  const Rows r = rows_of(c.x(0), indices, c.i("batch_dims", 0));
  std::vector<int64_t> shape = indices.shape();
  shape.pop_back();
  shape.insert(shape.end(), r.behind.begin(), r.behind.end());
  return {r.rows.index_select(0, r.index).reshape(shape)};
}

const char* reduction_name(Call& c) {
  const std::string name = c.s("reduction", "none");
  if (name == "none") return nullptr;
  if (name == "add") return "sum";
  if (name == "mul") return "prod";
  if (name == "max") return "amax";
  expect(name == "min", "the reduction ", quoted(name), " is not known");
  return "amin";
}

Outputs scatter_nd(Call& c) {
  const Tensor x = c.x(0), updates = c.x(2);
  const Rows r = rows_of(x, c.x(1), 0);
  if (updates.numel() == 0) return {x};
  const Tensor from = updates.reshape({r.index.numel(), r.rows.size(1)});
  const char* reduce = reduction_name(c);
  if (!reduce) return {r.rows.index_copy(0, r.index, from).reshape(x.shape())};
  const Tensor index = r.index.unsqueeze(1).expand(from.shape());
  return {r.rows.scatter_reduce(0, index, from, reduce).reshape(x.shape())};
}

Outputs scatter_elements(Call& c) {
  const Tensor x = c.x(0), updates = c.x(2);
  const int64_t axis = axis_of(c.i("axis", 0), x.dim());
  const Tensor index = from_front(c.x(1), x.size(axis));
  if (updates.numel() == 0) return {x};
  const char* reduce = reduction_name(c);
  return {reduce ? x.scatter_reduce(axis, index, updates, reduce)
                 : x.scatter(axis, index, updates)};
}

// Writes a run of positions from an index of each batch on.
Outputs tensor_scatter(Call& c) {
  const Tensor cache = c.x(0), update = c.x(1);
  const int64_t axis = axis_of(c.i("axis", -2), cache.dim());
  std::vector<int64_t> along(static_cast<size_t>(cache.dim()), 1), batch = along;
  along[static_cast<size_t>(axis)] = update.size(axis);
  batch[0] = cache.size(0);
  Tensor at = arange(update.size(axis), c.options(DType::i64)).reshape(along);
  if (c.has(2)) at = at + c.x(2).reshape(batch);
  if (c.s("mode", "linear") == "circular") at = at % cache.size(axis);
  return {cache.scatter(axis, at.expand(update.shape()), update)};
}

Outputs one_hot(Call& c) {
  const Tensor index = c.x(0), values = c.x(2);
  const auto depth = static_cast<int64_t>(c.real(1));
  const int64_t axis = axis_of(c.i("axis", -1), index.dim() + 1);
  std::vector<int64_t> along(static_cast<size_t>(index.dim() + 1), 1);
  along[static_cast<size_t>(axis)] = depth;
  const Tensor places = arange(depth, c.options(DType::i64)).reshape(along);
  const Tensor hot = from_front(index, depth).unsqueeze(axis).eq(places);
  return {mote::where(hot, values.select(0, 1), values.select(0, 0))};
}

Outputs reverse_sequence(Call& c) {
  const Tensor x = c.x(0);
  const int64_t batch = axis_of(c.i("batch_axis", 1), x.dim());
  const int64_t time = axis_of(c.i("time_axis", 0), x.dim());
  std::vector<int64_t> along(static_cast<size_t>(x.dim()), 1), lengths = along;
  along[static_cast<size_t>(time)] = x.size(time);
  lengths[static_cast<size_t>(batch)] = x.size(batch);
  const Tensor t = arange(x.size(time), c.options(DType::i64)).reshape(along);
  const Tensor length = c.x(1).cast(DType::i64).reshape(lengths);
  return {x.gather(time, mote::where(t < length, length - 1 - t, t).expand(x.shape()))};
}

constexpr OpRow rows[] = {
    {"Gather",          1,  gather          },
    {"GatherElements",  11, gather_elements },
    {"GatherND",        11, gather_nd       },
    {"Scatter",         9,  scatter_elements},
    {"ScatterElements", 11, scatter_elements},
    {"ScatterND",       11, scatter_nd      },
    {"TensorScatter",   24, tensor_scatter  },
    {"OneHot",          9,  one_hot         },
    {"ReverseSequence", 10, reverse_sequence},
};

}  // namespace

OpTable index_ops() { return rows; }

}  // namespace mote::onnx
