#include "troupe/actors/trainer.hpp"

#include <algorithm>
#include <cmath>

#include "troupe/actors/graph_steps.hpp"
#include "troupe/actors/job_layout.hpp"
#include "troupe/actors/job_parameters.hpp"
#include "troupe/actors/replica.hpp"
#include "troupe/actors/trainer_checks.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/device/threads.hpp"
#include "troupe/engine/plan/compile.hpp"
#include "troupe/engine/plan/part.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"
#include "troupe/engine/stage/module_stage.hpp"
#include "troupe/engine/stage/on_device.hpp"
#include "troupe/schedules/forward_part.hpp"

namespace troupe {

namespace {

std::shared_ptr<const plan> compile_for(const schedule& order,
                                        const trainer_options& options) {
  compile_options compiling;
  compiling.data_parallel = options.data_parallel;
  compiling.global_norm = options.clip > 0 || options.loss_scale.dynamic;
  return std::make_shared<const plan>(compile(order, compiling));
}

/// The plan that trains.
std::shared_ptr<const plan> training_plan(const trainer_options& options) {
  auto made =
    options.plan ? options.plan : compile_for(options.schedule, options);
  if (options.overlap.reduce)
    return made;
  return std::make_shared<const plan>(without_overlapped_reductions(*made));
}

job_layout layout_of(const trainer_options& options) {
  const auto place = options.job ? options.job->place() : job_place{};
  return make_layout(place.process, place.processes, options.data_parallel,
                     options.schedule.placement.ranks);
}

}  // namespace

struct trainer::impl {
  impl(const model& layers, trainer_options given);

  module_stage_options stage_options(std::int32_t stage) const;
  void assign_devices();
  void make_stages(const model& layers);
  std::shared_ptr<stage> make_stage(
    std::int32_t data_rank, std::int32_t stage,
    const std::shared_ptr<layer_sequence>& module) const;
  std::shared_ptr<rank_device> device_of(std::int32_t data_rank,
                                         std::int32_t rank) const;
  void start_actors();
  void prepare_graphs();
  step_settings next_settings() const;
  bool reads_data(std::int32_t stage) const;
  std::vector<parameter_here> held() const { return parameters_of(replicas); }

