#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/engine/transport/stream/awaited_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"
#include "troupe/monitors/http/http_access.hpp"
#include "troupe/monitors/http/http_exchange.hpp"
#include "troupe/monitors/http/http_server.hpp"

namespace troupe {

class http_session;

/// A session's view of its server; used on the server's thread.
struct http_host {
  http_options options;
  http_site_pointer site;
  trust trusted{};
  http_entrance entrance{};
  std::function<void(http_session&)> left{};
};

/// One connection: the handshake within TLS, a request, its answer, and the
/// lines of a stream. Runs on one thread. An error of the client ends its
/// session only.
class http_session : public std::enable_shared_from_this<http_session> {
 public:
  /// The stages, in the order in which connections are dropped to make room.
  enum class stage : std::uint8_t {
    lingers,       // all is sent
    asks,          // the request has not come yet
    takes_answer,  // which is there
    waits,         // for its answer
    streams,
  };

  /// Owns the connected socket from now on. The host outlives the session.
  http_session(const boost::asio::any_io_executor& on, int socket,
               http_host& host);
  void start();
  /// Sends what waits, and ends; at most a second later.
  void leave();
  void close();

  stage now() const { return now_; }
  /// The time for which it has been taking its answer.
  std::chrono::steady_clock::duration taking() const;

 private:
  using clock = std::chrono::steady_clock;
  using parser =
    boost::beast::http::request_parser<boost::beast::http::string_body>;

  void run(boost::asio::awaitable<void> (http_session::*part)());
  boost::asio::awaitable<void> live();
  boost::asio::awaitable<void> serve();
  boost::asio::awaitable<std::optional<http_response>> receive(parser& into);
  boost::asio::awaitable<boost::system::error_code> read_request(parser& into);
  boost::asio::awaitable<boost::system::error_code> read_more(
    boost::beast::flat_buffer& into, bool begins);
  boost::asio::awaitable<http_response> answer_to(parser& received);
  boost::asio::awaitable<void> send(http_response& response,
                                    const parser& received);
  boost::asio::awaitable<void> send_lines(bool in_chunks);
  boost::asio::awaitable<void> watch_client();
  boost::asio::awaitable<void> linger();
  boost::asio::awaitable<void> write(std::string_view bytes);
  boost::asio::awaitable<void> watch_time();
  std::function<void()> waker();
  void end_by(clock::time_point when);

  const boost::asio::any_io_executor on_;
  http_host& host_;
  awaited_stream stream_;
  http_exchange_pointer exchange_;
  boost::asio::steady_timer wake_, watchdog_;
  clock::time_point end_by_, write_by_ = clock::time_point::max(), since_{};
  stage now_ = stage::asks;
  bool leaving_ = false;
};

}  // namespace troupe
