#include "troupe/actors/trainer_state.hpp"

#include <algorithm>

#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"

namespace troupe {

namespace {

bool computes_losses(const model& layers, layer_range stage) {
  return stage.last == std::ssize(layers)
         || std::any_of(layers.begin() + stage.first,
                        layers.begin() + stage.last,
                        [](const layer& each) { return !!each.loss; });
}

/// Null: tensors between processes go by way of the host, or there are none.
std::shared_ptr<device_links> links_of(const trainer_setup& setup,
                                       const plan& training,
                                       const run_devices& devices) {
  const auto& options = setup.options;
  if (!setup.job() || devices.empty() || !options.device_links)
    return nullptr;
  return std::make_shared<device_links>(
    setup.layout, setup.places(), edges_between_ranks(training),
    holding_stages(setup.ties, setup.ranges), setup.shards(), devices,
    gradient_mean(options.data_parallel, options.numerics.division),
    options.execution.limits.stall);
}

pipeline_options running(const trainer_setup& setup, const model& layers,
                         const run_plans& plans, const held_stages& stages,
                         std::shared_ptr<device_links> links) {
  const auto& options = setup.options;
  pipeline_options of_run;
  of_run.places = setup.places();
  of_run.job = options.job;
  of_run.hosting = options.hosting;
  of_run.plans = plans.of_job();
  of_run.stages = stages.stages();
  of_run.ties = holding_stages(setup.ties, setup.ranges);
  of_run.devices = stages.devices();
  of_run.links = std::move(links);
  for (std::int32_t s = 0; s < setup.places().stages(); ++s)
    of_run.needs_data.push_back(reads_microbatch(layers, setup.ranges, s)
                                || stages.reads_data(s));
  for (const auto& range : setup.ranges)
    of_run.has_losses.push_back(computes_losses(layers, range));
  of_run.counter = item_counter_of(layers, options.numerics);
  of_run.arithmetic = options.numerics;
  of_run.sharding = options.sharding;
  of_run.execution = options.execution;
  return of_run;
}

}  // namespace

trainer::impl::impl(const model& layers, trainer_options options)
  : setup(layers, std::move(options)),
    plans(setup),
    stages(setup, layers, *plans.training()),
    links(links_of(setup, *plans.training(), stages.devices())),
    actors(running(setup, layers, plans, stages, links)),
    generator(setup, plans, stages, actors),
    scale(setup.options.numerics.loss_scale) {
  // From here on processes exchange mail.
  stages.publish_to(actors.tensor_outlet());
  auto* const job = setup.job();
  if (links)
    links->connect(*job);
  require_same_split(job, setup.ranges);
  require_matching(job, stages.parameters_here(), setup.groups);
  if (setup.options.cuda_graphs)
    graphs = std::make_unique<graph_steps>(
      graph_steps_setup{&actors, plans.training(), stages.devices(),
                        stages.stages(), setup.options.execution.loading,
                        item_counter_of(layers, setup.options.numerics)});
  names = names_of_all(job, stages.names());
  parameter_count = count_parameters(job, stages.parameters_here());
}

step_settings trainer::impl::next_settings() const {
  const auto& numerics = setup.options.numerics;
  step_settings settings;
  settings.step = step + 1;
  settings.learning_rate = numerics.learning_rate.at(
    scale.next_update(settings.step), base_learning_rate(numerics.optimizer));
  settings.loss_scale = scale.value();
  settings.first_microbatch = position;
  return settings;
}

/// Recorded steps are launched from this thread.
step_report trainer::impl::run(const step_settings& settings,
                               const source_pointer& source) {
  const compute_scope computes(setup.options.execution.intra_op_threads);
  auto report = graphs ? graphs->run(settings, source)
                       : actors.run(settings, plans.training(), source);
  note(report);
  return report;
}

void trainer::impl::note(const step_report& report) {
  plans.note_announced(report.replans);
  saves |= report.saves;
}

}  // namespace troupe
