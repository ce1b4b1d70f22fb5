#include "engine/checks.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>

#include "base/error.h"
#include "base/fork.h"
#include "base/lifetime.h"
#include "engine/jit_record.h"
#include "engine/plan.h"
#include "ir/provenance.h"
#include "runtime/device.h"

namespace mote {

// ---- in host memory

namespace {

// They show each element of what is below: once, again, or in another place.
constexpr OpSet kArrange = {Op::Reshape, Op::Permute, Op::Expand, Op::Flip};

bool is_whole_number(DType d) { return is_int(d) || d == DType::boolean; }

// The same integers, as far as a cast lets them be.
bool is_passed(UOp n) {
  if (n->is(Op::Cast)) return is_whole_number(n->dtype) && is_whole_number(n->src(0)->dtype);
  return OpSet{Op::Copy, Op::Contiguous, Op::Detach, Op::Check}.has(n->op);
}

template <class F>
auto with_type(DType d, F f) {
  switch (d) {
    case DType::boolean:
    case DType::u8: return f(uint8_t{});
    case DType::i8: return f(int8_t{});
    case DType::i16: return f(int16_t{});
    case DType::u16: return f(uint16_t{});
    case DType::i32: return f(int32_t{});
    case DType::u32: return f(uint32_t{});
    default: return f(int64_t{});
  }
}

template <class T>
int64_t load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return static_cast<int64_t>(v);
}

template <class T>
bool all_allowed(const std::byte* p, int64_t count, int64_t step, Allowed allows) {
  bool all = true;
  for (int64_t i = 0; i < count; ++i, p += step) all &= allows(load<T>(p));
  return all;
}

// Numbers, or values of bound variables.
std::optional<int64_t> size_in(const Dim& d, bool numeric) {
  if (d.is_symbolic() && numeric) return {};
  return value_of(d);
}

}  // namespace

std::optional<HostCheck> HostCheck::of(UOp values, const Condition& c, bool numeric) {
  HostCheck out;
  std::optional<int64_t> n = size_in(c.n, numeric);
  if (!n) return {};
  out.must_ = c.must, out.n_ = *n, out.except_ = c.except;
  out.dtype_ = values->dtype;
  out.provenance_ = current_provenance();
  std::vector<UOp> moves;
  UOp at = values;
  for (; !at->is(Op::Buffer) && !at->realized.load(std::memory_order_acquire); at = at->src(0)) {
    if (has(at->op, Movement)) {
      // What only arranges elements, above all that chooses some, changes nothing for a check, but
      // for how many there are.
      const bool repeats = at->is(Op::Expand) && c.must == Must::Count;
      if (!moves.empty() || !kArrange.has(at->op) || repeats) moves.push_back(at);
    } else if (!is_passed(at)) {
      return {};
    } else if (at->is(Op::Cast)) {
      out.casts_.insert(out.casts_.begin(), at->dtype);
    }
  }
  UOp buffer = at->realized.load() ? tensor_graph::realized_in(at) : at;
  out.storage_ = buffer->arg.storage;
  if (!is_whole_number(out.storage_->dtype)) return {};
  const std::vector<int64_t> strides = row_major_strides(at->shape->dims);
  for (size_t i = 0; i < strides.size(); ++i) {
    std::optional<int64_t> size = size_in(at->shape->dims[i], numeric);
    if (!size) return {};
    out.axes_.push_back({*size, strides[i]});
  }
  for (size_t i = moves.size(); i-- > 0;)
    if (!out.apply(moves[i], numeric)) return {};
  return out;
}

