#include "troupe/engine/events/subscription.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace troupe {

bool matches_glob(const std::string& patterns, const std::string& name) {
  if (patterns == "*")
    return true;
  for (std::size_t from = 0; from <= patterns.size();) {
    const auto to = std::min(patterns.find(',', from), patterns.size());
    const auto one = patterns.substr(from, to - from);
    if (::fnmatch(one.c_str(), name.c_str(), 0) == 0)
      return true;
    from = to + 1;
  }
  return false;
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
  return std::holds_alternative<ops_event>(event) ? ops : steps;
}

}  // namespace troupe
