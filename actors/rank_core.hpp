#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "troupe/actors/messages.hpp"

namespace troupe {

/// A rank's part of a step: starts the lane, and knows when the rank is done:
/// the lane token is back and each of its stages has reported.
class rank_core {
 public:
  rank_core(std::int32_t data_rank, std::int32_t rank)
    : data_rank_(data_rank), rank_(rank) {}

  /// Stages of this rank, ascending; none where it has no ops.
  std::vector<std::int32_t> begin(const step_pointer& step);
  /// The stage that runs the lane's first op, and the token for it.
  std::pair<std::int32_t, lane_token> first_token() const;

  /// Each returns the report once the rank is done.
  std::optional<rank_done> on(const lane_token& token);
  std::optional<rank_done> on(stage_done report);

 private:
  std::optional<rank_done> finished();

  std::int32_t data_rank_;
  std::int32_t rank_;
  step_pointer step_;
  std::size_t stages_ = 0;
  bool token_back_ = false;
  rank_done report_;
};

}  // namespace troupe
