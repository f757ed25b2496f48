#pragma once

#include <cstdint>

namespace troupe {

enum class op_kind : std::uint8_t;
class lane_builder;
struct lane_rules;
struct op;
struct op_count;
struct placement;
struct schedule;
struct schedule_shape;

}  // namespace troupe
