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

/// Lets NCCL, if it is 2.30 or later, take several processes on a device, by
/// NCCL_MULTI_RANK_GPU_ENABLE, unless that is set. Call it before the library
/// of accelerators is loaded, and before other threads read the environment.
void allow_shared_devices(const launch_environment& place);

}  // namespace troupe::cli
