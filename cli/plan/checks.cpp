#include "troupe/cli/plan/checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/cli/plan/suggestions.hpp"

namespace troupe::cli {

namespace {

/// "0 is not a whole number in 1..8"; --help shows the range briefly.
template <class Number>
CLI::Validator validator(const std::string& what, const std::string& in_short,
                         const std::function<bool(Number)>& is_legal) {
  const auto check = [=](const std::string& text) {
    const auto value = parse_number<Number>(text);
    return value && is_legal(*value)
             ? std::string{}
             : fmt::format("{} is not a {}", text, what);
  };
  return CLI::Validator{check, in_short};
}

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  const bool open = most == INT64_MAX;
  return validator<std::int64_t>(
    open ? fmt::format("whole number of at least {}", least)
         : fmt::format("whole number in {}..{}", least, most),
    open ? fmt::format("{}..inf", least) : fmt::format("{}..{}", least, most),
    [=](std::int64_t value) { return value >= least && value <= most; });
}

CLI::Validator number(double least, double most) {
  const bool open = std::isinf(most);
  return validator<double>(
    open ? fmt::format("number of at least {}", least)
         : fmt::format("number in {}..{}", least, most),
    open ? fmt::format("{}..inf", least) : fmt::format("{}..{}", least, most),
    [=](double value) {
      return std::isfinite(value) && value >= least && value <= most;
    });
}

CLI::Validator number_above(double limit, double most) {
  const auto end = std::isinf(most) ? "" : fmt::format(", up to {}", most);
  return validator<double>(
    fmt::format("number above {}{}", limit, end),
    std::isinf(most) ? fmt::format("{}..inf", limit)
                     : fmt::format("{}..{}", limit, most),
    [=](double value) {
      return std::isfinite(value) && value > limit && value <= most;
    });
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  const auto set = fmt::format("{{{}}}", fmt::join(words, ","));
  const auto check = [=](const std::string& text) {
    if (std::ranges::count(words, text) > 0)
      return std::string{};
    const auto use = advice_on_peers_word(text, words);
    return fmt::format("{} not in {}{}", text, set,
                       use.empty() ? did_you_mean(text, words) : use);
  };
  return CLI::Validator{check, set};
}

void require_values(CLI::App& app) {
  const CLI::Validator not_empty{
    [](const std::string& text) {
      return text.empty()
               ? std::string("the value is empty; give one, or omit the flag")
               : std::string{};
    },
    ""};
  for (auto* option : app.get_options())
    if (option->get_items_expected_max() > 0 && !option->check_lname("prompt"))
      option->check(not_empty);
  for (auto* command : app.get_subcommands({}))
    require_values(*command);
}

}  // namespace troupe::cli
