#pragma once

#include <string>

struct ssl_st;

namespace troupe {

/// Why a session has failed and what to do, from this thread's error queue,
/// which it empties. `was_shaken`: the handshake was complete.
std::string tls_problem(const ssl_st* session, bool has_certificates,
                        bool was_shaken);

}  // namespace troupe
