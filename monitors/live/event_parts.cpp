#include "troupe/monitors/live/event_parts.hpp"

#include <algorithm>
#include <utility>

#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace {

using nlohmann::json;

// A row, as of an op or a message, is at most 150 bytes of JSON; a tensor with
// a histogram is about 4 KiB.
template <class Item>
constexpr std::size_t most_of_a_part = travels_as_row<Item> ? 4096 : 128;

template <class Item>
bool is_long(const std::vector<Item>& list) {
  return list.size() > most_of_a_part<Item>;
}

std::string frame_of(std::int64_t id, const event& part, bool more) {
  auto content = json_of(part);
  content["id"] = id;
  if (more)
    content["more"] = true;
  return frame_bytes(live_type::event, json_text(content));
}

/// A long event once for each part of its list.
template <class Event, class Item>
std::vector<std::string> cut(std::int64_t id, const Event& what,
                             std::vector<Item> Event::*list) {
  const auto& all = what.*list;
  auto part = what;
  std::vector<std::string> frames;
  for (std::size_t start = 0; start < all.size();
       start += most_of_a_part<Item>) {
    const auto end = std::min(start + most_of_a_part<Item>, all.size());
    (part.*list)
      .assign(all.begin() + static_cast<std::ptrdiff_t>(start),
              all.begin() + static_cast<std::ptrdiff_t>(end));
    frames.push_back(frame_of(id, part, end < all.size()));
  }
  return frames;
}

/// Adds a part's items; false: they are no parts of one event.
bool join(event& begun, event&& part) {
  return std::visit(
    [&]<class Event>(Event& whole) {
      auto* more = std::get_if<Event>(&part);
      if constexpr (requires { Event::list; })
        if (more != nullptr) {
          std::ranges::move(more->*Event::list,
                            std::back_inserter(whole.*Event::list));
          return true;
        }
      return false;
    },
    begun);
}

}  // namespace

std::vector<std::string> event_frames(std::int64_t id, const event& what) {
  return std::visit(
    [&]<class Event>(const Event& held) -> std::vector<std::string> {
      if constexpr (requires { Event::list; })
        if (is_long(held.*Event::list))
          return cut(id, held, Event::list);
      return {frame_of(id, what, false)};
    },
    what);
}

std::optional<event> event_joiner::add(const json& content) {
  auto part = event_of(content);
  if (!begun_)
    begun_ = std::move(part);
  else if (!join(*begun_, std::move(part)))
    fail(error_code::malformed_text, "the parts of an event do not match");
  if (has_flag(content, "more"))
    return {};
  return std::exchange(begun_, std::nullopt);
}

}  // namespace troupe
