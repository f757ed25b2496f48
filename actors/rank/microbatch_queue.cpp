#include "troupe/actors/rank/microbatch_queue.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

void microbatch_queue::begin(const step_pointer& step, const orders& wanted) {
  step_ = step;
  wanted_ = &wanted;
  held_.clear();
  asked_.clear();
  if (step->settings.part == step_part::update)
    return;  // which needs no data
  // A step that generates runs a slice of all microbatches before the next one.
  for (const auto& [reader, order] : wanted) {
    const auto ahead = step->settings.generation
                         ? std::ssize(order)
                         : std::int64_t{setup_.prefetch};
    for (std::int64_t i = 0; i < ahead; ++i)
      ask(reader);
  }
}

void microbatch_queue::ask(stage_instance reader) {
  const auto& order = wanted_->at(reader);
  auto& asked = asked_[reader];
  if (asked < order.size())
    ports_.want({step_, reader, order[asked++]});
}

void microbatch_queue::put(loaded_data message) {
  if (!step_ || message.serial != step_->serial)
    fail(error_code::internal,
         "stage {} was handed microbatch {} of another step",
         message.reader.stage, message.microbatch);
  if (has(message.reader, message.microbatch, message.slice))
    fail(error_code::internal, "stage {} was handed microbatch {} twice",
         message.reader.stage, message.microbatch);
  held_.push_back({message.reader, message.microbatch, message.sent,
                   std::move(message.data), message.slice});
}

bool microbatch_queue::is_for(const held_data& item, stage_instance reader,
                              std::int32_t microbatch, std::int16_t slice) {
  return item.reader == reader && item.microbatch == microbatch
         && (item.slice == loaded_data::all_slices || item.slice == slice);
}

bool microbatch_queue::has(stage_instance reader, std::int32_t microbatch,
                           std::int16_t slice) const {
  return std::ranges::any_of(held_, [&](const held_data& item) {
    return is_for(item, reader, microbatch, slice);
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
    return is_for(item, instance_of(forward), forward.microbatch,
                  forward.slice);
  });
  if (found == held_.end())
    fail(error_code::internal, "microbatch {} is missing for stage {}",
         forward.microbatch, forward.stage);
  const bool of_all = found->slice == loaded_data::all_slices;
  if (of_all && forward.slice + 1 < step_->plan->slices)
    return *found;
  auto taken = std::move(*found);
  held_.erase(found);
  if (of_all || taken.slice == 0)  // others don't come from the loader
    ask(taken.reader);
  return taken;
}

}  // namespace troupe
