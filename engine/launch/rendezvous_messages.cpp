#include "troupe/engine/launch/rendezvous_messages.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "troupe/base/log_text.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

bool share_machine(const process_address& a, const process_address& b) {
  return !a.machine.empty() && a.machine == b.machine;
}

const std::string& way_to(const process_address& there,
                          const process_address& own) {
  return share_machine(there, own) && !there.near.empty() ? there.near
                                                          : there.listens;
}

std::string in_words(const join_request& who) {
  return fmt::format("process {} (pid {} on {})", who.process, who.pid,
                     printable(who.host));
}

std::string missing_of(
  const std::vector<std::optional<join_request>>& requests) {
  std::vector<std::string> missing;
  for (std::size_t p = 0; p < requests.size(); ++p)
    if (!requests[p])
      missing.push_back(fmt::format("process {}", p));
  return fmt::format("{}", fmt::join(missing, ", "));
}

std::string objection_to(
  const join_request& who,
  const std::vector<std::optional<join_request>>& requests,
  const job_description& description) {
  const auto processes = static_cast<std::int32_t>(requests.size());
  if (who.processes != processes)
    return fmt::format("{} belongs to a job of {} processes, this one has {}",
                       in_words(who), who.processes, processes);
  if (who.process < 1 || who.process >= processes)
    return fmt::format("{} can't exist: there are {} processes", in_words(who),
                       processes);
  const auto& same = requests[static_cast<std::size_t>(who.process)];
  if (same)
    return fmt::format(
      "{} and {} both claim to be process {}; start each with its own RANK",
      in_words(*same), in_words(who), who.process);
  const auto differs = difference(description, who.description);
  return differs.empty() ? ""
                         : fmt::format(
                           "{} was started differently from process 0: {}; "
                           "start all processes with the same flags",
                           in_words(who), differs);
}

frame to_frame(const rendezvous_message& message) {
  return {frame_type::control, to_wire(message), {}};
}

rendezvous_message read_rendezvous(const frame& what) {
  if (what.type != frame_type::control || !what.tensors.empty())
    wire_reader::refuse(
      "a kind of message that a joining process does not send");
  return from_wire<rendezvous_message>(what.head);
}

std::string difference(const job_description& leader,
                       const job_description& other, const char* where,
                       const char* in) {
  const std::map<std::string, std::string> here(leader.begin(), leader.end());
  const std::map<std::string, std::string> there(other.begin(), other.end());
  const auto value = [](const auto& subject, const std::string& name) {
    const auto found = subject.find(name);
    return found == subject.end() ? std::string("not given") : found->second;
  };
  for (const auto* either : {&here, &there})
    for (const auto& [name, ignored] : *either)
      if (value(there, name) != agrees_with_any
          && value(here, name) != value(there, name))
        return fmt::format("{} is {} {}, but {} in {}", printable(name),
                           log_text(value(there, name)), where,
                           value(here, name), in);
  return {};
}

}  // namespace troupe
