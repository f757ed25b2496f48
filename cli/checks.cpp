#include "troupe/cli/checks.hpp"

#include <fmt/format.h>

#include <cmath>

#include "troupe/schedules/parse_number.hpp"

namespace troupe::cli {

namespace {

/// "0 is no whole number in 1..8"; the range stands in --help too.
template <class Number>
CLI::Validator validator(const std::string& what, const std::string& range,
                         const std::function<bool(Number)>& is_legal) {
  return CLI::Validator{[=](std::string& text) {
                          const auto value = parse_number<Number>(text);
                          return value && is_legal(*value)
                                   ? std::string{}
                                   : fmt::format("{} is no {} {}", text, what,
                                                 range);
                        },
                        range};
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return validator<std::int64_t>(
    "whole number",
    most == INT64_MAX ? fmt::format("from {} up", least)
                      : fmt::format("in {}..{}", least, most),
    [=](std::int64_t value) { return value >= least && value <= most; });
}

CLI::Validator number(double least, double most) {
  return validator<double>(
    "number",
    std::isinf(most) ? fmt::format("from {:g} up", least)
                     : fmt::format("in {:g}..{:g}", least, most),
    [=](double value) {
      return std::isfinite(value) && value >= least && value <= most;
    });
}

CLI::Validator number_above(double limit) {
  return validator<double>(
    "number", fmt::format("above {:g}", limit),
    [=](double value) { return std::isfinite(value) && value > limit; });
}

}  // namespace troupe::cli
