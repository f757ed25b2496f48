#include "troupe/engine/transport/trust/trust.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"

namespace troupe {

namespace {

// A recorded handshake allows offline guessing of short tokens.
constexpr std::size_t shortest_key = 16;

trust_kind choose_on_loopback(const endpoint& address,
                              const credentials& shown) {
  if (!shown.token.empty())
    return trust_kind::token;
  if (shown.insecure)
    return trust_kind::none;
  fail(error_code::invalid_argument,
       "{}: all users of this machine can connect there; give the job a token "
       "(32 random bytes in hex will do), or use a unix: address",
       to_text(address));
}

trust_kind choose_off_loopback(const endpoint& address,
                               const credentials& shown) {
  if (shown.token.size() >= shortest_key)
    return trust_kind::pre_shared_key;
  if (!shown.token.empty())
    fail(error_code::invalid_argument,
         "{}: the address can be reached from other machines, where a token of "
         "fewer than {} characters could be guessed; use a longer one (such as "
         "32 random bytes in hex)",
         to_text(address), shortest_key);
  if (shown.insecure)
    return trust_kind::none;
  fail(error_code::invalid_argument,
       "{}: other machines can reach this address; give the job certificates "
       "(`troupe certificates FOLDER` creates them) or a token",
       to_text(address));
}

}  // namespace

trust_kind choose_trust(const endpoint& address, const credentials& shown) {
  if (address.is_unix)
    return shown.token.empty() ? trust_kind::none : trust_kind::token;
  if (!shown.certificates.empty())
    return trust_kind::certificates;
  const bool local = std::ranges::all_of(addresses_of(address), is_loopback);
  return local ? choose_on_loopback(address, shown)
               : choose_off_loopback(address, shown);
}

trust make_trust(const endpoint& address, const credentials& shown) {
  trust made{choose_trust(address, shown)};
  if (made.kind == trust_kind::token)
    made.token = shown.token;
  if (made.kind == trust_kind::pre_shared_key)
    made.tls = tls_context::of_token(shown.token);
  if (made.kind == trust_kind::certificates)
    made.tls = tls_context::of_certificates(shown.certificates);
  return made;
}

}  // namespace troupe
