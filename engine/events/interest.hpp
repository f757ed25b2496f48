#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "troupe/base/fields.hpp"
#include "troupe/engine/events/event.hpp"

namespace troupe {

/// The tensors of one step that any monitor wants. Immutable: made at the
/// step's start and read by all of its stages, so every monitor sees a step
/// whole or not at all.
class tensor_interest {
 public:
  explicit tensor_interest(std::vector<subscription> wants)
    : subscriptions_(std::move(wants)) {}

  tensor_needs needs(tensor_kind kind, const std::string& name) const {
    auto all = tensor_needs::none;
    for (const auto& wish : subscriptions_)
      if (wish.wants(kind, name))
        all = all
              | (wish.sample.share > 0 && wish.needs == tensor_needs::statistics
                   ? tensor_needs::sample
                   : wish.needs);
    return all;
  }
  /// The largest sample that anybody asked for, which serves all.
  row_sampling sampling() const {
    row_sampling largest;
    for (const auto& wish : subscriptions_)
      largest = std::max(largest, wish.sample);
    return largest;
  }
  /// Whether the step's tensors are for exempt monitors only.
  bool for_exempt() const {
    return std::ranges::all_of(subscriptions_, &subscription::exempt);
  }
  const std::vector<subscription>& subscriptions() const {
    return subscriptions_;
  }

 private:
  std::vector<subscription> subscriptions_;
};

using interest_pointer = std::shared_ptr<const tensor_interest>;

/// What monitors want to see of a step, in all processes of a job.
struct step_wishes {
  interest_pointer interest = {};  // its tensors; null: none
  bool tells_messages = false;     // a monitor wants messages_events,
  bool tells_memory = false;       // memory_events
  bool tells_ops = false;          // ops_events
  std::int64_t epoch = -1;         // see event_source
  step_reading reading = step_reading::once;
  /// The tensors that the second run of a watched step publishes. Set in the
  /// leading process only.
  interest_pointer on_hit = {};
};

template <class Archive>
void fields(Archive& archive, step_wishes& wishes) {
  std::vector<subscription> tensors;
  if (!Archive::reads && wishes.interest)
    tensors = wishes.interest->subscriptions();
  archive("tensors", tensors);
  if (Archive::reads && !tensors.empty())
    wishes.interest = std::make_shared<tensor_interest>(std::move(tensors));
  TROUPE_EACH_FIELD(wishes, tells_messages, tells_memory, tells_ops, epoch,
                    reading)
}

/// Keeps one object for equal subscriptions, so that stages need not match the
/// names of their modules again.
class kept_interest {
 public:
  /// An interest with the subscriptions of this one, which may be null.
  interest_pointer same_as(const interest_pointer& wanted) {
    if (!wanted)
      return nullptr;
    if (!last_ || last_->subscriptions() != wanted->subscriptions())
      last_ = wanted;
    return last_;
  }

 private:
  interest_pointer last_;
};

}  // namespace troupe
