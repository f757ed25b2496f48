#include "troupe/actors/coordination/coordinator_actor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "troupe/actors/coordination/step_supervisor.hpp"
#include "troupe/actors/job/remote_links.hpp"
#include "troupe/actors/step/step_gate.hpp"
#include "troupe/actors/step/step_report.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"

namespace troupe {

namespace {

bool is_observed(const step_settings& settings) {
  return settings.observed
         || (settings.interest && !settings.interest->for_exempt());
}

}  // namespace

coordinator_core::coordinator_core(coordinator_setup setup)
  : setup_(std::move(setup)) {}

void coordinator_core::begin(step_pointer step) {
  step_ = std::move(step);
  const auto began = step_->settings.began;
  begin_ = began == 0 ? now_ns() : began;
  powers_.assign(static_cast<std::size_t>(setup_.stages * setup_.shards),
                 std::nullopt);
  norm_ = 0;
  finite_ = true;
  told_ = 0;
  hit_ = changed_buffers_ = runs_again_ = false;
  not_finite_.clear();
  reports_.assign(static_cast<std::size_t>(setup_.data_ranks * setup_.ranks),
                  std::nullopt);
  reported_ = 0;
}

bool coordinator_core::is_watched() const {
  return step_->settings.reading == step_reading::watched;
}

void coordinator_core::note(stage_powers message) {
  const bool only_tells_hit = message.shard == none && is_watched();
  if (message.stage < 0 || message.stage >= setup_.stages
      || (message.shard < 0 && !only_tells_hit)
      || message.shard >= setup_.shards)
    fail(error_code::mismatch,
         "powers of shard {} of stage {} arrived, which the plan does not have",
         message.shard, message.stage);
  ++told_;
  hit_ = hit_ || message.hit;
  changed_buffers_ = changed_buffers_ || message.changed_buffers;
  if (only_tells_hit)
    return;
  if (!message.not_finite.empty())
    not_finite_[{message.stage, last_not_finite(message.powers)}] =
      std::move(message.not_finite);
  powers_.at(static_cast<std::size_t>(
    message.stage * setup_.shards + message.shard)) = std::move(message.powers);
}

/// A watched step also waits for what replicas and copies tell.
bool coordinator_core::has_all_powers() const {
  return std::ranges::all_of(powers_, [](const auto& s) { return !!s; })
         && (!is_watched()
             || told_
                  == setup_.data_ranks * setup_.stages
                       * step_->plan->placement.copies());
}

std::optional<norm_verdict> coordinator_core::on(stage_powers message) {
  note(std::move(message));
  if (!has_all_powers())
    return std::nullopt;
  std::vector<double> all;
  for (const auto& part : powers_)
    all.insert(all.end(), part->begin(), part->end());
  const auto scale = step_->settings.loss_scale;
  norm_ = norm_of(all, setup_.arithmetic.gradient_norm) / scale;
  finite_ = std::isfinite(norm_);
  runs_again_ = is_watched() && !changed_buffers_
                && (hit_ || !finite_ || !not_finite_.empty());
  return norm_verdict{
    step_->serial, now_ns(), clip_factor(norm_, setup_.arithmetic.clip) / scale,
    !runs_again_ && (finite_ || !setup_.arithmetic.loss_scale.dynamic)};
}

std::size_t coordinator_core::place_of(const rank_done& report) const {
  return static_cast<std::size_t>(report.data_rank * setup_.ranks
                                  + report.rank);
}

void coordinator_core::require_first(const rank_done& report) const {
  if (reports_.at(place_of(report)))
    fail(error_code::mismatch,
         "rank {} of replica {} reported the end of step {} twice", report.rank,
         report.data_rank, step_->settings.step);
}

std::optional<step_outcome> coordinator_core::on(rank_done report) {
  require_first(report);
  reports_.at(place_of(report)) = std::move(report);
  if (++reported_ < reports_.size())
    return std::nullopt;
  return conclude();
}

event_source coordinator_core::source() const {
  event_source source;
  source.step = step_->settings.step;
  source.phase = step_->settings.phase;
  source.epoch = step_->settings.epoch;
  return source;
}

step_event coordinator_core::summary() const {
  step_event event;
  const auto& settings = step_->settings;
  event.source = source();
  event.gradient_norm = norm_;
  if (!not_finite_.empty())
    event.not_finite = not_finite_.rbegin()->second;
  event.learning_rate = settings.learning_rate;
  event.loss_scale = settings.loss_scale;
  event.updated = settings.training() && !settings.skip_update
                  && (finite_ || !setup_.arithmetic.loss_scale.dynamic);
  event.begin = begin_;
  event.end = now_ns();
  event.resident_bytes = resident_bytes();
  event.observed = is_observed(settings);
  return event;
}

namespace {

/// Compares the counts of a stage's copies in all replicas; each copy has
/// compared those of its own microbatches.
void require_equal_counts(const std::vector<const stage_done*>& stages) {
  std::map<std::pair<std::int32_t, std::string>, double> counts;
  for (const auto* stage : stages)
    for (const auto& [loss, count] : stage->result.equal_counts)
      if (const auto [first, is_new] =
            counts.emplace(std::pair(stage->stage.stage, loss), count);
          !is_new && first->second != count)
        refuse_uneven_counts(loss, first->second, count);
}

}  // namespace

step_outcome coordinator_core::conclude() {
  step_outcome outcome;
  outcome.event = summary();
  outcome.event.tokens = step_->settings.tokens;
  std::vector<const stage_done*> stages;
  for (const auto& report : reports_) {
    outcome.event.tokens += report->tokens;
    for (const auto& stage : report->stages)
      stages.push_back(&stage);
  }
  // The last stage's losses come first: its first one is the model's.
  std::ranges::stable_sort(stages, [](const auto* a, const auto* b) {
    return std::pair(-a->stage.stage, a->stage.copy)
           < std::pair(-b->stage.stage, b->stage.copy);
  });
  require_equal_counts(stages);
  for (const auto* stage : stages) {
    for (const auto& loss : stage->result.losses)
      merge(outcome.event.losses, loss);
    for (const auto& metric : stage->result.metrics)
      merge(outcome.event.metrics, metric);
    outcome.event.observe_seconds +=
      static_cast<double>(stage->result.observe_ns) * 1e-9;
  }
  const auto& losses = outcome.event.losses;
  if (!losses.empty() && std::ranges::none_of(losses, &named_value::counts))
    outcome.event.updated = false;
  for (auto& report : reports_)
    outcome.ranks.push_back(std::move(*report));
  outcome.runs_again = runs_again_;
  step_.reset();
  return outcome;
}

step_outcome coordinator_core::abandon(std::string reason, bool interrupted) {
  step_outcome outcome;
  if (step_)
    outcome.event = summary();
  outcome.failure = std::move(reason);
  outcome.interrupted = interrupted;
  step_.reset();
  return outcome;
}

namespace {

struct coordinator_state : step_supervisor {
  coordinator_core core;

