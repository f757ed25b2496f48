#include "troupe/cli/train/shared_devices.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/environment.hpp"

namespace troupe::cli {

namespace {

constexpr int first_that_shares = 23000;
constexpr auto sharing_variable = "NCCL_MULTI_RANK_GPU_ENABLE";

std::string version_text(int nccl) {
  return fmt::format("NCCL {}.{}.{}", nccl / 10000, nccl % 10000 / 100,
                     nccl % 100);
}

}  // namespace

device_choice choose_devices(const launch_environment& place, int devices,
                             int nccl) {
  device_choice choice;
  const auto here = place.local_processes;
  if (here <= 1) {
    for (int i = 0; i < devices; ++i)
      choice.numbers.push_back(i);
    return choice;
  }
  choice.numbers = {place.local_process % devices};
  if (here <= devices)
    return choice;
  if (nccl < first_that_shares)
    fail(
      error_code::invalid_argument,
      "{} processes of this machine would share {} GPUs, which {} does not "
      "allow: start at most {} on each machine, let one process have several "
      "ranks, or give NCCL 2.30 or later (LD_PRELOAD=libnccl.so.2 of the "
      "package nvidia-nccl-cu13)",
      here, devices, version_text(nccl), devices);
  choice.shared = fmt::format(
    "{} processes share {} GPUs of this machine ({}, "
    "{}=1)",
    here, devices, version_text(nccl), sharing_variable);
  return choice;
}

void allow_shared_devices(const launch_environment& place) {
  if (place.local_processes > 1)
    ::setenv(sharing_variable, "1", /*overwrite=*/0);
}

}  // namespace troupe::cli
