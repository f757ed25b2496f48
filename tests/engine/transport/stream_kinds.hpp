#pragma once

#include <netinet/in.h>

#include <array>
#include <functional>
#include <string>

#include "../../temporary_folder.hpp"
#include "socket_pair.hpp"
#include "troupe/engine/transport/stream/shared_stream.hpp"
#include "troupe/engine/transport/stream/tls_stream.hpp"
#include "troupe/engine/transport/trust/certificates.hpp"

namespace troupe::testing {

inline std::array<int, 2> unix_sockets() {
  std::array<int, 2> ends{};
  ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
  return ends;
}

inline std::array<int, 2> tcp_sockets() {
  const auto listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* address = reinterpret_cast<sockaddr*>(&at);
  socklen_t size = sizeof(at);
  ::bind(listening, address, size);
  ::listen(listening, 1);
  ::getsockname(listening, address, &size);
  const auto a = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ::connect(a, address, size);
  const auto b = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  ::close(listening);
  return {a, b};
}

inline stream_pair tls_pair(const std::shared_ptr<tls_context>& client,
                            const std::shared_ptr<tls_context>& server) {
  const auto ends = tcp_sockets();
  return {tls_stream(ends[0], client, link_side::client),
          tls_stream(ends[1], server, link_side::server)};
}

/// The context of new certificates in a folder of the test.
inline std::shared_ptr<tls_context> context_in(const std::string& folder) {
  make_certificates(folder);
  return tls_context::of_certificates(folder);
}

inline stream_pair shared_pair(std::size_t bytes = default_ring_bytes) {
  const auto ends = unix_sockets();
  return {shared_stream(socket_stream(ends[0]), link_side::client),
          shared_stream(socket_stream(ends[1]), link_side::server, bytes)};
}

/// All kinds of streams between processes, two connected ends of each.
struct stream_kind {
  const char* name;
  stream_pair (*make)();
};

inline const std::array stream_kinds{
  stream_kind{"unix", [] { return socket_pair(); }},
  stream_kind{
    "tcp",
    [] {
      const auto ends = tcp_sockets();
      return stream_pair{socket_stream(ends[0]), socket_stream(ends[1])};
    }},
  stream_kind{"TLS by a key",
              [] {
                const auto context = tls_context::of_token("token of a test");
                return tls_pair(context, context);
              }},
  stream_kind{"TLS by certificates",
              [] {
                const temporary_folder folder;
                const auto context = context_in(folder / "set");
                return tls_pair(context, context);
              }},
  stream_kind{"shared memory", [] { return shared_pair(); }},
  stream_kind{"little shared memory", [] { return shared_pair(4096); }},
};

/// Calls a function for each kind; a failure shows its name.
inline void for_each_kind(const std::function<void(const stream_kind&)>& test) {
  for (const auto& kind : stream_kinds)
    DYNAMIC_SECTION(kind.name) {
      test(kind);
    }
}

}  // namespace troupe::testing
