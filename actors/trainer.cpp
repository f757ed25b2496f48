#include "troupe/actors/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "troupe/actors/job/hosting.hpp"
#include "troupe/actors/trainer_checks.hpp"
#include "troupe/actors/trainer_state.hpp"
#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/stage/update/loss_scale.hpp"

namespace troupe {

trainer::trainer(const model& layers, trainer_options options)
  : impl_(std::make_unique<impl>(layers, std::move(options))) {}

trainer::~trainer() {
  if (!impl_)
    return;  // moved from
  try {
    impl_->actors.finish_monitors();
  } catch (const std::exception& reason) {
    log()->warn("when a trainer ended: {}", reason.what());
  }
}

trainer::trainer(trainer&&) noexcept = default;

step_report trainer::step(const source_pointer& source, bool skip_update) {
  require_source(source);
  auto& state = *impl_;
  state.actors.require_not_ended();
  const auto replicas = state.setup.options.data_parallel;
  if (state.step == 0 && (replicas > 1 || state.setup.places().copies() > 1))
    check_replicas();
  if (skip_update && plan().update.every > 0)
    fail(error_code::invalid_argument,
         "schedule {} updates within a step, and its forwards read what the "
         "updates make: they can't be skipped",
         plan().schedule_name);
  state.copy_states();
  state.take_up_changes();
  state.publish_epoch();
  state.stages.note_buffers();
  auto settings = state.next_settings();
  settings.skip_update = skip_update;
  auto report = state.run(settings, source);
  state.step = settings.step;
  state.position += std::int64_t{replicas} * plan().microbatches;
  const auto& done = report.summary;
  auto& scale = state.scale;
  scale.note(std::isfinite(done.gradient_norm), done.updated);
  if (scale.skipped_in_vain() > 0)
    fail_in_vain(scale, {.step = done.source.step,
                         .loss = done.losses.front().value,
                         .gradient = done.not_finite,
                         .parameter = not_finite()});
  return report;
}

step_range trainer::train(source_pointer source, std::int64_t steps) {
  require_at_least(0, steps, "steps of training");
  return {*this, std::move(source), steps};
}

void step_range::iterator::next() {
  const auto end = range_->run_->ended();
  done_ = range_->taken_ >= range_->steps_
          || (end && end->why != run_end::kind::failed);
  if (done_)
    return;
  ++range_->taken_;
  range_->current_ = range_->run_->step(range_->source_).summary;
}

namespace {

/// The first microbatches of a source, and then the last one of them again, of
/// no tokens: where a step needs more.
source_pointer filled_up(const source_pointer& source, std::int64_t count) {
  if (source->size() >= 0 && source->size() < count)
    return source;  // its end is an error
  return make_source([source, count](std::int64_t index) {
    auto data = source->at(std::min(index, count - 1));
    if (index >= count)
      data.tokens = 0;
    return data;
  });
}

/// Losses are sums of fp32 values in double, grouped by steps and replicas:
/// rounded, so that all groupings give the same number.
void round_losses(step_event& total) {
  for (auto& loss : total.losses)
    loss.value = static_cast<float>(loss.value);
}

}  // namespace

step_event trainer::evaluate(const source_pointer& source,
                             std::int64_t microbatches) {
  require_source(source);
  require_at_least(1, microbatches, "microbatches of an evaluation");
  auto settings = impl_->next_settings();
  settings.step = impl_->step;
  settings.phase = phase::validation;
  const auto& forwards = impl_->plans.evaluation();
  const auto at_once =
    std::int64_t{impl_->setup.options.data_parallel} * forwards->microbatches;
  const auto read =
    microbatches % at_once == 0 ? source : filled_up(source, microbatches);
  step_event total;
  for (std::int64_t done = 0; done < microbatches; done += at_once) {
    settings.first_microbatch = done;
    settings.counted = microbatches - done;
    const auto report = impl_->actors.run(settings, forwards, read);
    impl_->note(report);
    const auto& part = report.summary;
    total.source = part.source;
    total.tokens += part.tokens;
    for (const auto& loss : part.losses)
      merge(total.losses, loss);
    for (const auto& metric : part.metrics)
      merge(total.metrics, metric);
    const auto end = ended();
    if (end && end->why != run_end::kind::success
        && done + at_once < microbatches)
      return total;
  }
  round_losses(total);
  impl_->publish(total);
  impl_->remember(total);
  impl_->evaluated = impl_->step;
  return total;
}

tensor_list trainer::infer(const tensor_list& inputs) {
  const compute_scope computes(impl_->setup.options.execution.intra_op_threads);
  return impl_->stages.infer(inputs);
}

std::vector<generated> trainer::generate(
  const std::vector<generation_request>& requests,
  const generation_options& options, const generation_listener& listener) {
  auto settings = impl_->next_settings();
  settings.step = impl_->step;
  return impl_->generator.generate(settings, requests, options, listener);
}

void trainer::require_generation() const {
  impl_->stages.require_generation();
}

std::int64_t trainer::attach(monitor watcher) {
  require_monitor(watcher);
  warn_of_unknown_names(watcher, impl_->names);
  return impl_->actors.attach(std::move(watcher));
}

void trainer::detach(std::int64_t id) {
  impl_->actors.detach(id);
}

void trainer::finish_monitors() {
  impl_->actors.finish_monitors();
}

void trainer::observe_every(std::int64_t steps) {
  require_at_least(1, steps, "steps between two that are observed");
  impl_->actors.board().observe_every(steps);
}

void trainer::stop(std::string reason, std::optional<double> within) {
  const auto seconds =
    within.value_or(impl_->setup.options.execution.limits.finish);
  if (!(seconds >= 0))
    fail(error_code::invalid_argument,
         "a run can't stop within {} seconds; use 0 (no limit) or more",
         seconds);
  impl_->actors.finish({run_end::kind::asked, std::move(reason)}, seconds);
}

void trainer::request_save() {
  impl_->actors.request_save();
}

bool trainer::take_save_request() {
  return std::exchange(impl_->saves, false);
}

std::optional<run_end> trainer::ended() const {
  return impl_->actors.ended();
}

void trainer::interrupt(std::string reason) {
  impl_->actors.interrupt(std::move(reason));
}

run_health trainer::health() const {
  return impl_->actors.health();
}

parameter_list trainer::parameters() const {
  return impl_->stages.parameters();
}

std::int64_t trainer::parameter_count() const {
  return impl_->parameter_count;
}

std::string trainer::not_finite() const {
  const auto own = first_not_finite(parameters());
  auto* const job = impl_->setup.job();
  if (!job)
    return own;
  std::string name;
  for (const auto& part : job->gather({frame_type::mail, own, {}}))
    if (name.empty())
      name = part.head;
  return job->share({frame_type::mail, name, {}}).head;
}

parameter_list trainer::gather_parameters() const {
  return impl_->stages.gather();
}

void trainer::load(const parameter_list& values, const std::string& origin) {
  impl_->stages.load(values, origin);
}

void trainer::check_replicas() const {
  impl_->stages.check_replicas();
}

bool trainer::heal(const error& reason) {
  if (!impl_->is_healable(reason))
    return false;
  impl_->rejoin(impl_->failure_of_op(reason));
  return true;
}

bool trainer::can_heal(const error& reason) {
  return impl_->is_healable(reason);
}

void trainer::regroup(std::int64_t ends, bool at_once) {
  const auto* const job = impl_->setup.job();
  if (!job || !impl_->setup.options.healing.rejoin || ends < impl_->epoch)
    return;
  if (at_once)
    impl_->abandoned_epoch = ends;
  impl_->ending_epoch = ends;
  impl_->tell_of_regroup(impl_->epoch);
}

bool trainer::recovered() const {
  return impl_->recovered;
}

std::int64_t trainer::evaluated_after() const {
  return impl_->evaluated;
}

std::vector<step_event> trainer::latest_outcomes() const {
  return {impl_->outcomes.begin(), impl_->outcomes.end()};
}

std::string trainer::loses_last_step(double longest) const {
  auto& actors = impl_->actors;
  const auto& stages = impl_->stages;
  if (!actors.abandon_step())
    return "the step that was interrupted had begun to change the parameters";
  if (stages.ops_write_state() && !actors.await_ops(milliseconds_of(longest)))
    return "an op of the step that was interrupted did not end in time";
  if (stages.buffers_changed())
    return "the step that was interrupted had begun to change buffers";
  return {};
}

run_progress trainer::progress() const {
  return impl_->progress();
}

std::map<std::int32_t, parameter_list> trainer::snapshot() const {
  return impl_->stages.snapshot();
}

void trainer::restore(const stored_checkpoint& from) {
  impl_->stages.restore(from);
  impl_->set_progress(from.about().progress);
}

std::int64_t trainer::position() const {
  return impl_->position;
}

void trainer::set_position(std::int64_t microbatches) {
  if (microbatches < 0)
    fail(error_code::invalid_argument,
         "a run's position is {} microbatches; use a number from 0 on",
         microbatches);
  impl_->position = microbatches;
}

void trainer::replan(const schedule& order) {
  impl_->plans.replan(order);
  if (impl_->setup.job())
    impl_->actors.announce_change();
}

void trainer::rehost(std::vector<std::int32_t> hosting) {
  auto& state = *impl_;
  const auto* const job = state.setup.job();
  if (!job || !job->place().leads())
    fail(error_code::invalid_argument,
         "ranks move between the processes of a job, and its leading process "
         "says where; this one {}",
         job ? fmt::format("is process {}", job->place().process)
             : "is a run of one process");
  auto next = state.setup.layout_with(std::move(hosting));
  state.require_movable(next);
  if (const auto& request = state.setup.options.healing.request_hosting)
    return request(std::move(next.hosting));
  {
    const std::scoped_lock lock(state.hosting_mutex);
    state.next_hosting = std::move(next.hosting);
  }
  state.actors.announce_change();
}

void trainer::move(std::int32_t rank, std::int32_t process) {
  rehost(moved(hosting(), rank, process));
}

void trainer::drain(std::int32_t process) {
  const auto* const job = impl_->setup.job();
  rehost(drained(hosting(), process, job ? job->place().processes : 1));
}

std::vector<std::int32_t> trainer::hosting() const {
  return impl_->members().hosting;
}

std::int64_t trainer::epoch() const {
  return impl_->epoch;
}

job_members trainer::members() const {
  return impl_->members();
}

const plan& trainer::plan() const {
  return *impl_->plans.training();
}

plan_pointer trainer::shared_plan() const {
  return impl_->plans.training();
}

double trainer::loss_scale() const {
  return impl_->scale.value();
}

const trainer_options& trainer::options() const {
  return impl_->setup.options;
}

const std::map<std::string, std::string>& trainer::aliases() const {
  return impl_->setup.aliases;
}

}  // namespace troupe
