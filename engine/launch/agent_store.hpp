#pragma once

#include <chrono>
#include <string>

#include "troupe/engine/launch/environment.hpp"

namespace troupe {

// torchrun's agent keeps a store (c10d::TCPStore) at MASTER_ADDR:MASTER_PORT,
// where the processes of a job leave each other small texts. Both throw
// `transport` where it can't be reached within the time.

/// Says where process 0 can be met.
void tell_agent_store(const launch_environment& place, const std::string& where,
                      std::chrono::milliseconds patience);
/// Waits until process 0 has said it.
std::string ask_agent_store(const launch_environment& place,
                            std::chrono::milliseconds patience);

}  // namespace troupe
