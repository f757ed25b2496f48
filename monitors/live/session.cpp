#include "troupe/monitors/live/session.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe {

namespace asio = boost::asio;

namespace {

constexpr std::size_t hello_limit = std::size_t{4} << 10;
constexpr std::size_t request_limit = std::size_t{64} << 10;
constexpr std::size_t chunk_bytes = std::size_t{16} << 10;

auto after(double seconds) {
  using clock = std::chrono::steady_clock;
  return clock::now()
         + std::chrono::duration_cast<clock::duration>(
           std::chrono::duration<double>(seconds));
}

}  // namespace

session::session(std::int64_t id, socket_type socket, session_host& host)
  : id_(id),
    socket_(std::move(socket)),
    host_(host),
    parser_(hello_limit),
    wake_(socket_.get_executor()),
    watchdog_(socket_.get_executor()),
    room_(socket_.get_executor()),
    end_by_(after(host.options.hello_seconds)) {}

void session::start() {
  const std::weak_ptr<session> weak = weak_from_this();
  out_ = std::make_shared<outbox>(host_.options.queue_bytes,
                                  [weak, at = socket_.get_executor()] {
                                    asio::post(at, [weak] {
                                      if (const auto self = weak.lock())
                                        self->wake_.cancel();
                                    });
                                  });
  const auto run = [this](auto part) {
    asio::co_spawn(
      socket_.get_executor(),
      [self = shared_from_this(), part] { return (self.get()->*part)(); },
      asio::detached);
  };
  run(&session::read);
  run(&session::write);
  run(&session::watch);
}

void session::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  out_->close();
  leaving_ = true;
  wake_.cancel();
  watchdog_.cancel();
  room_.cancel();
}

void session::leave(const std::string& refusal) {
  if (leaving_)
    return;
  if (!refusal.empty())
    out_->put(frame_bytes(live_type::refusal, json_text({{"error", refusal}})));
  leaving_ = true;
  end_by(after(1));
  wake_.cancel();
  room_.cancel();
}

void session::end_by(clock::time_point when) {
  end_by_ = when;
  watchdog_.cancel();
}

asio::awaitable<void> session::read() {
  std::string refusal;
  try {
    co_await serve();
  } catch (const error& reason) {
    refusal = reason.what();
  } catch (const std::exception&) {
    close();  // the connection is gone
  }
  leave(refusal);
  if (socket_.is_open())
    co_await discard();
  host_.left(*this);
}

asio::awaitable<void> session::serve() {
  check_hello(co_await next_frame());
  host_.admit(*this);
  end_by(clock::time_point::max());
  parser_.set_limit(request_limit);
  out_->put(
    frame_bytes(live_type::welcome, json_text({{"version", live_version}})));
  while (!leaving_) {
    const auto frame = co_await next_frame();
    if (frame.type != live_type::request)
      fail(error_code::transport, "after the hello only requests may come");
    const auto answer =
      co_await host_.answer(shared_from_this(), parse_json(frame.payload));
    out_->put(frame_bytes(live_type::answer, json_text(answer)));
    co_await room();
  }
}

/// Who asks and does not read is not read either.
asio::awaitable<void> session::room() {
  boost::system::error_code woken;
  while (out_->is_full() && !leaving_) {
    room_.expires_at(clock::time_point::max());
    co_await room_.async_wait(asio::redirect_error(asio::use_awaitable, woken));
  }
}

void session::check_hello(const live_frame& frame) {
  if (frame.type != live_type::hello)
    fail(error_code::transport, "the first frame must be a hello");
  const auto hello = parse_json(frame.payload);
  const auto token =
    hello.contains("token") ? text_of(hello, "token") : std::string{};
  if (!host_.options.token.empty() && !same_secret(token, host_.options.token))
    fail(error_code::transport, "wrong token");
}

asio::awaitable<live_frame> session::next_frame() {
  for (;;) {
    if (auto frame = parser_.next())
      co_return std::move(*frame);
    chunk_.resize(chunk_bytes);
    const auto got = co_await socket_.async_read_some(asio::buffer(chunk_),
                                                      asio::use_awaitable);
    parser_.add(std::string_view(chunk_).substr(0, got));
  }
}

/// A connection that is closed with bytes unread may lose what was sent.
asio::awaitable<void> session::discard() {
  boost::system::error_code trouble;
  chunk_.resize(chunk_bytes);
  while (!trouble)
    co_await socket_.async_read_some(
      asio::buffer(chunk_), asio::redirect_error(asio::use_awaitable, trouble));
  close();
}

asio::awaitable<void> session::write() {
  boost::system::error_code trouble, woken;
  for (;;) {
    const auto bytes = out_->take();
    if (bytes.empty() && leaving_)
      break;
    if (bytes.empty()) {
      wake_.expires_at(clock::time_point::max());
      co_await wake_.async_wait(
        asio::redirect_error(asio::use_awaitable, woken));
      continue;
    }
    for (std::string_view rest = bytes; !rest.empty() && !trouble;) {
      write_by_ = after(host_.options.stalled_seconds);
      watchdog_.cancel();
      rest.remove_prefix(co_await socket_.async_write_some(
        asio::buffer(rest),
        asio::redirect_error(asio::use_awaitable, trouble)));
    }
    write_by_ = clock::time_point::max();
    if (trouble)
      co_return close();
    out_->sent();
    room_.cancel();
  }
  socket_.shutdown(socket_type::shutdown_send, trouble);
}

/// Ends the session when it is time.
asio::awaitable<void> session::watch() {
  boost::system::error_code ignored;
  while (socket_.is_open()) {
    const auto until = std::min(end_by_, write_by_);
    if (until <= clock::now()) {
      close();
      break;
    }
    watchdog_.expires_at(until);
    co_await watchdog_.async_wait(
      asio::redirect_error(asio::use_awaitable, ignored));
  }
}

}  // namespace troupe
