#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// An end of a link: the one that dialled, or the one that was dialled.
enum class link_side : std::uint8_t { client, server };

constexpr link_side other(link_side own) {
  return own == link_side::client ? link_side::server : link_side::client;
}

// Two ends prove to each other that they know one token, without sending it.
// Each says hello (magic, version, side, 32 random bytes); then the client, and
// only if its proof is right the server, sends a keyed hash of both hellos and
// its own side.

inline constexpr std::size_t token_hello_bytes = 40, token_proof_bytes = 32;

/// A new hello of that side.
std::string token_hello(link_side own);
/// Throws `transport`, with advice, unless that side said this hello; of fewer
/// bytes, if they can't begin one.
void require_token_hello(std::string_view bytes, link_side from);
std::string token_proof(std::string_view token, link_side own,
                        std::string_view client_hello,
                        std::string_view server_hello);

}  // namespace troupe
