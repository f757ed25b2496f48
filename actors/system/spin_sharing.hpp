#pragma once

#include <caf/policy/unprofiled.hpp>
#include <caf/scheduler/coordinator.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "troupe/engine/device/cgroup_limits.hpp"

namespace troupe {

/// CAF scheduler policy: one queue for all workers, as CAF's work sharing,
/// but a worker that runs out of work looks for more for a short while before
/// it sleeps, as long as a core is free for that. Waking a sleeping thread
/// costs the sender tens of microseconds; a worker that is looking costs it
/// nothing, and starts within one. Where the control group has a quota of
/// processor time, looking is paid from it, and only as many workers as it
/// allows all the time do so. For the same reason a worker wakes another
/// only if there is a core for it: it will itself look for work soon. A third
/// thread on two busy cores would take the next compute op, and that op would
/// share a core with another one for a scheduler's time slice (4 ms). What
/// comes from outside, or is sent anonymously, always finds a worker, and so
/// does what is left while one may be `waiting_elsewhere`.
class spin_sharing : public caf::policy::unprofiled {
 public:
  static constexpr std::chrono::microseconds longest_spin{2000};

  /// How many workers may be awake for one of them to look for work: those that
  /// the quota pays for all the time, which may be none.
  static std::size_t spin_cores_of(std::size_t cores,
                                   const cgroup_limits& limits);

  struct coordinator_data {
    explicit coordinator_data(caf::scheduler::abstract_coordinator*) {}

    std::mutex mutex;
    std::condition_variable wake;
    std::deque<caf::resumable*> queue;
    std::atomic<std::size_t> waiting_jobs{0};  // the queue's size, to look at
    std::atomic<std::size_t> spinning{0};      // changed with the lock held
    std::size_t sleeping = 0;
    std::size_t waking = 0;     // awake, though they may not run yet
    std::size_t elsewhere = 0;  // of those awake: may wait for something else
    std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    std::size_t spin_cores = spin_cores_of(cores, read_cgroup_limits());

    // All with the lock held.
    void push(caf::resumable* job) {
      queue.push_back(job);
      waiting_jobs.store(queue.size(), std::memory_order_release);
    }
    /// Whether a job waits that no worker is about to take; any thread.
    bool keeps_waiting() const {
      return waiting_jobs.load(std::memory_order_relaxed)
             > spinning.load(std::memory_order_relaxed);
    }
    bool lacks_lookers() const {
      return sleeping > 0 && queue.size() > spinning + waking;
    }
    bool needs_another(std::size_t workers) const {
      const auto running = workers - sleeping - elsewhere;
      return running < cores && lacks_lookers();
    }
    /// Wakes a worker, and releases the lock. It counts as awake at once: the
    /// system may let it wait for a core for milliseconds, and each job that
    /// comes meanwhile would wake another one.
    void wake_one(std::unique_lock<std::mutex>& lock) {
      --sleeping;
      ++waking;
      lock.unlock();
      wake.notify_one();
    }
  };

  struct worker_data {
    explicit worker_data(caf::scheduler::abstract_coordinator*) {}
  };

  template <class Coordinator>
  void central_enqueue(Coordinator* self, caf::resumable* job) {
    auto& shared = d(self);
    std::unique_lock lock(shared.mutex);
    shared.push(job);
    if (shared.lacks_lookers())
      shared.wake_one(lock);
  }

  template <class Worker>
  void external_enqueue(Worker* self, caf::resumable* job) {
    central_enqueue(self->parent(), job);
  }

  template <class Worker>
  void internal_enqueue(Worker* self, caf::resumable* job) {
    auto& shared = d(self->parent());
    std::unique_lock lock(shared.mutex);
    shared.push(job);
    if (shared.needs_another(self->parent()->num_workers()))
      shared.wake_one(lock);
  }

  template <class Worker>
  void resume_job_later(Worker* self, caf::resumable* job) {
    internal_enqueue(self, job);
  }

  template <class Worker>
  caf::resumable* dequeue(Worker* self) {
    auto& shared = d(self->parent());
    std::unique_lock lock(shared.mutex);
    if (shared.queue.empty())
      spin(shared, lock, self->parent()->num_workers());
    while (shared.queue.empty()) {
      ++shared.sleeping;
      shared.wake.wait(lock, [&] { return shared.waking > 0; });
      --shared.waking;
    }
    auto* job = shared.queue.front();
    shared.queue.pop_front();
    shared.waiting_jobs.store(shared.queue.size(), std::memory_order_release);
    // A thread that left more jobs than lookers counted this one as a looker.
    if (shared.needs_another(self->parent()->num_workers()))
      shared.wake_one(lock);
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
  /// Looks for work without the lock, which the caller holds before and after.
  template <class Shared>
  static void spin(Shared& shared, std::unique_lock<std::mutex>& lock,
                   std::size_t workers) {
    const auto awake = workers - shared.sleeping;
    if (awake > shared.spin_cores)
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

/// CAF's coordinator for that policy. A thread that can't be started is an
/// error that can be caught, though CAF's actor system can't be unwound
/// halfway: its constructor succeeds, and `require_started` throws.
class spin_sharing_scheduler final
  : public caf::scheduler::coordinator<spin_sharing> {
 public:
  using coordinator::coordinator;

  static caf::actor_system::module* make(caf::actor_system& system);

  /// Throws `device`: so many threads are needed, and one could not be started.
  [[noreturn]] static void refuse(std::size_t workers,
                                  const std::string& reason);
  /// Throws `device` if a thread could not be started. The system can then only
  /// be destroyed.
  void require_started() const;

 private:
  void start() override;
  void stop() override;
  void stop_threads();

  std::string trouble_;
};

spin_sharing_scheduler& scheduler_of(caf::actor_system& system);

/// While it lives, the worker that made it may wait for a disk or a network,
/// so that others run in its place.
class waiting_elsewhere {
 public:
  explicit waiting_elsewhere(caf::actor_system& system)
    : scheduler_(dynamic_cast<spin_sharing_scheduler*>(&system.scheduler())) {
    change([](auto& shared) { ++shared.elsewhere; });
  }
  ~waiting_elsewhere() {
    change([](auto& shared) { --shared.elsewhere; });
  }
  waiting_elsewhere(const waiting_elsewhere&) = delete;
  waiting_elsewhere& operator=(const waiting_elsewhere&) = delete;

 private:
  template <class Change>
  void change(Change&& apply) {
    if (scheduler_ == nullptr)
      return;
    auto& shared = scheduler_->data();
    std::unique_lock lock(shared.mutex);
    apply(shared);
    if (shared.needs_another(scheduler_->num_workers()))
      shared.wake_one(lock);
  }

  spin_sharing_scheduler* scheduler_;
};

}  // namespace troupe
