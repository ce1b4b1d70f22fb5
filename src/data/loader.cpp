#include <mote/loader.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "tensor/impl.h"

namespace mote::data {

// Jobs stand in a line in the order of batches. Whoever is free makes the next one; take() waits
// for the first. Everything is under one lock but the making.
struct LoaderBase::Core {
  Order order;
  Make make;
  Drop drop;
  LoaderOptions options;
  Order::State taken;

  struct Job {
    std::vector<int64_t> rows;
    Order::State after;
    void* batch = nullptr;
    std::exception_ptr error;
    bool done = false;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job*> jobs;  // not taken, in order
  bool ends = false;
  std::vector<std::thread> threads;

  Core(Order o, Make m, Drop d, const LoaderOptions& l)
      : order(std::move(o)), make(std::move(m)), drop(d), options(l), taken(order.state()) {}

  void start() {
    ends = false;
    for (int i = 0; i < options.workers; ++i) threads.emplace_back([this] { work(); });
  }
  void stop() {
    {
      std::lock_guard lock(mutex);
      ends = true;
    }
    changed.notify_all();
    for (std::thread& t : threads) t.join();
    threads.clear();
    for (Job* j : jobs) {
      if (j->batch) drop(j->batch);
      delete j;
    }
    jobs.clear();
  }

  Job* next_job() {
    auto* job = new Job;
    const std::span<const int64_t> rows = order.next();
    job->rows.assign(rows.begin(), rows.end());
    job->after = order.state();
    jobs.push_back(job);
    return job;
  }
  void run(Job& job) noexcept {
    try {
      job.batch = make(job.rows);
    } catch (...) { job.error = std::current_exception(); }
  }
  void work() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return ends || static_cast<int64_t>(jobs.size()) < options.ahead; });
      if (ends) return;
      Job* job = next_job();
      lock.unlock();
      run(*job);
      lock.lock();
      job->done = true;
      changed.notify_all();
    }
  }

  void* take() {
    Job* job = nullptr;
    {
      std::unique_lock lock(mutex);
      if (threads.empty()) {
        run(*next_job());
        jobs.front()->done = true;
      }
      changed.wait(lock, [&] { return !jobs.empty() && jobs.front()->done; });
      job = jobs.front();
      jobs.pop_front();
      taken = job->after;
    }
    changed.notify_all();
    void* batch = job->batch;
    std::exception_ptr error = std::move(job->error);
    delete job;
    if (error) std::rethrow_exception(error);
    return batch;
  }
};

LoaderBase::LoaderBase(Order order, Make make, Drop drop, const LoaderOptions& o,
                       const Loc& where) {
  OuterCall call("Loader", where);
  expect(o.workers >= 0 && o.workers <= 1024, "needs 0 to 1024 workers, got ", o.workers);
  expect(o.ahead >= 1, "needs room for at least one batch ahead, got ", o.ahead);
  core_ = new Core(std::move(order), std::move(make), drop, o);
  core_->start();
}

LoaderBase::~LoaderBase() {
  core_->stop();
  delete core_;
}

void* LoaderBase::take() { return core_->take(); }

Order::State LoaderBase::state() const {
  std::lock_guard lock(core_->mutex);
  return core_->taken;
}

int64_t LoaderBase::batches_per_epoch() const { return core_->order.batches_per_epoch(); }

void LoaderBase::restore(const Order::State& state, Loc where) { restore(Metadata(state), where); }

void LoaderBase::restore(const Metadata& state, Loc where) {
  core_->stop();
  Order next = core_->order;
  std::exception_ptr error;
  try {
    next.restore(state, where);
  } catch (...) { error = std::current_exception(); }
  if (error) next.restore(core_->taken, where);  // what was made ahead is made again
  core_->order = std::move(next);
  core_->taken = core_->order.state();
  core_->start();
  if (error) std::rethrow_exception(error);
}

std::vector<std::vector<int64_t>> batches_in_order(int64_t count, int64_t batch, Loc where) {
  OuterCall call("batches_in_order", where);
  expect(count >= 0 && batch > 0, "cannot make batches of ", batch, " from ", count, " examples");
  std::vector<std::vector<int64_t>> out;
  for (int64_t at = 0; at < count; at += batch) {
    std::vector<int64_t>& rows = out.emplace_back();
    for (int64_t i = at; i < std::min(count, at + batch); ++i) rows.push_back(i);
  }
  return out;
}

}  // namespace mote::data
