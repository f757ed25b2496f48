#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/engine/transport/endpoint.hpp"

namespace troupe {

class tls_context;

/// What a process can show the others of its job.
struct credentials {
  std::string token{};         // empty: none
  std::string certificates{};  // the folder of `troupe certificates`, or empty
  bool insecure = false;       // plain text off the machine, to anybody
};

/// How the two ends of a link make sure of each other.
enum class trust_kind : std::uint8_t {
  none,            // a unix socket of the same user (or root); or insecure
  token,           // a proof of the token, then plain text
  pre_shared_key,  // TLS by a key made of the token
  certificates,    // TLS, both with a certificate of the job's authority
};

/// Of a unix socket: the token if there is one, else none. Of TCP: the
/// certificates if there are any; else the token, by TLS off loopback. Throws
/// `invalid_argument`, saying what is needed, where nothing of it is there and
/// it isn't insecure; `transport` if the host is not known. Both ends have to
/// come to the same, so both are given the same address and credentials.
trust_kind choose_trust(const endpoint& at, const credentials& shown);

/// A choice with what it needs, for many links.
struct trust {
  trust_kind kind = trust_kind::none;
  std::string token{};
  std::shared_ptr<tls_context> tls{};
};

/// `choose_trust`, and the files read. Throws `io` for files that can't be
/// used, too.
trust make_trust(const endpoint& at, const credentials& shown);

}  // namespace troupe
