#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>

namespace troupe::cli {

/// Validators of flags that replace CLI11's, which print the limits of a double
/// digit by digit and accept nan and overflows.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = INT64_MAX);
CLI::Validator number(double least,
                      double most = std::numeric_limits<double>::infinity());
CLI::Validator number_above(
  double limit, double most = std::numeric_limits<double>::infinity());

/// Makes flags of the app and its commands refuse an empty value, except for
/// flags whose text may be empty.
void require_values(CLI::App& app);

}  // namespace troupe::cli
