#include "troupe/actors/replica.hpp"

#include "troupe/engine/stage/layer_sequence.hpp"

namespace troupe {

parameter_list parameters_of(const replica& stages) {
  parameter_list all;
  for (const auto& stage : stages)
    if (stage)
      for (auto& named : stage->parameters_by_name())
        all.push_back(std::move(named));
  return all;
}

std::vector<parameter_here> parameters_of(
  const std::vector<replica>& replicas) {
  std::vector<parameter_here> all;
  for (std::int32_t d = 0; d < static_cast<std::int32_t>(replicas.size());
       ++d) {
    std::int32_t stage = 0;
    for (const auto& module : replicas[static_cast<std::size_t>(d)]) {
      if (module)
        for (auto& [name, value] : module->parameters_by_name())
          all.push_back({stage, d, name, value});
      ++stage;
    }
  }
  return all;
}

}  // namespace troupe
