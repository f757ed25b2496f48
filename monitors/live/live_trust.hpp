#pragma once

#include <string>

#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// How a live job and its clients make sure of each other; the token itself
/// never travels. TCP: TLS 1.3 by a key made of the token. A unix socket: a
/// proof of the token if there is one, else by the rights of its file. Unlike
/// the ends of a job's links, the two may know the host by different names, so
/// it plays no part. Throws `invalid_argument` for tcp with less than 16
/// characters.
trust live_trust(const endpoint& address, const std::string& token);

/// Whether both ends show something before the first frame.
bool introduces(const trust& trusted);

}  // namespace troupe
