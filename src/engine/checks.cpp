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

// The highest bit is set if one of them lies beyond the bounds: then one of the differences has it,
// also where they wrap. Without a comparison in the loop neighbours go through vectors on any
// machine.
template <class T>
[[gnu::always_inline]] inline uint64_t outside(const std::byte* p, int64_t count, int64_t step,
                                               uint64_t first, uint64_t last) {
  constexpr int64_t kAtOnce = 16;
  uint64_t found[kAtOnce] = {};
  auto look = [&](int64_t i, int64_t apart, int64_t k) __attribute__((always_inline)) {
    const auto v = static_cast<uint64_t>(load<T>(p + (i + k) * apart));
    found[k] |= (v - first) | (last - v);
  };
  int64_t i = 0;
  for (; step == sizeof(T) && i + kAtOnce <= count; i += kAtOnce)
    for (int64_t k = 0; k < kAtOnce; ++k) look(i, sizeof(T), k);
  for (; i < count; ++i) look(i, step, 0);
  uint64_t all = 0;
  for (uint64_t f : found) all |= f;
  return all;
}

template <class T>
uint64_t outside_anywhere(const std::byte* p, int64_t count, int64_t step, uint64_t first,
                          uint64_t last) {
  return outside<T>(p, count, step, first, last);
}

#if defined(__x86_64__)
template <class T>
[[gnu::target("avx512f,avx512bw,prefer-vector-width=512"), gnu::optimize("O3")]] uint64_t
outside_wide(const std::byte* p, int64_t count, int64_t step, uint64_t first, uint64_t last) {
  return outside<T>(p, count, step, first, last);
}
#endif

// False may mean that some have to be looked at closely.
template <class T>
bool all_allowed(const std::byte* p, int64_t count, int64_t step, Allowed allows) {
  if (allows.outside) return false;
  const auto first = static_cast<uint64_t>(allows.lo), last = static_cast<uint64_t>(allows.hi);
  auto look = outside_anywhere<T>;
#if defined(__x86_64__)
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  if (wide) look = outside_wide<T>;
#endif
  return static_cast<int64_t>(look(p, count, step, first, last)) >= 0;
}

// Numbers, or values of bound variables.
std::optional<std::vector<int64_t>> sizes_in(std::span<const Dim> dims, bool numeric) {
  std::vector<int64_t> out;
  for (const Dim& d : dims) {
    const std::optional<int64_t> size = value_of(d);
    if (!size || (d.is_symbolic() && numeric)) return {};
    out.push_back(*size);
  }
  return out;
}

}  // namespace

std::optional<HostCheck> HostCheck::of(UOp values, const Condition& c, bool numeric) {
  HostCheck out;
  const auto n = sizes_in({&c.n, 1}, numeric);
  if (!n) return {};
  out.must_ = c.must, out.n_ = (*n)[0], out.except_ = c.except;
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
  std::optional<std::vector<int64_t>> sizes = sizes_in(at->shape->dims, numeric);
  if (!sizes) return {};
  out.places_ = Grid(at->shape->sizes());
  for (size_t i = 0; i < sizes->size(); ++i) out.places_.axes[i].size = (*sizes)[i];
  for (size_t i = moves.size(); i-- > 0;) {
    const bool has_sizes = OpSet{Op::Reshape, Op::Expand, Op::Shrink}.has(moves[i]->op);
    auto list = has_sizes ? sizes_in(list_dims(moves[i]), numeric) : moves[i]->ints();
    if (!list || !out.places_.move(moves[i]->op, *list)) return {};
  }
  // What is shown again is looked at once, unless it counts.
  if (c.must != Must::Count)
    std::erase_if(out.places_.axes, [](const StridedAxis& a) { return a.stride == 0 && a.size; });
  out.places_.axes = merged(out.places_.axes);
  return out;
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

std::optional<int64_t> HostCheck::largest_violation(const std::byte* data, DType dtype) const {
  const Allowed allows = allowed(must_, dtype_, n_);
  const bool plain = casts_.empty() && must_ != Must::Count;
  std::optional<int64_t> worst;
  int64_t trues = 0;
  with_type(dtype, [&]<class T>(T) {
    places_.for_rows([&](int64_t place, StridedAxis run) {
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
  if (Recorder::capturing()) recorder->host_checks.push_back(std::move(*check));
  return Seen::Good;
}

void record_part(const AxisPart& part) {
  if (Recorder* r = Recorder::capturing())
    r->parts.push_back({index_node(part.begin), index_node(part.length), index_node(part.size),
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
  const Provenance& from = provenance(id);
  fail(ErrorKind::User, text("[", from.method, "] ", what, *from.module ? ", in " : "", from.module,
                             known ? "" : ", called at ", known ? "" : at));
}

void raise_violation(const DeviceCheck& check, int64_t largest) {
  if (largest == kNoViolation) return;
  const int64_t n = value_of(Dim(UOp(check.n))).value_or(check.n->hi);
  fail_of(check.provenance, violation(check.must, check.dtype, n, largest));
}

}  // namespace mote
