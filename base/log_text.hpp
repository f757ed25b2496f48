#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe {

/// Another program's text for a log: as `plain_text`, cut after `most` bytes,
/// and with its further lines indented, so that none looks like one of the
/// log's own.
std::string log_text(std::string_view text, std::size_t most = 1024);

}  // namespace troupe
