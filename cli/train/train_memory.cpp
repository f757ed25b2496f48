#include "troupe/cli/train/train_memory.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/engine/launch/environment.hpp"

namespace troupe::cli {

held_parameters held_parameters_of(const train_options& o,
                                   const built_model& model) {
  held_parameters held{
    .all = model.parameters,
    .dtype = o.numerics.dtypes.parameters.value_or(at::kFloat),
    .widens_gradients = o.numerics.accumulate_in_fp32};
  // How many parameters a group freezes is known only once they are made.
  const bool freezes =
    std::ranges::any_of(groups_for(o.optimisation.optimizer, model.layers),
                        &parameter_group::frozen);
  if (o.steps > 0 && !freezes)
    held.trained = model.parameters - model.frozen;
  // The plain loop has one replica, and keeps the gradients of each one that it
  // stands for until it averages them.
  if (o.plain)
    held.gradients = o.partition.data_parallel;
  else if (o.partition.shard.mode == shard_mode::replicate)
    held.replicas = o.partition.data_parallel;
  return held;
}

double least_bytes(const held_parameters& held) {
  const auto size = static_cast<double>(c10::elementSize(held.dtype));
  const auto master = held.dtype == at::kFloat ? 0.0 : 4.0;
  const auto gradient = held.widens_gradients ? 4.0 : size;
  return held.replicas
         * (held.all * size
            + held.trained * (held.gradients * gradient + master));
}

std::string ways_to_need_less(const train_options& o,
                              const held_parameters& held,
                              model_source source) {
  std::vector<std::string> ways;
  // Of a trained parameter, bf16 keeps 10 bytes and fp32 8.
  if (held.dtype == at::kFloat && 2 * held.trained < held.all
      && source != model_source::file)
    ways.emplace_back("--dtype bf16");
  ways.emplace_back("a smaller model");
  if (source == model_source::flags)
    ways.insert(ways.end(), {"--vocabulary", "--seq"});
  if (held.replicas > 1 || (held.gradients > 1 && held.trained > 0))
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
  // Devices hold the parameters in memory of their own, and the host those of
  // the layer that is being made.
  if (o.devices.device != "cpu")
    return;
  constexpr double gib = 1 << 30;
  const auto place = read_environment();
  const auto held = held_parameters_of(o, model);
  const auto bytes =
    least_bytes(held) * place.local_processes / place.processes;
  const auto there = static_cast<double>(usable_bytes(limits));
  const bool is_limited = usable_bytes(limits) < physical_bytes();
  if (there > 0 && bytes > there)
    fail(error_code::invalid_argument,
         "the model has {:.3g} parameters; {}{} of {} processes with {} "
         "replicas need {:.3g} GiB, and {} {:.3g}; use {}",
         held.all, held.trained > 0 ? "with gradients " : "",
         place.local_processes, place.processes, o.partition.data_parallel,
         bytes / gib,
         is_limited ? "the control group (cgroup) of this process allows"
                    : "this machine has",
         there / gib, ways_to_need_less(o, held, source));
}

}  // namespace troupe::cli
