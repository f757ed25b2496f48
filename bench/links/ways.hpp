#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/link_side.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"

/// Two connected sockets, for two processes.
std::array<int, 2> unix_sockets();
std::array<int, 2> tcp_sockets();

/// Runs `other` in a new process beside `own`, each with one of the sockets,
/// and returns the result of `own`. No other thread may be running.
double in_two_processes(const std::array<int, 2>& sockets,
                        const std::function<double(int)>& own,
                        const std::function<void(int)>& other);

/// Seconds for sending so many bytes so many times with blocking calls into one
/// reused buffer; both ends are new.
double bare_socket(const std::array<int, 2>& sockets, std::size_t bytes,
                   int count);
/// Microseconds in one direction for 1 KiB, half of each round trip, with a
/// pause before each.
std::vector<double> bare_round_trips(const std::array<int, 2>& sockets,
                                     int count,
                                     std::chrono::microseconds pause);
/// Like `bare_socket`, but with TLS, by OpenSSL's own blocking calls.
double bare_tls(const std::array<int, 2>& sockets,
                const std::shared_ptr<troupe::tls_context>& context,
                std::size_t bytes, int count);

/// Makes a stream over a connected socket.
using make_stream =
  std::function<troupe::stream_pointer(int socket, troupe::link_side own)>;

/// Seconds that tensors of so many bytes take, so many of them, each received
/// into a tensor of its own; four are in flight at a time. Some go first, to
/// warm up the receiver's allocator.
double over_link(const std::array<int, 2>& sockets, const make_stream& make,
                 std::size_t bytes, int count, std::chrono::microseconds spin);

/// Microseconds in one direction for a tensor of 1 KiB, half of each round
/// trip. After a pause both sides sleep; without one the next round trip
/// follows immediately.
std::vector<double> round_trips(const std::array<int, 2>& sockets,
                                const make_stream& make, int count,
                                std::chrono::microseconds spin,
                                std::chrono::microseconds pause);
