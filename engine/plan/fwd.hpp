#pragma once

#include <cstdint>

namespace troupe {

enum class plan_op_kind : std::uint8_t;
enum class stream_kind : std::uint8_t;
struct channel;
struct compile_options;
struct message;
struct op_costs;
struct plan;
struct plan_op;
struct simulation;
struct timeline;

}  // namespace troupe
