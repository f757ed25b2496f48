#pragma once

#include <string_view>

#include "troupe/engine/transport/endpoint.hpp"

namespace troupe {

/// Whether no other machine reaches an address of IP.
bool is_loopback(const socket_address& address);

/// Whether it is written as an address of loopback, or `localhost`: nothing is
/// looked up.
bool names_loopback(std::string_view host);

}  // namespace troupe
