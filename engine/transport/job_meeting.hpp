#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

class mesh;

/// A rank's state after a step, in the memory of a process. The rank is by its
/// number in the job: data rank x pipeline ranks + pipeline rank.
struct held_rank {
  std::int32_t rank = 0;
  std::int64_t step = 0;
};

/// An op that failed, and with it the step in all processes.
struct failed_op {
  std::int64_t step = 0;
  std::int32_t rank = -1;  // by its number in the job; -1: none is known
  std::string what{};
  bool is_here = false;  // in this process, which is to tell of it
};

/// The processes of a job have met, for the first time or again.
struct job_meeting {
  std::shared_ptr<mesh> job;
  /// The process of each rank, by its number, as of this meeting; empty: as it
  /// was.
  std::vector<std::int32_t> hosting{};
  std::int64_t epoch = 0;  // 1 for the first; 0: they are not counted
};

}  // namespace troupe
