#include "troupe/engine/transport/trust/authenticate.hpp"

#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/transport/stream/tls_stream.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;

bool is_unix(int socket) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_UNIX;
}

/// For a unix socket without a token: allows only the same user or root.
void require_own_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (!is_unix(socket)
      || ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return;  // TCP, insecure
  if (peer.uid != 0 && peer.uid != ::geteuid())
    fail(error_code::transport,
         "the other side is user {}'s, this one user {}'s: run both as one "
         "user, or give both a token",
         peer.uid, ::geteuid());
}

}  // namespace

stream_pointer stream_over(int socket, const trust& trusted, link_side own) {
  return trusted.tls ? tls_stream(socket, trusted.tls, own)
                     : socket_stream(socket);
}

asio::awaitable<bool> introduce(awaited_stream& over, introduction& shown) {
  for (;;) {
    const auto need = shown.advance(over.bytes());
    if (need == stream_progress::state::moved)
      co_return true;
    if (need == stream_progress::state::ended)
      co_return false;
    co_await over.wait(need);
  }
}

asio::awaitable<std::optional<refusal>> authenticate(
  std::shared_ptr<awaited_stream> over, link_side own, const trust& trusted,
  std::chrono::milliseconds within) {
  introduction shown(own, trusted);
  const auto late = std::make_shared<bool>(false);
  asio::steady_timer timer(co_await asio::this_coro::executor, within);
  timer.async_wait([late, weak = std::weak_ptr(over)](const auto& problem) {
    const auto stream = weak.lock();
    if (problem || !stream)
      return;
    *late = true;
    stream->close_gently();
  });
  std::optional<refusal> why;
  try {
    if (trusted.kind == trust_kind::none)
      require_own_user(over->bytes().tcp_socket());
    if (!co_await introduce(*over, shown))
      why = {shown.at_end(), shown.answered()};
  } catch (...) {
    why = {thrown_text(), trusted.tls != nullptr || shown.answered()};
  }
  timer.cancel();
  if (*late)
    why = {fmt::format("the other side did not authenticate within {} s",
                       static_cast<double>(within.count()) / 1000)};
  if (why)
    over->close_gently();
  co_return why;
}

}  // namespace troupe
