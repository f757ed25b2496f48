#include "troupe/actors/pipeline/local_actors.hpp"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <thread>

#include "troupe/actors/coordination/loader_actor.hpp"
#include "troupe/actors/job/run_texts.hpp"
#include "troupe/actors/monitoring/event_hub.hpp"
#include "troupe/actors/monitoring/message_types.hpp"
#include "troupe/actors/rank/rank_actors.hpp"
#include "troupe/actors/reduction/reducer.hpp"
#include "troupe/actors/system/logger_scope.hpp"
#include "troupe/actors/system/spin_sharing.hpp"
#include "troupe/actors/system/strand.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/stage/parameters/sharded_parameters.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

namespace {

class worker_threads final : public caf::thread_hook {
 public:
  explicit worker_threads(std::int32_t intra_op)
    : intra_op_(intra_op), others_(at::get_num_threads()) {}
  void init(caf::actor_system&) override {}
  /// LibTorch sets the number for threads to come, too; these are the user's,
  /// and a thread that ends at once sets it back.
  void thread_started() override {
    prepare_compute_thread(intra_op_);
    try {
      std::thread([others = others_] { at::set_num_threads(others); }).join();
    } catch (const std::system_error&) {  // no thread is left, for others too
    }
  }
  void thread_terminates() override {}

 private:
  std::int32_t intra_op_, others_;
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
  return static_cast<std::size_t>(options.layout().ranks_here())
         + spare_workers;
}

/// Bytes of the gradients of the largest stage that lives here.
std::int64_t largest_stage(const pipeline_options& options) {
  std::int64_t most = 0;
  for (const auto& replica : options.stages)
    for (const auto& stage : replica) {
      std::int64_t bytes = 0;
      if (!stage)
        continue;
      // Sums of 16-bit gradients are fp32; with a number for each parameter
      // that tells whether it has a gradient.
      for (const auto& parameter : stage.parameters->parameters())
        bytes +=
          parameter.numel()
            * std::max<std::int64_t>(parameter.element_size(), sizeof(float))
          + static_cast<std::int64_t>(sizeof(double));
      if (stage.shards)
        bytes += stage.shards->bytes();  // frozen ones, too
      most = std::max(most, bytes);
    }
  return most;
}

void dismiss(address_book& book) {
  const auto end = [](const auto& actor) {
    if (actor)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  };
  std::ranges::for_each(book.stage_actors, end);
  std::ranges::for_each(book.loaders, end);
  std::ranges::for_each(book.reducers, end);
  std::ranges::for_each(book.tied_reducers, end);
  end(book.coordinator);
  end(book.hub);
}

/// Waits until all actors have ended, for at most that time; returns whether
/// they have.
bool await_end(caf::actor_system& system, double seconds) {
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

/// The strands of the ranks that live here.
using strand_list = std::vector<std::unique_ptr<strand>>;

/// Spawns the actors of a run that live in this process, and fills the book
/// with them.
struct actor_spawner {
  caf::actor_system& system;
  const pipeline_options& options;
  const supervision& watch;
  std::uint64_t run_id;
  const handed_over& so_far;
  address_book_pointer book;
  strand_list& strands;

  std::int32_t data_ranks() const {
    return static_cast<std::int32_t>(options.stages.size());
  }
  std::int32_t stages() const { return options.places.stages(); }
  bool is_here(std::int32_t data_rank, std::int32_t rank) const {
    return options.layout().is_here(data_rank, rank);
  }

  /// An actor with a setup of its own.
  template <class Handle, class Behavior, class... Setup>
  Handle spawn(Behavior behavior, const Setup&... setup) const {
    return spawn_typed<Handle>(
      [this](auto&& make) { return system.spawn(std::move(make)); },
      [behavior, ... own = setup, everybody = book,
       hook = options.execution.handler_hook](caf::event_based_actor* self) {
        return behavior(self, own..., everybody, hook);
      });
  }

  coordinator_setup coordination() const {
    return {data_ranks(), options.places.ranks, stages(),
            options.sharding.shards_of(data_ranks()), options.arithmetic};
  }

  stage_setup setup_of_stage(std::int32_t data_rank,
                             stage_instance which) const {
    stage_setup setup;
    setup.instance = which;
    setup.work = options.stages[static_cast<std::size_t>(data_rank)]
                               [options.places.index_of(which)];
    const auto rank = options.places.rank_of(which);
    setup.device = options.devices.of(data_rank, which);
    const auto& execution = options.execution;
    if (static_cast<std::size_t>(rank) < execution.slow.size())
      setup.slow = execution.slow[static_cast<std::size_t>(rank)];
    setup.slow_from = execution.slow_from;
    return setup;
  }

  rank_setup setup_of_rank(std::int32_t data_rank, std::int32_t rank) const {
    rank_setup setup;
    setup.run = run_id;
    setup.data_rank = data_rank;
    setup.rank = rank;
    setup.board = watch.progress;
    setup.needs_data = options.needs_data;
    setup.prefetch = std::max(1, options.execution.loading.prefetch);
    setup.waits_for_norm =
      options.arithmetic.needs_norm() || options.execution.holds_updates;
    setup.reduces = data_ranks() > 1 || options.places.copies() > 1;
    setup.order = options.execution.order;
    setup.device = options.devices.of(data_rank, rank);
    setup.links = options.links;
    setup.layout = options.layout();
    return setup;
  }

  /// The stages of a replica that live here and read data: their number, by
  /// copy.
  std::vector<std::int32_t> consumers(std::int32_t data_rank) const {
    const auto& places = options.places;
    std::vector<std::int32_t> counts(static_cast<std::size_t>(places.copies()),
                                     0);
    for (const auto& each : places.instances())
      if (options.needs_data[static_cast<std::size_t>(each.stage)]
          && is_here(data_rank, places.rank_of(each)))
        ++counts[static_cast<std::size_t>(each.copy)];
    return counts;
  }

  /// The actors of a rank take turns.
  void spawn_rank(std::int32_t data_rank, std::int32_t rank) {
    auto* turns = strands.emplace_back(std::make_unique<strand>(system)).get();
    const auto members = std::make_shared<rank_members>(
      setup_of_rank(data_rank, rank), book, options.execution.handler_hook);
    const auto spawn = [&](strand_actor::behavior_maker make) {
      return system.spawn<strand_actor, caf::lazy_init>(turns, std::move(make));
    };
    const auto instances = options.places.instances_of(rank);
    for (const auto& each : instances) {
      members->rank().add(setup_of_stage(data_rank, each));
      book->stage_actors.at(book->stage_index(data_rank, each)) =
        spawn_typed<stage_handle>(spawn, [members, each](auto* self) {
          return stage_actor(self, each, members);
        });
    }
    book->rank_actors.push_back(book->stage(data_rank, instances.front()));
  }

  void spawn_replica(std::int32_t data_rank) {
    for (std::int32_t r = 0; r < options.places.ranks; ++r)
      if (is_here(data_rank, r))
        spawn_rank(data_rank, r);
    loader_setup loading;
    loading.data_rank = data_rank;
    loading.data_ranks = data_ranks();
    loading.consumers = consumers(data_rank);
    loading.loading = options.execution.loading;
    loading.board = watch.loads;
    loading.counter = options.counter;
    loading.has_losses = options.has_losses;
    book->loaders.emplace_back();
    if (std::ranges::any_of(loading.consumers,
                            [](auto count) { return count > 0; }))
      book->loaders.back() = spawn<loader_handle>(loader_actor, loading);
  }

  void spawn_reducers() {
    const auto copies = static_cast<std::int8_t>(options.places.copies());
    const gradient_mean mean(data_ranks(), options.arithmetic.division);
    for (std::int32_t s = 0; s < stages(); ++s) {
      collective_group group{.mean = mean};
      for (std::int32_t d = 0; d < data_ranks(); ++d)
        for (std::int8_t copy = 0; copy < copies; ++copy)
          group.owners.push_back(book->process_of(d, {s, copy}));
      book->reducers.push_back(spawn<reducer_handle>(reducer_actor, group));
    }
    if (options.ties.empty())
      return;
    for (std::int32_t d = 0; d < data_ranks(); ++d)
      for (std::int8_t copy = 0; copy < copies; ++copy) {
        collective_group group{
          .ties = options.ties, .data_rank = d, .copy = copy};
        for (const auto stage : joined(options.ties))
          group.owners.push_back(book->process_of(d, {stage, copy}));
        book->tied_reducers.push_back(
          spawn<reducer_handle>(reducer_actor, group));
      }
  }

  void spawn_coordinator() {
    if (book->links && !book->links->leads()) {
      book->follower =
        spawn<follower_handle>(follower_actor, watch, so_far.run);
      book->coordinator = book->follower;
    } else {
      book->coordinator = spawn<coordinator_handle>(
        coordinator_actor, coordination(), watch, so_far.run);
    }
  }

  void spawn_all() {
    book->places = options.places;
    book->stage_actors.resize(book->stage_index(data_ranks(), {}));
    if (options.job)
      book->links =
        std::make_shared<remote_links>(options.job, options.layout(), run_id,
                                       options.plans, largest_stage(options));
    book->transfers = options.links;
    book->kept = options.kept;
    book->heals_ops = options.heals_ops;
    book->hub = spawn_typed<event_hub_handle>(
      [this](auto&& make) { return system.spawn(std::move(make)); },
      [events = watch.events, monitors = so_far.monitors](auto* self) {
        return event_hub_actor(self, events, monitors);
      });
    spawn_coordinator();
    spawn_reducers();
    for (std::int32_t d = 0; d < data_ranks(); ++d)
      spawn_replica(d);
  }
};

}  // namespace

struct local_actors::state {
  explicit state(const pipeline_options& options)
    : config(workers_for(options), options.execution.intra_op_threads),
      system(config) {
    scheduler_of(system).require_started();
  }

