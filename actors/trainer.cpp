#include "troupe/actors/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "troupe/actors/trainer_checks.hpp"
#include "troupe/actors/trainer_state.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/stage/module/on_device.hpp"

namespace troupe {

trainer::trainer(const model& layers, trainer_options options)
  : impl_(std::make_unique<impl>(layers, std::move(options))) {}

trainer::~trainer() {
  if (!impl_)
    return;  // moved from
  try {
    impl_->actors->finish_monitors();
  } catch (const std::exception& reason) {
    log()->warn("when a trainer ended: {}", reason.what());
  }
}

trainer::trainer(trainer&&) noexcept = default;

step_report trainer::step(const source_pointer& source, bool skip_update) {
  require_source(source);
  impl_->actors->require_not_ended();
  if (impl_->step == 0
      && (impl_->options.data_parallel > 1 || impl_->places().copies() > 1))
    check_replicas();
  if (skip_update && impl_->training->update.every > 0)
    fail(error_code::invalid_argument,
         "schedule {} updates within a step, and its forwards read what the "
         "updates make: they can't be skipped",
         impl_->training->schedule_name);
  impl_->take_up_plan();
  impl_->buffer_versions = versions_of(impl_->buffers);
  auto settings = impl_->next_settings();
  settings.skip_update = skip_update;
  // Recorded steps are launched from this thread.
  const compute_scope computes(impl_->options.execution.intra_op_threads);
  auto report = impl_->graphs
                  ? impl_->graphs->run(settings, source)
                  : impl_->actors->run(settings, impl_->training, source);
  impl_->step = settings.step;
  impl_->replans |= report.replans;
  impl_->saves |= report.saves;
  impl_->position +=
    std::int64_t{impl_->options.data_parallel} * impl_->training->microbatches;
  const auto& done = report.summary;
  auto& scale = impl_->scale;
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
  const auto at_once = std::int64_t{impl_->options.data_parallel}
                       * impl_->evaluation->microbatches;
  const auto read =
    microbatches % at_once == 0 ? source : filled_up(source, microbatches);
  step_event total;
  for (std::int64_t done = 0; done < microbatches; done += at_once) {
    settings.first_microbatch = done;
    settings.counted = microbatches - done;
    const auto report = impl_->actors->run(settings, impl_->evaluation, read);
    impl_->replans |= report.replans;
    impl_->saves |= report.saves;
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
  impl_->actors->publish(total);
  return total;
}

tensor_list trainer::infer(const tensor_list& inputs) {
  const compute_scope computes(impl_->options.execution.intra_op_threads);
  const impl::whole_scope whole(*impl_);
  const auto& state = *impl_;
  auto* const job = state.options.job.get();
  const auto& placement = state.options.schedule.placement;
  const auto process_of = [&](std::int32_t stage) {
    return state.layout.process_of(0, placement.rank_of(stage));
  };
  const auto& graph = state.training->graph;
  tensor_lists travelling(graph.edges().size());  // where their giver lives
  tensor_list outputs;
  for (std::int32_t s = 0; s < placement.stages(); ++s) {
    tensor_lists given;
    for (const auto& [giver, edge] : graph.inputs(s, false))
      given.push_back(
        pass_on(job, std::move(travelling[static_cast<std::size_t>(edge)]),
                process_of(giver), process_of(s)));
    const auto& stage = state.replicas[0][static_cast<std::size_t>(s)];
    if (!stage)
      continue;
    auto made =
      run_on_host(*stage, inputs, given, state.options.numerics.autocast,
                  state.devices.of(0, stage_instance{s}).get());
    outputs = std::move(made.outputs);
    std::size_t next = 0;
    for (const auto& [reader, edge] : graph.outputs(s, false))
      travelling[static_cast<std::size_t>(edge)] = std::move(made.sent[next++]);
  }
  return share(job, std::move(outputs), process_of(placement.stages() - 1));
}

std::int64_t trainer::attach(monitor watcher) {
  require_monitor(watcher);
  warn_of_unknown_names(watcher, impl_->names);
  return impl_->actors->attach(std::move(watcher));
}

void trainer::detach(std::int64_t id) {
  impl_->actors->detach(id);
}

void trainer::finish_monitors() {
  impl_->actors->finish_monitors();
}

void trainer::observe_every(std::int64_t steps) {
  require_at_least(1, steps, "steps between two that are observed");
  impl_->actors->board().observe_every(steps);
}

void trainer::stop(std::string reason, std::optional<double> within) {
  const auto seconds = within.value_or(impl_->options.execution.limits.finish);
  if (!(seconds >= 0))
    fail(error_code::invalid_argument,
         "a run can't stop within {} seconds; use 0 (no limit) or more",
         seconds);
  impl_->actors->finish({run_end::kind::asked, std::move(reason)}, seconds);
}

void trainer::request_save() {
  impl_->actors->request_save();
}

bool trainer::take_save_request() {
  return std::exchange(impl_->saves, false);
}

std::optional<run_end> trainer::ended() const {
  return impl_->actors->ended();
}

void trainer::interrupt(std::string reason) {
  impl_->actors->interrupt(std::move(reason));
}

run_health trainer::health() const {
  return impl_->actors->health();
}

parameter_list trainer::parameters() const {
  const impl::whole_scope whole(*impl_);
  return impl_->kept(
    without_aliases(parameters_of(impl_->replicas[0], impl_->places().stages()),
                    impl_->aliases));
}

std::int64_t trainer::parameter_count() const {
  return impl_->parameter_count;
}

std::string trainer::not_finite() const {
  const auto own = first_not_finite(parameters());
  const auto& job = impl_->options.job;
  if (!job)
    return own;
  std::string found;
  for (const auto& part : job->gather({frame_type::mail, own, {}}))
    if (found.empty())
      found = part.head;
  return job->share({frame_type::mail, found, {}}).head;
}

parameter_list trainer::gather_parameters() const {
  if (!impl_->options.job)
    return parameters();
  const impl::whole_scope whole(*impl_);
  return impl_->kept(gather(*impl_->options.job, impl_->held()));
}

void trainer::load(const parameter_list& values, const std::string& origin) {
  const auto& places = impl_->places();
  const auto all = with_aliases(values, impl_->aliases, origin);
  const impl::whole_scope whole(*impl_);
  for (const auto& replica : impl_->replicas)
    for (std::int8_t copy = 0; copy < places.copies(); ++copy) {
      const auto own = parameters_of(replica, places.stages(), copy);
      load_parameters(own, impl_->options.job ? only(own, all) : all, origin);
    }
  impl_->take_shards();
  impl_->read_parameters();
}

void trainer::check_replicas() const {
  const impl::whole_scope whole(*impl_);
  require_equal_replicas(impl_->options.job.get(), impl_->held());
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

const plan& trainer::plan() const {
  return *impl_->training;
}

plan_pointer trainer::shared_plan() const {
  const std::scoped_lock lock(impl_->planning);
  return impl_->training;
}

double trainer::loss_scale() const {
  return impl_->scale.value();
}

const trainer_options& trainer::options() const {
  return impl_->options;
}

const std::map<std::string, std::string>& trainer::aliases() const {
  return impl_->aliases;
}

}  // namespace troupe
