#include "troupe/engine/device/core_group.hpp"

#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

namespace troupe {

namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Distinguishes groups of different machines and containers.
std::string owner_of(const cgroup_limits& limits) {
  auto name = text_of("/proc/sys/kernel/random/boot_id");
  if (!limits.cpus)
    return name;
  std::error_code trouble;
  name += std::filesystem::read_symlink("/proc/self/ns/cgroup", trouble);
  return name + text_of("/proc/self/cgroup");
}

}  // namespace

core_group own_cores(const cgroup_limits& limits) {
  core_group own{owner_of(limits), static_cast<double>(std::max(
                                     1U, std::thread::hardware_concurrency()))};
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) {
    own.cores = CPU_COUNT(&mask);
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &mask))
        own.name += std::to_string(core) + ',';
  }
  own.cores = std::min(own.cores, limits.cpus.value_or(own.cores));
  return own;
}

}  // namespace troupe
