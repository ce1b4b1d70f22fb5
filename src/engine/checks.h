// Looking at the integers that a program computes with (tensor/checks.h), at either of two times.
//
//   * In the call, where they lie in memory that the host can read. While a function is captured,
//     the recorder notes where: a replay looks at an argument, or at state, before it runs
//     anything.
//   * When the graph is run: Check nodes are taken out of it and a kernel is added for each, which
//     leaves the largest wrong integer in memory. The engine looks there at the end of the
//     realization or replay if the device is done by then, otherwise when a value is read.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "engine/goals.h"
#include "tensor/checks.h"
#include "tensor/movement.h"

namespace mote {

// Integers in memory, and what must hold of them.
class HostCheck {
 public:
  // Of values that are views of one storage, or casts of such; nothing otherwise. `numeric`: sizes
  // must be numbers; otherwise those that depend on variables count as they are bound now.
  static std::optional<HostCheck> of(UOp values, const Condition& c, bool numeric);

  Storage& storage() const { return *storage_; }
  // The values are in host memory, and no work is pending on it.
  static bool can_read(Storage& storage);
  // What is wrong with the values in this storage (of the same dtype and size), or "".
  std::string complaint(Storage& storage) const;
  uint32_t provenance() const { return provenance_; }

 private:
  std::optional<int64_t> largest_violation(const std::byte* data, DType dtype) const;
  int64_t converted(int64_t v) const;

  Storage* storage_ = nullptr;
  Grid places_;
  std::vector<DType> casts_;  // in order
  DType dtype_ = DType::none;
  Must must_ = Must::Index;
  int64_t n_ = 0;
  std::optional<int64_t> except_;
  uint32_t provenance_ = 0;
};

// A check that a kernel makes: what it leaves one i64 for.
struct DeviceCheck {
  Must must;
  DType dtype;
  Ref n;
  uint32_t provenance;
};

// The checks met in a graph that is about to run.
class GraphChecks {
 public:
  // The node that stands for n in what is run. Notes a Check, unless CHECK=0.
  UOp stand_in(UOp n);
  // Effects that store what the checks met since the last call find.
  std::vector<UOp> further_effects();
  // A check, and the storage that its kernel writes.
  struct Made {
    DeviceCheck check;
    Ref effect, buffer;
  };
  const std::vector<Made>& made() const { return made_; }

 private:
  std::vector<Ref> met_;
  std::unordered_set<const Node*> known_;
  std::vector<Made> made_;
};

// The kernel of `check` has been submitted: its storage is looked at when that is done.
void watch(Storage& storage, const DeviceCheck& check);
// A User error for what was found by then, once; `wait`: also what is still running.
void raise_violations(bool wait);
// The same for a value that is known.
void raise_violation(const DeviceCheck& check, int64_t largest);

// A User error of a call that was made earlier, by its provenance.
[[noreturn]] void fail_of(uint32_t id, const std::string& what);

// Part of an axis that must exist in every replay.
struct SymbolicPart {
  Ref begin, length, size;
  bool is_reshape;
  uint32_t provenance;
};
// While a function is captured.
void record_part(const AxisPart& part);

Seen look_in_host_memory(UOp values, uint8_t device, const Condition& c);

}  // namespace mote
