#pragma once

#include <memory>
#include <string>

#include "troupe/engine/device/communicator.hpp"

namespace troupe::testing {

/// Moves tensors between faked accelerators of one process, on their streams;
/// a receive waits on the host for what was sent, so that one that was made
/// before its send would not end. Averages are computed in ascending rank.
std::unique_ptr<communicator> make_faked_communicator(
  const communicator_options& options);

/// Ends those of that name, as a process that fails ends its own.
void end_faked_communicators(const std::string& name);

/// Of a communicator that there was not yet.
communicator_id new_faked_id();

}  // namespace troupe::testing
