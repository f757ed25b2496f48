#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/job/job_parameters.hpp"
#include "troupe/engine/stage/model.hpp"
#include "troupe/engine/stage/sharding/ties.hpp"
#include "troupe/schedules/schedule.hpp"

namespace troupe {

class layer_sequence;

/// The layers of each instance of a stage, as `placement::instances` lists
/// them; null where they live in other processes.
using replica = std::vector<std::shared_ptr<layer_sequence>>;

/// Parameters of one copy of all stages, as far as they live here, under their
/// names, in model order.
parameter_list parameters_of(const replica& instances, std::int32_t stages,
                             std::int8_t copy = 0);
/// Those of the first copy, and its buffers.
parameter_list state_dict_of(const replica& instances, std::int32_t stages);

/// By replica, copy, then in model order. `stages`: of each copy.
std::vector<parameter_here> parameters_of(const std::vector<replica>& replicas,
                                          const placement& stages,
                                          const alias_names& aliases);

}  // namespace troupe
