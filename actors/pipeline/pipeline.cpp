#include "troupe/actors/pipeline/pipeline.hpp"

#include <exception>
#include <utility>

#include "troupe/actors/job/run_texts.hpp"
#include "troupe/base/deadline.hpp"
#include "troupe/engine/events/log.hpp"

namespace troupe {

job_layout pipeline_options::layout() const {
  const auto own = job ? job->place() : job_place{};
  return make_layout(own.process, own.processes,
                     static_cast<std::int32_t>(stages.size()), places.ranks,
                     hosting);
}

namespace {

/// Ranks of other processes are marked as such.
void mark_ranks(progress_board& board, const job_layout& layout) {
  using state = progress_board::state;
  for (std::int32_t d = 0; d < layout.data_ranks; ++d)
    for (std::int32_t r = 0; r < layout.ranks; ++r)
      board.set(d, r,
                {0, layout.is_here(d, r) ? state::idle : state::elsewhere});
}

supervision make_supervision(const pipeline_options& options) {
  const auto layout = options.layout();
  auto board =
    std::make_shared<progress_board>(layout.data_ranks, layout.ranks);
  mark_ranks(*board, layout);
  return {std::move(board), std::make_shared<event_board>(),
          std::make_shared<load_board>(layout.data_ranks),
          options.execution.limits, std::make_shared<std::atomic<bool>>(false)};
}

/// The job's, or a new one.
std::uint64_t run_id(const pipeline_options& options) {
  return options.job ? options.job->place().run : new_run_id();
}

/// Throws with the exception that caused the failure nested, where this process
/// has it.
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
                     .changes = outcome.changes,
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

pipeline::pipeline(pipeline_options options)
  : options_(std::move(options)),
    watch_(make_supervision(options_)),
    plans_(static_cast<std::int32_t>(options_.stages.size()),
           options_.job != nullptr),
    actors_(
      std::make_unique<local_actors>(options_, watch_, run_id(options_))) {
  control_->coordinator = book().coordinator;
  if (options_.job) {
    report_waits();
    options_.job->start(dispatch_to(actors_->book()));
  }
  exit_watch::cover();
  exits_.emplace([this] { return end_at_exit(); });
}

pipeline::~pipeline() {
  exits_.reset();
  close();
}

void pipeline::report_waits() {
  const auto stall = options_.execution.limits.stall;
  if (stall > 0)
    options_.job->report_waits(
      milliseconds_of(stall),
      [layout = options_.layout()](std::int32_t sender, double seconds) {
        log()->warn("this process has waited {:.3g} s for a message of {}",
                    seconds, in_words(sender, layout));
      });
}

/// Returns whether no thread of the run is left.
bool pipeline::close() {
  if (options_.job)
    options_.job->stop();
  leave_monitors();
  {
    const std::unique_lock lock(control_->mutex);
    control_->coordinator = coordinator_handle{};
  }
  return actors_->end();
}

/// Ends the run while the process exits; see exit_watch.hpp.
bool pipeline::end_at_exit() {
  interrupt("the process exits");
  await_step();
  if (const std::scoped_lock lock(mutex_); in_step_)
    return false;
  try {
    finish_monitors();
  } catch (const error& reason) {
    log()->warn("when the process exited: {}", reason.what());
  }
  return await_ops(milliseconds_of(watch_.limits.leave)) && close();
}

void pipeline::begin_step(plan_pointer plan) {
  exit_watch::cover();
  exit_watch::stay_if_exiting();
  const std::scoped_lock lock(mutex_);
  running_ = std::move(plan);
  in_step_ = true;
  ++begun_;
}

void pipeline::end_step(const step_outcome& outcome) {
  failed_ = !outcome.failure.empty();
  origin_ = outcome.origin;
  if (!failed_)
    gate_.reset();
  const std::scoped_lock lock(mutex_);
  failure_ = outcome.failure;
  interrupted_ = outcome.interrupted;
  if (!outcome.end)
    return;
  asked_end_ = outcome.end;
  end_ = run_end{outcome.end->why,
                 fmt::format("{} after step {}", outcome.end->reason,
                             outcome.event.source.step)};
}

void pipeline::leave_step() {
  {
    const std::scoped_lock lock(mutex_);
    in_step_ = false;
  }
  step_left_.notify_all();
  exit_watch::stay_if_exiting();
  exit_watch::cover();
}

/// Waits until the step that runs has ended, or for as long as an end may take.
void pipeline::await_step() {
  std::unique_lock lock(mutex_);
  step_left_.wait_for(lock, std::chrono::duration<double>(watch_.limits.finish),
                      [&, now = begun_] { return !in_step_ || begun_ != now; });
}

step_settings pipeline::with_wishes(step_settings settings,
                                    const plan& of) const {
  static_cast<step_wishes&>(settings) =
    watch_.events->wishes_for(settings.step, settings.phase, can_run_again(of));
  return settings;
}

/// A step whose update waits for all gradients can be run again before it, if
/// its forwards change nothing, as the step before has shown.
bool pipeline::can_run_again(const plan& what) const {
  return what.training && what.global_norm && changes_buffers_ == false;
}

void pipeline::note_buffers(const step_outcome& outcome) {
  for (const auto& rank : outcome.ranks)
    for (const auto& stage : rank.stages)
      changes_buffers_ =
        changes_buffers_.value_or(false) || stage.result.changed_buffers;
}

step_report pipeline::run(const step_settings& settings, plan_pointer plan,
                          source_pointer source) {
  const auto wishes = with_wishes(settings, *plan);
  return run_part(wishes, std::move(plan), std::move(source));
}

step_report pipeline::run_part(const step_settings& settings, plan_pointer plan,
                               source_pointer source,
                               std::shared_ptr<recording> recorded,
                               plan_pointer whole) {
  auto first = std::make_shared<step_context>(
    step_context{0, settings, std::move(plan), std::move(source)});
  first->recorded = std::move(recorded);
  prepare(*first);
  step_pointer step = first;
  begin_step(step->plan);
  step_outcome outcome;
  try {
    outcome = run_once(step);
    if (outcome.runs_again) {
      step = second_run(*step, outcome, std::move(whole));
      outcome = run_once(step);
    }
  } catch (...) {
    leave_step();
    throw;
  }
  end_step(outcome);
  if (settings.training())
    note_buffers(outcome);
  leave_step();
  if (failed_)
    throw_failure(outcome, book().cause->of(outcome.failure));
  return to_report(std::move(outcome), step->plan);
}

/// Adds what the run and the plan tell, and a serial number of its own.
void pipeline::prepare(step_context& step) {
  auto& settings = step.settings;
  step.serial = ++serial_;
  step.gate = gate_ = std::make_shared<step_gate>();
  const auto data_ranks = static_cast<std::int32_t>(options_.stages.size());
  if (const auto& replay = options_.execution.replay;
      replay && settings.training())
    step.orders = std::make_shared<const step_orders>(
      replay->orders_of(*step.plan, data_ranks, settings.step));
  step.prepared = plans_.prepared(step.plan);
  const auto& traits = step.prepared->traits();
  static_cast<plan_traits&>(settings) = traits;
  settings.data_ranks = data_ranks;
  settings.loss_gradient =
    settings.loss_scale
    / (static_cast<double>(traits.microbatches_of_update) * traits.slices);
}

step_outcome pipeline::run_once(const step_pointer& step) {
  {
    const std::scoped_lock lock(mutex_);
    running_ = step->plan;
  }
  actors_->note(step);
  return actors_->ask<step_outcome>(book().coordinator, run_step{step});
}

/// The same step once more, for those alone that watch, in a time that counts
/// from the first run's begin.
step_pointer pipeline::second_run(const step_context& first,
                                  const step_outcome& outcome,
                                  plan_pointer whole) {
  auto again = std::make_shared<step_context>(first);
  auto& settings = again->settings;
  if (whole) {
    again->plan = std::move(whole);
    settings.part = step_part::whole;
    settings.tokens = 0;  // they are counted
  }
  settings.observed = outcome.event.observed;
  settings.began = outcome.event.begin;
  settings.interest = std::exchange(settings.on_hit, nullptr);
  settings.reading = step_reading::again;
  prepare(*again);
  return again;
}

void pipeline::announce_change() {
  watch_.new_change->store(true);
}

handed_over pipeline::ask_actors() const {
  return {actors_->ask<run_record>(book().coordinator, hand_over{}),
          actors_->ask<hub_monitors>(book().hub, hand_over_monitors{})};
}

void pipeline::replace_actors(pipeline_options options,
                              const handed_over& so_far) {
  options_ = std::move(options);
  mark_ranks(*watch_.progress, options_.layout());
  actors_ =
    std::make_unique<local_actors>(options_, watch_, run_id(options_), so_far);
  control_->coordinator = book().coordinator;
  report_waits();
}

/// What this process has sent on behalf of its actors has arrived where it goes
/// when the leader has gathered, and what the leader has sent when it shares.
void pipeline::rehost(pipeline_options options) {
  const std::unique_lock lock(control_->mutex);
  actors_->ask<run_record>(book().coordinator, hand_over{});
  options_.job->barrier();
  const auto so_far = ask_actors();
  const auto before = std::move(actors_);
  replace_actors(std::move(options), so_far);
  options_.job->redirect(dispatch_to(actors_->book()));
  options_.job->barrier();
}

/// A process that was started again counts its steps anew, so all do.
run_requests pipeline::restart(pipeline_options options) {
  const std::unique_lock lock(control_->mutex);
  auto so_far = ask_actors();
  run_requests asked = std::exchange(so_far.run, {});
  serial_ = 0;
  gate_.reset();
  failed_ = false;
  {
    const std::scoped_lock state(mutex_);
    failure_.clear();
    if (std::exchange(end_, std::nullopt))
      asked.ends = asked_end_;
    end_was_thrown_ = false;
  }
  replace_actors(std::move(options), so_far);
  options_.job->start(dispatch_to(actors_->book()));
  return asked;
}

void pipeline::request(const run_requests& wanted) {
  if (wanted.ends)
    finish(*wanted.ends, wanted.within);
  if (wanted.saves)
    request_save();
}

std::optional<failure_origin> pipeline::failed_of() const {
  return failed_ ? std::optional(origin_) : std::nullopt;
}

void pipeline::publish(event what) {
  const std::shared_lock lock(control_->mutex);
  caf::anon_send(hub(),
                 publish_event{std::make_shared<const event>(std::move(what))});
}

event_board& pipeline::board() {
  return *watch_.events;
}

observer::publisher pipeline::tensor_outlet() const {
  return [book = actors_->book()](tensors_event observed) {
    book->publish(std::move(observed));
  };
}

void pipeline::finish(run_end why, double within) {
  control_->tell(finish_run{.end = std::move(why), .within = within});
}

void pipeline::request_save() {
  control_->tell(save_run{});
}

bool pipeline::abandon_step() {
  return !gate_ || gate_->close();
}

bool pipeline::await_ops(std::chrono::milliseconds longest) const {
  return !gate_ || gate_->await_ops(longest);
}

std::optional<run_end> pipeline::ended() const {
  const std::scoped_lock lock(mutex_);
  return end_;
}

void pipeline::require_not_ended() {
  const auto end = ended();
  if (!end || end->why == run_end::kind::success)
    return;
  {
    const std::scoped_lock lock(mutex_);
    end_was_thrown_ = true;
  }
  if (end->why == run_end::kind::failed)
    throw stopped_by_monitor(end->reason);
  throw error(error_code::interrupted, end->reason);
}

void pipeline::interrupt(std::string reason, bool meets_again) {
  control_->tell(interrupt_run{std::move(reason), meets_again});
}

}  // namespace troupe
