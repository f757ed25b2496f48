#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

namespace troupe::testing {

/// A loopback HOST:PORT that nothing listens on at the moment.
inline std::string free_address() {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(at);
  auto* address = reinterpret_cast<sockaddr*>(&at);
  const auto socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = ::bind(socket, address, size) == 0
                     && ::getsockname(socket, address, &size) == 0;
  ::close(socket);
  return bound ? "127.0.0.1:" + std::to_string(ntohs(at.sin_port)) : "";
}

}  // namespace troupe::testing
