#include "troupe/actors/trainer_state.hpp"

#include <algorithm>
#include <set>

#include "troupe/actors/trainer_checks.hpp"
#include "troupe/actors/trainer_plans.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/module/on_device.hpp"

namespace troupe {

namespace {

job_layout layout_of(const trainer_options& options) {
  const auto place = options.job ? options.job->place() : job_place{};
  return make_layout(place.process, place.processes, options.data_parallel,
                     options.schedule.placement.ranks);
}

}  // namespace

parameter_list parameters_of(const replica& instances, std::int32_t stages,
                             std::int8_t copy) {
  parameter_list all;
  for (std::int32_t s = 0; s < stages; ++s)
    if (const auto& module =
          instances[static_cast<std::size_t>(copy * stages + s)])
      for (auto& named : module->parameters_by_name())
        all.push_back(std::move(named));
  return all;
}

std::vector<std::string> names_of(const std::vector<replica>& replicas) {
  std::set<std::string> all;
  for (const auto& instances : replicas)
    for (const auto& module : instances) {
      if (!module)
        continue;
      for (auto& each : module->modules_by_name())
        all.insert(std::move(each.name));
      for (auto& each : module->parameters_by_name())
        all.insert(std::move(each.first));
    }
  return {all.begin(), all.end()};
}

parameter_list state_dict_of(const replica& instances, std::int32_t stages) {
  parameter_list all;
  for (std::int32_t s = 0; s < stages; ++s)
    if (const auto& module = instances[static_cast<std::size_t>(s)])
      for (auto& named : module->state_dict())
        all.push_back(std::move(named));
  return all;
}

std::vector<parameter_here> parameters_of(const std::vector<replica>& replicas,
                                          const placement& stages,
                                          const alias_names& aliases) {
  std::vector<parameter_here> all;
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(replicas.size()); ++d)
    for (const auto& each : stages.instances())
      if (const auto& module =
            replicas[static_cast<std::size_t>(d)][stages.index_of(each)])
        for (auto& [name, value] : module->parameters_by_name()) {
          const auto tied = aliases.find(name);
          all.push_back({each, d, name,
                         tied == aliases.end() ? name : tied->second, value});
        }
  return all;
}

trainer::impl::impl(const model& layers, trainer_options given)
  : options(std::move(given)), scale(options.numerics.loss_scale) {
  if (options.plan)
    options.schedule = schedule_of(*options.plan);
  const auto settings = options.numerics.parameters;
  require_legal(options);
  require_legal(layers);
  layout = layout_of(options);
  ranges = split_for(layers, options);
  take_ties(layers);
  const auto graph = graph_of(layers, ranges);
  training =
    training_plan(options, graph, joined(holding_stages(ties, ranges)));
  evaluation = evaluation_plan(options, graph);
  devices = run_devices(options.devices, options.overlap, layout, *training);
  make_stages(layers);
  require_slices();
  start_actors(layers);  // from here on processes exchange mail
  require_same_split(options.job.get(), ranges);
  require_matching(options.job.get(), held(), settings);
  if (options.cuda_graphs)
    graphs = std::make_unique<graph_steps>(graph_steps_setup{
      actors.get(), training, devices, stages, options.execution.loading,
      item_counter_of(layers, options.numerics)});
  names = names_of_all(options.job.get(), names_of(replicas));
  parameter_count = count_parameters(options.job.get(), held());
}

void trainer::impl::take_ties(const model& layers) {
  ties = ties_of(layers);
  aliases = aliases_of(ties);
  options.numerics = with_settings_of_owners(options.numerics, ties);
  ties = trained_ties(std::move(ties), options.numerics.parameters);
  if (!ties.empty() && !options.devices.empty() && options.job
      && !options.device_links)
    throw error(error_code::invalid_argument,
                "tied gradients of several processes go from device to device; "
                "keep device_links on, or use the CPU");
}

module_stage_options trainer::impl::stage_options(std::int32_t data_rank,
                                                  stage_instance which) const {
  module_stage_options made;
  made.data_rank = data_rank;
  made.index = which.stage;
  made.rank = places().rank_of(which);
  made.numerics = options.numerics;
  made.ties = ties;
  made.keeps_versions = training->update.every > 0;
  if (options.sharding.shards())
    made.shards = {.shard = data_rank % shards(),
                   .shards = shards(),
                   .multiple = options.sharding.multiple,
                   .releases = options.sharding.mode == shard_mode::all};
  made.publish = [to = to_monitors](tensors_event observed) {
    to->publish(std::move(observed));
  };
  return made;
}

void trainer::impl::make_stages(const model& layers) {
  distinct_parameters made_so_far;
  for (std::int32_t d = 0; d < options.data_parallel; ++d) {
    replica modules;
    std::vector<stage> made;
    for (const auto& each : places().instances()) {
      if (!layout.is_here(d, places().rank_of(each))) {
        modules.emplace_back();
        made.emplace_back();
        continue;
      }
      modules.push_back(
        std::make_shared<layer_sequence>(layers, ranges, each.stage));
      made_so_far.add(modules.back()->parameters_by_name());
      modules.back()->convert(options.numerics.dtypes);
      for (const auto& [name, value] : modules.back()->buffers_by_name())
        buffers.push_back(value);
      made.push_back(make_stage(d, each, modules.back()));
    }
    require_own_names(state_dict_of(modules, places().stages()));
    replicas.push_back(std::move(modules));
    stages.push_back(std::move(made));
  }
}

