// What work that is about to run reads and writes.
//
// Threads realize and replay at the same time. Where they touch the same storage, one waits for the
// other: any number may read it, one alone writes it and names its next version. A thread takes all
// storages at once and in the order of their ids, so that no two threads wait for each other, and
// takes no second lease while it has one.
#pragma once
#include <vector>

#include "ir/storage.h"

namespace mote {

class StorageLease {
 public:
  StorageLease() = default;
  ~StorageLease() { drop(); }
  StorageLease(const StorageLease&) = delete;
  void add(Storage& s, bool writes) { uses_.push_back({&s, writes}); }
  void take();  // all that were added; waits for others
  void drop();

 private:
  struct Use {
    Storage* storage;
    bool writes;
  };
  std::vector<Use> uses_;
  bool taken_ = false;
};

}  // namespace mote
