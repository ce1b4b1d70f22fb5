// Memory of the host for arrays: large blocks are kept and handed out again, because a fresh page
// costs more than what most kernels do with it.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>

namespace mote {

// Never holds more than the most that was in use at once. Thread-safe.
class HostMemory {
 public:
  ~HostMemory();
  void* allocate(int64_t bytes);  // aligned as a cache line at least; null: the system has none
  void free(void* p, int64_t bytes);  // as it was allocated

 private:
  void drop_until(int64_t room);  // of what is kept

  std::mutex mutex_;
  std::multimap<int64_t, void*> kept_;  // by rounded size
  int64_t used_ = 0, kept_bytes_ = 0, most_ = 0;
};

}  // namespace mote
