#pragma once

#include <chrono>
#include <cstdint>

#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/stream/awaited_stream.hpp"

namespace troupe {

/// A connection to a process of the job; an error names the process.
boost::asio::awaitable<stream_pointer> reach(
  std::int32_t process, const endpoint& address, const credentials& shown,
  std::chrono::milliseconds patience);

/// Throws `transport` if the other side has ended.
boost::asio::awaitable<void> say(awaited_stream& to, rendezvous_message what);

/// The next message, whose head has at most so many bytes; takes no more memory
/// than what has come of it. Reads no byte after it. Throws `transport` if the
/// other side ends or sends anything else.
boost::asio::awaitable<rendezvous_message> hear(
  awaited_stream& from, std::uint32_t most_bytes = frame_limits{}.head_bytes);

}  // namespace troupe
