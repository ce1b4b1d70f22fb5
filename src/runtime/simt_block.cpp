#include "runtime/simt_block.h"

#include <algorithm>
#include <map>
#include <memory>

#include "base/error.h"
#include "runtime/host_array.h"

namespace mote {

namespace {

constexpr int kNobody = -1, kSeveral = -2, kBox = -3;

// A worker between two of its arrivals at counted barriers.
struct Stamp {
  int worker, segment;
};

// Who touched one place of memory last, and when: barriers part the times of a block.
struct Touched {
  int writer = kNobody, reader = kNobody;
  int written = -1, read = -1;
  bool on_its_way = false;
  int held = 0;                // by products that are pending
  int segment = 0;             // of the writer, or which box it was
  std::vector<Stamp> readers;  // of the time `read`, where there are counted barriers
};

int64_t product(std::span<const int64_t> extents) {
  int64_t n = 1;
  for (int64_t e : extents) n *= e;
  return n;
}

// The positions of number n, the last dimension moving fastest.
void unravel(int64_t n, std::span<const int64_t> extents, Machine::Positions* out) {
  for (size_t d = extents.size(); d-- > 0; n /= extents[d])
    out[d] = {n % extents[d], n % extents[d] + 1};
}

class Grid : Machine::Watch {
 public:
  Grid(const SimtKernel& kernel, std::span<void* const> buffers, std::span<const int64_t> vars)
      : kernel_(kernel), code_(kernel.code), touched_(buffers.size()) {
    const auto count = static_cast<size_t>(product(kernel.block));
    for (size_t i = 0; i < count; ++i)
      workers_.push_back(std::make_unique<Worker>(*this, buffers, static_cast<int>(i)));
    for (const Scratch& s : code_.scratch) add_memory(s);
    for (auto& w : workers_) w->machine.set_vars(vars);
    for (const Instruction& in : code_.list) {
      if (in.kind == Instruction::Store) touched(in.param).resize(static_cast<size_t>(in.size));
      if (in.kind == Instruction::Box)
        touched(in.staged[0]).resize(static_cast<size_t>(in.limits[0]));
      has_counted_ |= in.kind == Instruction::Await;
    }
  }

  void run() {
    const int64_t blocks = product(kernel_.grid);
    for (block_ = 0; block_ < blocks; ++block_) run_block();
  }

 private:
  struct Copy {
    const Instruction* in;
    int64_t element;
    Scalar value;
    int64_t waits;  // of the worker when it began
  };
  struct Held {
    int param;
    int64_t element, waits;
  };
  struct Flight {
    int param, box;
    int64_t element, phase;
    Scalar value;
  };
  using Place = std::pair<int, int64_t>;  // of a Param
  struct Counted {
    int64_t arrivals = 0;
    // By time of completion and worker: so many of its segments are over.
    std::vector<std::vector<int>> seen;
    std::vector<Flight> flights;
  };
  struct Worker {
    int number, segment = 0;
    std::vector<int> seen;
    std::vector<bool> boxes;  // whose arrival it has awaited
    int64_t waits = 0, product_waits = 0;
    std::vector<int64_t> pending;  // by register: 1 + Waits for products before; 0: it is there
    std::vector<Held> held;
    std::vector<Copy> copies;
    std::vector<void*> memories;
    std::vector<std::vector<std::byte>> own;
    std::vector<Machine::Positions> positions;
    Machine machine;

    Worker(Grid& g, std::span<void* const> buffers, int n)
        : number(n),
          memories(buffers.begin(), buffers.end()),
          positions(g.kernel_.grid.size() + g.kernel_.block.size()),
          machine{g.code_, {}, positions, &g} {
      size_t most = memories.size();
      for (const Scratch& s : g.code_.scratch)
        most = std::max(most, static_cast<size_t>(s.slot) + 1);
      memories.resize(most);
      machine.buffers = memories;
    }
  };

