#pragma once

#include <caf/policy/unprofiled.hpp>
#include <caf/scheduler/coordinator.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace troupe {

/// CAF scheduler policy: one queue for all workers, as CAF's work sharing,
/// but a worker that runs out of work looks for more for a short while before
/// it sleeps, as long as a core is free for that. Waking a sleeping thread
/// costs the sender tens of microseconds; a worker that is looking costs it
/// nothing, and starts within one.
class spin_sharing : public caf::policy::unprofiled {
 public:
  static constexpr std::chrono::microseconds longest_spin{2000};

  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}

    std::mutex mutex;
    std::condition_variable wake;
    std::deque<caf::resumable*> queue;
    std::atomic<std::size_t> waiting_jobs{0};  // the queue's size, to look at
    std::size_t spinning = 0;
    std::size_t sleeping = 0;
    std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  };

  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    auto& shared = d(self);
    std::unique_lock lock(shared.mutex);
    shared.queue.push_back(job);
    shared.waiting_jobs.store(shared.queue.size(), std::memory_order_release);
    const bool wake =
      shared.sleeping > 0 && shared.queue.size() > shared.spinning;
    lock.unlock();
    if (wake)
      shared.wake.notify_one();
  }

  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }

  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }

  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    auto& shared = d(self->parent());
    std::unique_lock lock(shared.mutex);
    if (shared.queue.empty())
      spin(shared, lock, self->parent()->num_workers());
    while (shared.queue.empty()) {
      ++shared.sleeping;
      shared.wake.wait(lock);
      --shared.sleeping;
    }
    auto* job = shared.queue.front();
    shared.queue.pop_front();
    shared.waiting_jobs.store(shared.queue.size(), std::memory_order_release);
    // Whoever left more jobs than lookers relied on one of them being us.
    const bool wake =
      shared.sleeping > 0 && shared.queue.size() > shared.spinning;
    lock.unlock();
    if (wake)
      shared.wake.notify_one();
    return job;
  }

  template <class Worker, class Function>
  void foreach_resumable(Worker*, Function) {}

  template <class Coordinator, class Function>
  void foreach_central_resumable(Coordinator* self, Function function) {
    auto& shared = d(self);
    const std::scoped_lock lock(shared.mutex);
    for (auto* job : shared.queue)
      function(job);
    shared.queue.clear();
  }

 private:
  /// Called and left with the lock held; looks without it.
  template <class Shared>
  static void spin(Shared& shared, std::unique_lock<std::mutex>& lock,
                   std::size_t workers) {
    const auto awake = workers - shared.sleeping;
    if (awake > shared.cores)
      return;
    ++shared.spinning;
    lock.unlock();
    const auto until = std::chrono::steady_clock::now() + longest_spin;
    while (shared.waiting_jobs.load(std::memory_order_acquire) == 0
           && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    lock.lock();
    --shared.spinning;
  }
};

using spin_sharing_scheduler = caf::scheduler::coordinator<spin_sharing>;

}  // namespace troupe
