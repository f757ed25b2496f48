#include "troupe/monitors/timing/step_collector.hpp"

#include <utility>

namespace troupe {

const std::vector<ops_event>* step_collector::add(const event& what) {
  if (const auto* ops = std::get_if<ops_event>(&what)) {
    gathering_.push_back(*ops);
    return nullptr;
  }
  if (std::holds_alternative<dropped_event>(what))
    gathering_.clear();
  if (!std::holds_alternative<step_event>(what))
    return nullptr;
  finished_ = std::exchange(gathering_, {});
  return &finished_;
}

}  // namespace troupe
