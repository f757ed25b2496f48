#pragma once

#include <memory>

#include "troupe/engine/transport/byte_stream.hpp"
#include "troupe/engine/transport/tls_context.hpp"
#include "troupe/engine/transport/token_proof.hpp"

namespace troupe {

/// TLS 1.3 over a connected stream socket, which it owns from now on. The first
/// reads and writes shake hands. A client's writes may succeed before the
/// server has looked at its certificate; a byte from the server says that it
/// has. What ends without saying so is no `ended` but a failure, except for a
/// client that has not got a single byte yet: its read gives `ended`. One
/// thread at a time.
stream_pointer tls_stream(int descriptor, std::shared_ptr<tls_context> context,
                          link_side own);

}  // namespace troupe