  void begin(const run_step& request) {
    if (!failed.empty())
      return answer(core.abandon(failed, interrupted));
    core.begin(request.step);
    last_serial = request.step->serial;
    if (book->links)
      book->links->tell(to_frame(as_remote(*request.step)));
    begin_here(request.step);
    limit_time(*request.step);
  }

  void on(stage_powers& message) {
    if (!is_current(message.serial))
      return;
    const auto norm = core.on(std::move(message));
    if (!norm)
      return;
    if (book->links)
      book->links->tell(to_frame(*norm));
    book->tell_ranks(self, *norm);
  }

  void on(rank_done& report) {
    if (!is_current(report.serial))
      return;
    core.require_first(report);
    if (!core.runs_again())
      publish_rank(report);
    const bool part_follows =
      core.step()->settings.part == step_part::gradients;
    auto outcome = core.on(std::move(report));
    if (!outcome)
      return;
    if (outcome->runs_again)
      return answer(std::move(*outcome));
    // Parts of an evaluation are told as one, by whoever asked for it; a step
    // in parts at its end.
    if (outcome->event.source.phase == phase::training && !part_follows) {
      outcome->event.monitor_seconds =
        static_cast<double>(watch.events->take_spent()) * 1e-9;
      publish(outcome->event);
    }
    outcome->end = std::exchange(ends, std::nullopt);
    answer(std::move(*outcome));
  }

