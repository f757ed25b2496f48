#include "troupe/engine/membership/failure_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "troupe/base/closest_names.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"

namespace troupe::membership {
namespace {

using namespace std::chrono_literals;

constexpr std::array<std::pair<std::string_view, moment>, 3> units{
  {{"h", 1h}, {"min", 1min}, {"s", 1s}}};

constexpr std::int32_t largest_number = 1'000'000;

/// What can be done about one kind of failure.
struct kind_of_failure {
  std::string name;
  std::vector<std::pair<std::string, remedy>> remedies;
  failure_rule failure_policy::*rule;
};

const std::vector<kind_of_failure>& kinds() {
  static const std::vector<kind_of_failure> all{{"process",
                                                 {{"restart", remedy::restart},
                                                  {"rehost", remedy::rehost},
                                                  {"stop", remedy::stop}},
                                                 &failure_policy::lost_member},
                                                {"op",
                                                 {{"retry", remedy::retry},
                                                  {"rehost", remedy::rehost},
                                                  {"stop", remedy::stop}},
                                                 &failure_policy::failed_op}};
  return all;
}

/// The entry of this name; `what` says what they are, for the refusal.
template <class Entries, class Name>
const auto& find(const Entries& entries, Name name, std::string_view wanted,
                 std::string_view what) {
  std::vector<std::string> names;
  for (const auto& each : entries) {
    names.push_back(std::invoke(name, each));
    if (names.back() == wanted)
      return each;
  }
  fail(error_code::invalid_argument, "'{}' is not among {}: {}{}", wanted, what,
       fmt::join(names, ", "), did_you_mean(wanted, names));
}

/// The parts of a text between a character; one at least.
std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto place = text.find(at);
    parts.push_back(text.substr(0, place));
    if (place == text.npos)
      return parts;
    text.remove_prefix(place + 1);
  }
}

moment parse_time(std::string_view text) {
  const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto count = parse_number<std::int32_t>(text.substr(0, end));
  for (const auto& [name, unit] : units)
    if (count && *count >= 1 && *count <= largest_number
        && text.substr(end) == name)
      return *count * unit;
  fail(
    error_code::invalid_argument,
    "'{}' is no time; write a whole number from 1 to {} with s, min or h, as "
    "in 10min",
    text, largest_number);
}

/// "3/10min", in `of`.
void parse_limit(std::string_view text, failure_rule& of) {
  const auto parts = split(text, '/');
  const auto most = parse_number<std::int32_t>(parts.front());
  if (parts.size() != 2 || !most || *most < 1 || *most > largest_number)
    fail(
      error_code::invalid_argument,
      "'{}' is no limit; write how many, from 1 to {}, within which time, as "
      "in 3/10min",
      text, largest_number);
  of.most = *most;
  of.within = parse_time(parts[1]);
}

/// "restart:10/10min:30s", for failures of this kind.
void parse_rule(std::string_view text, const kind_of_failure& kind,
                failure_policy& policy) {
  auto& rule = policy.*kind.rule;
  const auto parts = split(text, ':');
  rule.action = find(
                  kind.remedies, [](const auto& each) { return each.first; },
                  parts.front(), "what can be done about that")
                  .second;
  if (parts.size() > 1 && rule.action == remedy::stop)
    fail(
      error_code::invalid_argument,
      "stop has no limit, as the job ends with the first failure; omit ':{}'",
      parts[1]);
  if (parts.size() > 1)
    parse_limit(parts[1], rule);
  const bool waits = rule.action == remedy::restart;
  if (parts.size() > (waits ? 3U : 2U))
    fail(error_code::invalid_argument,
         "'{}' is too much; write how many within which time, and for restart "
         "how long to wait, as in process=restart:10/10min:30s",
         parts.back());
  if (parts.size() == 3)
    policy.restart_patience = parse_time(parts[2]);
}

std::string rule_text(const failure_policy& policy,
                      const kind_of_failure& kind) {
  const auto& rule = policy.*kind.rule;
  using named = std::pair<std::string, remedy>;
  auto text =
    kind.name + "="
    + std::ranges::find(kind.remedies, rule.action, &named::second)->first;
  if (rule.action != remedy::stop)
    text += fmt::format(":{}/{}", rule.most, time_text(rule.within));
  if (rule.action == remedy::restart)
    text += ":" + time_text(policy.restart_patience);
  return text;
}

}  // namespace

failure_policy parse_failure_policy(std::string_view text) {
  failure_policy policy;
  std::vector<std::string_view> seen;
  for (const auto part : split(text, ','))
    try {
      const auto end = std::min(part.find('='), part.size());
      const auto name = part.substr(0, end);
      const auto& kind =
        find(kinds(), &kind_of_failure::name, name, "what can fail");
      if (std::ranges::count(seen, name) > 0)
        fail(error_code::invalid_argument, "{} is there twice; omit one", name);
      seen.push_back(name);
      parse_rule(part.substr(std::min(end + 1, part.size())), kind, policy);
    } catch (const error& reason) {
      fail(reason.code(), "in '{}': {}", part, reason.what());
    }
  return policy;
}

std::string to_text(const failure_policy& policy) {
  std::vector<std::string> parts;
  for (const auto& kind : kinds())
    parts.push_back(rule_text(policy, kind));
  return fmt::format("{}", fmt::join(parts, ","));
}

std::string time_text(moment time) {
  for (const auto& [name, unit] : units)
    if (time % unit == moment{})
      return fmt::format("{}{}", time / unit, name);
  return fmt::format("{:.3g}s", std::chrono::duration<double>(time).count());
}

}  // namespace troupe::membership
