#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <string>

namespace troupe::testing {

/// A bare connection to 127.0.0.1 or a unix socket, for arbitrary bytes. No
/// call waits longer than ten seconds.
class http_client {
 public:
  /// `address` as servers report it: 127.0.0.1:PORT or unix:PATH.
  explicit http_client(const std::string& address, int receive_buffer = 0)
    : socket_(::socket(is_unix(address) ? AF_UNIX : AF_INET, SOCK_STREAM, 0)) {
    const timeval patience{10, 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ::setsockopt(socket_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (receive_buffer > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer,
                   sizeof receive_buffer);
    if (!(is_unix(address) ? connect_unix(address) : connect_tcp(address)))
      throw std::runtime_error("no connection to " + address);
  }
  http_client(const http_client&) = delete;
  http_client& operator=(const http_client&) = delete;
  ~http_client() { ::close(socket_); }

  /// Whether all bytes could be sent.
  bool send(const std::string& bytes) {
    const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return sent == static_cast<ssize_t>(bytes.size());
  }

  /// Whether bytes or the end can be read within a time.
  bool can_read(std::chrono::milliseconds within) {
    pollfd readable{socket_, POLLIN, 0};
    return ::poll(&readable, 1, static_cast<int>(within.count())) == 1;
  }

  /// Appends what arrives within a time; false if nothing arrived or at the
  /// end.
  bool read(std::string& received, std::chrono::milliseconds within) {
    std::array<char, 65536> part{};
    if (!can_read(within))
      return false;
    const auto count = ::recv(socket_, part.data(), part.size(), 0);
    received.append(part.data(),
                    static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return count > 0;
  }

  /// Reads until the server closes; throws if it doesn't.
  std::string read_to_end() {
    std::string all;
    std::array<char, 65536> part{};
    for (;;) {
      const auto count = ::recv(socket_, part.data(), part.size(), 0);
      if (count < 0 && errno == EAGAIN)
        throw std::runtime_error("the server keeps the connection open");
      if (count <= 0)
        return all;
      all.append(part.data(), static_cast<std::size_t>(count));
    }
  }

 private:
  static bool is_unix(const std::string& address) {
    return address.starts_with("unix:");
  }
  bool connect_tcp(const std::string& address) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto port = std::stoi(address.substr(address.rfind(':') + 1));
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    return ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }
  bool connect_unix(const std::string& address) const {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    address.copy(to.sun_path, sizeof to.sun_path - 1, sizeof("unix:") - 1);
    return ::connect(socket_, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0;
  }

  int socket_;
};

/// Returns the whole response.
inline std::string ask(const std::string& address, const std::string& request) {
  http_client client(address);
  client.send(request);
  return client.read_to_end();
}

inline std::string get(const std::string& address, const std::string& path,
                       const std::string& headers = "") {
  return ask(address, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n"
                        + headers + "\r\n");
}

inline std::string body_of(const std::string& response) {
  return response.substr(response.find("\r\n\r\n") + 4);
}

/// Whether a condition becomes true within ten seconds.
template <class Condition>
bool soon(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    ::poll(nullptr, 0, 1);
  }
  return true;
}

}  // namespace troupe::testing
