#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

namespace troupe::testing {

/// A loopback HOST:PORT that nothing listens on, and that the system gives to
/// nobody else while this process lives: a socket without SO_REUSEADDR can't
/// have it, nor does any get it that asks for no port.
inline std::string free_address() {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* address = reinterpret_cast<sockaddr*>(&at);
  const auto socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool bound = ::bind(socket, address, size) == 0
                     && ::getsockname(socket, address, &size) == 0;
  return bound ? "127.0.0.1:" + std::to_string(ntohs(at.sin_port)) : "";
}

}  // namespace troupe::testing
