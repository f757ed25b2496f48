#include "troupe/actors/step/load_board.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "troupe/engine/device/clock.hpp"

namespace troupe {

load_board::call::call(load_board* board, std::int32_t data_rank,
                       std::int64_t index)
  : board_(board), data_rank_(data_rank) {
  if (!board_)
    return;
  const std::scoped_lock lock(board_->mutex_);
  board_->running_.at(static_cast<std::size_t>(data_rank_)) =
    entry{index, now_ns()};
}

load_board::call::~call() {
  if (!board_)
    return;
  const std::scoped_lock lock(board_->mutex_);
  board_->running_[static_cast<std::size_t>(data_rank_)].reset();
}

std::string load_board::describe() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::string> all;
  for (std::size_t d = 0; d < running_.size(); ++d)
    if (const auto& each = running_[d])
      all.push_back(fmt::format(
        "the data source has not returned microbatch {} (of replica {}) for "
        "{:.3g} s",
        each->index, d, static_cast<double>(now_ns() - each->since) * 1e-9));
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace troupe
