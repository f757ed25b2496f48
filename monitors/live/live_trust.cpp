#include "troupe/monitors/live/live_trust.hpp"

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"

namespace troupe {

namespace {

// A recorded handshake allows offline guessing of short tokens.
constexpr std::size_t shortest_token = 16;

}  // namespace

trust live_trust(const endpoint& address, const std::string& token) {
  if (address.is_unix)
    return token.empty() ? trust{} : trust{trust_kind::token, token};
  if (token.size() < shortest_token)
    fail(error_code::invalid_argument,
         "{}: a TCP endpoint needs a token of at least {} characters, because "
         "anyone could attach; give the job's (--endpoint-token-file, and "
         "--token-file to attach), or use unix:/path",
         to_text(address), shortest_token);
  return {trust_kind::pre_shared_key, {}, tls_context::of_token(token)};
}

bool introduces(const trust& trusted) {
  return trusted.kind != trust_kind::none;
}

}  // namespace troupe
