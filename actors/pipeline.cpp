#include "troupe/actors/pipeline.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>

#include "troupe/actors/message_types.hpp"
#include "troupe/actors/monitoring/event_hub.hpp"
#include "troupe/actors/step/run_texts.hpp"
#include "troupe/actors/step/step_gate.hpp"
#include "troupe/actors/system/local_actors.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

namespace troupe {

job_layout pipeline_options::layout() const {
  const auto place = job ? job->place() : job_place{};
  return make_layout(place.process, place.processes,
                     static_cast<std::int32_t>(stages.size()), placement.ranks);
}

namespace {

/// Boards on which ranks of other processes are marked as such.
supervision make_supervision(const pipeline_options& options) {
  const auto layout = options.layout();
  auto board =
    std::make_shared<progress_board>(layout.data_ranks, layout.ranks);
  for (std::int32_t d = 0; d < layout.data_ranks; ++d)
    for (std::int32_t r = 0; r < layout.ranks; ++r)
      if (!layout.is_here(d, r))
        board->set(d, r, {0, progress_board::state::elsewhere});
  return {std::move(board), std::make_shared<event_board>(),
          std::make_shared<load_board>(layout.data_ranks),
          options.execution.limits, std::make_shared<std::atomic<bool>>(false)};
}

/// The job's, or a new one.
std::uint64_t run_id(const pipeline_options& options) {
  return options.job ? options.job->place().run : new_run_id();
}

}  // namespace

struct pipeline::impl {
  explicit impl(pipeline_options given)
    : options(std::move(given)),
      watch(make_supervision(options)),
      actors(options, watch, run_id(options)) {
    if (!options.job)
      return;
    tell_of_waits();
    options.job->start(book().links->events(actors.book()));
  }

  /// Monitors are waited for here, as long as they may take: their hub is an
  /// actor, and those have to end soon.
  ~impl() {
    if (options.job)
      options.job->stop();
    for (const auto& [id, known] : monitors)
      if (const auto monitor = known.lock())
        monitor->leave();
  }

  void tell_of_waits() {
    if (options.execution.limits.stall > 0)
      options.job->tell_of_waits(
        std::chrono::milliseconds(
          static_cast<std::int64_t>(options.execution.limits.stall * 1000)),
        [layout = options.layout()](std::int32_t sender, double seconds) {
          spdlog::warn("this process has waited {:.3g} s for a message of {}",
                       seconds, in_words(sender, layout));
        });
  }

  const address_book& book() const { return *actors.book(); }

  /// What a step has to know of its plan; of those that ran last.
  struct plan_facts {
    plan_pointer of;
    std::uint64_t hash = 0;
    bool splits_backward = false;
  };
  const plan_facts& facts_of(const plan_pointer& plan) {
    constexpr std::size_t most = 4;
    const auto known = std::ranges::find(facts, plan, &plan_facts::of);
    if (known != facts.end())
      return *known;
    if (facts.size() == most)
      facts.erase(facts.begin());
    const auto splits = std::ranges::count(
      plan->ops, plan_op_kind::input_backward, &plan_op::kind);
    facts.push_back({plan, options.job ? content_hash(*plan) : 0, splits > 0});
    return facts.back();
  }

  /// Whether a step has thrown why the run ended.
  bool told() const {
    const std::scoped_lock lock(mutex);
    return failed || told_end;
  }

  /// A monitor that waits for its own end would wait for ever.
  static void require_other_thread(const std::weak_ptr<monitor_thread>& ends) {
    const auto monitor = ends.lock();
    if (monitor && monitor->runs_this())
      fail(error_code::invalid_argument,
           "monitor {} can't be detached by one of its own calls, which would "
           "have to end first; detach it from another thread",
           monitor->name());
  }

  std::optional<std::int64_t> last_monitor() {
    const std::scoped_lock lock(mutex);
    return monitors.empty() ? std::nullopt
                            : std::optional{monitors.rbegin()->first};
  }

  void begin_step(plan_pointer plan) {
    const std::scoped_lock lock(mutex);
    running = std::move(plan);
    in_step = true;
  }

