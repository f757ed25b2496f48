#pragma once

#include <string>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// A C++ function that makes an equal schedule: `schedule::build` with explicit
/// lanes. It compiles as a source file of its own. Throws `error`
/// (invalid_argument) for slices on stages that are not placed looped, which
/// the builder can't express.
std::string to_cpp(const schedule& lanes);

/// A C++ function around a call of `make_schedule`.
std::string to_cpp_call(const std::string& name, const schedule_shape& shape);

/// The function's name: the schedule's, where other characters than letters and
/// digits become '_': `schedule_1f1b`.
std::string cpp_name(const std::string& name);

}  // namespace troupe