  const SimtKernel& kernel_;
  const Instructions& code_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::vector<std::byte>> shared_;
  std::vector<std::vector<Touched>> touched_;  // by Param slot; empty: nobody writes there
  std::vector<bool> is_shared_ = std::vector<bool>(touched_.size());
  std::map<Place, Counted> counted_;
  bool has_counted_ = false;
  int boxes_ = 0;  // issued
  Worker* running_ = nullptr;
  int64_t block_ = 0;
  int time_ = 0;

  std::vector<Touched>& touched(int param) { return touched_[static_cast<size_t>(param)]; }

  void add_memory(const Scratch& s) {
    const auto slot = static_cast<size_t>(s.slot), bytes = static_cast<size_t>(s.bytes);
    touched_.resize(std::max(touched_.size(), slot + 1));
    is_shared_.resize(touched_.size());
    is_shared_[slot] = s.space == Space::Shared;
    if (is_shared_[slot]) shared_.emplace_back(bytes);
    for (auto& w : workers_)
      w->memories[slot] = (is_shared_[slot] ? shared_.back() : w->own.emplace_back(bytes)).data();
  }

  void run_block() {
    counted_.clear();
    boxes_ = 0;
    for (size_t slot = 0; slot < touched_.size(); ++slot)
      if (is_shared_[slot]) std::ranges::fill(touched_[slot], Touched{});
    for (auto& w : workers_) {
      unravel(block_, kernel_.grid, w->positions.data());
      unravel(w->number, kernel_.block, w->positions.data() + kernel_.grid.size());
      w->machine.at = 0, w->waits = 0, w->product_waits = 0;
      w->pending.clear(), w->held.clear();
      w->segment = 0, w->seen.clear(), w->boxes.clear();
    }
    ++time_;
    do {
      for (auto& w : workers_) advance(*w);
    } while (meet());
    for (auto& w : workers_)
      if (running_ = w.get(); !w->copies.empty())
        wrong(*w->copies.front().in, "nobody waits for this copy");
  }

  // To the end, or to where it meets others.
  void advance(Worker& w) {
    running_ = &w;
    for (Machine& m = w.machine; !m.is_done();) {
      look_for_pending(code_.list[m.at]);
      if (!m.is_at_meeting())
        m.step();
      else if (const Instruction& in = code_.list[m.at]; in.kind == Instruction::Wait)
        wait(in);
      else if (in.kind == Instruction::Box)
        send_box(in);
      else if (in.kind == Instruction::Arrive)
        arrive(in);
      else if (in.kind != Instruction::Await || !await(in))
        return;
    }
  }

  const Instruction* meeting_of(const Worker& w) const {
    return w.machine.is_done() ? nullptr : &code_.list[w.machine.at];
  }

  // False: all are done.
  bool meet() {
    const Instruction* in = nullptr;
    for (auto& w : workers_)
      if (const Instruction* at = meeting_of(*w)) in = at, running_ = w.get();
    if (!in) return false;
    bool moved = false;
    for (auto& w : workers_)
      if (const Instruction* at = meeting_of(*w); at && at->kind == Instruction::Await)
        running_ = w.get(), moved |= await(*at);
    if (moved) return true;
    const int count = static_cast<int>(workers_.size());
    for (int first = 0; first < count;) {
      const Instruction* at = meeting_of(*workers_[static_cast<size_t>(first)]);
      if (at && at->kind == Instruction::Await) at = nullptr;
      const int size = std::min(at ? lanes_of(*at, first) : 1, count - first);
      const auto lanes =
          std::span(workers_).subspan(static_cast<size_t>(first), static_cast<size_t>(size));
      if (at && are_together(lanes)) do_together(*at, lanes), moved = true;
      first += size;
    }
    if (!moved && in->kind == Instruction::Await)
      wrong(*in, "nobody completes the counted barrier that it awaits");
    if (!moved) wrong(*in, text("not all workers come to this ", kind_text(*in)));
    return true;
  }

