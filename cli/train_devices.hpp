#pragma once

#include <memory>
#include <vector>

#include "troupe/cli/train_options.hpp"
#include "troupe/engine/device/rank_device.hpp"

namespace troupe::cli {

/// The accelerators that `--device` names, for this process's ranks; empty for
/// the CPU. Processes of one machine take theirs in turns; `--plain` takes one,
/// the first unless another is named. Called before any other use of LibTorch.
/// Throws `invalid_argument` for a device that makes no sense, `device` where
/// there is none.
std::vector<std::shared_ptr<accelerator>> open_devices(
  const train_options& options);

/// Of `--overlap`. Throws `invalid_argument`.
overlap_options overlap_of(const train_options& options);

}  // namespace troupe::cli
