#include "troupe/monitors/live/frame.hpp"

#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/wire.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace {

constexpr std::string_view magic = "TRPL";

template <class Number>
Number number_at(std::string_view bytes, std::size_t start) {
  return wire_reader(bytes.substr(start)).get<Number>();
}

bool is_known(std::uint32_t type) {
  return type >= static_cast<std::uint32_t>(live_type::hello)
         && type <= static_cast<std::uint32_t>(live_type::ended);
}

void check_magic(std::string_view bytes) {
  const auto there = std::min(bytes.size(), magic.size());
  if (bytes.substr(0, there) != magic.substr(0, there))
    fail(error_code::transport,
         "not a frame of troupe's protocol for live jobs");
}

void check_version(std::uint32_t version) {
  if (version != live_version)
    fail(error_code::transport,
         "the frame is of version {} of the protocol, and this side speaks "
         "version {}; use the same troupe on both",
         version, live_version);
}

}  // namespace

std::string frame_bytes(live_type type, std::string_view payload) {
  if (payload.size() > live_payload_limit)
    fail(error_code::invalid_argument,
         "a payload of {} bytes is more than the {} of a frame", payload.size(),
         live_payload_limit);
  wire_writer header;
  header.put(live_version);
  header.put(type);
  header.put(static_cast<std::uint32_t>(payload.size()));
  std::string bytes;
  bytes.reserve(live_header_bytes + payload.size());
  bytes.append(magic).append(header.bytes()).append(payload);
  return bytes;
}

std::optional<live_frame> frame_parser::next() {
  check_magic(waiting_);
  if (waiting_.size() >= 6)
    check_version(number_at<std::uint16_t>(waiting_, 4));
  if (waiting_.size() < live_header_bytes)
    return {};
  const auto type = number_at<std::uint16_t>(waiting_, 6);
  if (!is_known(type))
    fail(error_code::transport, "a frame of the unknown type {}", type);
  const auto length = number_at<std::uint32_t>(waiting_, 8);
  if (length > limit_)
    fail(error_code::transport, "a payload of {} bytes; {} are allowed", length,
         limit_);
  const auto end = live_header_bytes + length;
  if (waiting_.size() < end)
    return {};
  live_frame made{static_cast<live_type>(type),
                  waiting_.substr(live_header_bytes, length)};
  waiting_.erase(0, end);
  return made;
}

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
