#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

inline constexpr std::uint16_t live_version = 1;
/// Magic "TRPL", version, type (16 bits each), bytes of the payload (32 bits);
/// little endian. Magic and version stand there in every version.
inline constexpr std::size_t live_header_bytes = 12;
inline constexpr std::size_t live_payload_limit = std::size_t{1} << 20;

/// The kind of a frame between a live job and its clients; payloads are JSON.
enum class live_type : std::uint16_t {
  hello = 1,  // of a client, always first
  welcome,    // the answer to a hello
  refusal,    // {error}; the connection ends
  request,    // {do, ...}; one at a time
  answer,     // to the request before
  event,      // streams, each with the monitor's id
  alert,
  metrics,
  printed,
  ended,  // a monitor that was attached is no longer
};

struct live_frame {
  live_type type = live_type::hello;
  std::string payload;
};

/// Throws `invalid_argument` for a payload beyond the limit.
std::string frame_bytes(live_type type, std::string_view payload);

/// Cuts a stream of bytes into frames. What a header announces is checked as
/// soon as its bytes are there, and nothing is kept of what comes after one
/// that is refused; so at most one frame and what was added with its last
/// bytes is held.
class frame_parser {
 public:
  explicit frame_parser(std::size_t limit = live_payload_limit)
    : limit_(limit) {}

  /// Payloads may have so many bytes from the next frame on.
  void set_limit(std::size_t bytes) { limit_ = bytes; }
  void add(std::string_view bytes) { waiting_ += bytes; }
  /// The next whole frame; none: more bytes are needed. Throws `transport` for
  /// wrong magic, another version (naming both), an unknown type, and a
  /// payload beyond the limit.
  std::optional<live_frame> next();

 private:
  std::size_t limit_;
  std::string waiting_;
};

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