// False where the result is no regular grid of places.
bool HostCheck::apply(UOp move, bool numeric) {
  std::vector<int64_t> list;
  if (move->is(Op::Reshape) || move->is(Op::Expand) || move->is(Op::Shrink)) {
    for (const Dim& d : list_dims(move)) {
      std::optional<int64_t> size = size_in(d, numeric);
      if (!size) return false;
      list.push_back(*size);
    }
  } else {
    list = move->ints();
  }
  switch (move->op) {
    case Op::Reshape: {
      int64_t count = 1;
      for (size_t i = axes_.size(); i-- > 0; count *= axes_[i].size)
        if (axes_[i].size != 1 && axes_[i].stride != count) return false;
      axes_.assign(list.size(), {});
      int64_t stride = 1;
      for (size_t i = list.size(); i-- > 0; stride *= list[i]) axes_[i] = {list[i], stride};
      return true;
    }
    case Op::Permute: {
      std::vector<Axis> before = std::exchange(axes_, {});
      for (int64_t axis : list) axes_.push_back(before[static_cast<size_t>(axis)]);
      return true;
    }
    case Op::Expand:
      axes_.resize(list.size(), {1, 0});
      for (size_t i = 0; i < list.size(); ++i)
        if (axes_[i].size != list[i]) axes_[i] = {list[i], 0};
      return true;
    case Op::Shrink:
      for (size_t i = 0; i < axes_.size(); ++i) {
        first_ += list[2 * i] * axes_[i].stride;
        axes_[i].size = list[2 * i + 1] - list[2 * i];
      }
      return true;
    case Op::Flip:
      for (int64_t axis : list) {
        Axis& a = axes_[static_cast<size_t>(axis)];
        first_ += (a.size - 1) * a.stride;
        a.stride = -a.stride;
      }
      return true;
    case Op::Window: {
      Axis& a = axes_[static_cast<size_t>(list[0])];
      const Axis inside = {list[1], a.stride * list[3]};
      a = {(a.size - (list[1] - 1) * list[3] - 1) / list[2] + 1, a.stride * list[2]};
      axes_.push_back(inside);
      return true;
    }
    default: return false;
  }
}

bool HostCheck::can_read(Storage& storage) {
  DeviceBuffer& b = device_buffer(storage);
  Device& d = b.device_ref();
  // A file may have become shorter: only copies, which look at that, read it.
  if (!b.allocated() || !d.on_host() || !d.holds_data() || !d.computes()) return false;
  return std::ranges::all_of(b.memory->tokens(false), &Token::succeeded);
}

int64_t HostCheck::converted(int64_t v) const {
  for (DType d : casts_) v = d == DType::boolean ? v != 0 : wrap_to(d, v);
  return v;
}

// One step for every run of places in a row, or with equal distances.
template <class F>
void HostCheck::for_each_run(F f) const {
  if (std::ranges::count(axes_, 0, &Axis::size)) return;
  std::vector<Axis> axes = axes_;
  // What is shown again is looked at once, unless it counts.
  if (must_ != Must::Count)
    std::erase_if(axes, [](const Axis& a) { return a.stride == 0; });
  axes = merged(axes);
  const Axis inner = axes.empty() ? Axis{1, 1} : axes.back();
  if (!axes.empty()) axes.pop_back();
  std::vector<int64_t> at(axes.size(), 0);
  for (int64_t place = first_;;) {
    f(place, inner);
    size_t i = axes.size();
    for (; i-- > 0; at[i] = 0, place -= axes[i].stride * axes[i].size) {
      place += axes[i].stride;
      if (++at[i] < axes[i].size) break;
    }
    if (i == SIZE_MAX) return;
  }
}

std::optional<int64_t> HostCheck::largest_violation(const std::byte* data, DType dtype) const {
  const Allowed allows = allowed(must_, dtype_, n_);
  const bool plain = casts_.empty() && must_ != Must::Count;
  std::optional<int64_t> worst;
  int64_t trues = 0;
  with_type(dtype, [&]<class T>(T) {
    for_each_run([&](int64_t place, Axis run) {
      const std::byte* p = data + place * static_cast<int64_t>(sizeof(T));
      const int64_t step = run.stride * static_cast<int64_t>(sizeof(T));
      if (plain && all_allowed<T>(p, run.size, step, allows)) return;
      for (int64_t i = 0; i < run.size; ++i, p += step) {
        const int64_t v = converted(load<T>(p));
        trues += v != 0;
        if (must_ != Must::Count && !allows(v) && v != except_)
          worst = std::max(worst.value_or(v), v);
      }
    });
  });
  if (must_ == Must::Count && trues != n_) worst = trues;
  return worst;
}

std::string HostCheck::complaint(Storage& storage) const {
  const std::byte* data = host_address(device_buffer(storage).memory->address());
  std::optional<int64_t> worst = largest_violation(data, storage.dtype);
  return worst ? violation(must_, dtype_, n_, *worst) : "";
}

// The function of a jit is looked at as it will be replayed: what it makes or writes itself is not
// known before it runs, and sizes may be others. In each of its calls: all run the same kernels.
Seen look_in_host_memory(UOp values, uint8_t device, const Condition& c) {
  if (!mote::device(device).holds_data()) return Seen::Never;
  Recorder* recorder = Recorder::current();
  std::optional<HostCheck> check = HostCheck::of(values, c, recorder != nullptr);
  if (!check || !HostCheck::can_read(check->storage())) return Seen::Later;
  if (recorder && recorder->changes(check->storage())) return Seen::Later;
  const std::string wrong = check->complaint(check->storage());
  expect(wrong.empty(), wrong);
  if (Recorder::capturing()) recorder->record(std::move(*check));
  return Seen::Good;
}

