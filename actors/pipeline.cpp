#include "troupe/actors/pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <random>

#include "troupe/actors/coordinator_actor.hpp"
#include "troupe/actors/device_actor.hpp"
#include "troupe/actors/dispatcher.hpp"
#include "troupe/actors/event_hub.hpp"
#include "troupe/actors/follower_actor.hpp"
#include "troupe/actors/loader_actor.hpp"
#include "troupe/actors/reducer_actor.hpp"
#include "troupe/actors/spin_sharing.hpp"
#include "troupe/actors/stage_actor.hpp"
#include "troupe/engine/device/threads.hpp"
#include "troupe/engine/plan/content_hash.hpp"

namespace troupe {

namespace {

void register_messages() {
  static std::once_flag once;
  std::call_once(once, [] {
    caf::init_global_meta_objects<caf::id_block::troupe>();
    caf::init_global_meta_objects<caf::id_block::troupe_monitors>();
    caf::core::init_global_meta_objects();
  });
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
  system_config(std::size_t ranks, std::int32_t intra_op) {
    constexpr std::size_t spare_workers = 2;
    module_factories.push_back([](caf::actor_system& system) {
      return spin_sharing_scheduler::make(system, {});
    });
    set("caf.scheduler.max-threads", ranks + spare_workers);
    add_thread_hook<worker_threads>(intra_op);
  }
};

std::uint64_t new_run_id() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

/// Makes all actors of a run and introduces them to each other.
class crew {
 public:
  crew(caf::actor_system& system, const pipeline_options& options,
       const supervision& watch, std::uint64_t run_id)
    : system_(system), options_(options), watch_(watch), run_id_(run_id) {}

  address_book_pointer assemble();

 private:
  std::int32_t data_ranks() const {
    return static_cast<std::int32_t>(options_.stages.size());
  }
  std::int32_t stages() const { return options_.placement.stages(); }
  void spawn_replica(std::int32_t data_rank);
  stage_setup setup_of(std::int32_t data_rank, std::int32_t stage) const;
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
  address_book_pointer book_ = std::make_shared<address_book>();
};

coordinator_setup crew::coordination() const {
  return {data_ranks(), options_.placement.ranks, stages(), options_.clip,
          options_.loss_scale};
}

stage_setup crew::setup_of(std::int32_t data_rank, std::int32_t stage) const {
  const auto d = static_cast<std::size_t>(data_rank);
  const auto s = static_cast<std::size_t>(stage);
  stage_setup setup;
  setup.run = run_id_;
  setup.data_rank = data_rank;
  setup.rank = options_.placement.rank_of(stage);
  setup.stage = stage;
  setup.work = options_.stages[d][s];
  setup.board = watch_.progress;
  setup.needs_data = options_.needs_data[s];
  setup.prefetch = options_.prefetch;
  setup.reduces = data_ranks() > 1;
  setup.waits_for_norm = options_.clip > 0 || options_.loss_scale.dynamic;
  return setup;
}

/// Stages of a replica that live here and read data.
std::int32_t crew::consumers(std::int32_t data_rank) const {
  std::int32_t count = 0;
  for (std::int32_t s = 0; s < stages(); ++s)
    if (options_.needs_data[static_cast<std::size_t>(s)]
        && is_here(data_rank, options_.placement.rank_of(s)))
      ++count;
  return count;
}

void crew::spawn_replica(std::int32_t data_rank) {
  const auto& hook = options_.handler_hook;
  for (std::int32_t s = 0; s < stages(); ++s)
    book_->stage_actors.push_back(
      is_here(data_rank, options_.placement.rank_of(s))
        ? system_.spawn(stage_actor, setup_of(data_rank, s), book_, hook)
        : caf::actor{});
  for (std::int32_t r = 0; r < options_.placement.ranks; ++r)
    book_->device_actors.push_back(is_here(data_rank, r) ? system_.spawn(
                                     device_actor, data_rank, r, book_, hook)
                                                         : caf::actor{});
  loader_setup loading;
  loading.data_rank = data_rank;
  loading.data_ranks = data_ranks();
  loading.consumers = consumers(data_rank);
  loading.prefetch = options_.prefetch;
  loading.slow_seconds = options_.slow_load_seconds;
  book_->loaders.push_back(loading.consumers > 0
                             ? system_.spawn(loader_actor, loading, book_, hook)
                             : caf::actor{});
}

void crew::spawn_reducers() {
  for (std::int32_t s = 0; s < stages(); ++s) {
    std::vector<std::int32_t> owners;
    for (std::int32_t d = 0; d < data_ranks(); ++d)
      owners.push_back(book_->process_of(d, s));
    book_->reducers.push_back(
      system_.spawn(reducer_actor, owners, book_, options_.handler_hook));
  }
}

void crew::spawn_coordinator() {
  book_->coordinator =
    book_->links && !book_->links->leads()
      ? system_.spawn(follower_actor, watch_, book_, options_.handler_hook)
      : system_.spawn(coordinator_actor, coordination(), watch_, book_,
                      options_.handler_hook);
}

address_book_pointer crew::assemble() {
  book_->stages = stages();
  book_->ranks = options_.placement.ranks;
  book_->placement = options_.placement;
  if (options_.job) {
    const auto& place = options_.job->place();
    book_->links = std::make_shared<remote_links>(
      options_.job,
      make_layout(place.process, place.processes, data_ranks(), book_->ranks),
      run_id_);
  }
  book_->hub = system_.spawn(event_hub_actor, watch_.events);
  spawn_coordinator();
  spawn_reducers();
  for (std::int32_t d = 0; d < data_ranks(); ++d)
    spawn_replica(d);
  return book_;
}

void dismiss(address_book& book) {
  const auto end = [](const caf::actor& actor) {
    if (actor)
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
  };
  for (const auto* group :
       {&book.stage_actors, &book.device_actors, &book.loaders, &book.reducers})
    std::ranges::for_each(*group, end);
  end(book.coordinator);
  end(book.hub);
}

supervision make_supervision(const pipeline_options& options) {
  return {std::make_shared<progress_board>(
            static_cast<std::int32_t>(options.stages.size()),
            options.placement.ranks),
          std::make_shared<event_board>(), options.stall_seconds};
}

/// Ranks that live here.
std::size_t rank_count(const pipeline_options& options) {
  const auto all =
    options.stages.size() * static_cast<std::size_t>(options.placement.ranks);
  return options.job
           ? all / static_cast<std::size_t>(options.job->place().processes)
           : all;
}

std::uint64_t run_id(const pipeline_options& options) {
  return options.job ? options.job->place().run : new_run_id();
}

}  // namespace

struct pipeline::impl {
  explicit impl(pipeline_options given)
    : options(std::move(given)),
      watch(make_supervision(options)),
      config(rank_count(options), options.intra_op_threads),
      system(config),
      book(crew(system, options, watch, run_id(options)).assemble()) {
    if (options.job)
      options.job->start(dispatch_to(book));
  }

