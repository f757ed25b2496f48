#include "troupe/actors/pipeline/pipeline.hpp"

#include "troupe/actors/pipeline/pipeline_state.hpp"

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

pipeline::impl::impl(pipeline_options of_run)
  : options(std::move(of_run)),
    watch(make_supervision(options)),
    plans(static_cast<std::int32_t>(options.stages.size()),
          options.job != nullptr),
    actors(options, watch, run_id(options)) {
  if (!options.job)
    return;
  report_waits();
  options.job->start(book().links->events(actors.book()));
}

namespace {

/// With the exception that caused it nested, where this process has it.
[[noreturn]] void throw_failure(const step_outcome& outcome,
                                const std::exception_ptr& cause) {
  const error reason(
    outcome.interrupted ? error_code::interrupted : error_code::op_failed,
    outcome.failure);
  if (!cause)
    throw reason;
  try {
    std::rethrow_exception(cause);
  } catch (...) {
    std::throw_with_nested(reason);
  }
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
  require_loaded();
  impl_ = std::make_unique<impl>(std::move(options));
  exit_watch::cover();
  impl_->exits.emplace([this] { return impl_->end_at_exit(*this); });
}

pipeline::~pipeline() = default;

step_settings pipeline::with_wishes(step_settings settings) const {
  static_cast<step_wishes&>(settings) =
    impl_->watch.events->wishes_for(settings.step, settings.phase);
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
  step->prepared = impl_->plans.prepared(step->plan);
  const auto& traits = step->prepared->traits();
  static_cast<plan_traits&>(step->settings) = traits;
  step->settings.data_ranks = data_ranks;
  step->settings.loss_gradient =
    settings.loss_scale
    / (static_cast<double>(traits.microbatches_of_update) * traits.slices);
  const auto ran = step->plan;
  impl_->begin_step(ran);
  impl_->actors.note(step);
  step_outcome outcome;
  try {
    outcome =
      ask<step_outcome>(impl_->actors.system(), impl_->book().coordinator,
                        run_step{std::move(step)});
  } catch (...) {
    impl_->leave_step();
    throw;
  }
  impl_->end_step(outcome);
  impl_->leave_step();
  if (impl_->failed)
    throw_failure(outcome, impl_->book().cause->of(outcome.failure));
  return to_report(std::move(outcome), ran);
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
  if (end->why == run_end::kind::failed)
    throw stopped_by_monitor(end->reason);
  throw error(error_code::interrupted, end->reason);
}

void pipeline::interrupt(std::string reason) {
  caf::anon_send(impl_->book().coordinator, interrupt_run{std::move(reason)});
}

}  // namespace troupe
