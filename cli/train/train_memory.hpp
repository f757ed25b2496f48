#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/device/cgroup_limits.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe::cli {

/// What a run holds of its parameters.
struct held_parameters {
  double all = 0;
  double trained = 0;  // of these
  at::ScalarType dtype = at::kFloat;
  bool widens_gradients = true;  // to fp32
  double replicas = 1;           // of everything; shards of all make up one
  double gradients = 1;          // lists of them in a replica
};

/// The parameters of a run's model; a run of no steps trains none.
held_parameters held_parameters_of(const train_options& options,
                                   const built_model& model);

/// The bytes of values, of gradients and, of a 16-bit dtype, of fp32 masters: a
/// lower bound, as optimizers' state and activations need more.
double least_bytes(const held_parameters& held);

/// What decides a model's sizes: flags, a stored file of parameters (whose
/// dtype stays, too), or a folder of Hugging Face's transformers.
enum class model_source : std::uint8_t { flags, file, folder };

/// What lets a run need less memory, as in "a smaller model or more machines".
std::string ways_to_need_less(const train_options& options,
                              const held_parameters& held, model_source source);

/// Throws `invalid_argument` if the model can't fit into this machine, or into
/// what its control group leaves of it: they hold its processes' share of the
/// job's.
void require_memory(const train_options& options, const built_model& model,
                    model_source source,
                    const cgroup_limits& limits = read_cgroup_limits());

}  // namespace troupe::cli
