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

// A handle on what retain() and release() count.
template <class T>
class Counted {
 public:
  Counted() = default;
  explicit Counted(T& object) : object_(&object) { retain(object_); }
  static Counted adopt(T* object) {  // takes over a count already held
    Counted c(*object);
    release(object);
    return c;
  }
  Counted(Counted&& o) noexcept : object_(std::exchange(o.object_, nullptr)) {}
  Counted& operator=(Counted&& o) noexcept {
    std::swap(object_, o.object_);
    return *this;
  }
  ~Counted() {
    if (object_) release(object_);
  }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }
  // Of a storage, by a tensor or a pending graph: each version of it that is named counts once.
  bool held_elsewhere() const { return object_->refs.load(std::memory_order_acquire) > 1; }

 private:
  T* object_ = nullptr;
};
using StorageRef = Counted<Storage>;  // holds no node

struct RecordedRun {
  std::shared_ptr<const CompiledPlan> plan;
  std::vector<Storage*> buffers;                        // by param slot
  VarValues values;
  SizeClasses classes;
};

struct RecordedStorage {
  StorageRef storage;
  bool fresh;      // made meanwhile
  bool from_host;  // made meanwhile with values in it
  bool partly;     // some write leaves part of it as it was
};

// A leaf whose gradient was used: it had `before` when it was used for the first time. One that was
// dropped then is not kept: its memory is for the new one.
struct RecordedGradient {
  Tensor leaf, before;
  EffectListener::Use first;
  uint64_t place = 0;  // the id of the storage it had
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
  Counted<SwitchCell> cell;
  bool on;
  std::string where;  // the module's name and the line that called it
};

// What a function did.
struct Recorded {
  std::vector<RecordedRun> runs;
  std::vector<HostCheck> host_checks;
  std::vector<RecordedCheck> device_checks;
  std::vector<SymbolicPart> parts;
  std::vector<RecordedGradient> gradients;
  std::vector<RecordedStorage> storages;  // in the order of first use
  std::vector<SeenSwitch> switches;
  std::vector<Tensor> graphs;  // values from outside, read as graphs: gradients flow through them
  bool interpreted = false, views_were_written = false;
  bool moves = false;  // a tensor from outside got memory of its own: the next call reads that
};

class Recorder : public EffectListener, public Recorded, private HandleListener {
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

  // A User error when the function read a tensor from outside and put another in its place.
  void check_kept() const;
  // What the function wrote, and its gradients, as far as anything still holds them.
  std::vector<Tensor> left_behind() const;

  bool is_fresh(const Storage& s) const { return s.id >= first_id_ && !not_fresh_.count(s.id); }
  // Made or written meanwhile: what it holds is another thing when the next call begins.
  bool changes(const Storage& s) const { return is_fresh(s) || written_set_.count(&s); }
  const RecordedStorage* find(const Storage& s) const;
  const TensorSet& made() const { return made_; }

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

  bool captures_, paused_ = false;
  int engine_depth_ = 0;
  ShownViews& shown_;
  uint64_t first_id_;
  std::unordered_set<uint64_t> not_fresh_;  // storages made since, of tensors from outside
  TensorSet made_, read_;                   // tensors; read: those made before
  const Shape* replaced_ = nullptr;         // of one that was read and is gone
  std::vector<StorageRef> written_;
  std::unordered_set<const Storage*> written_set_;
  std::unordered_set<const TensorImpl*> gradients_known_;
  std::unordered_map<const Storage*, size_t> index_;  // of storages
};

}  // namespace mote
