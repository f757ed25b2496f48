#pragma once

#include <cstddef>
#include <string>

namespace troupe {

/// A recorded handshake allows offline guessing of shorter tokens.
inline constexpr std::size_t shortest_token = 16;

/// A process's credentials towards the others of its job.
struct credentials {
  std::string token{};         // empty: none
  std::string certificates{};  // the folder of `troupe certificates`, or empty
  bool insecure = false;       // plain text over TCP, to anybody
};

}  // namespace troupe
