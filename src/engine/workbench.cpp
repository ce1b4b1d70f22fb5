#include "engine/workbench.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/random.h"

namespace mote {

namespace {

double epsilon_of(DType d) {
  if (!is_float(d)) return 0;
  if (d == DType::f64) return 0x1p-53;
  if (d == DType::f32) return 0x1p-24;
  if (d == DType::f16) return 0x1p-11;
  return d == DType::bf16 ? 0x1p-8 : 0x1p-3;
}

HostArray random_values(DType dtype, int64_t count, uint64_t stream, bool positive) {
  HostArray out(dtype, {count});
  Random random(1, stream);
  const double low = positive ? 0.25 : -1;
  if (dtype == DType::f32) {
    for (float *p = out.data<float>(), *end = p + count; p != end; ++p)
      *p = static_cast<float>(random.between(low, 1));
    return out;
  }
  const int64_t below = dtype == DType::boolean ? 2 : 8;
  for (int64_t i = 0; i < count; ++i) {
    const double f = random.between(low, 1);
    out.set(i, is_float(dtype) ? scalar(dtype, f) : scalar(dtype, random.below(below)));
  }
  return out;
}

}  // namespace

std::string Workbench::cannot_try(UOp body, const Device& device) {
  if (!device.holds_data() || !device.computes()) return "the device runs nothing";
  for (UOp n : toposort(body))
    if (n->is(Op::Param) && n->ints(1) <= 0) return "an empty buffer";
  return "";
}

Workbench::Workbench(UOp body, Device& device) : device_(device) {
  for (UOp n : toposort(body)) {
    if (n->is(Op::Var)) variables_.emplace_back(n->arg.object->str, n->hi);
    if (n->is(Op::Reduce)) {
      double terms = 1;
      for (Node* r : n->src().subspan(1)) terms *= static_cast<double>(r->sources[0]->hi);
      terms_ = std::max(terms_, terms);
    }
    epsilon_ = std::max(epsilon_, epsilon_of(n->dtype));
    if (n->is(Op::Param)) {
      const auto slot = static_cast<size_t>(n->ints(0));
      if (buffers_.size() <= slot) buffers_.resize(slot + 1);
      buffers_[slot].dtype = n->dtype, buffers_[slot].count = n->ints(1);
    }
    for (uint32_t i = 0; i < n->nsrc; ++i) {
      UOp place = n->src(i);
      if (!place->is(Op::Index) || !place->src(0)->is(Op::Param)) continue;
      Buffer& b = buffers_[static_cast<size_t>(place->src(0)->ints(0))];
      (n->is(Op::Store) && i == 0 ? b.written : b.read) = true;
    }
  }
  for (Buffer& b : buffers_) {
    if (!b.count) continue;
    b.memory = MemoryBlock::allocate(device, b.count * size_of(b.dtype), "search");
    in_place_ |= b.read && b.written;
  }
  fill(false);
}

void Workbench::fill(bool positive) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    Buffer& b = buffers_[i];
    if (!b.memory) continue;
    HostArray values = random_values(b.dtype, b.count, i, positive);
    MemoryBlock& m = *b.memory;
    device_.copy_in(m.address(), values.bytes.data(), m.bytes(), m.tokens(true)).wait();
    if (b.written) b.start = std::move(values);
  }
}

void Workbench::use_positive_values() { fill(true); }

void Workbench::restore(bool all) {
  for (Buffer& b : buffers_)
    if (b.written && (all || b.read))
      device_.copy_in(b.memory->address(), b.start.bytes.data(), b.memory->bytes(), {}).wait();
}

LaunchList Workbench::launches(const std::shared_ptr<const Kernel>& kernel, int times) const {
  Launch l;
  l.code = {kernel, kernel->code.get()};
  l.name = kernel->name.c_str();
  l.threaded = kernel->threaded;
  for (const Buffer& b : buffers_)
    l.buffers.push_back(b.memory ? b.memory->address() : DeviceAddress());
  for (const std::string& name : kernel->vars) l.vars.push_back(*find_value(variables_, name));
  l.extent = value_of(kernel->extent, kernel->vars, l.vars);
  return std::make_shared<const std::vector<Launch>>(static_cast<size_t>(times), l);
}

double Workbench::time(const std::shared_ptr<const Kernel>& kernel, int times) {
  if (in_place_) restore(false);
  const LaunchList list = launches(kernel, times);
  const auto start = std::chrono::steady_clock::now();
  device_.submit(list, {}).wait();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() / times;
}

std::vector<HostArray> Workbench::outputs(const std::shared_ptr<const Kernel>& kernel) {
  restore(true);
  device_.submit(launches(kernel, 1), {}).wait();
  std::vector<HostArray> out;
  for (const Buffer& b : buffers_) {
    if (!b.written) continue;
    out.emplace_back(b.dtype, std::vector<int64_t>{b.count});
    device_.copy_out(out.back().bytes.data(), b.memory->address(), b.memory->bytes(), {}).wait();
  }
  return out;
}

std::string Workbench::difference(const std::vector<HostArray>& got,
                                  const std::vector<HostArray>& wanted) const {
  const double allowed = epsilon_ * (64 + 4 * std::sqrt(terms_));
  for (size_t k = 0; k < wanted.size(); ++k) {
    const HostArray &a = got[k], &b = wanted[k];
    double squares = 0;
    for (int64_t i = 0; is_float(b.dtype) && i < b.count(); ++i)
      if (const double v = b.at(i).f; std::isfinite(v)) squares += v * v;
    const double usual = std::sqrt(squares / static_cast<double>(b.count()));
    for (int64_t i = 0; i < b.count(); ++i) {
      const Scalar x = a.at(i), y = b.at(i);
      bool same = is_float(b.dtype) ? x.f == y.f || (std::isnan(x.f) && std::isnan(y.f))
                                    : x.i == y.i;
      if (!same && std::isfinite(x.f) && is_float(b.dtype))
        same = std::abs(x.f - y.f) <= allowed * std::max(std::abs(y.f), usual);
      if (!same)
        return is_float(b.dtype)
                   ? text("output ", k, " element ", i, " is ", x.f, ", plain loops give ", y.f)
                   : text("output ", k, " element ", i, " is ", x.i, ", plain loops give ", y.i);
    }
  }
  return "";
}

}  // namespace mote
