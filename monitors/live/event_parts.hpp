#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/events/event.hpp"
#include "troupe/monitors/live/frame.hpp"

namespace troupe {

/// An event as the frames of monitor `id`: several where one would be too
/// long, all but the last with "more": true. Throws `invalid_argument` if even
/// a part is.
std::vector<std::string> event_frames(std::int64_t id, const event& what);

/// Puts such frames' contents together again.
class event_joiner {
 public:
  /// The event; none: more of it is to come. Throws `malformed_text`.
  std::optional<event> add(const nlohmann::json& content);

 private:
  std::optional<event> begun_;
};

}  // namespace troupe
