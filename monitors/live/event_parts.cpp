#include "troupe/monitors/live/event_parts.hpp"

#include <algorithm>
#include <utility>

#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace {

using nlohmann::json;

// With a histogram, a tensor is about 4 KiB of JSON; an op or a
// message at most 150 bytes.
constexpr std::size_t tensors_of_a_part = 128;
constexpr std::size_t ops_of_a_part = 4096;  // or messages

std::string frame_of(std::int64_t id, const event& part, bool more) {
  auto content = json_of(part);
  content["id"] = id;
  if (more)
    content["more"] = true;
  return frame_bytes(live_type::event, json_text(content));
}

/// The event once for each `size` items of its list.
template <class Event, class Item>
std::vector<std::string> cut(std::int64_t id, const Event& what,
                             std::vector<Item> Event::*list, std::size_t size) {
  const auto& all = what.*list;
  std::vector<std::string> frames;
  for (std::size_t start = 0; start == 0 || start < all.size(); start += size) {
    const auto target = std::min(start + size, all.size());
    auto part = Event{};
    part.source = what.source;
    if constexpr (std::is_same_v<Event, tensors_event>) {
      part.backward = what.backward;
      part.samples = what.samples;
    }
    (part.*list)
      .assign(all.begin() + static_cast<std::ptrdiff_t>(start),
              all.begin() + static_cast<std::ptrdiff_t>(target));
    frames.push_back(frame_of(id, std::move(part), target < all.size()));
  }
  return frames;
}

template <class Event, class Item>
void append(Event& target, Event&& part, std::vector<Item> Event::*list) {
  std::ranges::move(part.*list, std::back_inserter(target.*list));
}

/// Adds a part's items; false: they are no parts of one event.
bool join(event& begun, event&& part) {
  if (begun.index() != part.index())
    return false;
  if (auto* ops = std::get_if<ops_event>(&begun))
    append(*ops, std::get<ops_event>(std::move(part)), &ops_event::ops);
  else if (auto* messages = std::get_if<messages_event>(&begun))
    append(*messages, std::get<messages_event>(std::move(part)),
           &messages_event::messages);
  else if (auto* tensors = std::get_if<tensors_event>(&begun))
    append(*tensors, std::get<tensors_event>(std::move(part)),
           &tensors_event::tensors);
  else
    return false;
  return true;
}

}  // namespace

std::vector<std::string> event_frames(std::int64_t id, const event& what) {
  if (const auto* ops = std::get_if<ops_event>(&what))
    return cut(id, *ops, &ops_event::ops, ops_of_a_part);
  if (const auto* messages = std::get_if<messages_event>(&what))
    return cut(id, *messages, &messages_event::messages, ops_of_a_part);
  if (const auto* tensors = std::get_if<tensors_event>(&what))
    return cut(id, *tensors, &tensors_event::tensors, tensors_of_a_part);
  return {frame_of(id, what, false)};
}

std::optional<event> event_joiner::add(const json& content) {
  auto part = event_of(content);
  if (!begun_)
    begun_ = std::move(part);
  else if (!join(*begun_, std::move(part)))
    fail(error_code::malformed_text, "an event's parts don't belong together");
  if (content.contains("more") && flag_of(content, "more"))
    return {};
  return std::exchange(begun_, std::nullopt);
}

}  // namespace troupe