void record_part(const AxisPart& part) {
  if (Recorder* r = Recorder::capturing())
    r->record(SymbolicPart{index_node(part.begin), index_node(part.length), index_node(part.size),
                           part.is_reshape, current_provenance()});
}

// ---- by kernels

UOp GraphChecks::stand_in(UOp n) {
  if (!n->is(Op::Check)) return n;
  if (flag(Flag::CHECK) && known_.insert(n.get()).second) met_.emplace_back(n);
  return n->src(0);
}

std::vector<UOp> GraphChecks::further_effects() {
  std::vector<UOp> effects;
  for (const Ref& check : std::exchange(met_, {})) {
    ProvenanceScope from(check->provenance);
    Ref found = largest_violation(check);
    Ref buffer = prim::buffer(check->device ? check->device : kDefaultDevice, DType::i64, 1);
    Ref effect = prim::assign(fit(buffer, found->shape->dims), found);
    made_.push_back({
        {must_of(check), check->src(1)->dtype, Ref(check->src(2)), check->provenance},
        effect,
        buffer
    });
    effects.push_back(effect);
  }
  return effects;
}

namespace {

struct Watched {
  StorageRef storage;
  DeviceCheck check;
};
using WatchedList = std::vector<Watched>;

// Checks of threads that have ended.
struct LeftOver {
  std::mutex mutex;
  WatchedList list;
};
LeftOver& left_over() {
  static auto* l = new LeftOver;
  return *l;
}

// A thread gets the errors of what it submitted, and no other thread does. If it ends before it
// asks, whoever reads a value next gets them: no error is lost.
struct OwnWatched {
  WatchedList list;
  ~OwnWatched() {
    if (list.empty()) return;
    InsideLibrary inside;
    if (forked_amid_call()) {  // what it holds stays as it is
      new WatchedList(std::move(list));
      return;
    }
    std::lock_guard lock(left_over().mutex);
    std::ranges::move(list, std::back_inserter(left_over().list));
  }
};
WatchedList& watched() { return PerThread<OwnWatched>::get().list; }

// What the kernel left; nothing while it runs. One that failed has an error of its own.
std::optional<int64_t> result_in(Storage& storage, bool wait) {
  DeviceBuffer& b = device_buffer(storage);
  for (const Token& t : b.memory->tokens(false)) {
    if (!wait && !t.done()) return {};
    t.wait_quietly();
    if (!t.succeeded()) return kNoViolation;
  }
  int64_t found = kNoViolation;
  Device& d = b.device_ref();
  if (d.on_host())
    std::memcpy(&found, host_address(b.memory->address()), sizeof found);
  else
    d.copy_out(&found, b.memory->address(), sizeof found, {}).wait();
  return found;
}

}  // namespace

void watch(Storage& storage, const DeviceCheck& check) {
  if (device_buffer(storage).device_ref().holds_data())
    watched().push_back({StorageRef(storage), check});
}

void raise_violations(bool wait) {
  if (wait) {
    std::lock_guard lock(left_over().mutex);
    std::ranges::move(std::exchange(left_over().list, {}), std::back_inserter(watched()));
  }
  std::optional<DeviceCheck> broken;
  int64_t largest = kNoViolation;
  std::erase_if(watched(), [&](const Watched& one) {
    std::optional<int64_t> found = result_in(*one.storage, wait);
    if (found && *found != kNoViolation && !broken) broken = one.check, largest = *found;
    return found.has_value();
  });
  if (broken) raise_violation(*broken, largest);
}

void fail_of(uint32_t id, const std::string& what) {
  const std::string at = place(id);
  const bool known = at.empty() || at == place(current_provenance());  // the error ends with it
  fail(ErrorKind::User,
       text("[", provenance(id).method, "] ", what, known ? "" : ", called at ", known ? "" : at));
}

void raise_violation(const DeviceCheck& check, int64_t largest) {
  if (largest == kNoViolation) return;
  const int64_t n = value_of(Dim(UOp(check.n))).value_or(check.n->hi);
  fail_of(check.provenance, violation(check.must, check.dtype, n, largest));
}

}  // namespace mote
