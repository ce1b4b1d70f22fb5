#include "engine/search.h"

#include <mote/search.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <unordered_set>

#include "base/error.h"
#include "base/flags.h"
#include "base/hash.h"
#include "base/number.h"
#include "base/threads.h"
#include "engine/plan.h"
#include "engine/searched.h"
#include "engine/workbench.h"
#include "ir/provenance.h"
#include "optimize/cost.h"
#include "optimize/moves.h"

namespace mote {

namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Compiling may use every core, also where kernels run on fewer.
class AllCores {
 public:
  AllCores() : before_(thread_count()) { set_thread_count(usable_cores()); }
  ~AllCores() { set_thread_count(before_); }

 private:
  int before_;
};

struct State {
  std::vector<Action> actions;
  std::shared_ptr<const Kernel> kernel;
  double seconds = HUGE_VAL;
  std::vector<std::vector<Action>> next = {};  // neighbours not tried yet
  bool expanded = false;
};

// One line that is written again and again.
class Progress {
 public:
  Progress(int64_t number, int64_t of) : number_(number), of_(of) {}
  void show(const Kernel& kernel, double before, double after, bool last) const {
    const bool terminal = isatty(STDERR_FILENO);
    if (!terminal && (!last || flag(Flag::DEBUG) < 1)) return;
    std::fprintf(stderr, "%ssearch: kernel %lld/%lld %s %s → %s ms%s", terminal ? "\r\033[K" : "",
                 static_cast<long long>(number_), static_cast<long long>(of_), kernel.name.c_str(),
                 general_text(before * 1e3, 4).c_str(), general_text(after * 1e3, 4).c_str(),
                 last ? "\n" : "");
  }

 private:
  int64_t number_, of_;
};

class KernelSearch {
 public:
  KernelSearch(const Flat& flat, UOp body, Device& device, const SearchLimits& limits,
               const Progress& progress)
      : flat_(flat),
        body_(body),
        device_(device),
        limits_(limits),
        progress_(progress),
        bench_(body, device) {}

  Found run() {
    start();
    while (State* s = best_unexpanded()) {
      if (!s->expanded) s->next = reversed(neighbours(body_, s->actions, device_.target()));
      s->expanded = true;
      if (out_of_time()) break;
      expand(*s);
    }
    return winner();
  }
  int64_t tried() const { return tried_; }

 private:
  static constexpr size_t kBatch = 16, kProposals = 8;
  static constexpr double kHopeless = 1.5, kDoubtful = 1.1, kClearly = 0.98;
  static constexpr double kMoreSteps = 4;    // than the bare kernel's, stages included
  static constexpr double kSample = 300e-6;  // a sample takes at least so long
  static constexpr double kSlowStart = 2e9;  // operations a plain kernel is not tried with
  const Flat& flat_;
  UOp body_;
  Device& device_;
  const SearchLimits& limits_;
  const Progress& progress_;
  Workbench bench_;
  Clock::time_point begin_ = Clock::now();
  std::vector<State> states_;  // the best first
  std::unordered_set<uint64_t> seen_;
  State first_;
  int64_t tried_ = 0;

  bool out_of_time() const { return seconds_since(begin_) > limits_.seconds; }

  static std::vector<std::vector<Action>> reversed(std::vector<std::vector<Action>> lists) {
    std::ranges::reverse(lists);
    return lists;
  }

  void start() {
    std::vector<std::vector<Action>> others;
    for (Tuned& way : proposals(body_, device_.target(), kProposals))
      others.push_back(std::move(way.actions));
    first_.actions = std::move(others[0]);
    first_.kernel = compile_kernel(flat_, first_.actions, device_);
    ensure(first_.kernel != nullptr, "[search] the chosen list is refused");
    measure(first_);
    seen_.insert(text_hash(*first_.kernel));
    keep(first_);
    others.erase(others.begin());
    if (first_.kernel->estimate.ops < kSlowStart) others.emplace_back();
    try_all(others);
  }

  static uint64_t text_hash(const Kernel& k) { return hash_bytes(k.text.data(), k.text.size()); }

  State* best_unexpanded() {
    const size_t width = std::min(states_.size(), static_cast<size_t>(limits_.width));
    for (size_t i = 0; i < width; ++i)
      if (!states_[i].expanded || !states_[i].next.empty()) return &states_[i];
    return nullptr;
  }

