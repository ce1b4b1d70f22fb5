#include <algorithm>
#include <mutex>

#include "rewrite/rewrite.h"

namespace mote {

namespace {

struct Traces {
  std::mutex mutex;
  std::vector<const std::function<void(const TraceEvent&)>*> all;
};
Traces& traces() {
  static auto* t = new Traces;
  return *t;
}

int thread_number() {
  static std::atomic<int> threads{0};
  static thread_local const int mine = threads++;
  return mine;
}

thread_local bool telling = false;

}  // namespace

constinit std::atomic<int> Trace::attached_{0};

Trace::Trace(std::function<void(const TraceEvent&)> see) : see_(std::move(see)) {
  std::lock_guard lock(traces().mutex);
  traces().all.push_back(&see_);
  ++attached_;
}

Trace::~Trace() {
  std::lock_guard lock(traces().mutex);
  std::erase(traces().all, &see_);
  --attached_;
}

void Trace::tell(TraceEvent event) {
  if (telling) return;
  event.thread = thread_number();
  std::lock_guard lock(traces().mutex);
  telling = true;
  for (const auto* see : traces().all) (*see)(event);
  telling = false;
}

}  // namespace mote
