#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>

namespace troupe::cli {

/// Validators of flags, in place of CLI11's, which print the limits of a
/// double digit by digit and let nan and overflows pass.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = INT64_MAX);
CLI::Validator number(double least,
                      double most = std::numeric_limits<double>::infinity());
CLI::Validator number_above(
  double limit, double most = std::numeric_limits<double>::infinity());

/// Flags of the app and its commands that take a value refuse an empty one,
/// but for those of text that may be empty.
void require_values(CLI::App& app);

}  // namespace troupe::cli
