#pragma once

#include <memory>
#include <vector>

#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/device/rank_device.hpp"

namespace troupe::cli {

/// The accelerators named by `--device`, for this process's ranks; empty for
/// the CPU. Processes of one machine take turns; `--plain` takes one, by
/// default the first. Call it before any other use of LibTorch. Throws
/// `invalid_argument` for an invalid device, `device` for a missing one.
std::vector<std::shared_ptr<accelerator>> open_devices(
  const device_options& options, bool plain);

/// The options of `--overlap`. Throws `invalid_argument`.
overlap_options overlap_of(const device_options& options);

}  // namespace troupe::cli
