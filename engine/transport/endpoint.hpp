#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
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
std::string to_text(const endpoint& what);

/// `unix:` and a socket of that name in $XDG_RUNTIME_DIR/troupe, else
/// /tmp/troupe-UID: a folder that is made if it is missing, and that only its
/// owner may enter. What killed jobs left there is removed. Throws `io` if it
/// is somebody else's or open to others.
std::string own_socket(const std::string& name);
/// The same, named by the process's number.
std::string default_endpoint();

/// The default endpoints of this user's processes that live, in the order of
/// their numbers. Makes nothing; empty where there is no folder of the user's.
std::vector<std::string> own_endpoints();

/// What the system's socket functions take.
struct socket_address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&bytes);
  }
  int family() const { return bytes.ss_family; }
};

/// At least one. Throws `transport` if a host is not known.
std::vector<socket_address> addresses_of(const endpoint& what);

/// Equal, in a time that depends on the lengths alone.
bool same_secret(const std::string& a, const std::string& b);

}  // namespace troupe
