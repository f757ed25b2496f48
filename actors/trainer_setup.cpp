#include "troupe/actors/trainer_setup.hpp"

#include "troupe/actors/trainer_checks.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"

namespace troupe {

namespace {

/// Whether updates can be held, where that is wanted.
bool holds_updates(const trainer_options& options) {
  return options.execution.holds_updates && options.schedule.update.every == 0
         && (!options.plan || options.plan->global_norm);
}

}  // namespace

trainer_setup::trainer_setup(const model& layers, trainer_options wanted)
  : options(std::move(wanted)), groups(options.numerics.parameters) {
  if (options.plan)
    options.schedule = schedule_of(*options.plan);
  options.execution.holds_updates = holds_updates(options);
  require_legal(options);
  require_legal(layers);
  layout = layout_with(options.hosting);
  ranges = split_for(layers, options);
  ties = ties_of(layers);
  aliases = aliases_of(ties);
  options.numerics = with_settings_of_owners(options.numerics, ties);
  ties = trained_ties(std::move(ties), options.numerics.parameters);
  if (!ties.empty() && !options.devices.empty() && options.job
      && !options.device_links)
    throw error(error_code::invalid_argument,
                "tied gradients of several processes go from device to device; "
                "keep device_links on, or use the CPU");
  graph = graph_of(layers, ranges);
}

job_layout trainer_setup::layout_with(std::vector<std::int32_t> hosting) const {
  const auto place = options.job ? options.job->place() : job_place{};
  return make_layout(place.process, place.processes, options.data_parallel,
                     options.schedule.placement.ranks, std::move(hosting));
}

}  // namespace troupe
