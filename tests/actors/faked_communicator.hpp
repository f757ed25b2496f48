#pragma once

#include <memory>
#include <string>

#include "troupe/engine/device/communicator.hpp"

namespace troupe::testing {

/// Moves tensors between faked accelerators of one process, on their streams. A
/// receive blocks the host until the send, so a receive that is issued before
/// its send on one thread never ends. Averages are computed in ascending rank.
std::unique_ptr<communicator> make_faked_communicator(
  const communicator_options& options);

/// Ends the communicators of that name, as a process that fails does.
void end_faked_communicators(const std::string& name);

/// An id that no communicator has had yet.
communicator_id new_faked_id();

}  // namespace troupe::testing
