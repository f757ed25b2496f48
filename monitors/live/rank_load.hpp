#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "troupe/engine/events/monitor.hpp"

namespace troupe {

/// How busy the ranks of a run are: the share of a training step's time in
/// which a rank computes, as the mean of its last ten. Any thread.
class rank_load {
 public:
  /// `ranks`: of a pipeline.
  explicit rank_load(std::int32_t ranks) : ranks_(ranks) {}

  /// By rank's number, of the first replica's, then of the second's; none
  /// before the first step that is seen whole.
  std::vector<std::optional<double>> shares(std::size_t ranks) const;
  void see(const step_event& step, const std::vector<ops_event>& ops);

 private:
  const std::int32_t ranks_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<double>> last_;  // by number
};

/// Measures it.
monitor load_monitor(std::shared_ptr<rank_load> load);

}  // namespace troupe
