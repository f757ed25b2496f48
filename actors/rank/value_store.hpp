#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/stream.hpp"
#include "troupe/engine/device/tensor.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/stage.hpp"

namespace troupe {

/// A value on the rank that reads it next.
struct held_value {
  tensor_list tensors;
  std::shared_ptr<stage_state> own = {};  // of a stage: in place of tensors
  at::Tensor present = {};  // of gradients, as in member_gradients
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
  void put(const value& name, held_value held) {
    bool is_new = false;
    if (spare_.empty()) {
      is_new = held_.emplace(name, std::move(held)).second;
    } else {
      auto node = std::move(spare_.back());
      spare_.pop_back();
      node.key() = name;
      node.mapped() = std::move(held);
      is_new = held_.insert(std::move(node)).inserted;
    }
    if (!is_new)
      fail(error_code::internal, "the {} was made twice", to_text(name));
  }
  /// Throws `internal` if it is not.
  held_value take(const value& name) {
    auto node = held_.extract(name);
    if (node.empty())
      fail(error_code::internal, "the {} is missing", to_text(name));
    auto held = std::exchange(node.mapped(), {});
    spare_.push_back(std::move(node));
    return held;
  }
  bool has(const value& name) const { return held_.contains(name); }
  void clear() { held_.clear(); }
  /// The values that nobody has taken, in words; empty without any.
  std::string left() const {
    constexpr std::size_t most = 4;
    std::vector<value> names;
    for (const auto& [name, held] : held_)
      names.push_back(name);
    std::ranges::sort(names);
    std::string text;
    for (std::size_t i = 0; i < std::min(most, names.size()); ++i)
      text += fmt::format("{}the {}", i == 0 ? "" : ", ", to_text(names[i]));
    if (names.size() > most)
      text += fmt::format(" and {} more", names.size() - most);
    return text;
  }

 private:
  struct value_hash {
    /// A step's values differ in few bits, which are packed before they are
    /// mixed.
    std::size_t operator()(const value& name) const {
      const auto stages = (static_cast<std::uint64_t>(name.from) << 32)
                          ^ static_cast<std::uint64_t>(name.to);
      const auto rest = (static_cast<std::uint64_t>(name.microbatch) << 32)
                        ^ (static_cast<std::uint64_t>(name.slice) << 16)
                        ^ (static_cast<std::uint64_t>(name.copy) << 8)
                        ^ static_cast<std::uint64_t>(name.kind);
      constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
      const auto mixed = (stages * odd ^ rest) * odd;
      return mixed ^ (mixed >> 32);
    }
  };
  using value_map = std::unordered_map<value, held_value, value_hash>;

  value_map held_;
  /// Used again, so that a step allocates none.
  std::vector<value_map::node_type> spare_;
};

}  // namespace troupe
