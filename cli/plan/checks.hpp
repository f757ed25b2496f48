#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <limits>
#include <string>

namespace troupe::cli {

/// Validators of flags that replace CLI11's, which print the limits of a double
/// digit by digit and accept nan and overflows.
CLI::Validator whole_number(std::int64_t least, std::int64_t most = INT64_MAX);
CLI::Validator number(double least,
                      double most = std::numeric_limits<double>::infinity());
CLI::Validator number_above(
  double limit, double most = std::numeric_limits<double>::infinity());

/// Declares a flag with a value, "--costs FILE", or an argument, "path FILE":
/// its name, and what --help calls its value; without that the value's type.
template <class Value>
CLI::Option* add_value(CLI::App& command, const std::string& name, Value& value,
                       const std::string& help,
                       const CLI::Validator& check = {}) {
  const auto space = name.find(' ');
  auto* made =
    command.add_option(name.substr(0, space), value, help)->check(check);
  return space == name.npos ? made : made->type_name(name.substr(space + 1));
}

/// Makes flags of the app and its commands refuse an empty value, except for
/// flags whose text may be empty.
void require_values(CLI::App& app);

}  // namespace troupe::cli