  static const char* kind_text(const Instruction& in) {
    return in.kind == Instruction::Barrier   ? "barrier"
           : in.kind == Instruction::Shuffle ? "shuffle"
                                             : "product of tiles";
  }

  const Fragment& fragment_of(const Instruction& in) const {
    if (in.size < 0 || in.size >= static_cast<int64_t>(kernel_.fragments.size()))
      wrong(in, "the target has no such product of tiles");
    return kernel_.fragments[static_cast<size_t>(in.size)];
  }

  // Of the workers from `first` on, as many as come to it together.
  int lanes_of(const Instruction& in, int first) const {
    if (in.kind == Instruction::Barrier) return static_cast<int>(workers_.size()) - first;
    const int lanes = in.kind == Instruction::Shuffle ? kernel_.warp : fragment_of(in).lanes;
    return lanes - first % lanes;
  }

  using Lanes = std::span<const std::unique_ptr<Worker>>;

  // At the same statement, in the same round of each loop.
  bool are_together(Lanes lanes) const {
    Machine& leader = lanes[0]->machine;
    const Instruction& in = code_.list[leader.at];
    if (in.kind == Instruction::Barrier && lanes.size() != workers_.size()) return false;
    return std::ranges::all_of(lanes, [&](const auto& w) {
      if (w->machine.at != leader.at || w->machine.is_done()) return false;
      return in.kind != Instruction::Barrier ||
             std::ranges::all_of(in.src, [&](const RegisterTile& o) {
               return w->machine.get(o, 0).i == leader.get(o, 0).i;
             });
    });
  }

  void do_together(const Instruction& in, Lanes lanes) {
    running_ = lanes[0].get();
    if (in.kind == Instruction::Barrier) ++time_;
    if (in.kind == Instruction::Shuffle) shuffle(in, lanes);
    if (in.kind == Instruction::Fragment) multiply(in, lanes);
    for (auto& w : lanes) ++w->machine.at;
  }

  void shuffle(const Instruction& in, Lanes lanes) {
    const size_t first = static_cast<size_t>(lanes[0]->number % kernel_.warp);
    for (auto& w : lanes) {
      running_ = w.get();
      for (int i = 0; i < in.count; ++i) {
        const int64_t from = w->machine.get(in.src[1], i).i - static_cast<int64_t>(first);
        if (from < 0 || from >= static_cast<int64_t>(lanes.size()))
          wrong(in, text("there is no lane ", from));
        w->machine.reg(in.to + i) = lanes[static_cast<size_t>(from)]->machine.get(in.src[0], i);
      }
    }
  }

  using Tile = std::vector<double>;

  // What a place of the block's memory has, for a product.
  double read_place(const Instruction& in, Lanes lanes, size_t source, int element, DType dtype) {
    const int param = in.staged[source];
    const int64_t at = lanes[0]->machine.get(in.src[source], element).i;
    for (auto& w : lanes)
      if (w->machine.get(in.src[source], element).i != at) wrong(in, "lanes name different places");
    if (at < 0 || at >= static_cast<int64_t>(touched(param).size()))
      wrong(in, text("reads element ", at, " of argument ", param));
    touch(in, param, at, false);
    if (fragment_of(in).pending) {
      ++touched(param)[static_cast<size_t>(at)].held;
      running_->held.push_back({param, at, running_->product_waits});
    }
    auto* memory = static_cast<std::byte*>(running_->memories[static_cast<size_t>(param)]);
    return load_scalar(dtype, memory + at * size_of(dtype)).f;
  }

