#include "troupe/actors/rank/microbatch_queue.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

void microbatch_queue::begin(const step_pointer& step) {
  step_ = step;
  held_.clear();
  asked_.assign(static_cast<std::size_t>(step->plan->stages()), 0);
  if (step->settings.part == step_part::update)
    return;  // which needs no data
  for (std::int32_t s = 0; s < step->plan->stages(); ++s)
    if (setup_.needs_data[static_cast<std::size_t>(s)]
        && step->plan->placement.rank_of(s) == setup_.rank)
      ask(s, setup_.prefetch);
}

void microbatch_queue::ask(std::int32_t stage, std::int32_t up_to) {
  auto& asked = asked_[static_cast<std::size_t>(stage)];
  up_to = std::min(up_to, step_->plan->microbatches);
  for (; asked < up_to; ++asked)
    ports_.want({step_, stage, asked});
}

void microbatch_queue::put(loaded_data message) {
  if (!step_ || message.serial != step_->serial)
    fail(error_code::internal,
         "stage {} was handed microbatch {} of another step", message.stage,
         message.microbatch);
  if (has(message.stage, message.microbatch))
    fail(error_code::internal, "stage {} was handed microbatch {} twice",
         message.stage, message.microbatch);
  held_.push_back(
    {message.stage, message.microbatch, message.sent, std::move(message.data)});
}

bool microbatch_queue::has(std::int32_t stage, std::int32_t microbatch) const {
  return std::ranges::any_of(held_, [&](const held_data& item) {
    return item.stage == stage && item.microbatch == microbatch;
  });
}

void microbatch_queue::bring(const stage_device& device) {
  if (!device)
    return;
  for (auto& item : held_)
    if (!std::exchange(item.brought, true))
      item.data = std::make_shared<const microbatch_data>(
        device.bring(*item.data, item.ready));
}

held_data microbatch_queue::take(const plan_op& forward) {
  const auto found = std::ranges::find_if(held_, [&](const held_data& item) {
    return item.stage == forward.stage && item.microbatch == forward.microbatch;
  });
  if (found == held_.end())
    fail(error_code::internal, "microbatch {} is not there for stage {}",
         forward.microbatch, forward.stage);
  if (forward.slice + 1 < step_->plan->slices)
    return *found;
  auto taken = std::move(*found);
  held_.erase(found);
  ask(forward.stage, forward.microbatch + 1 + setup_.prefetch);
  return taken;
}

}  // namespace troupe
