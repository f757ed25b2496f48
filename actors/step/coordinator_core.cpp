#include "troupe/actors/step/coordinator_core.hpp"

#include <algorithm>
#include <cmath>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"

namespace troupe {

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
  reports_.assign(static_cast<std::size_t>(setup_.data_ranks * setup_.ranks),
                  std::nullopt);
  reported_ = 0;
}

std::optional<norm_known> coordinator_core::on(stage_powers message) {
  powers_.at(static_cast<std::size_t>(
    message.stage * setup_.shards + message.shard)) = std::move(message.powers);
  if (!std::ranges::all_of(powers_, [](const auto& s) { return !!s; }))
    return std::nullopt;
  std::vector<double> all;
  for (const auto& part : powers_)
    all.insert(all.end(), part->begin(), part->end());
  const auto scale = step_->settings.loss_scale;
  norm_ = norm_of(all, setup_.numerics.norm_type) / scale;
  finite_ = std::isfinite(norm_);
  return norm_known{step_->serial, now_ns(),
                    clip_factor(norm_, setup_.numerics.clip) / scale,
                    finite_ || !setup_.numerics.loss_scale.dynamic};
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

step_event coordinator_core::summary() const {
  step_event event;
  const auto& settings = step_->settings;
  event.source.step = settings.step;
  event.source.phase = settings.phase;
  event.source.epoch = settings.epoch;
  event.gradient_norm = norm_;
  event.learning_rate = settings.learning_rate;
  event.loss_scale = settings.loss_scale;
  event.updated = settings.training() && !settings.skip_update
                  && (finite_ || !setup_.numerics.loss_scale.dynamic);
  event.begin = begin_;
  event.end = now_ns();
  event.resident_bytes = resident_bytes();
  event.observed = settings.interest && !settings.interest->for_exempt();
  return event;
}

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
  for (const auto* stage : stages) {
    for (const auto& loss : stage->result.losses)
      merge(outcome.event.losses, loss);
    for (const auto& metric : stage->result.metrics)
      merge(outcome.event.metrics, metric);
    outcome.event.observe_seconds +=
      static_cast<double>(stage->result.observe_ns) * 1e-9;
  }
  for (auto& report : reports_)
    outcome.ranks.push_back(std::move(*report));
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

}  // namespace troupe
