#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

/// Who takes part in a job that heals, as of the last meeting of its processes,
/// and which states would be left if one of them were lost.
struct job_members {
  struct member {
    std::int64_t pid = 0;
    double seconds = 0;  // since it has begun to train
    /// Processes of the same group share its cores; or devices, which no other
    /// process has.
    std::string core_group{};
    double cores = 1;
  };

  std::int64_t epoch = 0;
  std::vector<std::int32_t> hosting{};  // the process of each rank
  /// Empty in a job that does not heal.
  std::vector<member> processes{};
  /// The newest step after which each rank's state is in the memory of a second
  /// process, too; none if there is no such step.
  std::optional<std::int64_t> copied{};
  std::int64_t held_bytes = 0;  // of the copies in this process's memory
};

}  // namespace troupe
