#pragma once

#include <optional>
#include <vector>

#include "troupe/actors/messages.hpp"

namespace troupe {

/// Averages one stage's gradients over the replicas of this process: added in
/// ascending data rank, then divided, so that the bits don't depend on who
/// comes first. One thread.
class reducer_core {
 public:
  explicit reducer_core(std::int32_t data_ranks)
    : waiting_(static_cast<std::size_t>(data_ranks)) {}

  /// True once all replicas have come and hold the average.
  bool on(reduce_gradients request);

 private:
  void average();

  std::vector<std::optional<tensor_list>> waiting_;  // by data rank
  std::size_t arrived_ = 0;
};

}  // namespace troupe
