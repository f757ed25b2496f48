#pragma once

#include <cstdint>

#include "troupe/base/fail.hpp"

namespace troupe {

/// Which process holds which ranks: rank r of replica d is number d x ranks + r
/// of the job, and each process holds equally many, in order.
struct job_layout {
  std::int32_t process = 0;  // this one
  std::int32_t processes = 1;
  std::int32_t data_ranks = 1;
  std::int32_t ranks = 1;  // of a pipeline

  std::int32_t ranks_each() const { return data_ranks * ranks / processes; }
  std::int32_t process_of(std::int32_t data_rank, std::int32_t rank) const {
    return (data_rank * ranks + rank) / ranks_each();
  }
  bool is_here(std::int32_t data_rank, std::int32_t rank) const {
    return process_of(data_rank, rank) == process;
  }
};

/// Throws `invalid_argument` if the ranks can't be divided equally among the
/// processes.
inline job_layout make_layout(std::int32_t process, std::int32_t processes,
                              std::int32_t data_ranks, std::int32_t ranks) {
  if (data_ranks * ranks % processes != 0)
    fail(error_code::invalid_argument,
         "{} pipeline ranks x {} replicas are {} ranks, which can't be divided "
         "equally among {} processes; start 1, {} or a divisor of that number",
         ranks, data_ranks, data_ranks * ranks, processes, data_ranks * ranks);
  return {process, processes, data_ranks, ranks};
}

}  // namespace troupe
