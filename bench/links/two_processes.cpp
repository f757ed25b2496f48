#include "ways.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

std::array<int, 2> unix_sockets() {
  std::array<int, 2> ends{};
  ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data());
  return ends;
}

std::array<int, 2> tcp_sockets() {
  const auto listening = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in socket_address{};
  socket_address.sin_family = AF_INET;
  socket_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* address = reinterpret_cast<sockaddr*>(&socket_address);
  socklen_t size = sizeof(socket_address);
  ::bind(listening, address, size);
  ::listen(listening, 1);
  ::getsockname(listening, address, &size);
  const auto a = ::socket(AF_INET, SOCK_STREAM, 0);
  ::connect(a, address, size);
  const auto b = ::accept(listening, nullptr, nullptr);
  ::close(listening);
  const int yes = 1;
  for (const auto each : {a, b})
    ::setsockopt(each, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  return {a, b};
}

double in_two_processes(const std::array<int, 2>& sockets,
                        const std::function<double(int)>& own,
                        const std::function<void(int)>& other) {
  const auto child = ::fork();
  if (child == 0) {
    try {
      ::close(sockets[0]);
      other(sockets[1]);
    } catch (const std::exception& reason) {
      std::fprintf(stderr, "links: %s\n", reason.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  ::close(sockets[1]);
  const auto measured = own(sockets[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (status != 0)
    std::exit(1);
  return measured;
}
