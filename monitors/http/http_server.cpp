#include "troupe/monitors/http/http_server.hpp"

#include <signal.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <atomic>
#include <list>
#include <thread>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/transport/stream/listener.hpp"
#include "troupe/monitors/http/endpoint_trust.hpp"
#include "troupe/monitors/http/http_address.hpp"
#include "troupe/monitors/http/http_session.hpp"

namespace troupe {

namespace asio = boost::asio;

namespace {

using stream_protocol = asio::generic::stream_protocol;

constexpr auto in_tuple = asio::as_tuple(asio::use_awaitable);
constexpr auto pause_before_retry = std::chrono::milliseconds(10);
/// A client may take its answer for this long while others wait.
constexpr auto fair_share = std::chrono::seconds(1);

bool is_job_endpoint(const std::string& address) {
  return address.starts_with("unix:") || address.starts_with("tcp:");
}

endpoint endpoint_of(const http_options& options) {
  if (is_job_endpoint(options.address))
    return parse_endpoint(options.address);
  require_servable(options.address, options.page_token);
  const auto at = parse_http_address(options.address);
  return {.is_unix = false, .path = {}, .host = at.host, .port = at.port};
}

http_host host_of(const http_options& options, http_site_pointer site) {
  http_host host{.options = options, .site = std::move(site)};
  const auto at = endpoint_of(options);
  if (is_job_endpoint(options.address)) {
    host.trusted = trust_of_job(at, host.site->tokens());
    host.entrance.place =
      at.is_unix ? http_place::unix_socket : http_place::tls;
    return host;
  }
  host.entrance.place = parse_http_address(options.address).is_loopback
                          ? http_place::loopback
                          : http_place::network;
  host.entrance.page_token = options.page_token;
  host.entrance.for_browsers = options.for_browsers;
  return host;
}

std::unique_ptr<listener> listen(const http_options& options) {
  try {
    return std::make_unique<listener>(endpoint_of(options));
  } catch (const error& problem) {
    if (problem.code() != error_code::io || is_job_endpoint(options.address))
      throw;
    fail(error_code::io, "can't listen at {}: {}", options.address,
         problem.what());
  }
}

void require_useful(const http_limits& limits) {
  if (limits.connections < 1 || limits.header_bytes < 1
      || limits.queue_bytes < 1
      || !(limits.request_seconds > 0 && limits.stalled_seconds > 0))
    fail(error_code::invalid_argument,
         "a server of {} connections, {} bytes of a request, {} bytes that "
         "wait for a stream, and {} and {} seconds to wait for a client could "
         "serve nobody; use more than 0 of each",
         limits.connections, limits.header_bytes, limits.queue_bytes,
         limits.request_seconds, limits.stalled_seconds);
}

}  // namespace

class http_server::impl {
 public:
  impl(const http_options& options, http_site_pointer site)
    : host_(host_of(options, std::move(site))),
      listening_(listen(options)),
      where_(listening_->where()) {
    host_.left = [this](http_session& who) { left(who); };
    acceptor_.assign(stream_protocol(listening_->family(), 0),
                     listening_->duplicate());
    spawn(io_.get_executor(), [this] { return accept(); });
    thread_ = std::thread([this] { run(); });
  }

  std::string address() const {
    const auto text = to_text(where_);
    return is_job_endpoint(host_.options.address)
             ? text
             : text.substr(text.find(':') + 1);
  }
  std::size_t connections() const { return connections_; }

  void close() {
    if (!thread_.joinable())
      return;
    asio::post(io_, [this] {
      closing_ = true;
      boost::system::error_code ignored;
      acceptor_.close(ignored);
      pause_.cancel();
      listening_.reset();
      keep_running_.reset();
      for (const auto& each : sessions())
        each->leave();
    });
    thread_.join();  // nothing is left to do when all sessions have ended
  }

 private:
  using session_pointer = std::shared_ptr<http_session>;
  using stage = http_session::stage;

  void run() {
    ::sigset_t all;
    ::sigfillset(&all);  // signals are for the threads of the program
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    for (;;) {
      try {
        io_.run();
        return;
      } catch (...) {
        log()->warn("server at {}: {}", address(), thrown_text());
      }
    }
  }

  asio::awaitable<void> accept() {
    while (!closing_) {
      auto [problem, socket] = co_await acceptor_.async_accept(in_tuple);
      if (problem && !closing_)
        co_await wait();  // out of file descriptors, for example
      while (!closing_ && !problem && !make_room())
        co_await wait();
      if (!closing_ && !problem)
        begin(socket.release());
    }
  }

  asio::awaitable<void> wait() {
    pause_.expires_after(pause_before_retry);
    co_await pause_.async_wait(in_tuple);
  }

  /// An exception ends this connection alone.
  void begin(int socket) try {
    const auto session =
      std::make_shared<http_session>(io_.get_executor(), socket, host_);
    open_.push_back(session);
    connections_ = open_.size();
    session->start();
  } catch (...) {
    throw_from(io_.get_executor());
  }

  void left(http_session& who) {
    open_.remove_if([&](const auto& each) { return each.get() == &who; });
    connections_ = open_.size();
  }

  /// Streams have no place here.
  std::vector<session_pointer> sessions(stage most = stage::streams) const {
    std::vector<session_pointer> all;
    for (const auto& each : open_)
      if (each->now() <= most)
        all.push_back(each);
    return all;
  }

  /// Drops a connection if there are too many, the oldest of the first stage;
  /// returns whether there is room for one more.
  bool make_room() {
    const auto all = sessions(stage::waits);
    if (all.size() < host_.options.limits.connections)
      return true;
    const auto oldest = *std::ranges::min_element(all, {}, &http_session::now);
    if (oldest->now() > stage::takes_answer
        || (oldest->now() == stage::takes_answer
            && oldest->taking() < fair_share))
      return false;
    oldest->close();
    left(*oldest);
    return true;
  }

  http_host host_;
  std::unique_ptr<listener> listening_;
  const endpoint where_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> keep_running_{
    io_.get_executor()};
  asio::basic_socket_acceptor<stream_protocol> acceptor_{io_};
  asio::steady_timer pause_{io_};
  std::list<session_pointer> open_;  // the oldest first
  bool closing_ = false;
  std::atomic<std::size_t> connections_ = 0;
  std::thread thread_;
};

http_server::http_server(const http_options& options, http_site_pointer site) {
  require_useful(options.limits);
  impl_ = std::make_unique<impl>(options, std::move(site));
}

http_server::~http_server() {
  impl_->close();
}

std::string http_server::address() const {
  return impl_->address();
}

std::size_t http_server::connections() const {
  return impl_->connections();
}

void http_server::close() {
  impl_->close();
}

}  // namespace troupe
