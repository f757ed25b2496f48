#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/stream/authenticate.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"
#include "troupe/engine/transport/trust/trust.hpp"
#include "troupe/monitors/http/access.hpp"

namespace troupe {

// How a live job's endpoint and its clients make sure of each other. At a unix
// socket both ends are the same user's, and a token travels only to that user.
// Over TCP a token never travels: TLS 1.3 by keys made of the tokens.

/// Throws `invalid_argument` for tcp without a token, and for tokens that are
/// short or equal.
inline trust trust_of_job(const endpoint& address,
                          const access_tokens& tokens) {
  require_legal(tokens);
  if (tokens.empty() && !address.is_unix)
    fail(error_code::invalid_argument,
         "{}: a TCP endpoint needs a token, because anyone could attach; give "
         "--endpoint-token-file or --endpoint-control-token-file, or use "
         "unix:/path",
         to_text(address));
  if (address.is_unix)
    return {};
  std::vector<std::string> all;
  for (auto& [right, token] : tokens_in_use(tokens))
    all.push_back(std::move(token));
  return {tls_context::of_tokens(all)};
}

/// Throws `invalid_argument` for tcp without a token.
inline trust trust_of_client(const endpoint& address,
                             const std::string& token) {
  if (token.empty() && !address.is_unix)
    fail(error_code::invalid_argument,
         "{}: a TCP endpoint needs a token; give the file that has it with "
         "--token-file",
         to_text(address));
  if (address.is_unix)
    return {};
  return {tls_context::of_token(
    token, {"--token-file takes a file with the content of the job's "
            "--endpoint-token-file or --endpoint-control-token-file",
            "it is no endpoint of a job"})};
}

/// Throws `transport` where the other end of a unix socket is another user's.
inline void require_own_user(byte_stream& over) {
  if (const auto why = refused_user(over.tcp_socket()))
    fail(error_code::transport, "{}", why->reason);
}

}  // namespace troupe
