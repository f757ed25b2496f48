#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe {

/// What the control groups (cgroups) of Linux allow this process, as containers
/// and batch systems set it: of its own group and the groups around it the
/// least, of version 1 or 2. None: no limit.
struct cgroup_limits {
  std::optional<std::int64_t> memory_bytes{};
  std::optional<double> cpus{};  // processor time in a time
};

/// Reads the limits. `root`: the folder in which proc/self and the groups'
/// mount points are. What can't be read sets no limit.
cgroup_limits read_cgroup_limits(const std::filesystem::path& root = "/");

}  // namespace troupe
