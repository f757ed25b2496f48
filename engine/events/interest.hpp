#pragma once

#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// The tensors of one step that any monitor wants. Immutable: made at the
/// step's start and read by all of its stages, so every monitor sees a step
/// whole or not at all.
class tensor_interest {
 public:
  explicit tensor_interest(std::vector<subscription> wants)
    : subscriptions_(std::move(wants)) {}

  tensor_needs needs(tensor_kind kind, const std::string& name) const;
  /// Whether the step's tensors are for exempt monitors only.
  bool for_exempt() const;
  const std::vector<subscription>& subscriptions() const {
    return subscriptions_;
  }

 private:
  std::vector<subscription> subscriptions_;
};

}  // namespace troupe
