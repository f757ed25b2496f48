#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "troupe/engine/transport/keys.hpp"

namespace troupe {

/// Which end of a link: who dialled, or who was dialled.
enum class link_side : std::uint8_t { client, server };

/// Two ends that show each other that they know one token, which never
/// travels. Each says hello (magic, version, side, 32 random bytes); then the
/// client, and only if its proof is right the server, sends a keyed hash of
/// both hellos and its own side.
class token_proof {
 public:
  static constexpr std::size_t hello_bytes = 40;
  static constexpr std::size_t proof_bytes = 32;

  token_proof(link_side own, std::string_view token);

  /// What to send now; empty: nothing. Each is returned once.
  std::string to_send();
  /// How many bytes are to come next; 0: all is proved.
  std::size_t wanted() const;
  /// Of the first bytes of those: throws `transport` if they can't become a
  /// hello, as their sender may wait for an answer before it sends the rest.
  void look_at(std::string_view begun) const;
  /// Takes as many. Throws `transport` with what to do.
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