  // Some neighbours; the rest waits if one of them is clearly better.
  void expand(State& from) {
    std::vector<std::vector<Action>> next = std::move(from.next);
    const std::vector<Action> name = from.actions;
    const double best = states_[0].seconds;
    while (!next.empty() && !out_of_time()) {
      const size_t n = std::min(next.size(), kBatch);
      try_all({next.rbegin(), next.rbegin() + static_cast<long>(n)});
      next.resize(next.size() - n);
      if (states_[0].seconds < best * kClearly) break;
    }
    auto it = std::ranges::find(states_, name, &State::actions);
    if (it != states_.end() && !out_of_time()) it->next = std::move(next);
  }

  void try_all(const std::vector<std::vector<Action>>& lists) {
    std::vector<State> made(lists.size());
    const FlagScopes flags;
    {
      AllCores cores;
      parallel_for(static_cast<int64_t>(lists.size()), [&](int64_t i) {
        FlagScope caller(flags);
        FlagScope quiet(Flag::DEBUG, 0), unkept(Flag::CACHE, 0);
        made[static_cast<size_t>(i)] = attempt(lists[static_cast<size_t>(i)]);
      });
    }
    for (State& s : made) {
      if (!s.kernel || !seen_.insert(text_hash(*s.kernel)).second || out_of_time()) continue;
      measure(s);
      keep(std::move(s));
    }
    progress_.show(*states_[0].kernel, first_.seconds, states_[0].seconds, false);
  }

  // Empty where nothing is left of the list, or the machine has no room for it.
  State attempt(const std::vector<Action>& list) const {
    const Target& target = device_.target();
    State out;
    {
      Arena arena;
      ArenaScope scope(arena);
      UOp body = unflatten_graph(flat_);
      Tuned tuned = accepted(body, list);
      out.actions = std::move(tuned.actions);
      if (!runs_on(tuned.body, target)) return {};
      const Spent size = cost(tuned.body, target);
      const int64_t registers = int64_t{target.vector_registers} * target.vector_bytes / 4;
      if (size.tile > 4 * registers || size.scratch_bytes > target.cache_bytes) return {};
      if (size.steps > kMoreSteps * cost(body, target).steps) return {};
    }
    try {
      out.kernel = compile_kernel(flat_, out.actions, device_);
    } catch (const Error&) { return {}; }  // a list that cannot be compiled is none
    return out;
  }

  double best_seconds() const { return states_.empty() ? HUGE_VAL : states_[0].seconds; }

  // The first run is not counted: it brings code and data near. The least of some samples, of fewer
  // where they are far from the best.
  void measure(State& s) {
    ++tried_;
    const double first = bench_.time(s.kernel, 1);
    if (first > 4 * kHopeless * best_seconds() && first > kSample) {
      s.seconds = first;
      return;
    }
    for (int sample = 0; sample < 5; ++sample) {
      s.seconds = std::min(s.seconds, one_sample(s, std::min(first, s.seconds)));
      if (s.seconds > (sample ? kDoubtful : kHopeless) * best_seconds()) return;
    }
  }

  double one_sample(const State& s, double about) {
    return bench_.time(s.kernel, std::max(1, static_cast<int>(std::ceil(kSample / about))));
  }

  void keep(State s) {
    auto at = std::ranges::upper_bound(states_, s.seconds, {}, &State::seconds);
    states_.insert(at, std::move(s));
    const size_t most = static_cast<size_t>(limits_.width) + 3;  // some more for the last round
    if (states_.size() > most) states_.resize(most);
  }

  // The best ones and the first choice in turn, by medians.
  Found winner() {
    std::vector<State> finals{first_};
    for (const State& s : states_)
      if (finals.size() < 4 && s.kernel != first_.kernel) finals.push_back(s);
    std::vector<std::vector<double>> samples(finals.size());
    for (int round = 0; round < 9; ++round)
      for (size_t i = 0; i < finals.size(); ++i)
        samples[i].push_back(one_sample(finals[i], finals[i].seconds));
    for (size_t i = 0; i < finals.size(); ++i) {
      std::ranges::sort(samples[i]);
      finals[i].seconds = samples[i][samples[i].size() / 2];
    }
    const double before = finals[0].seconds;
    std::ranges::stable_sort(finals, {}, &State::seconds);
    for (const State& s : finals) {
      const bool own = s.kernel == first_.kernel;
      if (!own && (s.seconds > kClearly * before || !is_right(s))) continue;
      const double after = own ? before : s.seconds;
      progress_.show(*s.kernel, before, after, true);
      return {to_string(s.actions), before * 1e3, after * 1e3};
    }
    progress_.show(*first_.kernel, before, before, true);
    return {to_string(first_.actions), before * 1e3, before * 1e3};
  }

