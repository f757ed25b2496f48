#pragma once

#include <cstdint>

namespace troupe {

/// An end of a link: the one that dialled, or the one that was dialled.
enum class link_side : std::uint8_t { client, server };

}  // namespace troupe
