#include "troupe/engine/plan/draw/chunk_table.hpp"

#include <algorithm>
#include <set>

namespace troupe {

chunk_table::chunk_table(const timeline& timeline) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::set<std::int32_t>>
    stages;  // by rank and copy
  for (const auto& span : timeline.spans)
    stages[{span.rank, span.copy}].insert(span.stage);
  for (const auto& [of, held] : stages) {
    std::size_t chunk = 0;
    for (const auto stage : held)
      chunk_[{of.second, stage}] = chunk++;
    chunks_ = std::max(chunks_, chunk);
    has_copies_ = has_copies_ || of.second > 0;
  }
}

}  // namespace troupe
