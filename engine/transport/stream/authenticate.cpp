#include "troupe/engine/transport/stream/authenticate.hpp"

#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "troupe/base/error.hpp"
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

/// One end's part of what both say first. Throws `transport`.
class introduction {
 public:
  introduction(awaited_stream& over, link_side own, const trust& trusted)
    : over_(over), own_(own), trusted_(trusted) {}

  asio::awaitable<void> run() {
    if (const auto why = refused_user(over_.bytes().tcp_socket())) {
      answered_ = true;  // trying again is useless
      fail(error_code::transport, "{}", why->reason);
    }
    if (trusted_.kind == trust_kind::none)
      co_await say(plain_hello);
    if (trusted_.kind == trust_kind::none)
      co_await hear_text(plain_hello);
    if (trusted_.tls && own_ == link_side::server)
      co_await say(welcome);
    if (trusted_.tls && own_ == link_side::client)
      co_await hear_text(welcome);
  }

  bool answered() const { return answered_; }
  /// The other side has closed the connection.
  bool has_ended() const { return has_ended_; }

 private:
  asio::awaitable<void> hear_text(const std::string& expected) {
    co_await hear(expected.size(), [&expected](std::string_view begun) {
      if (begun.front() == tls_handshake || begun.front() == tls_alert)
        fail(error_code::transport,
             "the other side speaks TLS: it was given --job-token-file or "
             "--certificates, and this one --insecure; start all processes "
             "with the same of these");
      if (!expected.starts_with(begun))
        fail(error_code::transport,
             "the other side does not start like a process of a troupe job; "
             "run the same program");
    });
  }

  asio::awaitable<void> say(std::string_view bytes) {
    const bool said = co_await over_.write_all(bytes);
    if (!said)
      end();
  }

  /// `look_at` gets those bytes that have come so far, as their sender may wait
  /// for an answer before it sends the rest.
  asio::awaitable<std::string> hear(
    std::size_t count, std::function<void(std::string_view begun)> look_at) {
    std::string bytes(count, '\0');
    for (std::size_t got = 0; got < count;) {
      const auto more =
        co_await over_.read_some(bytes.data() + got, count - got);
      if (more == 0)
        end();
      got += more;
      answered_ = true;
      if (look_at)
        look_at(std::string_view(bytes).substr(0, got));
    }
    co_return bytes;
  }

  [[noreturn]] void end() {
    has_ended_ = true;
    if (answered_)
      fail(error_code::transport,
           "the other side closed the connection before it had introduced "
           "itself");
    fail(error_code::transport,
         "the other side closed the connection before sending anything: it is "
         "not a process of this job, or {}",
         trusted_.tls || is_unix(over_.bytes().tcp_socket())
           ? "has other credentials"
           : "was given --job-token-file or --certificates, and this one "
             "--insecure");
  }

  awaited_stream& over_;
  link_side own_;
  const trust& trusted_;
  bool answered_ = false, has_ended_ = false;
};

asio::awaitable<std::optional<refusal>> introduce(awaited_stream& over,
                                                  link_side own,
                                                  const trust& trusted) {
  introduction shown(over, own, trusted);
  try {
    co_await shown.run();
    co_return std::nullopt;
  } catch (...) {
    const bool of_tls = trusted.tls && !shown.has_ended();
    co_return refusal{thrown_text(), of_tls || shown.answered()};
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

stream_pointer stream_over(int socket, const trust& trusted, link_side own) {
  return trusted.tls ? tls_stream(socket, trusted.tls, own)
                     : socket_stream(socket);
}

asio::awaitable<std::optional<refusal>> authenticate(
  awaited_stream& over, link_side own, const trust& trusted,
  std::chrono::milliseconds within) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer timer(co_await asio::this_coro::executor, within);
  const auto first =
    co_await (introduce(over, own, trusted)
              || timer.async_wait(asio::as_tuple(asio::use_awaitable)));
  const auto why =
    first.index() == 0
      ? std::get<0>(first)
      : refusal{fmt::format("the other side did not authenticate within {} s",
                            static_cast<double>(within.count()) / 1000)};
  if (why)
    over.close_gently();
  co_return why;
}

}  // namespace troupe
