#pragma once

#include <string>

struct ssl_st;

namespace troupe {

/// Why a session has failed and what to do, of this thread's queue of errors,
/// which it empties. `was_shaken`: the handshake had been over.
std::string tls_problem(const ssl_st* session, bool has_certificates,
                        bool was_shaken);

}  // namespace troupe
