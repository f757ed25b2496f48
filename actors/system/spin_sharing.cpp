#include "troupe/actors/system/spin_sharing.hpp"

#include <algorithm>
#include <system_error>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

/// Ends the worker that runs it. Owned by the function that enqueues it.
class worker_end final : public caf::resumable {
 public:
  resume_result resume(caf::execution_unit*, std::size_t) override {
    return shutdown_execution_unit;
  }
  void intrusive_ptr_add_ref_impl() override {}
  void intrusive_ptr_release_impl() override {}
};

}  // namespace

std::size_t spin_sharing::spin_cores_of(std::size_t cores,
                                        const cgroup_limits& limits) {
  const auto all = static_cast<double>(cores);
  return static_cast<std::size_t>(std::min(limits.cpus.value_or(all), all));
}

caf::actor_system::module* spin_sharing_scheduler::make(
  caf::actor_system& system) {
  return new spin_sharing_scheduler(system);
}

spin_sharing_scheduler& scheduler_of(caf::actor_system& system) {
  return dynamic_cast<spin_sharing_scheduler&>(system.scheduler());
}

void spin_sharing_scheduler::refuse(std::size_t workers,
                                    const std::string& reason) {
  fail(error_code::device,
       "can't start the {} threads of a run: {}; raise the limit of processes "
       "(ulimit -u, the cgroup's pids.max) or of memory (ulimit -v), or use "
       "fewer ranks",
       workers, reason);
}

void spin_sharing_scheduler::require_started() const {
  if (!trouble_.empty())
    refuse(num_workers(), trouble_);
}

/// CAF starts the workers, the clock's thread and that of the printing actor.
void spin_sharing_scheduler::start() {
  try {
    coordinator::start();
  } catch (const std::system_error& reason) {
    trouble_ = reason.what();
    stop_threads();
  }
}

void spin_sharing_scheduler::stop_threads() {
  worker_end end;
  for (std::size_t i = 0; i < num_workers(); ++i)
    if (worker_by_id(i)->get_thread().joinable())
      enqueue(&end);
  for (std::size_t i = 0; i < num_workers(); ++i)
    if (auto& thread = worker_by_id(i)->get_thread(); thread.joinable())
      thread.join();
  try {
    clock().stop_dispatch_loop();
  } catch (const std::system_error&) {
    // It was not started.
  }
}

void spin_sharing_scheduler::stop() {
  if (trouble_.empty())
    return coordinator::stop();
  for (auto* job : data().queue)
    cleanup_and_release(job);
  data().queue.clear();
}

}  // namespace troupe
