#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/engine/transport/trust/keys.hpp"

namespace troupe {

/// An end of a link: the one that dialled, or the one that was dialled.
enum class link_side : std::uint8_t { client, server };

/// Two ends prove to each other that they know one token, without sending it.
/// Each says hello (magic, version, side, 32 random bytes); then the client,
/// and only if its proof is right the server, sends a keyed hash of both hellos
/// and its own side.
class token_proof {
 public:
  static constexpr std::size_t hello_bytes = 40;
  static constexpr std::size_t proof_bytes = 32;

  token_proof(link_side own, std::string_view token);

  /// Bytes to send now; empty if there are none. Returns each byte once.
  std::string to_send();
  /// The number of bytes to receive next; 0 once everything is proved.
  std::size_t wanted() const;
  /// Checks the first of those bytes: throws `transport` if they can't begin a
  /// hello, as their sender may wait for an answer before it sends the rest.
  void look_at(std::string_view begun) const;
  /// Takes that number of bytes. Throws `transport` with advice.
  void take(std::string_view bytes);

 private:
  void take_hello(std::string_view bytes);
  void take_proof(std::string_view bytes);
  std::string proof_of(link_side whose) const;

  enum class stage : std::uint8_t { hello, proof, done };

  link_side own_;
  secret_key key_;
  std::string own_hello_, other_hello_, to_send_;
  stage waits_for_ = stage::hello;
};

}  // namespace troupe
