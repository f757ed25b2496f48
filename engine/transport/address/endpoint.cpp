#include "troupe/engine/transport/address/endpoint.hpp"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

[[noreturn]] void refuse_endpoint(const std::string& text,
                                  const std::string& why) {
  fail(
    error_code::invalid_argument,
    "'{}' is not an endpoint: {}; write unix:/path/of/socket or tcp:HOST:PORT",
    printable(text), why);
}

endpoint parse_tcp(const std::string& text, const std::string& rest) {
  const auto colon = rest.rfind(':');
  if (colon == std::string::npos)
    refuse_endpoint(text, "the port is missing");
  const auto port = parse_number<std::uint16_t>(rest.substr(colon + 1));
  if (!port)
    refuse_endpoint(text, "the port is not a number from 0 to 65535");
  auto host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  if (host.empty() || host.find('\0') != std::string::npos)
    refuse_endpoint(text, "the host is missing");
  return {false, {}, host, *port};
}

endpoint parse_unix(const std::string& text, const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos)
    refuse_endpoint(text, "the path is missing");
  if (path.size() >= sizeof(sockaddr_un{}.sun_path))
    refuse_endpoint(text, fmt::format("a socket's path has at most {} bytes",
                                      sizeof(sockaddr_un{}.sun_path) - 1));
  return {true, path, {}, 0};
}

/// The address of a unix socket; the path's length must be valid.
socket_address unix_address(const std::string& path) {
  socket_address address;
  auto* name = reinterpret_cast<sockaddr_un*>(&address.bytes);
  name->sun_family = AF_UNIX;
  std::memcpy(name->sun_path, path.c_str(), path.size() + 1);
  address.size = sizeof(sockaddr_un);
  return address;
}

}  // namespace

endpoint parse_endpoint(const std::string& text) {
  if (text.starts_with("unix:"))
    return parse_unix(text, text.substr(5));
  if (text.starts_with("tcp:"))
    return parse_tcp(text, text.substr(4));
  refuse_endpoint(text, "it begins with neither unix: nor tcp:");
}

std::string to_text(const endpoint& address) {
  if (address.is_unix)
    return "unix:" + address.path;
  const bool brackets = address.host.find(':') != std::string::npos;
  return brackets ? fmt::format("tcp:[{}]:{}", address.host, address.port)
                  : fmt::format("tcp:{}:{}", address.host, address.port);
}

std::vector<socket_address> addresses_of(const endpoint& target) {
  if (target.is_unix)
    return {unix_address(target.path)};
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const auto code = ::getaddrinfo(
    target.host.c_str(), std::to_string(target.port).c_str(), &hints, &first);
  if (code != 0)
    fail(error_code::transport, "unknown host {}: {}", printable(target.host),
         ::gai_strerror(code));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(
    first, &::freeaddrinfo);
  std::vector<socket_address> all;
  for (const auto* each = first; each != nullptr; each = each->ai_next) {
    auto& added = all.emplace_back();
    std::memcpy(&added.bytes, each->ai_addr, each->ai_addrlen);
    added.size = each->ai_addrlen;
  }
  return all;
}

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
