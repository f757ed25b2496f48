#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/engine/transport/address/endpoint.hpp"

namespace troupe {

class tls_context;

/// A recorded handshake allows offline guessing of shorter tokens.
inline constexpr std::size_t shortest_token = 16;

/// A process's credentials towards the others of its job.
struct credentials {
  std::string token{};         // empty: none
  std::string certificates{};  // the folder of `troupe certificates`, or empty
  bool insecure = false;       // plain text over TCP, to anybody
};

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
