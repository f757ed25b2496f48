#include "troupe/cli/train/train_memory.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/launch/environment.hpp"

namespace troupe::cli {

parameter_footprint footprint_of(const train_options& o,
                                 const built_model& model) {
  parameter_footprint footprint{
    .all = model.parameters,
    .dtype = o.numerics.dtypes.parameters.value_or(at::kFloat),
    .widens_gradients = o.numerics.accumulate_in_fp32};
  // The number of frozen parameters is known only after they are made.
  const bool freezes =
    std::ranges::any_of(groups_for(o.optimisation.optimizer, model.layers),
                        &parameter_group::frozen);
  if (o.steps > 0 && !freezes)
    footprint.trained = model.parameters - model.frozen;
  // The plain loop has one replica, and keeps the gradients of every replica
  // that it emulates until it averages them.
  if (o.plain)
    footprint.gradients = o.partition.data_parallel;
  else if (o.partition.shard.mode == shard_mode::replicate)
    footprint.replicas = o.partition.data_parallel;
  return footprint;
}

double least_bytes(const parameter_footprint& footprint) {
  const auto size = static_cast<double>(c10::elementSize(footprint.dtype));
  const auto master = footprint.dtype == at::kFloat ? 0.0 : 4.0;
  const auto gradient = footprint.widens_gradients ? 4.0 : size;
  return footprint.replicas
         * (footprint.all * size
            + footprint.trained * (footprint.gradients * gradient + master));
}

std::string ways_to_need_less(const train_options& o,
                              const parameter_footprint& footprint,
                              model_source source) {
  std::vector<std::string> ways;
  // A trained parameter takes 10 bytes in bf16 (with its fp32 master) and 8 in
  // fp32, so bf16 helps only if less than half of the parameters are trained.
  if (footprint.dtype == at::kFloat && 2 * footprint.trained < footprint.all
      && source != model_source::file)
    ways.emplace_back("--dtype bf16");
  ways.emplace_back("a smaller model");
  if (source == model_source::flags)
    ways.insert(ways.end(), {"--vocabulary", "--seq"});
  if (footprint.replicas > 1
      || (footprint.gradients > 1 && footprint.trained > 0))
    ways.emplace_back("--data-parallel");
  if (!o.plain)
    ways.emplace_back("more machines");
  const auto last = ways.back();
  ways.pop_back();
  return ways.empty() ? last
                      : fmt::format("{} or {}", fmt::join(ways, ", "), last);
}

void require_memory(const train_options& o, const built_model& model,
                    model_source source, const cgroup_limits& limits) {
  // Devices hold the parameters in their own memory; the host holds those of
  // the layer being made.
  if (o.devices.device != "cpu")
    return;
  constexpr double gib = 1 << 30;
  const auto place = read_environment();
  const auto footprint = footprint_of(o, model);
  const auto bytes =
    least_bytes(footprint) * place.local_processes / place.processes;
  const auto there = static_cast<double>(usable_bytes(limits));
  const bool is_limited = usable_bytes(limits) < physical_bytes();
  if (there > 0 && bytes > there)
    fail(error_code::invalid_argument,
         "the model has {:.3g} parameters; {}{} of {} processes with {} "
         "replicas need {:.3g} GiB, and {} {:.3g}; use {}",
         footprint.all, footprint.trained > 0 ? "with gradients " : "",
         place.local_processes, place.processes, o.partition.data_parallel,
         bytes / gib,
         is_limited ? "the control group (cgroup) of this process allows"
                    : "this machine has",
         there / gib, ways_to_need_less(o, footprint, source));
}

}  // namespace troupe::cli