  trainer_options options;
  job_layout layout;
  stage_split ranges;
  std::shared_ptr<const troupe::plan> training;
  std::shared_ptr<const troupe::plan> evaluation;
  std::vector<std::vector<std::shared_ptr<rank_device>>> devices;
  std::shared_ptr<troupe::device_links> links;
  std::vector<replica> replicas;
  /// Filled once the actors are there; stages publish through them.
  struct outlets {
    observer::publisher publish;
  };
  std::shared_ptr<outlets> to_monitors = std::make_shared<outlets>();
  std::vector<std::vector<std::shared_ptr<stage>>> stages;
  std::unique_ptr<graph_steps> graphs;  // null: all steps run op by op
  std::unique_ptr<pipeline> actors;     // ends before what they run
  troupe::loss_scale scale;
  std::int64_t parameter_count = 0;
  std::int64_t step = 0;
  std::int64_t position = 0;
};

trainer::impl::impl(const model& layers, trainer_options given)
  : options(std::move(given)), scale(options.loss_scale) {
  if (options.plan)
    options.schedule = schedule_of(*options.plan);
  require_legal(options);
  require_legal(layers);
  layout = layout_of(options);
  assign_devices();
  ranges = split_for(layers, options);
  set_intra_op_threads(options.intra_op_threads);
  training = training_plan(options);
  evaluation = compile_for(forward_part(options.schedule), options);
  make_stages(layers);
  start_actors();
  prepare_graphs();
  parameter_count = count_parameters(options.job.get(), held());
}

/// Ranks that live here take the devices in turns.
void trainer::impl::assign_devices() {
  if (options.devices.empty())
    return;
  const auto ranks = options.schedule.placement.ranks;
  std::size_t next = 0;
  for (std::int32_t d = 0; d < options.data_parallel; ++d) {
    auto& of_replica = devices.emplace_back();
    for (std::int32_t r = 0; r < ranks; ++r)
      of_replica.push_back(
        layout.is_here(d, r) ? std::make_shared<rank_device>(
          options.devices[next++ % options.devices.size()], options.overlap)
                             : nullptr);
  }
}

module_stage_options trainer::impl::stage_options(std::int32_t stage) const {
  module_stage_options made;
  made.index = stage;
  made.rank = options.schedule.placement.rank_of(stage);
  made.first = takes_inputs(*training, stage);
  if (makes_losses(*training, stage))
    made.loss = options.loss;
  made.optimizer = options.optimizer;
  made.recompute = options.recompute;
  made.autocast = options.autocast;
  made.halt_on_nan = options.halt_on_nan;
  made.publish = [to = to_monitors](tensors_event observed) {
    to->publish(std::move(observed));
  };
  return made;
}

void trainer::impl::make_stages(const model& layers) {
  for (std::int32_t d = 0; d < options.data_parallel; ++d) {
    replica modules;
    std::vector<std::shared_ptr<stage>> made;
    for (std::int32_t s = 0; s < options.schedule.stages(); ++s) {
      if (!layout.is_here(d, options.schedule.placement.rank_of(s))) {
        modules.emplace_back();
        made.emplace_back();
        continue;
      }
      modules.push_back(std::make_shared<layer_sequence>(
        layers, ranges[static_cast<std::size_t>(s)]));
      made.push_back(make_stage(d, s, modules.back()));
    }
    require_own_names(parameters_of(modules));
    replicas.push_back(std::move(modules));
    stages.push_back(std::move(made));
  }
}

/// On a device all that a stage begins with is made on its compute stream, and
/// is there when this returns: for the host too.
std::shared_ptr<stage> trainer::impl::make_stage(
  std::int32_t data_rank, std::int32_t stage,
  const std::shared_ptr<layer_sequence>& module) const {
  auto at = stage_options(stage);
  at.data_rank = data_rank;
  const auto device = at.device = device_of(data_rank, at.rank);
  if (!device)
    return std::make_shared<module_stage>(module, std::move(at));
  const auto scope = device->compute().enter();
  bring(*module, device->compute());
  auto made = std::make_shared<module_stage>(module, std::move(at));
  device->compute().drain();
  return made;
}

/// Null: the CPU.
std::shared_ptr<rank_device> trainer::impl::device_of(std::int32_t data_rank,
                                                      std::int32_t rank) const {
  if (devices.empty())
    return nullptr;
  return devices[static_cast<std::size_t>(data_rank)]
                [static_cast<std::size_t>(rank)];
}

/// Whether a stage between the first and the last reads arguments: only those
/// that live here need to know.
bool trainer::impl::reads_data(std::int32_t stage) const {
  return std::ranges::any_of(replicas, [&](const replica& modules) {
    const auto& module = modules[static_cast<std::size_t>(stage)];
    return module && module->reads_arguments();
  });
}

void trainer::impl::start_actors() {
  pipeline_options running;
  running.placement = options.schedule.placement;
  running.job = options.job;
  running.plans = {training, evaluation};
  running.stages = stages;
  running.devices = devices;
  running.order = options.order;
  if (options.job && !devices.empty() && options.device_links)
    running.links = links = std::make_shared<device_links>(
      layout, options.schedule.placement, edges_of(*training), devices,
      options.stall_seconds);
  for (std::int32_t s = 0; s < training->stages(); ++s)
    running.needs_data.push_back(takes_inputs(*training, s)
                                 || makes_losses(*training, s)
                                 || reads_data(s));
  running.clip = options.clip;
  running.loss_scale = options.loss_scale;
  running.intra_op_threads = options.intra_op_threads;
  running.prefetch = options.prefetch;
  running.slow_load_seconds = options.slow_load_seconds;
  running.stall_seconds = options.stall_seconds;
  running.finish_seconds = options.finish_seconds;
  running.leave_seconds = options.leave_seconds;
  running.handler_hook = options.handler_hook;
  actors = std::make_unique<pipeline>(std::move(running));
  to_monitors->publish = actors->tensor_outlet();
  if (links)
    links->connect(*options.job);
}

void trainer::impl::prepare_graphs() {
  if (options.cuda_graphs)
    graphs = std::make_unique<graph_steps>(
      graph_steps_setup{actors.get(), training, devices, stages,
                        options.prefetch > 0, options.slow_load_seconds});
}

step_settings trainer::impl::next_settings() const {
  step_settings settings;
  settings.step = step + 1;
  settings.learning_rate = options.learning_rate.at(
    settings.step, base_learning_rate(options.optimizer));
  settings.loss_scale = scale.value();
  settings.first_microbatch = position;
  return settings;
}

trainer::trainer(const model& layers, trainer_options options)
  : impl_(std::make_unique<impl>(layers, std::move(options))) {}

trainer::~trainer() = default;
trainer::trainer(trainer&&) noexcept = default;

step_report trainer::step(const source_pointer& source, bool skip_update) {
  require_source(source);
  impl_->actors->require_not_ended();
  if (impl_->step == 0 && impl_->options.data_parallel > 1)
    check_replicas();
  auto settings = impl_->next_settings();
  settings.skip_update = skip_update;
  auto report = impl_->graphs
                  ? impl_->graphs->run(settings, source)
                  : impl_->actors->run(settings, impl_->training, source);
  impl_->step = settings.step;
  impl_->position +=
    std::int64_t{impl_->options.data_parallel} * impl_->training->microbatches;
  impl_->scale.update(std::isfinite(report.summary.gradient_norm));
  return report;
}

step_range trainer::train(source_pointer source, std::int64_t steps) {
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

step_event trainer::evaluate(const source_pointer& source,
                             std::int64_t microbatches) {
  require_source(source);
  auto settings = impl_->next_settings();
  settings.step = impl_->step;
  settings.phase = phase::validation;
  const auto at_once = std::int64_t{impl_->options.data_parallel}
                       * impl_->evaluation->microbatches;
  step_event total;
  for (std::int64_t done = 0; done < microbatches; done += at_once) {
    settings.first_microbatch = done;
    const auto part =
      impl_->actors->run(settings, impl_->evaluation, source).summary;
    total.source = part.source;
    total.tokens += part.tokens;
    for (const auto& loss : part.losses)
      merge(total.losses, loss);
    for (const auto& metric : part.metrics)
      merge(total.metrics, metric);
    if (ended() && done + at_once < microbatches)
      return total;
  }
  impl_->actors->publish(total);
  return total;
}

tensor_list trainer::infer(const tensor_list& inputs) {
  auto values = inputs;
  const auto& placement = impl_->options.schedule.placement;
  auto last = impl_->layout.process_of(0, placement.rank_of(0));
  for (std::int32_t s = 0; s < placement.stages(); ++s) {
    const auto process = impl_->layout.process_of(0, placement.rank_of(s));
    values =
      pass_on(impl_->options.job.get(), std::move(values), last, process);
    last = process;
    const auto& stage = impl_->replicas[0][static_cast<std::size_t>(s)];
    if (!stage)
      continue;
    values = outputs_on_host(*stage, values,
                             impl_->device_of(0, placement.rank_of(s)).get());
  }
  return share(impl_->options.job.get(), std::move(values), last);
}

std::int64_t trainer::attach(monitor watcher) {
  require_monitor(watcher);
  // Names of stages in other processes are not known here.
  if (impl_->layout.processes == 1)
    warn_of_unknown_names(watcher, impl_->replicas.front());
  return impl_->actors->attach(std::move(watcher));
}

void trainer::detach(std::int64_t id) {
  impl_->actors->detach(id);
}

void trainer::finish_monitors() {
  impl_->actors->finish_monitors();
}

void trainer::observe_every(std::int64_t steps) {
  impl_->actors->board().observe_every(steps);
}

void trainer::stop(std::string reason) {
  impl_->actors->finish({run_end::kind::asked, std::move(reason)});
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
  return parameters_of(impl_->replicas[0]);
}

std::int64_t trainer::parameter_count() const {
  return impl_->parameter_count;
}

parameter_list trainer::gather_parameters() const {
  return impl_->options.job ? gather(*impl_->options.job, impl_->held())
                            : parameters();
}

void trainer::load(const parameter_list& values, const std::string& origin) {
  for (const auto& replica : impl_->replicas) {
    const auto own = parameters_of(replica);
    load_parameters(own, impl_->options.job ? only(own, values) : values,
                    origin);
  }
}

void trainer::check_replicas() const {
  require_equal_replicas(impl_->options.job.get(), impl_->held());
}

std::int64_t trainer::position() const {
  return impl_->position;
}

void trainer::set_position(std::int64_t microbatches) {
  impl_->position = microbatches;
}

const plan& trainer::plan() const {
  return *impl_->training;
}

std::shared_ptr<const plan> trainer::shared_plan() const {
  return impl_->training;
}

double trainer::loss_scale() const {
  return impl_->scale.value();
}

}  // namespace troupe
