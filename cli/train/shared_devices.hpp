#pragma once

#include <string>
#include <vector>

namespace troupe {
struct launch_environment;
}

namespace troupe::cli {

/// The devices that `--device cuda` gives a process.
struct device_choice {
  std::vector<int> numbers;
  std::string shared;  // what to say if processes share a device; else empty
};

/// All devices of the machine for a process that is alone there, else one, in
/// turns. Several processes on a device need NCCL 2.30; `nccl` is its version,
/// such as 23007. Throws `invalid_argument`, which says what to do, with an
/// older one.
device_choice choose_devices(const launch_environment& place, int devices,
                             int nccl);

/// Lets NCCL take several processes on a device, where it can and the machine
/// has several. Sets NCCL_MULTI_RANK_GPU_ENABLE unless it is set: before
/// other threads read the environment.
void allow_shared_devices(const launch_environment& place, int nccl);

}  // namespace troupe::cli
