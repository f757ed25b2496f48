#include "troupe/schedules/forward_part.hpp"

#include <algorithm>

namespace troupe {

schedule forward_part(const schedule& whole) {
  auto part = whole;
  part.name = "forwards of " + whole.name;
  part.update = {};
  for (auto& lane : part.lanes) {
    std::erase_if(lane,
                  [](const op& op) { return op.kind != op_kind::forward; });
    for (auto& op : lane)
      op.overlaps_next = false;
  }
  return part;
}

}  // namespace troupe
