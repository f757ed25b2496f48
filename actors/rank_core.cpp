#include "troupe/actors/rank_core.hpp"

#include <algorithm>

#include "troupe/engine/device/memory.hpp"

namespace troupe {

std::vector<std::int32_t> rank_core::begin(const step_pointer& step) {
  step_ = step;
  token_back_ = false;
  report_ = {step->serial, data_rank_, rank_, {}, {}};
  std::vector<std::int32_t> stages;
  for (std::int32_t s = 0; s < step->plan->stages(); ++s)
    if (step->plan->placement.rank_of(s) == rank_)
      stages.push_back(s);
  stages_ = stages.size();
  return stages;
}

std::pair<std::int32_t, lane_token> rank_core::first_token() const {
  const auto position = step_->plan->first_op[static_cast<std::size_t>(rank_)];
  return {step_->plan->ops[position].stage, {step_, position}};
}

std::optional<rank_done> rank_core::on(const lane_token&) {
  token_back_ = true;
  return finished();
}

std::optional<rank_done> rank_core::on(stage_done report) {
  report_.stages.push_back(std::move(report));
  return finished();
}

std::optional<rank_done> rank_core::finished() {
  if (!token_back_ || report_.stages.size() != stages_)
    return std::nullopt;
  std::ranges::sort(report_.stages, {}, &stage_done::stage);
  if (step_->settings.tells_memory)
    report_.memory = memory_event{
      {}, resident_bytes(), peak_resident_bytes(), physical_bytes()};
  return std::move(report_);
}

}  // namespace troupe
