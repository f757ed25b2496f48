#include "troupe/engine/transport/loopback.hpp"

#include <netinet/in.h>

namespace troupe {

bool is_loopback(const socket_address& address) {
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.bytes);
    return ntohl(v4->sin_addr.s_addr) >> 24U == 127;
  }
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.bytes);
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

bool names_loopback(std::string_view host) {
  return host == "localhost" || host == "::1" || host == "[::1]"
         || host.starts_with("127.");
}

}  // namespace troupe
