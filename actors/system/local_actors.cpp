#include "troupe/actors/system/local_actors.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "troupe/actors/step/stall_watch.hpp"
#include "troupe/actors/system/pipeline_setup.hpp"
#include "troupe/actors/system/spawn_actors.hpp"
#include "troupe/actors/system/spin_sharing.hpp"
#include "troupe/engine/device/threads.hpp"

namespace troupe {

namespace {

class worker_threads final : public caf::thread_hook {
 public:
  explicit worker_threads(std::int32_t intra_op) : intra_op_(intra_op) {}
  void init(caf::actor_system&) override {}
  void thread_started() override { set_intra_op_threads(intra_op_); }
  void thread_terminates() override {}

 private:
  std::int32_t intra_op_;
};

/// Workers to spare beyond the ranks, so that loaders, monitors and the
/// coordinator run while every rank computes (docs/design.md).
struct system_config : caf::actor_system_config {
  system_config(std::size_t workers, std::int32_t intra_op) {
    module_factories.push_back([](caf::actor_system& system) {
      return spin_sharing_scheduler::make(system);
    });
    set("caf.scheduler.max-threads", workers);
    add_thread_hook<worker_threads>(intra_op);
  }
};

std::size_t workers_for(const pipeline_options& options) {
  constexpr std::size_t spare_workers = 2;
  return static_cast<std::size_t>(layout_of(options).ranks_each())
         + spare_workers;
}

void dismiss(address_book& book) {
  const auto end = [](const auto& actor) {
    if (actor)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  };
  std::ranges::for_each(book.stage_actors, end);
  std::ranges::for_each(book.rank_actors, end);
  std::ranges::for_each(book.loaders, end);
  std::ranges::for_each(book.reducers, end);
  std::ranges::for_each(book.tied_reducers, end);
  end(book.coordinator);
  end(book.hub);
}

/// Whether all actors have ended within that time.
bool have_ended(caf::actor_system& system, double seconds) {
  using clock = std::chrono::steady_clock;
  const auto until = clock::now() + std::chrono::duration<double>(seconds);
  auto pause = std::chrono::microseconds(20);
  while (system.registry().running() > 0) {
    if (clock::now() > until)
      return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(5000));
  }
  return true;
}

}  // namespace

struct local_actors::state {
  explicit state(const pipeline_options& options)
    : config(workers_for(options), options.execution.intra_op_threads),
      system(config) {
    scheduler_of(system).require_started();
  }

  /// CAF starts its first thread before the scheduler, and throws.
  static std::unique_ptr<state> make(const pipeline_options& options) {
    try {
      return std::make_unique<state>(options);
    } catch (const std::system_error& reason) {
      spin_sharing_scheduler::refuse(workers_for(options), reason.what());
    }
  }

  strand_list strands;  // which workers may hold until they end
  system_config config;
  caf::actor_system system;
  address_book_pointer book = std::make_shared<address_book>();
};

local_actors::local_actors(const pipeline_options& options,
                           const supervision& watch, std::uint64_t run_id)
  : state_(state::make(options)),
    watch_(watch),
    leave_seconds_(options.execution.limits.leave) {
  try {
    spawn_actors(state_->system, options, watch, run_id, state_->book,
                 state_->strands);
  } catch (...) {
    leave_behind();
    throw;
  }
}

local_actors::~local_actors() {
  leave_behind();
}

caf::actor_system& local_actors::system() {
  return state_->system;
}

const address_book_pointer& local_actors::book() const {
  return state_->book;
}

void local_actors::note(step_pointer step) {
  last_ = std::move(step);
}

/// The book holds the actors, and they the book.
void local_actors::leave_behind() {
  dismiss(*state_->book);
  if (have_ended(state_->system, leave_seconds_)) {
    *state_->book = {};
    return;
  }
  auto who = watch_.loads->describe();
  if (who.empty())
    who = last_ ? waits_of(*watch_.progress, *last_) : "an actor is busy";
  spdlog::error(
    "the run has ended, but not all of its actors within {:.3g} s: {}; its "
    "threads and their memory are abandoned",
    leave_seconds_, who);
  static_cast<void>(state_.release());
}

}  // namespace troupe
