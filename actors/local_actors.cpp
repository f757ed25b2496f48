#include "troupe/actors/local_actors.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "troupe/actors/event_hub.hpp"
#include "troupe/actors/follower_actor.hpp"
#include "troupe/actors/loader_actor.hpp"
#include "troupe/actors/rank_actor.hpp"
#include "troupe/actors/reducer_actor.hpp"
#include "troupe/actors/spin_sharing.hpp"
#include "troupe/actors/stage_actor.hpp"
#include "troupe/actors/stall_watch.hpp"
#include "troupe/actors/strand.hpp"
#include "troupe/engine/device/thread_supply.hpp"
#include "troupe/engine/device/threads.hpp"

namespace troupe {

namespace {

/// One a rank.
using strand_list = std::vector<std::unique_ptr<strand>>;

class actor_spawner {
 public:
  actor_spawner(caf::actor_system& system, const pipeline_options& options,
                const supervision& watch, std::uint64_t run_id,
                address_book_pointer book, strand_list& strands)
    : system_(system),
      options_(options),
      watch_(watch),
      run_id_(run_id),
      book_(std::move(book)),
      strands_(strands) {}

  void spawn_all();

 private:
  std::int32_t data_ranks() const {
    return static_cast<std::int32_t>(options_.stages.size());
  }
  std::int32_t stages() const { return options_.placement.stages(); }
  void spawn_replica(std::int32_t data_rank);
  void spawn_rank(std::int32_t data_rank, std::int32_t rank);
  std::shared_ptr<rank_device> device_of(std::int32_t data_rank,
                                         std::int32_t rank) const;
  stage_setup setup_of_stage(std::int32_t data_rank, std::int32_t stage) const;
  rank_setup setup_of_rank(std::int32_t data_rank, std::int32_t rank) const;
  coordinator_setup coordination() const;
  bool is_here(std::int32_t data_rank, std::int32_t rank) const {
    return !book_->links || book_->links->layout().is_here(data_rank, rank);
  }
  std::int32_t consumers(std::int32_t data_rank) const;
  void spawn_reducers();
  void spawn_coordinator();

