#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"

namespace troupe {

/// Which process of a job hosts which rank. Rank r of replica d is number
/// d x ranks + r of the job. The hosting changes no result.
struct job_layout {
  std::int32_t process = 0;  // this one
  std::int32_t processes = 1;
  std::int32_t data_ranks = 1;
  std::int32_t ranks = 1;  // of a pipeline
  /// The process of each rank, by its number; empty: in order, equally many
  /// each, and one more in the first ones if the number can't be divided.
  std::vector<std::int32_t> hosting = {};

  std::int32_t all_ranks() const { return data_ranks * ranks; }
  std::int32_t process_of(std::int32_t data_rank, std::int32_t rank) const {
    const auto number = data_rank * ranks + rank;
    if (!hosting.empty())
      return hosting[static_cast<std::size_t>(number)];
    const auto each = all_ranks() / processes;
    const auto with_more = all_ranks() % processes;  // processes
    const auto of_these = with_more * (each + 1);
    return number < of_these ? number / (each + 1)
                             : with_more + (number - of_these) / each;
  }
  bool is_here(std::int32_t data_rank, std::int32_t rank) const {
    return process_of(data_rank, rank) == process;
  }
  std::int32_t ranks_here() const {
    std::int32_t count = 0;
    for (std::int32_t d = 0; d < data_ranks; ++d)
      for (std::int32_t r = 0; r < ranks; ++r)
        count += is_here(d, r) ? 1 : 0;
    return count;
  }
};

/// Throws `invalid_argument` for a hosting that does not name a process of the
/// job for each rank, and without one for more processes than ranks.
inline job_layout make_layout(std::int32_t process, std::int32_t processes,
                              std::int32_t data_ranks, std::int32_t ranks,
                              std::vector<std::int32_t> hosting = {}) {
  const auto all = data_ranks * ranks;
  if (hosting.empty() && all < processes)
    fail(error_code::invalid_argument,
         "{} pipeline ranks x {} replicas are {} ranks, too few for {} "
         "processes; start at most {}, or say which process hosts each rank",
         ranks, data_ranks, all, processes, all);
  if (!hosting.empty() && static_cast<std::int64_t>(hosting.size()) != all)
    fail(error_code::invalid_argument,
         "the hosting names a process for {} ranks, but {} pipeline ranks x {} "
         "replicas are {}",
         hosting.size(), ranks, data_ranks, all);
  for (const auto host : hosting)
    if (host < 0 || host >= processes)
      fail(error_code::invalid_argument,
           "the hosting names process {}; the job has processes 0 to {}", host,
           processes - 1);
  return {process, processes, data_ranks, ranks, std::move(hosting)};
}

}  // namespace troupe
