#pragma once

#include <spdlog/spdlog.h>

#include <memory>

namespace troupe {

/// Where warnings go: the program's default logger of spdlog; as long as that
/// is the one that spdlog begins with, which writes to standard output, one of
/// the same level that writes to standard error. Any thread.
std::shared_ptr<spdlog::logger> log();

}  // namespace troupe
