#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "troupe/actors/messages.hpp"
#include "troupe/engine/device/rank_device.hpp"

namespace troupe {

/// Averages one stage's gradients over the replicas of this process: added in
/// ascending data rank, then divided, so that the bits don't depend on who
/// comes first. One thread.
class reducer_core {
 public:
  explicit reducer_core(std::int32_t data_ranks)
    : waiting_(static_cast<std::size_t>(data_ranks)) {}

  /// True once all replicas have come and hold the average; on devices, from
  /// `ready` on.
  bool on(reduce_gradients request);
  const event_handle& ready() const { return ready_; }

 private:
  void average();
  void average_on_device();
  void record();

  std::vector<std::optional<reduce_gradients>> waiting_;  // by data rank
  std::size_t arrived_ = 0;
  std::unique_ptr<device_stream> stream_;  // on the first replica's device
  event_handle ready_;
};

}  // namespace troupe
