#pragma once

#include <cstddef>

#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/link_side.hpp"

namespace troupe {

/// Size of a ring in bytes, chosen by measurement (docs/benchmarks.md).
inline constexpr std::size_t default_ring_bytes = std::size_t{1} << 21U;

/// A byte stream through memory that two processes of one machine share, with
/// one ring each way. `socket` is the stream of a unix socket between them,
/// with no bytes in flight; the server's end makes the memory and sends it
/// there. The socket stays open, as its end shows that the other process is
/// gone. A process that dies in the middle of a write ends the stream, as over
/// a socket. A `ring_bytes` that is no power of two is rounded up.
stream_pointer shared_stream(stream_pointer socket, link_side side,
                             std::size_t ring_bytes = default_ring_bytes);

}  // namespace troupe