  caf::actor_system& system_;
  const pipeline_options& options_;
  supervision watch_;
  std::uint64_t run_id_;
  address_book_pointer book_;
  strand_list& strands_;
};

coordinator_setup actor_spawner::coordination() const {
  return {data_ranks(), options_.placement.ranks, stages(), options_.clip,
          options_.loss_scale};
}

std::shared_ptr<rank_device> actor_spawner::device_of(std::int32_t data_rank,
                                                      std::int32_t rank) const {
  if (options_.devices.empty())
    return nullptr;
  return options_.devices[static_cast<std::size_t>(data_rank)]
                         [static_cast<std::size_t>(rank)];
}

stage_setup actor_spawner::setup_of_stage(std::int32_t data_rank,
                                          std::int32_t stage) const {
  stage_setup setup;
  setup.data_rank = data_rank;
  setup.rank = options_.placement.rank_of(stage);
  setup.stage = stage;
  setup.work = options_.stages[static_cast<std::size_t>(data_rank)]
                              [static_cast<std::size_t>(stage)];
  setup.reduces = data_ranks() > 1;
  setup.device = device_of(data_rank, setup.rank);
  setup.links = options_.links;
  return setup;
}

rank_setup actor_spawner::setup_of_rank(std::int32_t data_rank,
                                        std::int32_t rank) const {
  rank_setup setup;
  setup.run = run_id_;
  setup.data_rank = data_rank;
  setup.rank = rank;
  setup.board = watch_.progress;
  setup.needs_data = options_.needs_data;
  setup.prefetch = std::max(1, options_.prefetch);
  setup.waits_for_norm = options_.clip > 0 || options_.loss_scale.dynamic;
  setup.order = options_.order;
  setup.device = device_of(data_rank, rank);
  setup.links = options_.links;
  setup.is_far = [this_book = book_.get(), data_rank](std::int32_t other) {
    return this_book->rank(data_rank, other) == nullptr;
  };
  return setup;
}

/// Stages of a replica that live here and read data.
std::int32_t actor_spawner::consumers(std::int32_t data_rank) const {
  std::int32_t count = 0;
  for (std::int32_t s = 0; s < stages(); ++s)
    if (options_.needs_data[static_cast<std::size_t>(s)]
        && is_here(data_rank, options_.placement.rank_of(s)))
      ++count;
  return count;
}

/// The actors of a rank take turns.
void actor_spawner::spawn_rank(std::int32_t data_rank, std::int32_t rank) {
  auto* turns = strands_.emplace_back(std::make_unique<strand>(system_)).get();
  const auto members = std::make_shared<rank_members>(
    setup_of_rank(data_rank, rank), book_, options_.handler_hook);
  const auto spawn = [&](strand_actor::behavior_maker make) {
    return caf::actor_cast<caf::actor>(
      system_.spawn<strand_actor, caf::lazy_init>(turns, std::move(make)));
  };
  book_->rank_actors.at(book_->rank_index(data_rank, rank)) =
    spawn([members](auto* self) { return rank_actor(self, members); });
  for (std::int32_t s = 0; s < stages(); ++s) {
    if (options_.placement.rank_of(s) != rank)
      continue;
    members->add(setup_of_stage(data_rank, s));
    book_->stage_actors.at(book_->stage_index(data_rank, s)) =
      spawn([members, s](auto* self) { return stage_actor(self, s, members); });
  }
}

void actor_spawner::spawn_replica(std::int32_t data_rank) {
  const auto& hook = options_.handler_hook;
  for (std::int32_t r = 0; r < options_.placement.ranks; ++r)
    if (is_here(data_rank, r))
      spawn_rank(data_rank, r);
  loader_setup loading;
  loading.data_rank = data_rank;
  loading.data_ranks = data_ranks();
  loading.consumers = consumers(data_rank);
  loading.prefetch = options_.prefetch;
  loading.slow_seconds = options_.slow_load_seconds;
  loading.board = watch_.loads;
  book_->loaders.push_back(loading.consumers > 0
                             ? system_.spawn(loader_actor, loading, book_, hook)
                             : caf::actor{});
}

void actor_spawner::spawn_reducers() {
  for (std::int32_t s = 0; s < stages(); ++s) {
    std::vector<std::int32_t> owners;
    for (std::int32_t d = 0; d < data_ranks(); ++d)
      owners.push_back(book_->process_of(d, s));
    book_->reducers.push_back(
      system_.spawn(reducer_actor, owners, book_, options_.handler_hook));
  }
}

void actor_spawner::spawn_coordinator() {
  book_->coordinator =
    book_->links && !book_->links->leads()
      ? system_.spawn(follower_actor, watch_, book_, options_.handler_hook)
      : system_.spawn(coordinator_actor, coordination(), watch_, book_,
                      options_.handler_hook);
}

void actor_spawner::spawn_all() {
  book_->stages = stages();
  book_->ranks = options_.placement.ranks;
  book_->placement = options_.placement;
  const auto replicas = static_cast<std::size_t>(data_ranks());
  book_->stage_actors.resize(replicas * static_cast<std::size_t>(stages()));
  book_->rank_actors.resize(replicas * static_cast<std::size_t>(book_->ranks));
  if (options_.job) {
    const auto& place = options_.job->place();
    book_->links = std::make_shared<remote_links>(
      options_.job,
      make_layout(place.process, place.processes, data_ranks(), book_->ranks),
      run_id_, options_.plans);
  }
  book_->device_links = options_.links;
  book_->hub = system_.spawn(event_hub_actor, watch_.events);
  spawn_coordinator();
  spawn_reducers();
  for (std::int32_t d = 0; d < data_ranks(); ++d)
    spawn_replica(d);
}

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
      return spin_sharing_scheduler::make(system, {});
    });
    set("caf.scheduler.max-threads", workers);
    add_thread_hook<worker_threads>(intra_op);
  }
};

/// An actor system that fails to start its threads never ends.
std::size_t workers_for(const pipeline_options& options) {
  constexpr std::size_t spare_workers = 2, of_caf = 4;
  const auto place = options.job ? options.job->place() : job_place{};
  const auto layout = make_layout(
    place.process, place.processes,
    static_cast<std::int32_t>(options.stages.size()), options.placement.ranks);
  const auto workers =
    static_cast<std::size_t>(layout.ranks_each()) + spare_workers;
  require_threads(workers + of_caf);
  return workers;
}

void dismiss(address_book& book) {
  const auto end = [](const caf::actor& actor) {
    if (actor)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  };
  for (const auto* group :
       {&book.stage_actors, &book.rank_actors, &book.loaders, &book.reducers})
    std::ranges::for_each(*group, end);
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
    : config(workers_for(options), options.intra_op_threads), system(config) {}

  strand_list strands;  // which workers may hold until they end
  system_config config;
  caf::actor_system system;
  address_book_pointer book = std::make_shared<address_book>();
};

local_actors::local_actors(const pipeline_options& options,
                           const supervision& watch, std::uint64_t run_id)
  : state_(std::make_unique<state>(options)),
    watch_(watch),
    leave_seconds_(options.leave_seconds) {
  try {
    actor_spawner(state_->system, options, watch, run_id, state_->book,
                  state_->strands)
      .spawn_all();
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
    "threads and what they hold are left behind",
    leave_seconds_, who);
  static_cast<void>(state_.release());
}

}  // namespace troupe
