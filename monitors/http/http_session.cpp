#include "troupe/monitors/http/http_session.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/write.hpp>

#include <algorithm>
#include <array>
#include <sstream>

#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/transport/stream/authenticate.hpp"
#include "troupe/monitors/http/endpoint_trust.hpp"

namespace troupe {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

namespace {

constexpr std::size_t chunk_bytes = std::size_t{16} << 10;
/// Bytes that are read after an answer, so that it arrives.
constexpr std::size_t most_discarded = std::size_t{8} << 20;

asio::awaitable<void> wait_until(
  asio::steady_timer& timer,
  deadline::clock::time_point when = deadline::clock::time_point::max()) {
  boost::system::error_code woken;
  timer.expires_at(when);
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, woken));
}

/// The answer to what is no request, or too long; none where the connection
/// has ended.
std::optional<http_response> refused_bytes(const beast::error_code& problem,
                                           std::size_t most) {
  if (problem == http::error::body_limit)
    return refusal_response(413, fmt::format("send at most {} bytes", most));
  if (problem == http::error::header_limit
      || problem == http::error::buffer_overflow)
    return refusal_response(431, "the headers are too long");
  if (problem.category() != http::make_error_code(http::error{}).category()
      || problem == http::error::end_of_stream
      || problem == http::error::partial_message)
    return std::nullopt;
  return refusal_response(
    400, fmt::format("not a request of HTTP/1.1: {}", problem.message()));
}

/// Clients of version 1 read this, and name both versions.
constexpr std::string_view old_magic = "TRPL", old_refusal{"TRPL\2\0", 6};

std::string_view text_in(const beast::flat_buffer& buffer) {
  return {static_cast<const char*>(buffer.data().data()), buffer.size()};
}

/// Whether it is a method in capitals, or part of one.
bool may_begin_request(std::string_view begun) {
  const auto method = begun.substr(0, begun.find(' '));
  return std::ranges::all_of(method,
                             [](char c) { return 'A' <= c && c <= 'Z'; });
}

std::string head_of(const http_response& response, bool in_chunks) {
  http::response<http::empty_body> head{
    static_cast<http::status>(response.status), 11};
  head.set(http::field::content_type, response.type);
  head.set(http::field::cache_control, "no-store");
  head.set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : response.headers)
    head.set(name, value);
  head.keep_alive(false);
  if (in_chunks)
    head.chunked(true);
  else if (!response.streams)
    head.content_length(response.body.size());
  std::ostringstream text;
  text << head.base();
  return text.str();
}

}  // namespace

http_session::http_session(const asio::any_io_executor& on, int socket,
                           http_host& host)
  : on_(on),
    host_(host),
    stream_(on, stream_over(socket, host.trusted, link_side::server)),
    wake_(on),
    watchdog_(on),
    end_by_(deadline(host.options.limits.request_seconds).when()) {}

void http_session::start() {
  run(&http_session::live);
  run(&http_session::watch_time);
}

void http_session::run(asio::awaitable<void> (http_session::*part)()) {
  spawn(on_,
        [self = shared_from_this(), part] { return (self.get()->*part)(); });
}

void http_session::close() {
  stream_.close();
  if (exchange_)
    exchange_->close();
  wake_.cancel();
  watchdog_.cancel();
}

void http_session::leave() {
  if (now_ == stage::asks || now_ == stage::lingers)
    return close();
  leaving_ = true;
  end_by(deadline(1).when());
  wake_.cancel();
}

void http_session::end_by(clock::time_point when) {
  end_by_ = when;
  watchdog_.cancel();
}

std::chrono::steady_clock::duration http_session::taking() const {
  return clock::now() - since_;
}

asio::awaitable<void> http_session::live() {
  try {
    co_await serve();
  } catch (...) {  // the connection is gone, or its client not to be trusted
  }
  close();
  host_.left(*this);
}

asio::awaitable<void> http_session::serve() {
  require_own_user(stream_.bytes());
  parser received;
  received.body_limit(host_.options.limits.body_bytes);
  received.header_limit(
    static_cast<std::uint32_t>(host_.options.limits.header_bytes));
  auto refused = co_await receive(received);
  now_ = stage::waits;
  end_by(clock::time_point::max());
  if (!refused)  // as an expression, g++ 12 would destroy the answer twice
    refused = co_await answer_to(received);
  co_await send(*refused, received);
  co_await linger();
}

/// Reads a request; returns why it is refused, or throws where none comes.
asio::awaitable<std::optional<http_response>> http_session::receive(
  parser& into) {
  const auto problem = co_await read_request(into);
  auto refused = refused_bytes(problem, host_.options.limits.body_bytes);
  if (problem && !refused)
    fail(error_code::transport, "the connection has ended");
  co_return refused;
}

