#include "troupe/actors/step/loader_core.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"

namespace troupe {

void loader_core::begin(const step_context& step, source_pointer source) {
  const auto microbatches = step.plan->microbatches;
  const auto first = index_of(step, 0);
  // Prefetched microbatches are used only if the run continues where it was.
  if (source != source_ || microbatches != microbatches_
      || !ready_.contains(first))
    ready_.clear();
  source_ = std::move(source);
  training_ = step.settings.training();
  microbatches_ = microbatches;
  first_ = first;
  next_ = ready_.empty() ? first : after(ready_.rbegin()->first);
}

std::int64_t loader_core::index_of(const step_context& step,
                                   std::int32_t microbatch) const {
  return step.settings.first_microbatch
         + std::int64_t{setup_.data_rank} * step.plan->microbatches
         + microbatch;
}

std::int64_t loader_core::after(std::int64_t index) const {
  const auto others = std::int64_t{setup_.data_ranks - 1} * microbatches_;
  const bool ends_step =
    (index + 1 - first_) % (microbatches_ + others) == microbatches_;
  return index + 1 + (ends_step ? others : 0);
}

std::shared_ptr<const microbatch_data> loader_core::load(std::int64_t index) {
  if (source_->size() >= 0 && index >= source_->size())
    fail(error_code::invalid_data,
         "the data source has {} microbatches and number {} (from 0) was "
         "wanted; give more data or take fewer steps",
         source_->size(), index);
  const auto begin = now_ns();
  const load_board::call running(setup_.board.get(), setup_.data_rank, index);
  auto data = std::make_shared<const microbatch_data>(source_->at(index));
  const auto seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  if (seconds > setup_.loading.slow_seconds)
    report_slow_(place_of(index), seconds);
  return data;
}

loader_core::place loader_core::place_of(std::int64_t index) const {
  const auto period = std::int64_t{setup_.data_ranks} * microbatches_;
  return {(index - first_) / period,
          static_cast<std::int32_t>((index - first_) % period)};
}

loaded_data loader_core::on(const want_data& request) {
  const auto index = index_of(*request.step, request.microbatch);
  auto found = ready_.find(index);
  if (found == ready_.end()) {
    found = ready_.emplace(index, item{load(index), 0}).first;
    next_ = std::max(next_, after(index));
  }
  loaded_data answer{request.step->serial, request.stage, request.microbatch,
                     now_ns(), found->second.data};
  if (++found->second.taken == setup_.consumers)
    ready_.erase(found);
  return answer;
}

bool loader_core::prefetch() {
  const auto untouched = std::ranges::count_if(
    ready_, [](const auto& entry) { return entry.second.taken == 0; });
  const bool past_end = source_->size() >= 0 && next_ >= source_->size();
  const bool past_step = !training_ && next_ >= first_ + microbatches_;
  if (untouched >= setup_.loading.prefetch || past_end || past_step)
    return false;
  ready_.emplace(next_, item{load(next_), 0});
  next_ = after(next_);
  return true;
}

}  // namespace troupe
