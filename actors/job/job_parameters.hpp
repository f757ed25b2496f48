#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/update/parameter_groups.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// A parameter that lives in this process.
struct parameter_here {
  stage_instance stage;
  std::int32_t data_rank = 0;
  std::string name;
  std::string owner;  // of a tied parameter, whose values it has; or itself
  at::Tensor value;
};

/// Where a parameter lives, and what it holds, as processes compare it.
struct held_parameter {
  stage_instance stage;
  std::int32_t data_rank = 0;
  std::string name;
  std::string owner;
  std::uint64_t hash = 0;
};
TROUPE_FIELDS(held_parameter, stage, data_rank, name, owner, hash)

/// Another process's parameters; with `values`, a tensor for each. Throws
/// `transport`.
std::vector<held_parameter> read_held(const frame& part, bool values);

// Collective calls of the threads that own a job's trainers: all processes
// make each of them. They throw `transport` when one is gone.

/// The first copy of the first replica's parameters of all processes, in
/// model order, for the leader; empty for the others. Tied ones are there once,
/// as in the other functions. Values are sent in the background: they must not
/// be written to or released afterwards.
parameter_list gather(mesh& job, const std::vector<parameter_here>& own);

/// The union of all processes' names, in all processes; a null job: this
/// process alone.
std::vector<std::string> names_of_all(mesh* job, std::vector<std::string> own);

/// The sum over all processes, in all processes; a null job: this process
/// alone.
std::int64_t sum_of(mesh* job, std::int64_t own);

/// Elements of all of the first replica's parameters; a null job: of those
/// here.
std::int64_t count_parameters(mesh* job,
                              const std::vector<parameter_here>& own);

/// Throws `mismatch`, in all processes, naming the first parameter in which
/// replicas or copies differ, or both if those that are tied do. A null job:
/// this process alone.
void require_equal_replicas(mesh* job, const std::vector<parameter_here>& own);

/// Throws `mismatch`, in all processes, if one cuts the layers into other
/// stages.
void require_same_split(mesh* job, const stage_split& own);

/// Throws `invalid_argument`, in all processes, as the function of the stages
/// does (parameter_groups.hpp). A null job: this process alone.
void require_matching(mesh* job, const std::vector<parameter_here>& own,
                      const parameter_groups& groups);

/// Moves tensors from one process to another, by way of the leader; returns
/// them as they are where nothing has to move.
tensor_list pass_on(mesh* job, tensor_list values, std::int32_t sender,
                    std::int32_t receiver);

/// Broadcasts one process's tensors to all; returns them in each.
tensor_list share(mesh* job, tensor_list values, std::int32_t sender);

/// The values that have the names of these parameters.
parameter_list only(const parameter_list& parameters,
                    const parameter_list& values);

}  // namespace troupe
