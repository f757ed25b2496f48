#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/device/cgroup_limits.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe::cli {

/// The parameters and gradients that a run holds.
struct parameter_footprint {
  double all = 0;
  double trained = 0;  // of these
  at::ScalarType dtype = at::kFloat;
  bool widens_gradients = true;  // to fp32
  double replicas = 1;   // of everything; all shards together count as one
  double gradients = 1;  // lists of gradients per replica
};

/// The footprint of a run with this model; a run without steps trains no
/// parameters.
parameter_footprint footprint_of(const train_options& options,
                                 const built_model& model);

/// The bytes of parameters, gradients and, for a 16-bit dtype, fp32 masters: a
/// lower bound, as optimizers' state and activations come on top.
double least_bytes(const parameter_footprint& footprint);

/// What determines a model's sizes: flags, a stored file of parameters (which
/// also keeps its dtype), or a folder of Hugging Face's transformers.
enum class model_source : std::uint8_t { flags, file, folder };

/// What reduces a run's memory, as in "a smaller model or more machines".
std::string ways_to_need_less(const train_options& options,
                              const parameter_footprint& footprint,
                              model_source source);

/// Throws `invalid_argument` if the model can't fit into this machine, or into
/// the memory that its control group allows. The machine holds its processes'
/// share of the job's parameters.
void require_memory(const train_options& options, const built_model& model,
                    model_source source,
                    const cgroup_limits& limits = read_cgroup_limits());

}  // namespace troupe::cli
