#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>

#include "troupe/engine/transport/stream/awaited_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"
#include "troupe/monitors/live/endpoint_server.hpp"
#include "troupe/monitors/live/frame.hpp"
#include "troupe/monitors/live/told_monitor.hpp"

namespace troupe {

class session;
using session_pointer = std::shared_ptr<session>;

/// A session's view of its server; called on the server's thread.
struct session_host {
  trust trusted;
  endpoint_options options;
  /// A client said hello rightly. Throws the `error` to refuse it with.
  std::function<void(session&)> admit;
  /// Answers a request, on a thread that may wait.
  std::function<boost::asio::awaitable<nlohmann::json>(session_pointer,
                                                       nlohmann::json)>
    answer;
  std::function<void(session&)> left;
};

/// One client's connection: the handshake, a hello, then requests, one at a
/// time and none while its outbox is full; streams go out meanwhile. Runs on
/// one thread, except its outbox. An error of the client ends its session only.
class session : public std::enable_shared_from_this<session> {
 public:
  /// Owns the connected socket from now on. The host outlives the session.
  session(std::int64_t id, const boost::asio::any_io_executor& on, int socket,
          session_host& host);
  void start();
  /// Sends what waits, with the refusal if there is one, and ends; at most a
  /// second later.
  void leave(const std::string& refusal = {});
  void close();

  std::int64_t id() const { return id_; }
  /// Known once it was admitted.
  access_right right() const { return right_; }
  const outbox_pointer& out() const { return out_; }

 private:
  using clock = std::chrono::steady_clock;

  void run(boost::asio::awaitable<void> (session::*part)());
  boost::asio::awaitable<void> read();
  boost::asio::awaitable<void> introduce();
  boost::asio::awaitable<void> write();
  boost::asio::awaitable<void> watch();
  boost::asio::awaitable<void> send_all();
  boost::asio::awaitable<live_frame> next_frame();
  boost::asio::awaitable<void> serve();
  boost::asio::awaitable<void> room();
  boost::asio::awaitable<void> discard();
  void end_by(clock::time_point when);

  const std::int64_t id_;
  const boost::asio::any_io_executor on_;
  session_host& host_;
  awaited_stream stream_;
  outbox_pointer out_;
  frame_parser parser_;
  std::string chunk_;
  boost::asio::steady_timer wake_, watchdog_, room_;
  clock::time_point end_by_, write_by_ = clock::time_point::max();
  access_right right_ = access_right::watch;
  bool leaving_ = false;
  bool may_write_ = false;  // frames, to this client
};

}  // namespace troupe
