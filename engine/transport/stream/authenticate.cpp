#include "troupe/engine/transport/stream/authenticate.hpp"

#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/transport/stream/tls_stream.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;

/// A satisfied server's first message within TLS: only then does a client know
/// that its certificate was accepted.
const std::string welcome = "+";
/// First bytes of TLS's records.
constexpr char tls_alert = 0x15, tls_handshake = 0x16;
/// Sent by both sides without trust, so that each knows that the other is
/// there, not only a relay; longer than the beginning of a TLS record.
const std::string plain_hello = "troupe, in plain text\n";

bool is_unix(int socket) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  return domain == AF_UNIX;
}

/// The first bytes that one end sends and expects. Throws `transport`.
class introduction {
 public:
  introduction(awaited_stream& stream, link_side side, const trust& trusted)
    : stream_(stream), side_(side), trusted_(trusted) {}

  asio::awaitable<void> run() {
    if (const auto refused = refused_user(stream_.bytes().tcp_socket())) {
      answered_ = true;  // trying again is useless
      fail(error_code::transport, "{}", refused->reason);
    }
    if (!trusted_.tls) {
      co_await send(plain_hello);
      co_await expect(plain_hello);
    } else if (side_ == link_side::server) {
      co_await send(welcome);
    } else {
      co_await expect(welcome);
    }
  }

  bool answered() const { return answered_; }
  /// The other side has closed the connection.
  bool has_ended() const { return has_ended_; }

 private:
  asio::awaitable<void> send(std::string_view bytes) {
    const bool is_sent = co_await stream_.write_all(bytes);
    if (!is_sent)
      refuse_end();
  }

  /// Every part that arrives is checked at once, as its sender may wait for an
  /// answer before it sends the rest.
  asio::awaitable<void> expect(std::string_view expected) {
    std::string bytes(expected.size(), '\0');
    for (std::size_t count = 0; count < bytes.size();) {
      const auto more =
        co_await stream_.read_some(bytes.data() + count, bytes.size() - count);
      if (more == 0)
        refuse_end();
      count += more;
      answered_ = true;
      if (bytes.front() == tls_handshake || bytes.front() == tls_alert)
        fail(error_code::transport,
             "the other side speaks TLS: it was given --job-token-file or "
             "--certificates, and this one --insecure; start all processes "
             "with the same of these");
      if (!expected.starts_with(std::string_view(bytes).substr(0, count)))
        fail(error_code::transport,
             "the other side does not start like a process of a troupe job; "
             "run the same program");
    }
  }

  [[noreturn]] void refuse_end() {
    has_ended_ = true;
    if (answered_)
      fail(error_code::transport,
           "the other side closed the connection before it had introduced "
           "itself");
    fail(error_code::transport,
         "the other side closed the connection before sending anything: it is "
         "not a process of this job, or {}",
         trusted_.tls || is_unix(stream_.bytes().tcp_socket())
           ? "has other credentials"
           : "was given --job-token-file or --certificates, and this one "
             "--insecure");
  }

  awaited_stream& stream_;
  link_side side_;
  const trust& trusted_;
  bool answered_ = false, has_ended_ = false;
};

asio::awaitable<std::optional<refusal>> introduce(awaited_stream& stream,
                                                  link_side side,
                                                  const trust& trusted) {
  introduction exchange(stream, side, trusted);
  try {
    co_await exchange.run();
    co_return std::nullopt;
  } catch (...) {
    const bool is_tls_error = trusted.tls && !exchange.has_ended();
    co_return refusal{thrown_text(), is_tls_error || exchange.answered()};
  }
}

}  // namespace

std::optional<refusal> refused_user(int socket) {
  if (!is_unix(socket))
    return std::nullopt;
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return refusal{"the system does not say whose the other side is"};
  if (peer.uid == 0 || peer.uid == ::geteuid())
    return std::nullopt;
  return refusal{
    fmt::format("the other side is user {}'s, this one user {}'s: run both as "
                "one user, or connect them by TCP with a token",
                peer.uid, ::geteuid())};
}

stream_pointer stream_over(int socket, const trust& trusted, link_side side) {
  return trusted.tls ? tls_stream(socket, trusted.tls, side)
                     : socket_stream(socket);
}

asio::awaitable<std::optional<refusal>> authenticate(
  awaited_stream& stream, link_side side, const trust& trusted,
  std::chrono::milliseconds time_limit) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer timer(co_await asio::this_coro::executor, time_limit);
  const auto first =
    co_await (introduce(stream, side, trusted)
              || timer.async_wait(asio::as_tuple(asio::use_awaitable)));
  const auto refused =
    first.index() == 0
      ? std::get<0>(first)
      : refusal{fmt::format("the other side did not authenticate within {} s",
                            static_cast<double>(time_limit.count()) / 1000)};
  if (refused)
    stream.close_gently();
  co_return refused;
}

}  // namespace troupe
