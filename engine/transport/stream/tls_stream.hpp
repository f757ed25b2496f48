#pragma once

#include <memory>

#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/link_side.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"

namespace troupe {

/// TLS 1.3 over a connected stream socket, which it owns from then on. The
/// first reads and writes do the handshake. A client's writes may succeed
/// before the server has checked its certificate; a byte from the server shows
/// that it has. An end without notice is not `ended` but a failure, except for
/// a client that has not received a single byte yet: its read gives `ended`.
/// Used by one thread at a time.
stream_pointer tls_stream(int descriptor, std::shared_ptr<tls_context> context,
                          link_side side);

}  // namespace troupe
