#include "troupe/actors/system/spin_sharing.hpp"

#include <catch2/catch_test_macros.hpp>

#include <barrier>
#include <future>

#include "troupe/actors/system/caf.hpp"

using namespace troupe;

namespace {

struct with_spare_workers : caf::actor_system_config {
  explicit with_spare_workers(std::size_t workers) {
    module_factories.push_back([](caf::actor_system& system) {
      return spin_sharing_scheduler::make(system);
    });
    set("caf.scheduler.max-threads", workers);
  }
};

}  // namespace

TEST_CASE("a worker that was woken, and waits for a core, counts as awake") {
  constexpr std::size_t workers = 4;
  spin_sharing::coordinator_data shared(nullptr);
  shared.cores = 2;
  shared.sleeping = 3;  // the fourth makes the jobs
  std::unique_lock lock(shared.mutex);
  shared.push(nullptr);
  CHECK(shared.needs_another(workers));
  shared.wake_one(lock);
  lock.lock();
  CHECK_FALSE(shared.lacks_lookers());
  shared.push(nullptr);
  CHECK(shared.lacks_lookers());
  CHECK_FALSE(shared.needs_another(workers));  // both cores are taken
}

TEST_CASE("a quota of processor time is not spent on looking for work") {
  CHECK(spin_sharing::spin_cores_of(4, {}) == 4);
  CHECK(spin_sharing::spin_cores_of(4, {.cpus = 8}) == 4);
  CHECK(spin_sharing::spin_cores_of(4, {.cpus = 2.5}) == 2);
  CHECK(spin_sharing::spin_cores_of(4, {.cpus = 0.5}) == 0);
}

TEST_CASE("workers that wait for something else don't hold up the others") {
  caf::core::init_global_meta_objects();
  const auto cores = std::max(1u, std::thread::hardware_concurrency());
  with_spare_workers config(cores + 2);
  caf::actor_system system(config);
  std::promise<void> opened;
  const auto open = opened.get_future().share();
  const auto opener =
    system.spawn([&opened](caf::event_based_actor*) -> caf::behavior {
      return {[&opened](int) { opened.set_value(); }};
    });
  // A thread per core waits for the opener, to which one of them sends when all
  // of them run.
  std::barrier all_run(static_cast<std::ptrdiff_t>(cores));
  std::atomic<unsigned> came_through = 0;
  for (unsigned i = 0; i < cores; ++i)
    system.spawn([&, i](caf::event_based_actor* self) {
      all_run.arrive_and_wait();
      if (i == 0)
        self->send(opener, 1);
      const waiting_elsewhere section(self->system());
      if (open.wait_for(std::chrono::seconds(60)) == std::future_status::ready)
        ++came_through;
    });
  CHECK(open.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
  caf::anon_send_exit(opener, caf::exit_reason::user_shutdown);
  system.await_all_actors_done();
  CHECK(came_through == cores);
}