  // The tile of one of several products, put together from what lanes hold or memory has.
  Tile gathered(const Instruction& in, Lanes lanes, size_t source, int product, int columns) {
    const Fragment& f = fragment_of(in);
    const Fragment::Layout& layout = source == 0 ? f.c : source == 1 ? f.a : f.b;
    const int rows = source == 2 ? f.depth : f.rows;
    const bool staged = in.staged[source] >= 0;
    const int held = staged ? rows * columns : layout.registers();
    if (static_cast<int>(in.src[source].offsets.size()) != held * in.count)
      wrong(in, text("operand ", source, " has not ", held, " registers or places"));
    Tile tile(static_cast<size_t>(rows * columns));
    if (staged) {
      for (int i = 0; i < held; ++i)
        tile[static_cast<size_t>(i)] = read_place(in, lanes, source, product * held + i, f.factor);
      return tile;
    }
    for (int lane = 0; lane < f.lanes; ++lane)
      for (int r = 0; r < held; ++r) {
        const Fragment::Step at = layout.at(lane, r);
        tile[static_cast<size_t>(at.row * columns + at.column)] =
            lanes[static_cast<size_t>(lane)]->machine.get(in.src[source], product * held + r).f;
      }
    return tile;
  }

  void multiply(const Instruction& in, Lanes lanes) {
    const Fragment& f = fragment_of(in);
    if (static_cast<int>(lanes.size()) != f.lanes) wrong(in, "too few lanes");
    if ((in.staged[1] >= 0) != f.a_staged || (in.staged[2] >= 0) != f.b_staged)
      wrong(in, "factors are not where the target reads them");
    for (int product = 0; product < in.count; ++product) multiply_one(in, f, lanes, product);
    if (!f.pending) return;
    for (auto& w : lanes) {
      w->pending.resize(w->machine.registers.size());
      std::fill_n(w->pending.begin() + in.to, in.count * f.c.registers(), w->product_waits + 1);
    }
  }

  void multiply_one(const Instruction& in, const Fragment& f, Lanes lanes, int product) {
    const Tile c = gathered(in, lanes, 0, product, f.columns),
               a = gathered(in, lanes, 1, product, f.depth),
               b = gathered(in, lanes, 2, product, f.columns);
    for (int lane = 0; lane < f.lanes; ++lane)
      for (int r = 0; r < f.c.registers(); ++r) {
        const Fragment::Step at = f.c.at(lane, r);
        double sum = c[static_cast<size_t>(at.row * f.columns + at.column)];
        for (int k = 0; k < f.depth; ++k)
          sum += a[static_cast<size_t>(at.row * f.depth + k)] *
                 b[static_cast<size_t>(k * f.columns + at.column)];
        lanes[static_cast<size_t>(lane)]->machine.reg(in.to + product * f.c.registers() + r) =
            scalar(f.sum, sum);
      }
  }

  // A result on its way may be moved, and added to. Nothing else may read it.
  void look_for_pending(const Instruction& in) {
    std::vector<int64_t>& pending = running_->pending;
    if (pending.empty()) return;
    for (size_t s = 0; s < in.src.size(); ++s)
      for (size_t e = 0; e < in.src[s].offsets.size(); ++e) {
        const int64_t since = pending[static_cast<size_t>(in.src[s].base + in.src[s].offsets[e])];
        if (in.kind == Instruction::Move && s == 0)
          pending[static_cast<size_t>(in.to + in.places[e])] = since;
        else if (since && !(in.kind == Instruction::Fragment && s == 0))
          wrong(in, "reads a result that is pending");
      }
  }

  void wait_for_products(Worker& w, int64_t later) {
    ++w.product_waits;
    for (int64_t& since : w.pending)
      if (since && since - 1 + later < w.product_waits) since = 0;
    std::erase_if(w.held, [&](const Held& h) {
      const bool done = h.waits + later < w.product_waits;
      if (done) --touched(h.param)[static_cast<size_t>(h.element)].held;
      return done;
    });
  }

  // ---- counted barriers

  Counted& counted(const Instruction& in, size_t source) {
    const int64_t at = running_->machine.get(in.src[source], 0).i;
    if (at < 0 || at >= in.limits[source]) wrong(in, text("there is no counted barrier ", at));
    return counted_[{in.staged[source], at}];
  }

