#include "troupe/monitors/live/frame.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

constexpr std::string_view magic = "TRPL";

void append_number(std::string& target, std::uint32_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    target += static_cast<char>((value >> (8 * i)) & 255U);
}

std::uint32_t number_at(std::string_view bytes, std::size_t start,
                        std::size_t count) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < count; ++i)
    value |=
      static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[start + i]))
      << (8 * i);
  return value;
}

bool is_known(std::uint32_t type) {
  return type >= static_cast<std::uint32_t>(live_type::hello)
         && type <= static_cast<std::uint32_t>(live_type::ended);
}

void check_magic(std::string_view bytes) {
  const auto there = std::min(bytes.size(), magic.size());
  if (bytes.substr(0, there) != magic.substr(0, there))
    fail(error_code::transport,
         "this is no frame of troupe's protocol for live jobs");
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
  std::string bytes;
  bytes.reserve(live_header_bytes + payload.size());
  bytes += magic;
  append_number(bytes, live_version, 2);
  append_number(bytes, static_cast<std::uint16_t>(type), 2);
  append_number(bytes, static_cast<std::uint32_t>(payload.size()), 4);
  bytes += payload;
  return bytes;
}

std::optional<live_frame> frame_parser::next() {
  check_magic(waiting_);
  if (waiting_.size() >= 6)
    check_version(number_at(waiting_, 4, 2));
  if (waiting_.size() < live_header_bytes)
    return {};
  const auto type = number_at(waiting_, 6, 2);
  if (!is_known(type))
    fail(error_code::transport, "a frame of the unknown type {}", type);
  const auto length = number_at(waiting_, 8, 4);
  if (length > limit_)
    fail(error_code::transport, "a payload of {} bytes, where {} are allowed",
         length, limit_);
  const auto end = live_header_bytes + length;
  if (waiting_.size() < end)
    return {};
  live_frame made{static_cast<live_type>(type),
                  waiting_.substr(live_header_bytes, length)};
  waiting_.erase(0, end);
  return made;
}

}  // namespace troupe
