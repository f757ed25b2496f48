#pragma once

#include "troupe/engine/transport/endpoint.hpp"

namespace troupe {

/// Whether no other machine reaches an address of IP.
bool is_loopback(const socket_address& address);

}  // namespace troupe