  ~impl() {
    if (options.job)
      options.job->stop();
    dismiss(*book);
    system.await_all_actors_done();
    // The book holds the actors, and they the book.
    *book = {};
  }

  std::uint64_t hash_of(const std::shared_ptr<const plan>& of) {
    const auto [known, is_new] = plan_hashes.emplace(of, 0);
    if (is_new)
      known->second = content_hash(*of);
    return known->second;
  }

  std::optional<std::int64_t> last_monitor() {
    const std::scoped_lock lock(mutex);
    return monitors.empty() ? std::nullopt
                            : std::optional{monitors.rbegin()->first};
  }

  void begin_step(std::shared_ptr<const plan> of) {
    const std::scoped_lock lock(mutex);
    running = std::move(of);
    in_step = true;
  }

  void end_step(const step_outcome& outcome) {
    failed = !outcome.failure.empty();
    const std::scoped_lock lock(mutex);
    failure = outcome.failure;
    interrupted = outcome.interrupted;
    in_step = false;
  }

  pipeline_options options;
  supervision watch;
  system_config config;
  caf::actor_system system;
  address_book_pointer book;
  std::map<std::shared_ptr<const plan>, std::uint64_t> plan_hashes;
  std::int64_t serial = 0;
  std::atomic<bool> failed = false;
  std::atomic<std::int64_t> next_monitor = 0;
  mutable std::mutex mutex;  // of what follows
  std::map<std::int64_t, std::weak_ptr<monitor_thread>> monitors;
  std::shared_ptr<const plan> running;  // or ran last
  bool in_step = false;
  std::string failure;
  bool interrupted = false;
};

namespace {

template <class Answer, class... Request>
Answer ask(caf::actor_system& system, const caf::actor& whom,
           Request&&... request) {
  const caf::scoped_actor self(system);
  Answer answer{};
  self->request(whom, caf::infinite, std::forward<Request>(request)...)
    .receive([&](Answer& given) { answer = std::move(given); },
             [&](const caf::error& reason) {
               fail(error_code::internal, "an actor is gone: {}",
                    caf::to_string(reason));
             });
  return answer;
}

step_report to_report(step_outcome outcome) {
  step_report report{std::move(outcome.event), {}};
  for (auto& rank : outcome.ranks)
    report.ops.push_back(to_event(report.summary.source, rank));
  return report;
}

}  // namespace

pipeline::pipeline(pipeline_options options) {
  register_messages();
  impl_ = std::make_unique<impl>(std::move(options));
}

pipeline::~pipeline() = default;

step_report pipeline::run(const step_settings& settings,
                          std::shared_ptr<const plan> plan,
                          std::shared_ptr<const microbatch_source> source) {
  auto step = std::make_shared<step_context>(step_context{
    ++impl_->serial, settings, std::move(plan), std::move(source)});
  step->settings.data_ranks =
    static_cast<std::int32_t>(impl_->options.stages.size());
  auto wish = impl_->watch.events->wish_for(settings.step, settings.phase);
  step->settings.interest = std::move(wish.interest);
  step->settings.epoch = wish.epoch;
  if (impl_->options.job)
    step->plan_hash = impl_->hash_of(step->plan);
  step->settings.loss_gradient =
    settings.loss_scale
    / (static_cast<double>(step->plan->microbatches) * step->plan->slices);
  impl_->begin_step(step->plan);
  auto outcome = ask<step_outcome>(impl_->system, impl_->book->coordinator,
                                   run_step{std::move(step)});
  impl_->end_step(outcome);
  if (impl_->failed)
    throw error(
      outcome.interrupted ? error_code::interrupted : error_code::op_failed,
      outcome.failure);
  return to_report(std::move(outcome));
}

std::int64_t pipeline::attach(monitor watcher) {
  const auto id = ++impl_->next_monitor;
  auto stop = [coordinator = impl_->book->coordinator](std::string reason) {
    caf::anon_send(coordinator, stop_run{std::move(reason)});
  };
  auto spent = [board = impl_->watch.events](std::int64_t ns) {
    board->spent(ns);
  };
  const auto made = std::make_shared<monitor_thread>(
    std::move(watcher), std::move(stop), std::move(spent));
  ask<bool>(impl_->system, impl_->book->hub, attach_monitor{id, made});
  const std::scoped_lock lock(impl_->mutex);
  impl_->monitors.emplace(id, made);
  return id;
}

void pipeline::detach(std::int64_t id) {
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->monitors.erase(id);
  }
  const auto monitor =
    ask<detached_monitor>(impl_->system, impl_->book->hub, detach_monitor{id})
      .what;
  if (!monitor)
    return;
  const auto trouble = monitor->finish();
  const bool told = monitor->stopped() && impl_->failed;  // by `run`
  if (!trouble.empty() && !told)
    fail(error_code::io, "monitor {}: {}", monitor->name(), trouble);
}

