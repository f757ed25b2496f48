#include "troupe/engine/events/subscription.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <vector>

#include "troupe/schedules/error.hpp"
#include "troupe/schedules/printable.hpp"

namespace troupe {

namespace {

std::vector<std::string> parts_of(const std::string& patterns) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from <= patterns.size();) {
    const auto to = std::min(patterns.find(',', from), patterns.size());
    parts.push_back(patterns.substr(from, to - from));
    from = to + 1;
  }
  return parts;
}

/// Why fnmatch would take it for what it isn't; null: it's fine.
const char* trouble_with(const std::string& glob) {
  if (glob.empty())
    return "is empty";
  for (std::size_t at = 0; at < glob.size(); ++at) {
    if (glob[at] == '\\') {
      if (++at == glob.size())
        return "ends with a backslash";
      continue;
    }
    if (glob[at] != '[')
      continue;
    at += at + 1 < glob.size() && (glob[at + 1] == '!' || glob[at + 1] == '^');
    at = glob.find(']', at + 2);  // one that comes first belongs to the set
    if (at == std::string::npos)
      return "opens a set with '[' and never closes it";
  }
  return nullptr;
}

}  // namespace

bool matches_glob(const std::string& patterns, const std::string& name) {
  return patterns == "*"
         || std::ranges::any_of(
           parts_of(patterns), [&](const std::string& one) {
             return ::fnmatch(one.c_str(), name.c_str(), 0) == 0;
           });
}

void require_legal(const subscription& wants) {
  if (wants.every < 1)
    fail(error_code::invalid_argument,
         "a subscription's 'every' is {}; use 1 or more steps", wants.every);
  if (wants.tensors == tensor_kind::none)
    return;
  for (const auto& glob : parts_of(wants.names))
    if (const auto* trouble = trouble_with(glob))
      fail(error_code::invalid_argument,
           "'{}' can't choose names: '{}' {}; write globs such as "
           "blocks.*.mlp*, joined by commas",
           printable(wants.names), printable(glob), trouble);
}

bool subscription::covers_step(std::int64_t step) const {
  return step >= first && step <= last && (step - first) % every == 0;
}

bool subscription::wants_tensors(std::int64_t step, phase phase) const {
  return tensors != tensor_kind::none && covers_step(step)
         && (phase == phase::training || validation);
}

bool subscription::wants(tensor_kind kind, const std::string& name) const {
  return has(tensors, kind)
         && (kind == tensor_kind::loss || matches_glob(names, name));
}

bool subscription::covers(const event& event) const {
  if (std::holds_alternative<slow_load_event>(event)
      || std::holds_alternative<failure_event>(event))
    return warnings;
  if (std::holds_alternative<dropped_event>(event))
    return true;
  const auto& source = source_of(event);
  if (std::holds_alternative<tensors_event>(event))
    return wants_tensors(source.step, source.phase);
  if (!covers_step(source.step))
    return false;
  if (std::holds_alternative<messages_event>(event))
    return messages;
  if (std::holds_alternative<memory_event>(event))
    return memory;
  return std::holds_alternative<ops_event>(event) ? ops : steps;
}

}  // namespace troupe
