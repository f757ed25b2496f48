#include "troupe/engine/transport/trust/trust.hpp"

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/trust/tls_context.hpp"

namespace troupe {

namespace {

[[noreturn]] void refuse_without_credentials(const endpoint& address) {
  const bool local = std::ranges::all_of(addresses_of(address), is_loopback);
  fail(error_code::invalid_argument,
       "{}: {} can connect to this address; give all processes a secret "
       "(--job-token-file FILE: 32 random bytes in hex will do), or "
       "certificates (--certificates FOLDER, which `troupe certificates "
       "FOLDER` makes){}, or --insecure for plain text with anybody",
       to_text(address), local ? "all users of this machine" : "other machines",
       local ? ", or let them meet at a unix: address" : "");
}

}  // namespace

trust_kind choose_trust(const endpoint& address, const credentials& own) {
  if (address.is_unix)
    return trust_kind::none;
  if (!own.certificates.empty())
    return trust_kind::certificates;
  if (own.token.size() >= shortest_token)
    return trust_kind::pre_shared_key;
  if (!own.token.empty())
    fail(error_code::invalid_argument,
         "{}: a token of fewer than {} characters could be guessed; use a "
         "longer one (such as 32 random bytes in hex)",
         to_text(address), shortest_token);
  if (!own.insecure)
    refuse_without_credentials(address);
  return trust_kind::none;
}

trust make_trust(const endpoint& address, const credentials& own) {
  switch (choose_trust(address, own)) {
    case trust_kind::none:
      break;
    case trust_kind::pre_shared_key:
      return {tls_context::of_token(own.token)};
    case trust_kind::certificates:
      return {tls_context::of_certificates(own.certificates)};
  }
  return {};
}

}  // namespace troupe