void pipeline::finish_monitors() {
  std::string trouble;
  while (const auto last = impl_->last_monitor()) {
    try {
      detach(*last);
    } catch (const error& reason) {
      trouble = reason.what();
    }
  }
  if (!trouble.empty())
    throw error(error_code::io, trouble);
}

run_health pipeline::health() const {
  const std::scoped_lock lock(impl_->mutex);
  run_health now{impl_->in_step, impl_->failure, impl_->interrupted};
  if (impl_->running)
    now.ranks = impl_->watch.progress->look(*impl_->running);
  for (const auto& [id, known] : impl_->monitors)
    if (const auto monitor = known.lock())
      now.monitors.push_back(monitor->health());
  return now;
}

void pipeline::publish(event what) {
  caf::anon_send(impl_->book->hub,
                 publish_event{std::make_shared<const event>(std::move(what))});
}

event_board& pipeline::board() {
  return *impl_->watch.events;
}

observer::publisher pipeline::tensor_outlet() const {
  return [book = impl_->book](tensors_event observed) {
    if (book->links && !book->links->leads())
      book->links->tell(to_frame(event(std::move(observed))));
    else
      caf::anon_send(
        book->hub,
        publish_event{std::make_shared<const event>(std::move(observed))});
  };
}

void pipeline::interrupt(std::string reason) {
  caf::anon_send(impl_->book->coordinator, interrupt_run{std::move(reason)});
}

}  // namespace troupe
