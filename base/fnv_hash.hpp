#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace troupe {

/// FNV-1a of 64 bits (Fowler, Noll, Vo): equal for equal content in all
/// processes and on all machines. Not a protection against forgery.
class fnv_hash {
 public:
  constexpr void add(std::string_view bytes) {
    for (const auto byte : bytes)
      add_byte(static_cast<unsigned char>(byte));
  }
  /// Eight bytes, the lowest first.
  template <class Number>
  requires std::integral<Number>
  constexpr void add(Number number) {
    const auto bits = static_cast<std::uint64_t>(number);
    for (int byte = 0; byte < 8; ++byte)
      add_byte((bits >> (8 * byte)) & 255U);
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  constexpr void add_byte(std::uint64_t byte) {
    value_ = (value_ ^ byte) * 0x100000001b3U;
  }

  std::uint64_t value_ = 0xcbf29ce484222325U;
};

}  // namespace troupe