  void end_step(const step_outcome& outcome) {
    failed = !outcome.failure.empty();
    if (!failed)
      gate.reset();
    const std::scoped_lock lock(mutex);
    failure = outcome.failure;
    interrupted = outcome.interrupted;
    if (outcome.end)
      end = outcome.end;
    in_step = false;
  }

  pipeline_options options;
  supervision watch;
  local_actors actors;
  std::vector<plan_facts> facts;
  std::int64_t serial = 0;
  std::shared_ptr<step_gate> gate;  // of a step that runs, or has failed
  std::atomic<bool> failed = false;
  std::atomic<std::int64_t> next_monitor = 0;
  mutable std::mutex mutex;  // of what follows
  std::map<std::int64_t, std::weak_ptr<monitor_thread>> monitors;
  plan_pointer running;  // or ran last
  bool in_step = false;
  std::string failure;
  bool interrupted = false;
  std::optional<run_end> end;
  bool told_end = false;  // to whoever wanted a further step
};

namespace {

template <class Answer, class Handle, class... Request>
Answer ask(caf::actor_system& system, const Handle& whom,
           Request&&... request) {
  const caf::scoped_actor self(system);
  Answer answer{};
  self->request(whom, caf::infinite, std::forward<Request>(request)...)
    .receive([&](Answer& given) { answer = std::move(given); },
             [&](const caf::error& reason) {
               fail(error_code::internal, "an actor has terminated: {}",
                    caf::to_string(reason));
             });
  return answer;
}

std::int32_t microbatches_of_update(const plan& plan) {
  return plan.update.every == 0 ? plan.microbatches : plan.update.every;
}

step_report to_report(step_outcome outcome, const plan_pointer& plan) {
  step_report report{.summary = std::move(outcome.event),
                     .ops = {},
                     .replans = outcome.replans,
                     .saves = outcome.saves};
  for (auto& rank : outcome.ranks) {
    report.reduced.insert(report.reduced.end(), rank.reduced.begin(),
                          rank.reduced.end());
    report.ops.push_back(
      {on_rank(report.summary.source, rank), std::move(rank.ops), plan});
  }
  return report;
}

}  // namespace

pipeline::pipeline(pipeline_options options) {
  register_message_types();
  impl_ = std::make_unique<impl>(std::move(options));
}

pipeline::~pipeline() = default;

step_settings pipeline::with_wishes(step_settings settings) const {
  auto wish = impl_->watch.events->wish_for(settings.step, settings.phase);
  settings.interest = std::move(wish.interest);
  settings.tells_messages = wish.messages;
  settings.tells_memory = wish.memory;
  settings.tells_ops = wish.ops;
  settings.epoch = wish.epoch;
  return settings;
}

step_report pipeline::run(const step_settings& settings, plan_pointer plan,
                          source_pointer source) {
  return run_part(with_wishes(settings), std::move(plan), std::move(source));
}

step_report pipeline::run_part(const step_settings& settings, plan_pointer plan,
                               source_pointer source,
                               std::shared_ptr<recording> recorded) {
  auto step = std::make_shared<step_context>(step_context{
    ++impl_->serial, settings, std::move(plan), std::move(source)});
  step->recorded = std::move(recorded);
  step->gate = impl_->gate = std::make_shared<step_gate>();
  const auto data_ranks =
    static_cast<std::int32_t>(impl_->options.stages.size());
  if (const auto& replay = impl_->options.execution.replay;
      replay && settings.training())
    step->orders = std::make_shared<const step_orders>(
      replay->orders_of(*step->plan, data_ranks, settings.step));
  step->settings.data_ranks = data_ranks;
  const auto& facts = impl_->facts_of(step->plan);
  step->plan_hash = facts.hash;
  step->settings.splits_backward = facts.splits_backward;
  step->settings.slices = step->plan->slices;
  step->settings.microbatches = step->plan->microbatches;
  step->settings.loss_gradient =
    settings.loss_scale
    / (static_cast<double>(microbatches_of_update(*step->plan))
       * step->plan->slices);
  const auto ran = step->plan;
  impl_->begin_step(ran);
  impl_->actors.note(step);
  auto outcome =
    ask<step_outcome>(impl_->actors.system(), impl_->book().coordinator,
                      run_step{std::move(step)});
  impl_->end_step(outcome);
  if (impl_->failed)
    throw error(
      outcome.interrupted ? error_code::interrupted : error_code::op_failed,
      outcome.failure);
  return to_report(std::move(outcome), ran);
}

std::int64_t pipeline::attach(monitor watcher) {
  const auto id = ++impl_->next_monitor;
  auto stop = [coordinator = impl_->book().coordinator,
               within = impl_->watch.limits.finish](run_end why) {
    caf::anon_send(coordinator,
                   finish_run{.end = std::move(why), .within = within});
  };
  auto spent = [board = impl_->watch.events](std::int64_t ns) {
    board->spent(ns);
  };
  const auto made = std::make_shared<monitor_thread>(
    std::move(watcher), std::move(stop), std::move(spent));
  ask<bool>(impl_->actors.system(), impl_->book().hub,
            attach_monitor{id, made});
  const std::scoped_lock lock(impl_->mutex);
  impl_->monitors.emplace(id, made);
  return id;
}

void pipeline::detach(std::int64_t id) {
  {
    const std::scoped_lock lock(impl_->mutex);
    if (const auto found = impl_->monitors.find(id);
        found != impl_->monitors.end()) {
      impl::require_other_thread(found->second);
      impl_->monitors.erase(found);
    }
  }
  const auto monitor =
    ask<detached_monitor>(impl_->actors.system(), impl_->book().hub,
                          detach_monitor{id})
      .what;
  if (!monitor)
    return;
  const auto trouble = monitor->finish();
  const bool told = monitor->stopped() && impl_->told();
  if (!trouble.empty() && !told)
    fail(error_code::io, "monitor {}: {}", monitor->name(), trouble);
}

void pipeline::finish_monitors() {
  {
    const std::scoped_lock lock(impl_->mutex);
    for (const auto& [id, known] : impl_->monitors)
      impl::require_other_thread(known);
  }
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
  run_health now{impl_->in_step, impl_->failure, impl_->interrupted,
                 impl_->end};
  if (impl_->running)
    now.ranks = impl_->watch.progress->look(*impl_->running);
  for (const auto& [id, known] : impl_->monitors)
    if (const auto monitor = known.lock())
      now.monitors.push_back(monitor->health());
  return now;
}

void pipeline::announce_plan() {
  impl_->watch.new_plan->store(true);
}

void pipeline::publish(event what) {
  caf::anon_send(impl_->book().hub,
                 publish_event{std::make_shared<const event>(std::move(what))});
}

event_board& pipeline::board() {
  return *impl_->watch.events;
}

observer::publisher pipeline::tensor_outlet() const {
  return [book = impl_->actors.book()](tensors_event observed) {
    book->publish(std::move(observed));
  };
}

void pipeline::finish(run_end why, double within) {
  caf::anon_send(impl_->book().coordinator,
                 finish_run{.end = std::move(why), .within = within});
}

void pipeline::request_save() {
  caf::anon_send(impl_->book().coordinator, save_run{});
}

bool pipeline::abandon_step() {
  return !impl_->gate || impl_->gate->close();
}

bool pipeline::await_ops(std::chrono::milliseconds longest) const {
  return !impl_->gate || impl_->gate->await_ops(longest);
}

std::optional<run_end> pipeline::ended() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->end;
}

void pipeline::require_not_ended() {
  const auto end = ended();
  if (!end || end->why == run_end::kind::success)
    return;
  {
    const std::scoped_lock lock(impl_->mutex);
    impl_->told_end = true;
  }
  throw error(end->why == run_end::kind::asked ? error_code::interrupted
                                               : error_code::op_failed,
              end->reason);
}

void pipeline::interrupt(std::string reason) {
  caf::anon_send(impl_->book().coordinator, interrupt_run{std::move(reason)});
}

}  // namespace troupe