  static void join(std::vector<int>& seen, std::span<const int> other) {
    seen.resize(std::max(seen.size(), other.size()));
    for (size_t i = 0; i < other.size(); ++i) seen[i] = std::max(seen[i], other[i]);
  }

  void arrive(const Instruction& in) {
    Worker& w = *running_;
    ++w.machine.at;
    if (!w.machine.get(in.src[1], 0).i) return;
    Counted& c = counted(in, 0);
    const auto time = static_cast<size_t>(c.arrivals++ / in.size);
    w.seen.resize(workers_.size());
    w.seen[static_cast<size_t>(w.number)] = ++w.segment;
    c.seen.resize(std::max(c.seen.size(), time + 1));
    join(c.seen[time], w.seen);
  }

  // False: it has not been completed so often.
  bool await(const Instruction& in) {
    Worker& w = *running_;
    Counted& c = counted(in, 0);
    const int64_t times = w.machine.get(in.src[1], 0).i;
    if (c.arrivals / in.size < times) return false;
    ++w.machine.at;
    for (size_t time = 0; time < std::min(c.seen.size(), static_cast<size_t>(times)); ++time)
      join(w.seen, c.seen[time]);
    w.boxes.resize(static_cast<size_t>(boxes_));
    for (const Flight& f : c.flights)
      if (f.phase <= times) land(w, f);
    return true;
  }

  void land(Worker& w, const Flight& f) {
    w.boxes[static_cast<size_t>(f.box)] = true;
    Touched& t = touched(f.param)[static_cast<size_t>(f.element)];
    if (!t.on_its_way || t.segment != f.box) return;  // somebody else has seen it come
    auto* memory = static_cast<std::byte*>(w.memories[static_cast<size_t>(f.param)]);
    store_scalar(memory + f.element * size_of(f.value.dtype), f.value);
    t.on_its_way = false;
    t.writer = kBox, t.written = time_;
  }

  void send_box(const Instruction& in) {
    Machine& m = running_->machine;
    ++m.at;
    if (!m.get(in.src[3], 0).i) return;
    for (int extent : in.places)
      if (extent > kernel_.box)
        wrong(in, text("a box of ", extent, " positions, where ", kernel_.box, " is the most"));
    Counted& c = counted(in, 2);
    const int64_t phase = c.arrivals++ / in.size + 1;
    for (int e = 0; e < in.count; ++e) {
      const int64_t to = m.get(in.src[0], e).i, from = m.get(in.src[1], e).i;
      const bool filled = m.get(in.src[4], e).i;
      if (to < 0 || to >= in.limits[0] || (filled && (from < 0 || from >= in.limits[1])))
        wrong(in, text("a box from element ", from, " to element ", to, " of argument ",
                       in.staged[0], ", which has ", in.limits[0]));
      touch(in, in.staged[0], to, true);
      Scalar value = scalar(in.dtype, int64_t{0});
      if (filled) {
        touch(in, in.staged[1], from, false);
        auto* memory = static_cast<std::byte*>(m.buffers[static_cast<size_t>(in.staged[1])]);
        value = load_scalar(in.dtype, memory + from * size_of(in.dtype));
      }
      Touched& t = touched(in.staged[0])[static_cast<size_t>(to)];
      t.on_its_way = true, t.segment = boxes_;
      c.flights.push_back({in.staged[0], boxes_, to, phase, value});
    }
    ++boxes_;
  }

  // Whether the running worker may count on it that this is over.
  bool knows(Stamp s) const {
    const Worker& w = *running_;
    if (s.worker == kBox) return w.boxes.size() > size_t(s.segment) && w.boxes[size_t(s.segment)];
    return s.worker == w.number ||
           (w.seen.size() > size_t(s.worker) && w.seen[size_t(s.worker)] > s.segment);
  }

  bool are_known(std::span<const Stamp> readers) const {
    return std::ranges::all_of(readers, [&](Stamp s) { return knows(s); });
  }

