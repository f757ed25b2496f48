#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "../run_program.hpp"
#include "troupe_paths.hpp"

namespace troupe::testing {

/// Runs the program.
inline auto run_troupe(std::string_view command, std::string_view flags,
                       std::string_view more = {}) {
  return run_program(
    fmt::format("{} {} {} {}", TROUPE_PROGRAM, command, flags, more));
}

inline const std::string cases =
  std::string{TROUPE_SOURCE_DIR} + "/tests/schedules/cases/";
inline constexpr auto two_ranks = "--schedule 1f1b --ranks 2 --microbatches 2 ";

}  // namespace troupe::testing
