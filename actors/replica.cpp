#include "troupe/actors/replica.hpp"

#include "troupe/engine/stage/layer_sequence.hpp"

namespace troupe {

parameter_list parameters_of(const replica& instances, std::int32_t stages,
                             std::int8_t copy) {
  parameter_list all;
  for (std::int32_t s = 0; s < stages; ++s)
    if (const auto& module =
          instances[static_cast<std::size_t>(copy * stages + s)])
      for (auto& named : module->parameters_by_name())
        all.push_back(std::move(named));
  return all;
}

parameter_list state_dict_of(const replica& instances, std::int32_t stages) {
  parameter_list all;
  for (std::int32_t s = 0; s < stages; ++s)
    if (const auto& module = instances[static_cast<std::size_t>(s)])
      for (auto& named : module->state_dict())
        all.push_back(std::move(named));
  return all;
}

std::vector<parameter_here> parameters_of(const std::vector<replica>& replicas,
                                          const placement& stages,
                                          const alias_names& aliases) {
  std::vector<parameter_here> all;
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(replicas.size()); ++d)
    for (const auto& each : stages.instances())
      if (const auto& module =
            replicas[static_cast<std::size_t>(d)][stages.index_of(each)])
        for (auto& [name, value] : module->parameters_by_name()) {
          const auto tied = aliases.find(name);
          all.push_back({each, d, name,
                         tied == aliases.end() ? name : tied->second, value});
        }
  return all;
}

}  // namespace troupe
