#pragma once

#include <cstdint>
#include <memory>

#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/trust/credentials.hpp"

namespace troupe {

class tls_context;

/// How the two ends of a link authenticate each other.
enum class trust_kind : std::uint8_t {
  none,            // a unix socket of the same user (or root); or insecure
  pre_shared_key,  // TLS with a key derived from the token
  certificates,    // TLS, both with certificates of the job's authority
};

/// A unix socket needs none, as each end checks that the other belongs to the
/// same user. TCP, on loopback too, uses the certificates if there are any,
/// else the token. Throws `invalid_argument`, saying what is needed, if there
/// are no credentials and it isn't insecure, or if the token is short;
/// `transport` for an unknown host.
trust_kind choose_trust(const endpoint& address, const credentials& own);

/// What two ends need to authenticate each other, for many links.
struct trust {
  std::shared_ptr<tls_context> tls{};  // null: plain text
};

/// Calls `choose_trust` and reads the files. Also throws `io` for unusable
/// files.
trust make_trust(const endpoint& address, const credentials& own);

}  // namespace troupe
