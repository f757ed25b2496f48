#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"

namespace troupe {

/// Which process of a job hosts which rank. Rank r of replica d is number
/// d x ranks + r of the job. The hosting changes no result. By `make_layout`.
struct job_layout {
  std::int32_t process = 0;  // this one
  std::int32_t processes = 1;
  std::int32_t data_ranks = 1;
  std::int32_t ranks = 1;                   // of a pipeline
  std::vector<std::int32_t> hosting = {0};  // the process of each rank

  std::int32_t process_of(std::int32_t data_rank, std::int32_t rank) const {
    return hosting[static_cast<std::size_t>(data_rank * ranks + rank)];
  }
  bool is_here(std::int32_t data_rank, std::int32_t rank) const {
    return process_of(data_rank, rank) == process;
  }
  std::int64_t ranks_here() const {
    return std::ranges::count(hosting, process);
  }
};

/// The ranks in order, equally many per process, and one more in the first
/// processes if they can't be divided.
inline std::vector<std::int32_t> even_hosting(std::int32_t ranks,
                                              std::int32_t processes) {
  std::vector<std::int32_t> hosting;
  for (std::int32_t p = 0; p < processes; ++p)
    hosting.insert(
      hosting.end(),
      static_cast<std::size_t>(ranks / processes + (p < ranks % processes)), p);
  return hosting;
}

/// `hosting`: the process of each rank, by its number; empty: `even_hosting`.
/// Throws `invalid_argument` if it does not name a process of the job for each
/// rank, and for more processes than ranks if it is empty.
inline job_layout make_layout(std::int32_t process, std::int32_t processes,
                              std::int32_t data_ranks, std::int32_t ranks,
                              std::vector<std::int32_t> hosting = {}) {
  const auto all = data_ranks * ranks;
  if (hosting.empty() && all < processes)
    fail(error_code::invalid_argument,
         "pipeline ranks x replicas are {} x {} = {}, too few for {} "
         "processes; start at most {}, or name the process that hosts each "
         "rank (--hosting)",
         ranks, data_ranks, all, processes, all);
  if (hosting.empty())
    hosting = even_hosting(all, processes);
  if (std::cmp_not_equal(hosting.size(), all))
    fail(error_code::invalid_argument,
         "the hosting (--hosting) is for ranks x replicas = {}, but {} x {} "
         "are {}",
         hosting.size(), ranks, data_ranks, all);
  for (const auto host : hosting)
    if (host < 0 || host >= processes)
      fail(error_code::invalid_argument,
           "the hosting (--hosting) names process {}; the job has processes 0 "
           "to {}",
           host, processes - 1);
  return {process, processes, data_ranks, ranks, std::move(hosting)};
}

}  // namespace troupe