  void publish_rank(const rank_done& report) {
    const auto& settings = core.step()->settings;
    const auto source = on_rank(core.source(), report);
    if (watch.events->wants_ops() && settings.training())
      publish(ops_event{source, report.ops, core.step()->plan});
    if (settings.tells_messages)
      publish(messages_event{source, report.messages});
    if (report.memory) {
      auto memory = *report.memory;
      memory.source = source;
      publish(memory);
    }
  }

  /// Answers whoever runs the step, and tells the other processes.
  void answer(step_outcome outcome) {
    outcome.origin = origin;
    if (!outcome.runs_again && outcome.failure.empty()) {
      outcome.changes = watch.new_change->exchange(false);
      outcome.saves = std::exchange(saves, false);
    }
    if (outcome.saves)
      saved = last_serial;
    if (book->links)
      book->links->tell(to_frame(
        remote_outcome{last_serial, outcome.event, outcome.failure, outcome.end,
                       outcome.changes, outcome.saves, outcome.interrupted,
                       origin, outcome.runs_again}));
    asked.deliver(std::move(outcome));
  }

  bool is_current(std::int64_t serial) const {
    return core.running() && core.step()->serial == serial;
  }

  void publish(event what) {
    self->send(book->hub,
               publish_event{std::make_shared<const event>(std::move(what))});
  }

  /// The first failure is the root: an actor that fails sends nothing on, so
  /// that the others can only wait.
  void on(const op_failure& failure) {
    if (!fail_with(failure))
      return;
    if (!may_heal())
      publish(failure_event{failure.source, failure.op, failure.reason});
    end(false);
  }

  void on(const finish_run& request) {
    if (accept(request)) {
      if (core.running())
        limit_time(*core.step());
    } else if (ends && is_current(request.overdue)) {
      if (ends->why == run_end::kind::failed)
        on(stop_run{ends->reason});
      else
        on(interrupt_run{ends->reason});
    }
  }

  void on(const save_run& request) {
    const auto next = core.running() ? last_serial : last_serial + 1;
    const auto serial = request.serial > 0 ? request.serial : next;
    saves = saves || serial > saved;
  }

  void on(const stop_run& request) {
    if (!failed.empty())
      return;
    failed = request.reason;
    end_by_failure();
  }

  /// Publishes a failure that belongs to no op.
  void end_by_failure() {
    if (!may_heal())
      publish(failure_event{place, {}, failed});
    end(false);
  }

  /// The run can't go on; others learn of it also between two steps.
  void end(bool by_user) {
    book->end_transfers();
    if (by_user && core.running())
      core.step()->gate->close();
    if (core.running() || asked.pending())
      answer(core.abandon(failed, by_user));
    else if (book->links)
      book->links->tell(to_frame(remote_outcome{.serial = last_serial,
                                                .event = {},
                                                .failure = failed,
                                                .origin = origin}));
  }

  void on(const peer_lost& gone) {
    if (fail_with(gone, core.step()))
      end_by_failure();
  }

  void on(const interrupt_run& request) {
    if (!failed.empty())
      return;
    note_interrupt(request);
    failed += core.running()
                ? fmt::format(" at step {}: {}", place.step,
                              waits_of(*watch.progress, *core.step()))
                : fmt::format(" after step {}", place.step);
    end(true);
  }

  void on(const watchdog_tick&) { check_progress(core.step()); }
};

}  // namespace

behavior_for<coordinator_handle> coordinator_actor(
  caf::event_based_actor* self, const coordinator_setup& setup,
  const supervision& watch, const run_record& so_far,
  const address_book_pointer& book, const handler_hook& hook) {
  return behavior_of_supervisor<coordinator_handle, stage_powers, rank_done,
                                op_failure, peer_lost, stop_run, finish_run,
                                save_run, interrupt_run, watchdog_tick>(
    std::make_shared<coordinator_state>(coordinator_state{
      {self, watch, so_far, book, hook}, coordinator_core{setup}}));
}

}  // namespace troupe
