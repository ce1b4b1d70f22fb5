// Random numbers: threefry of a counter. Seed and counter are a buffer of each device; a call reads
// the counter and leaves it advanced by what it used, so that no number is baked into a graph.
#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>

#include "base/integers.h"
#include "tensor/checks.h"
#include "tensor/gather.h"
#include "tensor/recorded.h"

namespace mote {

namespace {

struct State {
  Tensor seed, counter;  // one u64 each
};
struct Generators {
  std::mutex mutex;
  uint64_t seed = 0;
  std::map<uint8_t, State> states;
};
// Never destroyed: its buffers may outlive the runtime's own statics.
Generators& generators() {
  static Generators* g = new Generators;
  return *g;
}

Tensor stored_word(uint64_t word, uint8_t device) {
  return from_bytes(&word, {}, DType::u64, device_name(device));
}

// Call with the lock held.
State& state_of(Generators& g, uint8_t device) {
  auto [it, first] = g.states.try_emplace(device);
  if (first) it->second = {stored_word(g.seed, device), stored_word(0, device)};
  return it->second;
}

// One u64 per element of the shape.
Tensor random_bits(std::span<const Dim> dims, uint8_t device) {
  if (CallRecorder::current) CallRecorder::current->draws.push_back(current_provenance());
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  State& state = state_of(g, device);
  Dim count = product(dims);
  Tensor used = make_value(prim::cast(index_node(count), DType::u64), device);
  write(state.counter, node_of(state.counter + used));
  // From the advanced counter: realizing the numbers advances it, so that no writes pile up.
  Tensor from = make_value(node_of(state.counter), device) - used;
  Tensor at = iota_tensor(count, DType::u64, device) + from;
  Tensor key = make_value(node_of(state.seed), device);
  return reshaped(elementwise(Op::Threefry, {at, key}, DType::u64), dims);
}

DType float_or_default(const Options& o) {
  DType d = o.dtype == DType::none ? DType::f32 : o.dtype;
  expect(is_float(d), "random floats have a float dtype, got ", d);
  return d;
}

// As many bits as the dtype's fraction holds, so that all values are exact and below 1.
Tensor unit_interval(const Tensor& bits, DType d) {
  static constexpr int digits[] = {4, 3, 8, 11, 24, 53};
  int n = digits[static_cast<int>(d) - static_cast<int>(DType::f8e4m3)];
  DType wide = d == DType::f64 ? d : DType::f32;
  return ((bits >> (64 - n)).to(wide) * std::ldexp(1.0, -n)).to(d);
}

// Box and Muller, from the two halves of one random word.
Tensor gaussian(const Tensor& bits, DType d) {
  DType wide = d == DType::f64 ? d : DType::f32;
  int n = d == DType::f64 ? 32 : 24;
  double unit = std::ldexp(1.0, -n);
  Tensor high = (bits >> (64 - n)).to(wide),
         low = ((bits & int64_t{0xffffffff}) >> (32 - n)).to(wide);
  Tensor radius = (((high + 1) * unit).log() * -2).sqrt();
  return (radius * (low * (unit * 2 * std::numbers::pi)).cos()).to(d);
}

struct Fans {
  double in, out;
};
Fans fans(const Sizes& shape) {
  std::vector<Dim> dims = to_dims(shape);
  expect(dims.size() >= 2, "needs a shape (out, in, kernel...), got ", dims);
  double kernel = 1;
  for (size_t i = 2; i < dims.size(); ++i) kernel *= static_cast<double>(numeric(dims[i]));
  return {static_cast<double>(numeric(dims[1])) * kernel,
          static_cast<double>(numeric(dims[0])) * kernel};
}

std::vector<Dim> checked(const Sizes& shape) {
  std::vector<Dim> dims = to_dims(shape);
  check_sizes(dims);
  return dims;
}

}  // namespace

void manual_seed(uint64_t seed) {
  Call call("manual_seed", Loc::current());
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  g.seed = seed;
  for (auto& [device, state] : g.states) {
    state.seed.assign(stored_word(seed, device));
    state.counter.assign(stored_word(0, device));
  }
}

std::vector<Tensor> random_state(const std::string& device, Loc where) {
  Call call("random_state", where);
  Generators& g = generators();
  std::lock_guard lock(g.mutex);
  State& state = state_of(g, device_from(device));
  return {state.seed, state.counter};
}

Tensor uniform(const Sizes& shape, double low, double high, const Options& o, Loc where) {
  Call call("uniform", where);
  DType d = float_or_default(o);
  expect(low <= high, "needs low <= high, got ", low, " and ", high);
  Tensor u = unit_interval(random_bits(checked(shape), device_from(o.device)), d);
  return low == 0 && high == 1 ? u : u * (high - low) + low;
}
Tensor rand(const Sizes& shape, const Options& o, Loc where) {
  Call call("rand", where);
  return uniform(shape, 0, 1, o);
}
Tensor normal(const Sizes& shape, double mean, double std, const Options& o, Loc where) {
  Call call("normal", where);
  DType d = float_or_default(o);
  expect(std >= 0, "needs std >= 0, got ", std);
  Tensor z = gaussian(random_bits(checked(shape), device_from(o.device)), d);
  return mean == 0 && std == 1 ? z : z * std + mean;
}
Tensor randn(const Sizes& shape, const Options& o, Loc where) {
  Call call("randn", where);
  return normal(shape, 0, 1, o);
}

// The top bits scaled to the range: for ranges below 2^32 no value is favoured noticeably.
Tensor randint(int64_t low, int64_t high, const Sizes& shape, const Options& o, Loc where) {
  Call call("randint", where);
  expect(low < high, "needs low < high, got ", low, " and ", high);
  auto span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  Tensor bits = random_bits(checked(shape), device_from(o.device));
  Tensor n = span <= UINT32_MAX ? ((bits >> 32) * static_cast<int64_t>(span)) >> 32
                                : bits.fmod(bits.full_like(static_cast<int64_t>(span)));
  return (n.to(DType::i64) + low).to(o.dtype == DType::none ? DType::i64 : o.dtype);
}

namespace {

// A permutation of the fields of a grid of rows x columns >= n: a Feistel network. Its rounds turn
// rows by a hash of the column, and columns by one of the row, each with a key of its own.
class GridShuffle {
 public:
  GridShuffle(int64_t n, uint8_t device)
      : columns_(static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(n))))),
        rows_(ceil_div(n, columns_)) {
    const Dim dims[] = {4 * kRounds};
    const Tensor drawn = (random_bits(dims, device) >> 32).to(DType::u32);
    keys_ = make_value(prim::contiguous(node_of(drawn)), device);
  }
  int64_t fields() const { return rows_ * columns_; }

  // Where all fields go, and some.
  Tensor all() const {
    const uint8_t device = keys_.impl()->device;
    return shuffled(iota_tensor(rows_, DType::i32, device).unsqueeze(1),
                    iota_tensor(columns_, DType::i32, device));
  }
  Tensor of(const Tensor& fields) const {
    return shuffled(fields.floor_divide(columns_), fields.remainder(columns_));
  }

 private:
  static constexpr int64_t kRounds = 4;
  int64_t columns_, rows_;
  Tensor keys_;

  Tensor shuffled(Tensor row, Tensor column) const {
    for (int64_t round = 0; round < kRounds; ++round) {
      row = turned(row, hash(column, 4 * round), rows_);
      column = turned(column, hash(row, 4 * round + 2), columns_);
    }
    return row * columns_ + column;
  }
  // Each bit of x and of two keys may change every bit of it.
  Tensor hash(const Tensor& x, int64_t key) const {
    Tensor h = x.to(DType::u32) ^ keys_.select(0, key);
    h = (h ^ (h >> 16)) * int64_t{0x7feb352d};
    h = ((h ^ (h >> 15)) + keys_.select(0, key + 1)) * int64_t{0x846ca68b};
    return h ^ (h >> 16);
  }
  // at + size * hash / 2^32, modulo size.
  static Tensor turned(const Tensor& at, const Tensor& hash, int64_t size) {
    const Tensor to = at + (hash.to(DType::u64) * size >> 32).to(DType::i32);
    return mote::where(to >= size, to - size, to);
  }
};

