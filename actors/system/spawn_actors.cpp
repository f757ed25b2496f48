#include "troupe/actors/system/spawn_actors.hpp"

#include <algorithm>

#include "troupe/actors/monitoring/event_hub.hpp"
#include "troupe/actors/rank/rank_actors.hpp"
#include "troupe/actors/reduction/reducer_actor.hpp"
#include "troupe/actors/step/coordinator_actor.hpp"
#include "troupe/actors/step/follower_actor.hpp"
#include "troupe/actors/step/loader_actor.hpp"
#include "troupe/actors/system/pipeline_setup.hpp"

namespace troupe {

namespace {

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
  stage_setup setup_of_stage(std::int32_t data_rank,
                             stage_instance which) const;
  rank_setup setup_of_rank(std::int32_t data_rank, std::int32_t rank) const;
  coordinator_setup coordination() const;
  bool is_here(std::int32_t data_rank, std::int32_t rank) const {
    return !book_->links || book_->links->layout().is_here(data_rank, rank);
  }
  std::vector<std::int32_t> consumers(std::int32_t data_rank) const;
  void spawn_reducers();
  void spawn_tied_reducers();
  void spawn_coordinator();

  caf::actor_system& system_;
  const pipeline_options& options_;
  supervision watch_;
  std::uint64_t run_id_;
  address_book_pointer book_;
  strand_list& strands_;
};

coordinator_setup actor_spawner::coordination() const {
  return {data_ranks(), options_.placement.ranks, stages(),
          options_.sharding.shards_of(data_ranks()), options_.numerics};
}

stage_setup actor_spawner::setup_of_stage(std::int32_t data_rank,
                                          stage_instance which) const {
  stage_setup setup;
  setup.data_rank = data_rank;
  setup.stage = which;
  setup.work = options_.stages[static_cast<std::size_t>(data_rank)]
                              [options_.placement.index_of(which)];
  const auto rank = options_.placement.rank_of(which);
  setup.device = options_.devices.of(data_rank, which);
  const auto& execution = options_.execution;
  if (static_cast<std::size_t>(rank) < execution.slow.size())
    setup.slow = execution.slow[static_cast<std::size_t>(rank)];
  setup.slow_from = execution.slow_from;
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
  setup.prefetch = std::max(1, options_.execution.loading.prefetch);
  setup.waits_for_norm = options_.numerics.needs_norm();
  setup.reduces = data_ranks() > 1 || options_.placement.copies() > 1;
  setup.order = options_.execution.order;
  setup.device = options_.devices.of(data_rank, rank);
  setup.links = options_.links;
  setup.is_far = [this_book = book_.get(), data_rank](std::int32_t other) {
    return this_book->rank(data_rank, other) == nullptr;
  };
  return setup;
}

/// By copy: stages of a replica that live here and read data.
std::vector<std::int32_t> actor_spawner::consumers(
  std::int32_t data_rank) const {
  const auto& placement = options_.placement;
  std::vector<std::int32_t> counts(static_cast<std::size_t>(placement.copies()),
                                   0);
  for (const auto& each : placement.instances())
    if (options_.needs_data[static_cast<std::size_t>(each.stage)]
        && is_here(data_rank, placement.rank_of(each)))
      ++counts[static_cast<std::size_t>(each.copy)];
  return counts;
}

/// The actors of a rank take turns.
void actor_spawner::spawn_rank(std::int32_t data_rank, std::int32_t rank) {
  auto* turns = strands_.emplace_back(std::make_unique<strand>(system_)).get();
  const auto members = std::make_shared<rank_members>(
    setup_of_rank(data_rank, rank), book_, options_.execution.handler_hook);
  const auto spawn = [&](strand_actor::behavior_maker make) {
    return system_.spawn<strand_actor, caf::lazy_init>(turns, std::move(make));
  };
  book_->rank_actors.at(book_->rank_index(data_rank, rank)) =
    caf::actor_cast<rank_handle>(
      spawn([members](auto* self) { return rank_actor(self, members); }));
  for (const auto& each : options_.placement.instances_of(rank)) {
    members->add(setup_of_stage(data_rank, each));
    book_->stage_actors.at(book_->stage_index(data_rank, each)) =
      caf::actor_cast<stage_handle>(spawn([members, each](auto* self) {
        return stage_actor(self, each, members);
      }));
  }
}

void actor_spawner::spawn_replica(std::int32_t data_rank) {
  const auto& hook = options_.execution.handler_hook;
  for (std::int32_t r = 0; r < options_.placement.ranks; ++r)
    if (is_here(data_rank, r))
      spawn_rank(data_rank, r);
  loader_setup loading;
  loading.data_rank = data_rank;
  loading.data_ranks = data_ranks();
  loading.consumers = consumers(data_rank);
  loading.loading = options_.execution.loading;
  loading.board = watch_.loads;
  book_->loaders.emplace_back();
  if (std::ranges::any_of(loading.consumers,
                          [](auto count) { return count > 0; }))
    book_->loaders.back() = caf::actor_cast<loader_handle>(
      system_.spawn(loader_actor, loading, book_, hook));
}

void actor_spawner::spawn_reducers() {
  const auto copies = static_cast<std::int8_t>(options_.placement.copies());
  const gradient_mean mean(data_ranks(), options_.numerics.division);
  for (std::int32_t s = 0; s < stages(); ++s) {
    std::vector<std::int32_t> owners;
    for (std::int32_t d = 0; d < data_ranks(); ++d)
      for (std::int8_t copy = 0; copy < copies; ++copy)
        owners.push_back(book_->process_of(d, {s, copy}));
    book_->reducers.push_back(caf::actor_cast<reducer_handle>(
      system_.spawn(reducer_actor, stage_group{owners, mean}, book_,
                    options_.execution.handler_hook)));
  }
}

void actor_spawner::spawn_tied_reducers() {
  const auto copies = static_cast<std::int8_t>(options_.placement.copies());
  if (options_.ties.empty())
    return;
  for (std::int32_t d = 0; d < data_ranks(); ++d)
    for (std::int8_t copy = 0; copy < copies; ++copy) {
      tied_group group{d, copy, options_.ties, {}};
      for (std::int32_t s = 0; s < stages(); ++s)
        group.owners.push_back(book_->process_of(d, {s, copy}));
      book_->tied_reducers.push_back(
        caf::actor_cast<reducer_handle>(system_.spawn(
          tied_reducer_actor, group, book_, options_.execution.handler_hook)));
    }
}

void actor_spawner::spawn_coordinator() {
  if (book_->links && !book_->links->leads()) {
    book_->follower = caf::actor_cast<follower_handle>(system_.spawn(
      follower_actor, watch_, book_, options_.execution.handler_hook));
    book_->coordinator = book_->follower;
  } else {
    book_->coordinator = caf::actor_cast<coordinator_handle>(
      system_.spawn(coordinator_actor, coordination(), watch_, book_,
                    options_.execution.handler_hook));
  }
}

void actor_spawner::spawn_all() {
  book_->placement = options_.placement;
  book_->stage_actors.resize(book_->stage_index(data_ranks(), {}));
  book_->rank_actors.resize(book_->rank_index(data_ranks(), 0));
  if (options_.job)
    book_->links = std::make_shared<remote_links>(
      options_.job, layout_of(options_), run_id_, options_.plans);
  book_->device_links = options_.links;
  book_->hub = caf::actor_cast<event_hub_handle>(
    system_.spawn(event_hub_actor, watch_.events));
  spawn_coordinator();
  spawn_reducers();
  spawn_tied_reducers();
  for (std::int32_t d = 0; d < data_ranks(); ++d)
    spawn_replica(d);
}

}  // namespace

void spawn_actors(caf::actor_system& system, const pipeline_options& options,
                  const supervision& watch, std::uint64_t run_id,
                  const address_book_pointer& book, strand_list& strands) {
  actor_spawner(system, options, watch, run_id, book, strands).spawn_all();
}

}  // namespace troupe
