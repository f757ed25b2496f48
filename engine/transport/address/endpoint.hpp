#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// Where a live job can be reached: `unix:/path` or `tcp:HOST:PORT`.
struct endpoint {
  bool is_unix = true;
  std::string path;  // of a unix socket
  std::string host;  // of tcp; an IPv6 address without brackets
  std::uint16_t port = 0;

  bool operator==(const endpoint&) const = default;
};

/// Throws `invalid_argument`.
endpoint parse_endpoint(const std::string& text);
std::string to_text(const endpoint& address);

/// A socket address in the system's form.
struct socket_address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&bytes);
  }
  int family() const { return bytes.ss_family; }
};

/// Returns at least one address. Throws `transport` for an unknown host.
std::vector<socket_address> addresses_of(const endpoint& target);

/// Whether an IP address can't be reached from other machines.
bool is_loopback(const socket_address& address);

/// Whether the host is written as a loopback address or `localhost`; looks
/// nothing up.
bool names_loopback(std::string_view host);

}  // namespace troupe
