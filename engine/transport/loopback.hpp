#pragma once

#include <string_view>

#include "troupe/engine/transport/endpoint.hpp"

namespace troupe {

/// Whether an IP address can't be reached from other machines.
bool is_loopback(const socket_address& address);

/// Whether the host is written as a loopback address or `localhost`; looks
/// nothing up.
bool names_loopback(std::string_view host);

}  // namespace troupe