asio::awaitable<beast::error_code> http_session::read_request(parser& into) {
  beast::flat_buffer buffer(host_.options.limits.header_bytes + chunk_bytes);
  bool sent_continue = false;
  for (;;) {
    if (const auto problem = co_await read_more(buffer, !into.got_some()))
      co_return problem;
    beast::error_code problem;
    while (buffer.size() > 0 && !problem && !into.is_done())
      buffer.consume(into.put(buffer.data(), problem));
    if (into.is_done() || (problem && problem != http::error::need_more))
      co_return problem;
    if (into.is_header_done() && !std::exchange(sent_continue, true)
        && beast::iequals(into.get()[http::field::expect], "100-continue"))
      co_await write("HTTP/1.1 100 Continue\r\n\r\n");
  }
}

/// Reads some bytes. The parser itself waits for the end of the headers, so
/// that this refuses the first ones where no request begins so.
asio::awaitable<beast::error_code> http_session::read_more(
  beast::flat_buffer& into, bool begins) {
  const auto room = std::min(chunk_bytes, into.max_size() - into.size());
  if (room == 0)
    co_return http::error::buffer_overflow;
  const auto space = into.prepare(room);
  const auto got =
    co_await stream_.read_some(static_cast<char*>(space.data()), room);
  if (got == 0)
    co_return http::error::end_of_stream;
  into.commit(got);
  if (!begins || may_begin_request(text_in(into)))
    co_return beast::error_code{};
  if (text_in(into).starts_with(old_magic))
    co_await write(old_refusal);
  co_return http::error::bad_method;
}

std::function<void()> http_session::waker() {
  return [weak = weak_from_this(), at = on_] {
    asio::post(at, [weak] {
      if (const auto self = weak.lock())
        self->wake_.cancel();
    });
  };
}

/// Checks the request, and waits for what the site answers.
asio::awaitable<http_response> http_session::answer_to(parser& received) {
  auto entrance = host_.entrance;
  entrance.proven_token = stream_.bytes().proven_token();
  auto checked = checked_request(received.get(), entrance, *host_.site);
  if (auto* refused = std::get_if<http_response>(&checked))
    co_return std::move(*refused);
  exchange_ =
    std::make_shared<http_exchange>(std::move(std::get<http_request>(checked)),
                                    host_.options.limits.queue_bytes, waker());
  host_.site->answer(exchange_);
  for (;;) {
    if (auto answer = exchange_->take_answer())
      co_return std::move(*answer);
    co_await wait_until(wake_);
    stream_.bytes();  // throws if it was closed meanwhile
  }
}

asio::awaitable<void> http_session::send(http_response& response,
                                         const parser& received) {
  now_ = response.streams ? stage::streams : stage::takes_answer;
  since_ = clock::now();
  const bool in_chunks = response.streams && received.get().version() >= 11;
  auto head = head_of(response, in_chunks);
  if (received.get().method() == http::verb::head)
    response.body.clear();
  if (in_chunks && !response.body.empty())
    response.body =
      beast::buffers_to_string(http::make_chunk(asio::buffer(response.body)));
  co_await write(head);
  co_await write(response.body);
  if (!response.streams)
    co_return;
  run(&http_session::watch_client);
  co_await send_lines(in_chunks);
}

asio::awaitable<void> http_session::send_lines(bool in_chunks) {
  for (;;) {
    const bool is_last = exchange_->is_finished() || leaving_;
    auto lines = exchange_->take_lines();
    if (lines.empty() && is_last)
      break;
    if (lines.empty()) {
      co_await wait_until(wake_);
      stream_.bytes();
      continue;
    }
    if (in_chunks)
      lines = beast::buffers_to_string(http::make_chunk(asio::buffer(lines)));
    co_await write(lines);
    exchange_->sent();
  }
  if (in_chunks)
    co_await write(beast::buffers_to_string(http::make_chunk_last()));
}

/// Closes once the client of a stream has left.
asio::awaitable<void> http_session::watch_client() {
  std::array<char, 1024> unread{};
  try {
    for (std::size_t got = 1; got > 0 && now_ == stage::streams;)
      got = co_await stream_.read_some(unread.data(), unread.size());
  } catch (...) {  // it has left
  }
  if (now_ == stage::streams)
    close();
}

/// A connection that closes with bytes unread is reset, and what was sent with
/// it.
asio::awaitable<void> http_session::linger() {
  now_ = stage::lingers;
  end_by(deadline(1).when());
  co_await stream_.finish_writing();
  std::array<char, 4096> unread{};
  for (auto left = most_discarded; left > 0;) {
    const auto got = co_await stream_.read_some(unread.data(), unread.size());
    if (got == 0)
      co_return;
    left -= std::min(left, got);
  }
}

asio::awaitable<void> http_session::write(std::string_view bytes) {
  while (!bytes.empty()) {
    write_by_ = deadline(host_.options.limits.stalled_seconds).when();
    watchdog_.cancel();
    const auto sent = co_await stream_.write_some(bytes);
    if (sent == 0)
      fail(error_code::transport, "the other side has ended");
    bytes.remove_prefix(sent);
  }
  write_by_ = clock::time_point::max();
}

/// Ends the session when it is time.
asio::awaitable<void> http_session::watch_time() {
  while (stream_.is_open()) {
    const auto until = std::min(end_by_, write_by_);
    if (until <= clock::now()) {
      close();
      break;
    }
    co_await wait_until(watchdog_, until);
  }
}

}  // namespace troupe
