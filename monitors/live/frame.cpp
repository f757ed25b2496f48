#include "troupe/monitors/live/frame.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/wire.hpp"

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

}  // namespace troupe
