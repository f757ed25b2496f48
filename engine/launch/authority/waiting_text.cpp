#include "troupe/engine/launch/authority/waiting_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace troupe {

std::string waiting_text(
  const membership::authority& decides, const process_table& table,
  const std::function<bool(membership::member_id)>& is_connected) {
  using membership::authority_phase;
  const auto& members = decides.record().epoch.members;
  if (members.empty() && decides.phase() == authority_phase::running) {
    const auto missing = table.missing([&](membership::member_id member) {
      return decides.seats().find(member) != nullptr;
    });
    return missing.empty()
             ? ""
             : fmt::format(
               "waiting for process{} {}: the job begins when all have come",
               missing.size() == 1 ? "" : "es", fmt::join(missing, ", "));
  }
  if (decides.phase() != authority_phase::freezing)
    return {};
  std::vector<std::string> silent;
  for (const auto member : members)
    if (!is_connected(member))
      silent.push_back(table.name_of(member));
  return silent.empty()
           ? ""
           : fmt::format(
             "waiting for {}: it is not connected, and may run until its lease "
             "ends, within a minute",
             fmt::join(silent, ", "));
}

}  // namespace troupe
