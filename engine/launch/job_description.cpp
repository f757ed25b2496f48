#include "troupe/engine/launch/job_description.hpp"

#include <fmt/format.h>

#include <map>

namespace troupe {

std::string difference(const job_description& leader,
                       const job_description& other) {
  const std::map<std::string, std::string> here(leader.begin(), leader.end());
  const std::map<std::string, std::string> there(other.begin(), other.end());
  const auto value = [](const auto& subject, const std::string& name) {
    const auto found = subject.find(name);
    return found == subject.end() ? std::string("nothing") : found->second;
  };
  for (const auto* either : {&here, &there})
    for (const auto& [name, ignored] : *either)
      if (value(here, name) != value(there, name))
        return fmt::format("{} is {} there, but {} in process 0", name,
                           value(there, name), value(here, name));
  return {};
}

}  // namespace troupe
