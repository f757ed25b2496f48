#include "troupe/engine/transport/trust/authenticate.hpp"

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
#include "troupe/engine/transport/trust/secret_file.hpp"

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
std::optional<refusal> refused_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (!is_unix(socket)
      || ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0
      || peer.uid == 0 || peer.uid == ::geteuid())
    return std::nullopt;  // also TCP, insecure
  return refusal{
    fmt::format("the other side is user {}'s, this one user {}'s: run both as "
                "one user, or give both a token",
                peer.uid, ::geteuid())};
}

/// A satisfied server's first message within TLS: only then does a client know
/// that its certificate was accepted.
const std::string welcome = "+";
/// Sent by both sides without trust, so that each knows that the other is
/// there, not only a relay; longer than the beginning of a TLS record.
const std::string plain_hello = "troupe, in plain text\n";

/// One end's part of what both say first. Throws `transport`.
class introduction {
 public:
  introduction(awaited_stream& over, link_side own) : over_(over), own_(own) {}

  asio::awaitable<void> run(const trust& trusted) {
    if (trusted.kind == trust_kind::token)
      co_await prove(trusted.token);
    if (trusted.kind == trust_kind::none)
      co_await say(plain_hello);
    if (trusted.kind == trust_kind::none)
      co_await hear_text(plain_hello);
    if (trusted.tls && own_ == link_side::server)
      co_await say(welcome);
    if (trusted.tls && own_ == link_side::client)
      co_await hear_text(welcome);
  }

  bool answered() const { return answered_; }
  /// The other side has closed the connection.
  bool has_ended() const { return has_ended_; }

 private:
  asio::awaitable<void> prove(const std::string& token) {
    const bool is_client = own_ == link_side::client;
    const auto from = other(own_);
    const auto hello = token_hello(own_);
    if (is_client)
      co_await say(hello);
    const auto answer = co_await hear(
      token_hello_bytes,
      [from](std::string_view begun) { require_token_hello(begun, from); });
    const auto& of_client = is_client ? hello : answer;
    const auto& of_server = is_client ? answer : hello;
    const auto proof = token_proof(token, own_, of_client, of_server);
    const auto wanted = token_proof(token, from, of_client, of_server);
    co_await say(is_client ? proof : hello);
    const auto found = co_await hear(token_proof_bytes, {});
    if (!same_secret(found, wanted))
      fail(error_code::transport,
           "the other side has another token; give all processes of the job "
           "the same one");
    if (!is_client)
      co_await say(proof);
  }

  asio::awaitable<void> hear_text(const std::string& expected) {
    co_await hear(expected.size(), [&expected](std::string_view begun) {
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
    fail(error_code::transport, "{}",
         answered_
           ? "the other side closed the connection instead of proving its "
             "token: it probably has another token; give all processes of the "
             "job the same one"
           : "the other side closed the connection before sending anything: it "
             "is not a process of this job, or has other credentials");
  }

  awaited_stream& over_;
  link_side own_;
  bool answered_ = false, has_ended_ = false;
};

}  // namespace

stream_pointer stream_over(int socket, const trust& trusted, link_side own) {
  return trusted.tls ? tls_stream(socket, trusted.tls, own)
                     : socket_stream(socket);
}

asio::awaitable<std::optional<refusal>> introduce(awaited_stream& over,
                                                  link_side own,
                                                  const trust& trusted) {
  introduction shown(over, own);
  try {
    co_await shown.run(trusted);
    co_return std::nullopt;
  } catch (...) {
    const bool of_tls = trusted.tls && !shown.has_ended();
    co_return refusal{thrown_text(), of_tls || shown.answered()};
  }
}

asio::awaitable<std::optional<refusal>> authenticate(
  awaited_stream& over, link_side own, const trust& trusted,
  std::chrono::milliseconds within) {
  using namespace asio::experimental::awaitable_operators;
  asio::steady_timer timer(co_await asio::this_coro::executor, within);
  std::optional<refusal> why;
  if (trusted.kind == trust_kind::none)
    why = refused_user(over.bytes().tcp_socket());
  if (!why) {
    const auto first =
      co_await (introduce(over, own, trusted)
                || timer.async_wait(asio::as_tuple(asio::use_awaitable)));
    why =
      first.index() == 0
        ? std::get<0>(first)
        : refusal{fmt::format("the other side did not authenticate within {} s",
                              static_cast<double>(within.count()) / 1000)};
  }
  if (why)
    over.close_gently();
  co_return why;
}

}  // namespace troupe
