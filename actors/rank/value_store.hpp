#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "troupe/engine/device/accelerator.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/stage.hpp"

namespace troupe {

/// A value on the rank that reads it next.
struct held_value {
  tensor_list tensors;
  std::shared_ptr<stage_state> own = {};  // of a stage: in place of tensors
  event_handle ready = {};  // when a device has made them; null: they are there
  std::int64_t sent = 0, left = 0, arrived = 0;  // host ns; 0: it did not
  std::int32_t message = none;  // that brought it; none: made on this rank
  /// Returns the sender's credit when the value is consumed.
  std::shared_ptr<const void> receipt = {};
};

/// The values of a step that a rank holds, from the op that makes or receives
/// each to the op that reads it. One thread at a time.
class value_store {
 public:
  /// Throws `internal` if the value is there.
  void put(const value& name, held_value held);
  /// Throws `internal` if it is not.
  held_value take(const value& name);
  bool has(const value& name) const;
  void clear() { held_.clear(); }
  /// The values that nobody has taken, in words; empty without any.
  std::string left() const;

 private:
  struct value_hash {
    std::size_t operator()(const value& name) const;
  };
  using value_map = std::unordered_map<value, held_value, value_hash>;
  value_map held_;
  /// Used again, so that a step allocates none.
  std::vector<value_map::node_type> spare_;
};

}  // namespace troupe