// Short ones sort random keys. Long ones shuffle a grid with a few fields more than n. A number
// that falls on one of these is shuffled again until it is below n. The extra fields are at most a
// row, so a small table holds where each of them ends, found in steps that double.
Tensor permutation(int64_t n, uint8_t device) {
  constexpr int64_t kShort = 1024, kLong = int64_t{1} << 30;
  const Dim dims[] = {n};
  if (n <= kShort || n > kLong) return random_bits(dims, device).argsort();
  const GridShuffle shuffle(n, device);
  auto stored = [&](const Tensor& t) { return make_value(prim::contiguous(node_of(t)), device); };
  const Tensor all = stored(shuffle.all()).flatten().narrow(0, 0, n);
  const int64_t rest = shuffle.fields() - n;
  if (rest == 0) return all;
  Tensor next = stored(shuffle.of(iota_tensor(rest, DType::i32, device) + n));
  auto past_rest = [&](const Tensor& at) {
    return mote::where(at >= n, pick_last(next, (at - n).clamp_min(0).unsqueeze(-1)), at);
  };
  for (int64_t step = 1; step < rest + 1; step *= 2) next = stored(past_rest(next));
  return past_rest(all);
}

}  // namespace

Tensor randperm(int64_t n, const Options& o, Loc where) {
  Call call("randperm", where);
  expect(n >= 0, "needs a size >= 0, got ", n);
  return permutation(n, device_from(o.device)).to(o.dtype == DType::none ? DType::i64 : o.dtype);
}

