#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/engine/transport/endpoint.hpp"

namespace troupe {

class tls_context;

/// A process's credentials towards the others of its job.
struct credentials {
  std::string token{};         // empty: none
  std::string certificates{};  // the folder of `troupe certificates`, or empty
  bool insecure = false;       // plain text off the machine, to anybody
};

/// How the two ends of a link authenticate each other.
enum class trust_kind : std::uint8_t {
  none,            // a unix socket of the same user (or root); or insecure
  token,           // a proof of the token, then plain text
  pre_shared_key,  // TLS with a key derived from the token
  certificates,    // TLS, both with certificates of the job's authority
};

/// For a unix socket: the token if there is one, else none. For TCP: the
/// certificates if there are any; else the token, with TLS off loopback. Throws
/// `invalid_argument`, saying what is needed, if there are no credentials and
/// it isn't insecure; `transport` for an unknown host. Both ends must get the
/// same result, so give both the same address and credentials.
trust_kind choose_trust(const endpoint& address, const credentials& shown);

/// A trust kind with the credentials it needs, for many links.
struct trust {
  trust_kind kind = trust_kind::none;
  std::string token{};
  std::shared_ptr<tls_context> tls{};
};

/// Calls `choose_trust` and reads the files. Also throws `io` for unusable
/// files.
trust make_trust(const endpoint& address, const credentials& shown);

}  // namespace troupe
