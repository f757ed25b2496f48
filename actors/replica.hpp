#pragma once

#include <memory>
#include <vector>

#include "troupe/actors/job/job_parameters.hpp"
#include "troupe/engine/stage/model.hpp"

namespace troupe {

class layer_sequence;

/// The layers of each stage; null where they live in other processes.
using replica = std::vector<std::shared_ptr<layer_sequence>>;

/// Parameters of all stages that live here, under their names, in model order.
parameter_list parameters_of(const replica& stages);

/// By replica, then in model order.
std::vector<parameter_here> parameters_of(const std::vector<replica>& replicas);

}  // namespace troupe
