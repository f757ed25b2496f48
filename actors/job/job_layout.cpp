#include "troupe/actors/job/job_layout.hpp"

#include "troupe/base/error.hpp"

namespace troupe {

job_layout make_layout(std::int32_t process, std::int32_t processes,
                       std::int32_t data_ranks, std::int32_t ranks) {
  if (data_ranks * ranks % processes != 0)
    fail(error_code::invalid_argument,
         "{} pipeline ranks x {} replicas are {} ranks, which can't be divided "
         "equally among {} processes; start 1, {} or a divisor of that number",
         ranks, data_ranks, data_ranks * ranks, processes, data_ranks * ranks);
  return {process, processes, data_ranks, ranks};
}

}  // namespace troupe