void trainer::impl::require_slices() const {
  if (training->slices == 1)
    return;
  for (const auto& modules : replicas)
    for (const auto& module : modules)
      if (const auto problem = module ? module->problem_in_slices() : "";
          !problem.empty())
        fail(error_code::invalid_argument,
             "schedule {} cuts microbatches into {} slices, and {}",
             training->schedule_name, training->slices, problem);
}

/// On a device all that a stage begins with is made on its compute stream, and
/// is there when this returns: for the host too.
stage trainer::impl::make_stage(
  std::int32_t data_rank, stage_instance which,
  const std::shared_ptr<layer_sequence>& module) const {
  auto options = stage_options(data_rank, which);
  const auto device = options.device = devices.of(data_rank, which);
  if (!device)
    return make_module_stage(module, options);
  const auto scope = device->compute().enter();
  bring(*module, device->compute());
  auto made = make_module_stage(module, options);
  device->compute().drain();
  return made;
}

/// Whether a stage reads arguments: only those that live here need to know.
bool trainer::impl::reads_data(std::int32_t stage) const {
  const auto reads = [&](const replica& modules) {
    return std::ranges::any_of(places().instances(), [&](const auto& each) {
      const auto& module = modules[places().index_of(each)];
      return each.stage == stage && module && module->reads_arguments();
    });
  };
  return std::ranges::any_of(replicas, reads);
}

/// On a device, each stage's behind the work of its compute stream.
void trainer::impl::read_parameters() {
  for (std::int32_t d = 0; d < options.data_parallel; ++d)
    for (const auto& which : places().instances()) {
      const auto& here =
        stages[static_cast<std::size_t>(d)][places().index_of(which)];
      if (!here)
        continue;
      const auto device = devices.of(d, which);
      const auto scope = device ? device->compute().enter() : nullptr;
      here.parameters->read_parameters();
    }
}

namespace {

bool computes_losses(const model& layers, layer_range stage) {
  return stage.last == std::ssize(layers)
         || std::any_of(layers.begin() + stage.first,
                        layers.begin() + stage.last,
                        [](const layer& each) { return !!each.loss; });
}

}  // namespace

void trainer::impl::start_actors(const model& layers) {
  pipeline_options running;
  running.placement = options.schedule.placement;
  running.job = options.job;
  known_plans = std::make_shared<job_plans>(std::vector{training, evaluation});
  running.plans = known_plans;
  running.stages = stages;
  running.ties = holding_stages(ties, ranges);
  running.devices = devices;
  if (options.job && !devices.empty() && options.device_links)
    running.links = links = std::make_shared<device_links>(
      layout, options.schedule.placement, edges_between_ranks(*training),
      holding_stages(ties, ranges), shards(), devices,
      gradient_mean(options.data_parallel, options.numerics.division),
      options.execution.limits.stall);
  for (std::int32_t s = 0; s < training->stages(); ++s)
    running.needs_data.push_back(reads_microbatch(layers, ranges, s)
                                 || reads_data(s));
  for (const auto& range : ranges)
    running.has_losses.push_back(computes_losses(layers, range));
  running.counter = item_counter_of(layers, options.numerics);
  running.numerics = options.numerics;
  running.sharding = options.sharding;
  running.execution = options.execution;
  actors = std::make_unique<pipeline>(std::move(running));
  to_monitors->publish = actors->tensor_outlet();
  if (links)
    links->connect(*options.job);
}

void trainer::replan(const schedule& order) {
  const auto& options = impl_->options;
  const auto now = shared_plan();  // steps go on while this compiles
  require_replannable(order, options, *now);
  auto wanted = options;
  if (order != options.schedule)  // else the plan that was given, as it is
    wanted.plan = nullptr;
  wanted.schedule = order;
  auto made = training_plan(wanted, now->graph, tied_stages(*now));
  {
    const std::scoped_lock lock(impl_->planning);
    impl_->next = std::move(made);
  }
  if (options.job)
    impl_->actors->announce_plan();
}

/// The leading process's plan, which all know before any of them runs it.
void trainer::impl::take_up_plan() {
  if (options.job && !std::exchange(replans, false))
    return;
  std::unique_lock lock(planning);
  auto taken = std::exchange(next, nullptr);
  lock.unlock();
  if (options.job)
    taken = share_plan(*options.job, std::move(taken));
  if (!taken)
    return;  // a wish that came in between has been fulfilled with the last
  if (options.job) {
    known_plans->add(*taken);
    options.job->gather({frame_type::mail, {}, {}});
  }
  lock.lock();
  training = std::move(taken);
  if (layout.process == 0)
    log()->info("step {} switches to {}", step + 1, training->schedule_name);
}

step_settings trainer::impl::next_settings() const {
  step_settings settings;
  settings.step = step + 1;
  settings.learning_rate = options.numerics.learning_rate.at(
    scale.next_update(settings.step),
    base_learning_rate(options.numerics.optimizer));
  settings.loss_scale = scale.value();
  settings.first_microbatch = position;
  return settings;
}

}  // namespace troupe