  // ---- copies on their way

  void stored_later(const Instruction& in, int64_t element, const Scalar& value) override {
    if (!is_shared_[static_cast<size_t>(in.param)])
      wrong(in, "an asynchronous store to memory that is not the block's");
    if (element < 0 || element >= in.size)
      wrong(in,
            text("writes element ", element, " of argument ", in.param, ", which has ", in.size));
    accessed(in, element);
    touched(in.param)[static_cast<size_t>(element)].on_its_way = true;
    running_->copies.push_back({&in, element, value, running_->waits});
  }

  void wait(const Instruction& in) {
    Worker& w = *running_;
    ++w.machine.at;
    if (in.products) return wait_for_products(w, in.size);
    ++w.waits;
    std::erase_if(w.copies, [&](const Copy& c) {
      if (c.waits + in.size >= w.waits) return false;
      auto* memory = static_cast<std::byte*>(w.memories[static_cast<size_t>(c.in->param)]);
      store_scalar(memory + c.element * size_of(c.in->dtype), c.value);
      Touched& t = touched(c.in->param)[static_cast<size_t>(c.element)];
      t = {.writer = w.number, .written = time_};
      return true;
    });
  }

  [[noreturn]] void wrong(const Instruction& in, std::string_view what) const {
    fail(ErrorKind::Internal,
         text("internal error: kernel ", code_.name, ", statement ", in.statement, ", block ",
              block_, ", worker ", running_->number, ": ", what));
  }

  bool is_own(int slot) const {
    return !running_->own.empty() && !is_shared_[static_cast<size_t>(slot)] &&
           std::ranges::any_of(code_.scratch, [&](const Scratch& s) { return s.slot == slot; });
  }

  void accessed(const Instruction& in, int64_t element) override {
    touch(in, in.param, element, in.kind == Instruction::Store);
  }

  void touch(const Instruction& in, int param, int64_t element, bool stores) {
    if (touched(param).empty() || is_own(param)) return;
    const bool in_block = is_shared_[static_cast<size_t>(param)];
    const int now = in_block ? time_ : 0;
    const int me = in_block ? running_->number
                            : static_cast<int>(block_ * static_cast<int64_t>(workers_.size())) +
                                  running_->number;
    Touched& t = touched(param)[static_cast<size_t>(element)];
    auto race = [&](const char* how, int with) {
      wrong(in, text(how, " element ", element, " of argument ", param,
                     in_block ? " of the block" : "", " beside worker ", with));
    };
    if (t.on_its_way)
      wrong(in, text(stores ? "writes" : "reads", " element ", element, " of argument ", param,
                     " of the block, to which a copy is on its way"));
    const bool counts = in_block && has_counted_;
    if (t.writer != kNobody && t.written == now && t.writer != me &&
        !(counts && knows({t.writer, t.segment})))
      race(stores ? "a race: writes" : "a race: reads", t.writer);
    if (!stores && in_block && t.writer == kNobody)
      wrong(in, text("reads element ", element, " of argument ", param,
                     " of the block, where nobody has written"));
    if (stores && t.held)
      wrong(in, text("writes element ", element, " of argument ", param,
                     " of the block, which a product reads that is pending"));
    if (stores && t.reader != kNobody && t.read == now && t.reader != me &&
        !(counts && are_known(t.readers)))
      race("a race: writes what is read,", t.reader);
    if (stores) {
      t.writer = me, t.written = now, t.segment = running_->segment;
    } else {
      t.reader = t.reader == kNobody || t.read != now || t.reader == me ? me : kSeveral;
      if (t.read != now) t.readers.clear();
      if (counts) t.readers.push_back({me, running_->segment});
      t.read = now;
    }
  }
};

}  // namespace

void run_blocks(const SimtKernel& kernel, std::span<void* const> buffers,
                std::span<const int64_t> vars) {
  Grid(kernel, buffers, vars).run();
}

}  // namespace mote
