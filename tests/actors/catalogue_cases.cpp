#include "catalogue_cases.hpp"

#include "../schedules/shapes.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe::testing {

std::vector<small_case> catalogue_cases() {
  std::vector<small_case> all;
  for (const auto& row : builtin_schedules())
    for (const std::int32_t ranks : {2, 3, 4})
      for (const auto microbatches : {ranks, 2 * ranks, 2 * ranks + 1}) {
        auto shape = small_shape(row);
        shape.ranks = ranks;
        shape.microbatches = microbatches;
        if (!takes(row, shape) || !is_training(make_schedule(row.name, shape)))
          continue;
        for (const auto replicas : {1, 2})
          for (const auto order :
               {lane_order::strict, lane_order::ready_first}) {
            auto what = catalogue_case(row, shape);
            what.data_parallel = replicas;
            what.order = order;
            all.push_back(what);
          }
      }
  return all;
}

}  // namespace troupe::testing
