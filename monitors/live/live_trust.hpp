#pragma once

#include <string>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

/// How a live job and its clients make sure of each other; the token itself
/// never travels. TCP: TLS 1.3 by a key made of the token. A unix socket: a
/// proof of the token if there is one, else by the rights of its file. Unlike
/// the ends of a job's links, the two may know the host by different names, so
/// it plays no part. Throws `invalid_argument` for tcp with less than 16
/// characters.
inline trust live_trust(const endpoint& address, const std::string& token) {
  if (address.is_unix)
    return token.empty() ? trust{} : trust{trust_kind::token, token};
  // A recorded handshake allows offline guessing of short tokens.
  constexpr std::size_t shortest_token = 16;
  if (token.size() < shortest_token)
    fail(error_code::invalid_argument,
         "{}: a TCP endpoint needs a token of at least {} characters, because "
         "anyone could attach; give the job's (--endpoint-token-file, and "
         "--token-file to attach), or use unix:/path",
         to_text(address), shortest_token);
  return {trust_kind::pre_shared_key, {}, tls_context::of_token(token)};
}

/// Whether both ends show something before the first frame.
inline bool introduces(const trust& trusted) {
  return trusted.kind != trust_kind::none;
}

}  // namespace troupe
