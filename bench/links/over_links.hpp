#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/token_proof.hpp"

/// Makes a stream over a connected socket.
using make_stream =
  std::function<troupe::stream_pointer(int socket, troupe::link_side own)>;

/// Seconds that tensors of so many bytes take, so many of them, each received
/// into a tensor of its own; four are in flight at a time. Some go first, to
/// warm up the receiver's allocator.
double over_link(const std::array<int, 2>& sockets, const make_stream& make,
                 std::size_t bytes, int count, std::chrono::microseconds spin);

/// Microseconds one way for a tensor of 1 KiB, half of each round trip. With a
/// pause in between both sides sleep; otherwise the next follows at once.
std::vector<double> round_trips(const std::array<int, 2>& sockets,
                                const make_stream& make, int count,
                                std::chrono::microseconds spin,
                                std::chrono::microseconds pause);
