#pragma once

#include <cstdint>

namespace troupe {

// Philox4x32-10, a counter-based generator (Salmon, Moraes, Dror and Shaw,
// SC 2011): each block of four numbers is a function of a counter and a key, so
// that any part of a stream can be computed by any thread, on any device.

struct philox_key {
  std::uint32_t first = 0, second = 0;
};

struct philox_block {
  std::uint32_t x = 0, y = 0, z = 0, w = 0;
};

/// The four numbers of a counter and a key, after ten rounds.
constexpr philox_block philox(philox_block counter, philox_key key) {
  for (int round = 0; round < 10; ++round) {
    const auto p = std::uint64_t{0xD2511F53} * counter.x;
    const auto q = std::uint64_t{0xCD9E8D57} * counter.z;
    counter = {static_cast<std::uint32_t>(q >> 32) ^ counter.y ^ key.first,
               static_cast<std::uint32_t>(q),
               static_cast<std::uint32_t>(p >> 32) ^ counter.w ^ key.second,
               static_cast<std::uint32_t>(p)};
    key.first += 0x9E3779B9;
    key.second += 0xBB67AE85;
  }
  return counter;
}

/// A stream of numbers: that of block b has the counter (b mod 2^32, b / 2^32,
/// place, occurrence).
struct philox_stream {
  philox_key key;
  std::uint32_t place = 0, occurrence = 0;

  constexpr philox_block block(std::uint64_t b) const {
    return philox({static_cast<std::uint32_t>(b),
                   static_cast<std::uint32_t>(b >> 32), place, occurrence},
                  key);
  }
};

/// Elements are numbered so that vector units and coalesced stores serve them:
/// of each 64, number 16 j + i is number j of block i of 16.
constexpr std::int64_t philox_lanes = 16;
constexpr std::int64_t philox_group = 4 * philox_lanes;

}  // namespace troupe
