#pragma once

#include <cstdint>
#include <string_view>

namespace troupe {

/// CRC-32C (Castagnoli, RFC 3720 B.4) of some bytes.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace troupe
