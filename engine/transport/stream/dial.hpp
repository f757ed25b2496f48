#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/engine/transport/io_loop.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// Connects and authenticates, retrying until it succeeds or the time is over,
/// as the other process may start later; stops once the other side has given a
/// wrong answer. Exactly one of the functions is called, on the loop's thread.
/// Looks up the host at once, and throws as `make_trust` does.
void dial(io_loop& loop, const endpoint& address, const credentials& shown,
          std::chrono::milliseconds within,
          std::function<void(stream_pointer)> done,
          std::function<void(const std::string& reason)> failed);

}  // namespace troupe
