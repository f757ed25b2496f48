#include "troupe/monitors/live/session.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <stdexcept>

#include "troupe/base/deadline.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/transport/stream/authenticate.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/live/live_trust.hpp"

namespace troupe {

namespace asio = boost::asio;
namespace {

constexpr std::size_t hello_limit = std::size_t{4} << 10;
constexpr std::size_t request_limit = std::size_t{64} << 10;
constexpr std::size_t chunk_bytes = std::size_t{16} << 10;

/// Until the timer is cancelled, or the time has come.
asio::awaitable<void> wait_at(
  asio::steady_timer& timer,
  deadline::clock::time_point until = deadline::clock::time_point::max()) {
  boost::system::error_code woken;
  timer.expires_at(until);
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
}

}  // namespace

session::session(std::int64_t id, const asio::any_io_executor& on, int socket,
                 session_host& host)
  : id_(id),
    on_(on),
    host_(host),
    stream_(on, stream_over(socket, host.trusted, link_side::server)),
    parser_(hello_limit),
    wake_(on),
    watchdog_(on),
    room_(on),
    end_by_(deadline(host.options.hello_seconds).when()) {}

void session::start() {
  const std::weak_ptr<session> weak = weak_from_this();
  out_ = std::make_shared<outbox>(host_.options.queue_bytes, [weak, at = on_] {
    asio::post(at, [weak] {
      if (const auto self = weak.lock())
        self->wake_.cancel();
    });
  });
  run(&session::read);
  run(&session::watch);
}

void session::run(asio::awaitable<void> (session::*part)()) {
  spawn(on_,
        [self = shared_from_this(), part] { return (self.get()->*part)(); });
}

void session::close() {
  stream_.close();
  out_->close();
  leaving_ = true;
  wake_.cancel();
  watchdog_.cancel();
  room_.cancel();
}

void session::leave(const std::string& refusal) {
  if (leaving_)
    return;
  if (!may_write_) {
    stream_.close_gently();
    return close();
  }
  if (!refusal.empty())
    out_->put(frame_bytes(live_type::refusal, json_text({{"error", refusal}})));
  leaving_ = true;
  end_by(deadline(1).when());
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
    co_await introduce();
    co_await serve();
  } catch (const error& reason) {
    refusal = reason.what();
  } catch (...) {
    close();  // the connection is gone
  }
  leave(refusal);
  if (stream_.is_open())
    co_await discard();
  host_.left(*this);
}

/// Within TLS, the handshake refuses who has no token.
asio::awaitable<void> session::introduce() {
  const auto let_write = [this] {
    may_write_ = true;
    run(&session::write);
  };
  const auto& tokens = host_.options.tokens;
  if (!host_.trusted.tls) {
    let_write();
    require_own_user(stream_.bytes());
  } else {
    const auto why =
      co_await troupe::introduce(stream_, link_side::server, host_.trusted);
    if (why)
      fail(error_code::transport, "{}", why->reason);
    let_write();
  }
  right_ = right_of_client(stream_.bytes(), tokens);
}

asio::awaitable<void> session::serve() {
  const auto hello = co_await next_frame();
  if (hello.type != live_type::hello)
    fail(error_code::transport, "the first frame must be a hello");
  require_known(parse_json(hello.payload), "a hello", {});
  host_.admit(*this);
  end_by(clock::time_point::max());
  parser_.set_limit(request_limit);
  out_->put(
    frame_bytes(live_type::welcome, json_text({{"version", live_version}})));
  while (!leaving_) {
    const auto frame = co_await next_frame();
    if (frame.type != live_type::request)
      fail(error_code::transport, "only requests may follow the hello");
    const auto answer =
      co_await host_.answer(shared_from_this(), parse_json(frame.payload));
    out_->put(frame_bytes(live_type::answer, json_text(answer)));
    co_await room();
  }
}

/// Waits while the client leaves its answers unread.
asio::awaitable<void> session::room() {
  while (out_->is_full() && !leaving_)
    co_await wait_at(room_);
}

asio::awaitable<live_frame> session::next_frame() {
  for (;;) {
    if (auto frame = parser_.next())
      co_return std::move(*frame);
    chunk_.resize(chunk_bytes);
    const auto got = co_await stream_.read_some(chunk_.data(), chunk_.size());
    if (got == 0)
      throw std::runtime_error("the client disconnected");
    parser_.add(std::string_view(chunk_).substr(0, got));
  }
}

/// A connection that is closed with bytes unread may lose what was sent.
asio::awaitable<void> session::discard() {
  chunk_.resize(chunk_bytes);
  try {
    while (co_await stream_.read_some(chunk_.data(), chunk_.size()) > 0)
      ;
  } catch (const error&) {  // nothing more will come
  }
  close();
}

asio::awaitable<void> session::write() {
  try {
    co_await send_all();
  } catch (const error&) {
    close();
  }
}

asio::awaitable<void> session::send_all() {
  for (;;) {
    const auto bytes = out_->take();
    if (bytes.empty() && leaving_)
      break;
    if (bytes.empty()) {
      co_await wait_at(wake_);
      continue;
    }
    for (std::string_view rest = bytes; !rest.empty();) {
      write_by_ = deadline(host_.options.stalled_seconds).when();
      watchdog_.cancel();
      const auto sent = co_await stream_.write_some(rest);
      if (sent == 0)
        fail(error_code::transport, "the other side has ended");
      rest.remove_prefix(sent);
    }
    write_by_ = clock::time_point::max();
    out_->sent();
    room_.cancel();
  }
  co_await stream_.finish_writing();
}

/// Ends the session when it is time.
asio::awaitable<void> session::watch() {
  while (stream_.is_open()) {
    const auto until = std::min(end_by_, write_by_);
    if (until <= clock::now()) {
      close();
      break;
    }
    co_await wait_at(watchdog_, until);
  }
}

}  // namespace troupe