  /// CAF starts its first thread before the scheduler, and throws.
  static std::unique_ptr<state> make(const pipeline_options& options) {
    require_loaded();
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
                           const supervision& watch, std::uint64_t run_id,
                           const handed_over& so_far)
  : state_(state::make(options)), watch_(watch) {
  const logger_scope restored;
  try {
    actor_spawner{state_->system, options,      watch,          run_id,
                  so_far,         state_->book, state_->strands}
      .spawn_all();
  } catch (...) {
    end();
    throw;
  }
}

local_actors::~local_actors() {
  end();
}

caf::actor_system& local_actors::system() const {
  return state_->system;
}

const address_book_pointer& local_actors::book() const {
  return state_->book;
}

/// The book holds the actors, and they the book.
bool local_actors::end() {
  if (!state_)
    return true;
  const auto leave = watch_.limits.leave;
  dismiss(*state_->book);
  if (await_end(state_->system, leave)) {
    *state_->book = {};
    state_.reset();
    return true;
  }
  auto who = watch_.loads->describe();
  if (who.empty())
    who = last_ ? waits_of(*watch_.progress, *last_) : "an actor is busy";
  log()->error(
    "the run has ended, but not all of its actors within {:.3g} s: {}; its "
    "threads and their memory are abandoned",
    leave, who);
  static_cast<void>(state_.release());
  return false;
}

}  // namespace troupe
