#pragma once

#include <string_view>

#include "troupe/base/fail.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe {

/// Goes through the ops of a schedule or plan, lane by lane, for a check that
/// names the place of what it refuses: throws `error` (invalid_schedule).
template <class Schedule, class Op>
class op_checker {
 protected:
  op_checker(const Schedule& order, const op_locator& locate)
    : order_{order}, locate_{locate} {}

  template <class Visit>
  void for_each_op(Visit visit) {
    for (rank_ = 0; rank_ < order_.ranks(); ++rank_) {
      index_ = 0;
      for (const auto& what : order_.lane(rank_)) {
        visit(what);
        ++index_;
      }
    }
  }

  /// At the place that is being visited.
  [[noreturn]] void refuse(const Op& what, std::string_view reason) const {
    fail(error_code::invalid_schedule, "{}: {} {}", locate_(rank_, index_),
         to_text(order_, what), reason);
  }

  /// The op's numbers, and its rank.
  void check_range(const Op& what, std::int32_t least_microbatch) const {
    const auto& places = order_.placement;
    if (what.stage < 0 || what.stage >= order_.stages()
        || what.microbatch < least_microbatch
        || what.microbatch >= order_.microbatches || what.slice < 0
        || what.slice >= order_.slices || what.copy < 0
        || what.copy >= places.copies())
      refuse(what, fmt::format("is outside the {} stages, {} microbatches, {} "
                               "slices and {} copies",
                               order_.stages(), order_.microbatches,
                               order_.slices, places.copies()));
    const auto home = places.rank_of(what.stage, what.copy);
    if (home != rank_)
      refuse(what, fmt::format("is on rank {}, but stage {} is on rank {}",
                               rank_, what.stage, home));
  }

  const Schedule& order_;
  const op_locator& locate_;
  std::int32_t rank_ = 0;
  std::size_t index_ = 0;
};

}  // namespace troupe
