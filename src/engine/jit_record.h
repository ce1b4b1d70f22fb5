// What a function of tensors does, noted while it runs.
//
// A Recorder listens to the thread that made it: every plan that realize runs, and pending writes
// and gradients left behind, which the jit realizes at the end of every call. What was pending
// before it began is not the function's work: it is realized, unrecorded, when the function first
// reads it, so that the function's own kernels read memory in every call alike. (But for values
// through which gradients flow to a leaf: they stay what they are.)
#pragma once
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "engine/checks.h"
#include "engine/goals.h"
#include "engine/jit_place.h"
#include "engine/plan.h"
#include "tensor/handles.h"
#include "tensor/primitives.h"

namespace mote {

// A counted handle on a storage; holds no node.
class StorageRef {
 public:
  StorageRef() = default;
  explicit StorageRef(Storage& s) : storage_(&s) { retain(storage_); }
  static StorageRef adopt(Storage* s) {  // takes over a count already held
    StorageRef r(*s);
    release(s);
    return r;
  }
  StorageRef(StorageRef&& o) noexcept : storage_(std::exchange(o.storage_, nullptr)) {}
  StorageRef& operator=(StorageRef&& o) noexcept {
    std::swap(storage_, o.storage_);
    return *this;
  }
  ~StorageRef() {
    if (storage_) release(storage_);
  }
  Storage& operator*() const { return *storage_; }
  Storage* operator->() const { return storage_; }
  explicit operator bool() const { return storage_ != nullptr; }
  // By a tensor or a pending graph: each version of it that is named counts once.
  bool held_elsewhere() const { return storage_->refs.load(std::memory_order_acquire) > 1; }

 private:
  Storage* storage_ = nullptr;
};

struct RecordedRun {
  std::shared_ptr<const CompiledPlan> plan;
  std::vector<Storage*> buffers;                        // by param slot
  std::vector<std::pair<std::string, int64_t>> values;  // of variables
};

struct RecordedStorage {
  StorageRef storage;
  bool fresh;      // made meanwhile
  bool from_host;  // made meanwhile with values in it
  bool partly;     // some write leaves part of it as it was
};

// A leaf whose gradient was used: it had `before` when it was used for the first time.
struct RecordedGradient {
  Tensor leaf, before;
  EffectListener::Use first;
};

// A check that a kernel of the recorded runs makes.
struct RecordedCheck {
  Storage* storage;
  DeviceCheck check;
};

// The error for a tensor that a replay would go on to read though another took its place.
[[noreturn]] void refuse_replaced(const std::string& what);

// A module's switch that was looked at.
struct SeenSwitch {
  SwitchCell* cell;
  bool on;
  std::string where;  // the module's name and the line that called it
};
class SeenSwitches {
 public:
  SeenSwitches() = default;
  SeenSwitches(SeenSwitches&& o) noexcept : list_(std::exchange(o.list_, {})) {}
  ~SeenSwitches() {
    for (SeenSwitch& s : list_) release(s.cell);
  }
  void add(SwitchCell& cell);
  const std::vector<SeenSwitch>& list() const { return list_; }

 private:
  std::vector<SeenSwitch> list_;
};

class Recorder : public EffectListener, private HandleListener {
 public:
  // Captures: reading values is an error. `shown` is told of writes.
  Recorder(bool captures, ShownViews& shown);
  ~Recorder() override;
  Recorder(const Recorder&) = delete;
  static Recorder* current();    // of this thread
  static Recorder* recording();  // the same, if it is not paused
  static Recorder* capturing();  // the same, if it also captures

  void wrote(UOp version) override;
  void gradient(const Tensor& leaf, Use use) override;

  // The function realizes these: what is from outside is finished first.
  void begin_realize(std::span<const Tensor> tensors);
  void record(std::shared_ptr<const CompiledPlan> plan, const FlatInputs& inputs,
              std::span<const UOp> roots);
  void record(HostCheck check) { host_checks_.push_back(std::move(check)); }
  void record(const RecordedCheck& check) { device_checks_.push_back(check); }
  void record(SymbolicPart part) { parts_.push_back(std::move(part)); }
  void saw_interpreter() { interpreted_ = true; }

  // A User error when the function read a tensor from outside and put another in its place.
  void check_kept() const;
  // What the function wrote, and its gradients, as far as anything still holds them.
  std::vector<Tensor> left_behind() const;

  bool interpreted() const { return interpreted_; }
  bool is_fresh(const Storage& s) const { return s.id >= first_id_ && !not_fresh_.count(s.id); }
  // Made or written meanwhile: what it holds is another thing when the next call begins.
  bool changes(const Storage& s) const { return is_fresh(s) || written_set_.count(&s); }
  const std::vector<RecordedRun>& runs() const { return runs_; }
  const std::vector<HostCheck>& host_checks() const { return host_checks_; }
  const std::vector<RecordedCheck>& device_checks() const { return device_checks_; }
  const std::vector<SymbolicPart>& parts() const { return parts_; }
  const std::vector<RecordedGradient>& gradients() const { return gradients_; }
  const RecordedStorage* find(const Storage& s) const;
  const std::vector<RecordedStorage>& storages() const { return storages_; }
  const TensorSet& made() const { return made_; }
  bool views_were_written() const { return views_were_written_; }
  // A tensor from outside got memory of its own: the next call reads that.
  bool moves() const { return moves_; }
  // Values from outside that were read as a graph, because gradients flow through it.
  const std::vector<Tensor>& graphs() const { return graphs_; }
  SeenSwitches take_switches() { return std::move(switches_); }

  // Not recording while it lives.
  class Pause {
   public:
    explicit Pause(Recorder& r) : recorder_(r), was_(std::exchange(r.paused_, true)) {}
    ~Pause() { recorder_.paused_ = was_; }

   private:
    Recorder& recorder_;
    bool was_;
  };
  // The engine reads tensors for its own purposes while it lives.
  class Engine {
   public:
    explicit Engine(Recorder* r) : recorder_(r) {
      if (r) ++r->engine_depth_;
    }
    ~Engine() {
      if (recorder_) --recorder_->engine_depth_;
    }

   private:
    Recorder* recorder_;
  };

 private:
  RecordedStorage& note(Storage& s);
  void finish(const Tensor& t);
  void made(const TensorImpl& t) override { made_.insert(&t); }
  void read(const TensorImpl& t) override;
  void gone(const TensorImpl& t) override;
  void writes(const Tensor& t) override;
  void read(SwitchCell& cell) override;
  bool listens() const { return !paused_ && engine_depth_ == 0; }

  bool captures_, paused_ = false, interpreted_ = false;
  bool views_were_written_ = false, moves_ = false;
  int engine_depth_ = 0;
  ShownViews& shown_;
  SeenSwitches switches_;
  std::vector<Tensor> graphs_;
  uint64_t first_id_;
  std::unordered_set<uint64_t> not_fresh_;  // storages made since, of tensors from outside
  TensorSet made_, read_;                   // tensors; read: those made before
  const Shape* replaced_ = nullptr;         // of one that was read and is gone
  std::vector<StorageRef> written_;
  std::unordered_set<const Storage*> written_set_;
  std::vector<RecordedGradient> gradients_;
  std::unordered_set<const TensorImpl*> gradients_known_;
  std::vector<RecordedRun> runs_;
  std::vector<HostCheck> host_checks_;
  std::vector<RecordedCheck> device_checks_;
  std::vector<SymbolicPart> parts_;
  std::vector<RecordedStorage> storages_;  // in the order of first use
  std::unordered_map<const Storage*, size_t> index_;
};

}  // namespace mote
