#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/stream/authenticate.hpp"
#include "troupe/engine/transport/trust/access.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

// How a live job and its clients make sure of each other; a token itself never
// travels. With tokens: TLS 1.3 by keys made of them, at a unix socket too.
// Without, at unix sockets only: both ends are the same user's.

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
  if (tokens.empty())
    return {};
  std::vector<std::string> all;
  for (auto& [right, token] : tokens.all())
    all.push_back(std::move(token));
  return {trust_kind::pre_shared_key, tls_context::of_tokens(all)};
}

/// Throws `invalid_argument` for tcp without a token.
inline trust trust_of_client(const endpoint& address,
                             const std::string& token) {
  if (token.empty() && !address.is_unix)
    fail(error_code::invalid_argument,
         "{}: a TCP endpoint needs a token; give the file that has it with "
         "--token-file",
         to_text(address));
  if (token.empty())
    return {};
  return {trust_kind::pre_shared_key,
          tls_context::of_token(
            token, {"--token-file takes a file with the content of the job's "
                    "--endpoint-token-file or --endpoint-control-token-file",
                    "at a job's unix socket without tokens, leave out "
                    "--token-file"})};
}

/// The right of a client whose first bytes have arrived. The job's own user
/// gets every right, as that user can debug or kill the job anyway.
inline access_right right_of_client(const byte_stream& client,
                                    const access_tokens& tokens) {
  return tokens.empty() ? access_right::control
                        : tokens.all().at(client.proven_token()).first;
}

/// Throws `transport` where the other end of a unix socket is another user's.
inline void require_own_user(byte_stream& over) {
  if (const auto why = refused_user(over.tcp_socket()))
    fail(error_code::transport, "{}", why->reason);
}

}  // namespace troupe