Tensor Tensor::rand_like(DType d, Loc where) const {
  Call call("rand_like", where);
  return rand(sizes(), {d == DType::none ? dtype() : d, device()});
}
Tensor Tensor::randn_like(DType d, Loc where) const {
  Call call("randn_like", where);
  return randn(sizes(), {d == DType::none ? dtype() : d, device()});
}
Tensor& Tensor::uniform_(double low, double high, Loc where) {
  Call call("uniform_", where);
  return assign(uniform(sizes(), low, high, {dtype(), device()}));
}
Tensor& Tensor::normal_(double mean, double std, Loc where) {
  Call call("normal_", where);
  return assign(normal(sizes(), mean, std, {dtype(), device()}));
}

Tensor Tensor::bernoulli(Loc where) const {
  Call call("bernoulli", where);
  expect(is_floating_point(), "needs float probabilities, got ", dtype());
  return (rand_like() < *this).to(dtype());
}

Tensor Tensor::dropout(double p, bool training, Loc where) const {
  Call call("dropout", where);
  expect(p >= 0 && p <= 1, "needs a probability between 0 and 1, got ", p);
  if (!training || p == 0) return unchanged(*this);
  expect(is_floating_point(), "needs a float tensor, got ", dtype());
  if (p == 1) return *this * 0;
  Tensor kept = rand(sizes(), {DType::f32, device()}) >= p;
  return mote::where(kept, *this * (1 / (1 - p)), 0);
}

// With CHECK=2: can so many be drawn?
static Tensor checked_weights(const Tensor& weights, const Tensor& possible, int64_t needed) {
  const Condition sound = {Must::Weights, 0}, enough = {Must::Choices, needed};
  Tensor out = weights, bad = (weights < 0) | weights.isfinite().logical_not();
  if (!is_settled(bad, sound)) out = with_check(out, bad, sound);
  Tensor count = possible.to_long().sum(-1);
  return is_settled(count, enough) ? out : with_check(out, count, enough);
}

// With replacement: where a uniform number falls among the summed weights. Without: the largest of
// weight / exponential, which draws in proportion and never twice.
Tensor Tensor::multinomial(int64_t num_samples, bool replacement, Loc where) const {
  Call call("multinomial", where);
  expect(dim() == 1 || dim() == 2, "needs weights (classes) or (rows, classes), got shape ", *this);
  expect(is_floating_point(), "needs float weights, got ", dtype());
  expect(num_samples > 0, "needs a number of samples > 0, got ", num_samples);
  expect(replacement || num_samples <= size(-1), "cannot draw ", num_samples, " of ", size(-1),
         " classes without replacement");
  Tensor weights = to(accumulator(dtype())), possible = weights > 0;
  if (flag(Flag::CHECK) >= 2)
    weights = checked_weights(weights, possible, replacement ? 1 : num_samples);
  if (!replacement) {
    Tensor waiting = -(1 - weights.rand_like()).log();
    Tensor never = -1 - iota_tensor(size(-1), weights.dtype(), impl()->device);
    return mote::where(possible, weights / waiting, never).topk(num_samples, -1).indices;
  }
  Tensor sums = mote::where(possible, weights, 0).cumsum(-1).unsqueeze(-2);
  std::vector<int64_t> drawn = shape();
  drawn.back() = num_samples;
  Tensor at =
      rand(drawn, {weights.dtype(), device()}).unsqueeze(-1) * sums.narrow(-1, size(-1) - 1, 1);
  return (sums <= at).sum(-1).clamp_max(size(-1) - 1);
}

Tensor kaiming_uniform(const Sizes& shape, double a, const Options& o, Loc where) {
  Call call("kaiming_uniform", where);
  double bound = std::sqrt(2 / (1 + a * a)) * std::sqrt(3 / fans(shape).in);
  return uniform(shape, -bound, bound, o);
}
Tensor kaiming_normal(const Sizes& shape, double a, const Options& o, Loc where) {
  Call call("kaiming_normal", where);
  return normal(shape, 0, std::sqrt(2 / (1 + a * a) / fans(shape).in), o);
}
Tensor glorot_uniform(const Sizes& shape, double gain, const Options& o, Loc where) {
  Call call("glorot_uniform", where);
  Fans f = fans(shape);
  double bound = gain * std::sqrt(6 / (f.in + f.out));
  return uniform(shape, -bound, bound, o);
}
Tensor glorot_normal(const Sizes& shape, double gain, const Options& o, Loc where) {
  Call call("glorot_normal", where);
  Fans f = fans(shape);
  return normal(shape, 0, gain * std::sqrt(2 / (f.in + f.out)), o);
}

}  // namespace mote
