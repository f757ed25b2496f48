#include "troupe/monitors/sinks/crc32c.hpp"

#include <array>

namespace troupe {

namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // bits reversed

constexpr auto table = [] {
  std::array<std::uint32_t, 256> made{};
  for (std::uint32_t byte = 0; byte < made.size(); ++byte) {
    auto rest = byte;
    for (int bit = 0; bit < 8; ++bit)
      rest = (rest >> 1) ^ ((rest & 1) != 0 ? polynomial : 0);
    made[byte] = rest;
  }
  return made;
}();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  auto rest = ~std::uint32_t{0};
  for (const auto byte : bytes)
    rest = (rest >> 8) ^ table[(rest ^ static_cast<unsigned char>(byte)) & 255];
  return ~rest;
}

}  // namespace troupe
