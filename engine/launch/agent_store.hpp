#pragma once

#include <chrono>
#include <string>

#include "troupe/engine/launch/environment.hpp"

namespace troupe {

// torchrun's agent keeps a store (c10d::TCPStore) at MASTER_ADDR:MASTER_PORT,
// where the processes of a job exchange small texts. Both functions throw
// `transport` if it can't be reached within the time.

/// Publishes the address of process 0.
void tell_agent_store(const launch_environment& place, const std::string& where,
                      std::chrono::milliseconds patience);
/// Waits for the address of process 0.
std::string ask_agent_store(const launch_environment& place,
                            std::chrono::milliseconds patience);

}  // namespace troupe
