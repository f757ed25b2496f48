#pragma once

#include <cstdint>

namespace troupe {

/// An end of a link: the one that dialled, or the one that was dialled.
enum class link_side : std::uint8_t { client, server };

constexpr link_side other(link_side own) {
  return own == link_side::client ? link_side::server : link_side::client;
}

}  // namespace troupe