  std::vector<HostArray> wanted_;  // what plain loops give

  bool is_right(const State& s) {
    if (wanted_.empty()) run_plain_loops();
    const std::string wrong = bench_.difference(bench_.outputs(s.kernel), wanted_);
    if (wrong.empty()) return true;
    std::fprintf(stderr, "search: %s with '%s' is wrong and not used: %s\n", s.kernel->name.c_str(),
                 to_string(s.actions).c_str(), wrong.c_str());
    return false;
  }

  // On all threads: that changes no result.
  void run_plain_loops() {
    std::vector<Action> threads;
    for (const Action& a : candidate_actions(body_, device_.target()))
      if (threads.empty() && a.kind == Action::Global && apply(body_, a)) threads.push_back(a);
    const std::shared_ptr<const Kernel> plain = compile_kernel(flat_, threads, device_);
    wanted_ = bench_.outputs(plain);
    if (!mostly_numbers(wanted_)) {
      bench_.use_positive_values();
      wanted_ = bench_.outputs(plain);
    }
  }

  static bool mostly_numbers(const std::vector<HostArray>& arrays) {
    int64_t odd = 0, all = 0;
    for (const HostArray& a : arrays)
      for (int64_t i = 0; is_float(a.dtype) && i < a.count(); ++i, ++all)
        odd += !std::isfinite(a.at(i).f);
    return odd * 10 <= all;
  }
};

}  // namespace

SearchCounts search_kernels(const std::vector<const Flat*>& bodies, Device& device,
                            const SearchLimits& limits) {
  SearchCounts counts;
  const std::string on = device_key(device);
  for (size_t i = 0; i < bodies.size(); ++i) {
    Arena arena;
    ArenaScope scope(arena);
    UOp body = unflatten_graph(*bodies[i]);
    const std::string key = kernel_key(body);
    if (find_searched(key, on) || !Workbench::cannot_try(body, device).empty()) continue;
    const Progress progress(static_cast<int64_t>(i + 1), static_cast<int64_t>(bodies.size()));
    try {
      KernelSearch search(*bodies[i], body, device, limits, progress);
      const Found found = search.run();
      remember_searched(key, on, found);
      ++counts.kernels;
      counts.tried += search.tried();
      counts.improved += found.after_ms < found.before_ms;
      counts.before_ms += found.before_ms, counts.after_ms += found.after_ms;
    } catch (const Error& error) {  // no memory to try it on
      std::fprintf(stderr, "search: %s is not searched: %s\n", key.c_str(), error.what());
    }
  }
  return counts;
}

SearchReport search(double seconds) {
  CallScope call("search", Loc::current());
  check(seconds > 0, "[search] ", seconds, " seconds: expected a positive number");
  const auto start = Clock::now();
  std::vector<KnownKernel> known = known_kernels();
  std::ranges::sort(known, std::greater(), [](const KnownKernel& k) {
    return k.kernel->estimate.ops + 4 * k.kernel->estimate.bytes;
  });
  std::vector<std::string> kinds;
  for (const KnownKernel& k : known)
    if (!std::ranges::count(kinds, k.device)) kinds.push_back(k.device);
  SearchReport report;
  for (const std::string& kind : kinds) {
    std::vector<const Flat*> bodies;
    for (const KnownKernel& k : known)
      if (k.device == kind) bodies.push_back(&k.body);
    const SearchCounts c = search_kernels(bodies, device(kind), {.seconds = seconds});
    report.kernels += c.kernels, report.improved += c.improved, report.tried += c.tried;
    report.before_ms += c.before_ms, report.after_ms += c.after_ms;
  }
  report.seconds = seconds_since(start);
  clear_caches();
  return report;
}

}  // namespace mote
