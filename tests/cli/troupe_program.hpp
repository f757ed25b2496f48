#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "../run_program.hpp"
#include "../temporary_folder.hpp"
#include "troupe_paths.hpp"

namespace troupe::testing {

/// Runs the program.
inline auto run_troupe(std::string_view command, std::string_view flags,
                       std::string_view more = {}) {
  return run_program(
    fmt::format("{} {} {} {}", TROUPE_PROGRAM, command, flags, more));
}

/// Writes a text long enough for a short training, and returns its path.
inline std::string write_text(const temporary_folder& folder,
                              const std::string& words = "in the beginning ",
                              std::string_view name = "text") {
  std::string text;
  for (int i = 0; i < 500; ++i)
    text += words;
  return folder.write(name, text);
}

/// The path of a file in tests/schedules/cases.
inline std::string case_file(std::string_view name) {
  return fmt::format("{}/tests/schedules/cases/{}", TROUPE_SOURCE_DIR, name);
}
inline constexpr auto two_ranks = "--schedule 1f1b --ranks 2 --microbatches 2 ";

}  // namespace troupe::testing
