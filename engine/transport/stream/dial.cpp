#include "troupe/engine/transport/stream/dial.hpp"

#include <utility>

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/stream/authenticate.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

constexpr milliseconds first_pause{20}, longest_pause{500};
/// The time for one address before the next is tried.
constexpr milliseconds longest_attempt{5000};
/// The limits of the time to authenticate there, else a quarter of all time:
/// the other side may be gone while the packet that says so was lost.
constexpr milliseconds least_authentication{1000}, most_authentication{15000};

}  // namespace

asio::awaitable<connected_socket> connect(const socket_address& target,
                                          milliseconds time_limit) {
  using namespace asio::experimental::awaitable_operators;
  constexpr auto in_tuple = asio::as_tuple(asio::use_awaitable);
  const auto executor = co_await asio::this_coro::executor;
  const int handle =
    ::socket(target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (handle < 0)
    co_return connected_socket{.problem = std::strerror(errno)};
  asio::posix::stream_descriptor socket(executor, handle);
  int problem = ::connect(handle, target.get(), target.size) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    asio::steady_timer timer(executor, time_limit);
    const auto first = co_await (
      socket.async_wait(asio::posix::descriptor_base::wait_write, in_tuple)
      || timer.async_wait(in_tuple));
    if (first.index() == 1)
      co_return connected_socket{.problem = "no answer"};
    socklen_t size = sizeof(problem);
    ::getsockopt(handle, SOL_SOCKET, SO_ERROR, &problem, &size);
  }
  if (problem != 0)
    co_return connected_socket{.problem = std::strerror(problem)};
  co_return connected_socket{socket.release()};
}

namespace {

struct dialling {
  endpoint address;
  trust trusted;
  milliseconds time_limit;
  clock::time_point deadline = clock::now() + time_limit;

  milliseconds time_left() const {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(
                                       deadline - clock::now()));
  }

  /// Makes one attempt: sets the stream, or returns why there is none.
  asio::awaitable<refusal> attempt(const socket_address& target,
                                   stream_pointer& connected) const {
    const auto connection =
      co_await connect(target, std::min(time_left(), longest_attempt));
    if (connection.socket < 0)
      co_return refusal{connection.problem};
    awaited_stream stream(
      co_await asio::this_coro::executor,
      stream_over(connection.socket, trusted, link_side::client));
    const auto refused = co_await authenticate(
      stream, link_side::client, trusted,
      std::min(time_left(), std::clamp(time_limit / 4, least_authentication,
                                       most_authentication)));
    connected = stream.take();
    co_return refused.value_or(refusal{});
  }

  /// Makes one attempt at each of the host's addresses, which are looked up
  /// each time: they may appear later, or change.
  asio::awaitable<refusal> round(stream_pointer& connected) const {
    std::vector<socket_address> targets;
    try {
      targets = addresses_of(address);
    } catch (const error& unknown) {
      co_return refusal{unknown.what()};
    }
    refusal last;
    for (const auto& target : targets) {
      last = co_await attempt(target, connected);
      if (connected || last.is_final || clock::now() >= deadline)
        break;
    }
    co_return last;
  }

  /// Tries until there is a stream; else throws `transport`.
  asio::awaitable<stream_pointer> run() const {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (auto pause = first_pause;;
         pause = std::min(2 * pause, longest_pause)) {
      stream_pointer connected;
      const auto refused = co_await round(connected);
      if (connected)
        co_return connected;
      if (refused.is_final)
        fail(error_code::transport, "{}: {}", to_text(address), refused.reason);
      if (clock::now() + pause >= deadline)
        fail(error_code::transport,
             "{}: no link within {} s ({}); check that the process there runs "
             "and listens at this address, that both were given the same "
             "credentials, and that no firewall blocks it",
             to_text(address), static_cast<double>(time_limit.count()) / 1000,
             refused.reason);
      timer.expires_after(pause);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }
};

}  // namespace

asio::awaitable<stream_pointer> dial(endpoint address, credentials own,
                                     milliseconds time_limit) {
  const dialling attempts{address, make_trust(address, own), time_limit};
  co_return co_await attempts.run();
}

}  // namespace troupe
