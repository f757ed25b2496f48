#include "troupe/engine/transport/stream/awaited_stream.hpp"

#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <array>
#include <utility>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace asio = boost::asio;
using state = stream_progress::state;

void spawn(const asio::any_io_executor& executor,
           std::function<asio::awaitable<void>()> work) {
  asio::co_spawn(executor, std::move(work),
                 [](const std::exception_ptr& exception) {
                   if (exception)
                     std::rethrow_exception(exception);
                 });
}

void throw_from(const asio::any_io_executor& executor) {
  asio::post(executor, [exception = std::current_exception()] {
    std::rethrow_exception(exception);
  });
}

awaited_stream::awaited_stream(const asio::any_io_executor& executor,
                               stream_pointer stream)
  : waiting_(executor), stream_(std::move(stream)) {
  waiting_.assign(stream_->handle_to(state::needs_read).descriptor);
}

awaited_stream::~awaited_stream() {
  close();
}

byte_stream& awaited_stream::bytes() {
  if (!stream_)
    fail(error_code::transport, "the connection is closed");
  return *stream_;
}

asio::awaitable<void> awaited_stream::wait(state need) {
  using descriptor = asio::posix::descriptor_base;
  boost::system::error_code woken;
  co_await waiting_.async_wait(
    need == state::needs_read ? descriptor::wait_read : descriptor::wait_write,
    asio::redirect_error(asio::use_awaitable, woken));
  bytes();
}

template <class Attempt>
asio::awaitable<std::size_t> awaited_stream::repeat(Attempt attempt) {
  for (;;) {
    const stream_progress progress = attempt();
    if (progress.what == state::moved)
      co_return progress.bytes;
    if (progress.what == state::ended)
      co_return 0;
    co_await wait(progress.what);
  }
}

asio::awaitable<std::size_t> awaited_stream::read_some(char* buffer,
                                                       std::size_t size) {
  return repeat([this, buffer, size] { return bytes().read(buffer, size); });
}

asio::awaitable<std::size_t> awaited_stream::write_some(std::string_view text) {
  return repeat([this, text] {
    const iovec part{const_cast<char*>(text.data()), text.size()};
    return bytes().write({&part, 1});
  });
}

asio::awaitable<bool> awaited_stream::read_all(std::string& bytes) {
  for (std::size_t count = 0; count < bytes.size();) {
    const auto more =
      co_await read_some(bytes.data() + count, bytes.size() - count);
    if (more == 0)
      co_return false;
    count += more;
  }
  co_return true;
}

asio::awaitable<bool> awaited_stream::write_all(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto count = co_await write_some(bytes);
    if (count == 0)
      co_return false;
    bytes.remove_prefix(count);
  }
  co_return true;
}

asio::awaitable<void> awaited_stream::finish_writing() {
  co_await repeat([this] { return bytes().finish_writing(); });
}

stream_pointer awaited_stream::take() {
  if (waiting_.is_open())
    waiting_.release();
  return std::move(stream_);
}

void awaited_stream::close() {
  if (const auto stream = take())
    stream->close();
}

void awaited_stream::close_gently() {
  const auto stream = take();
  if (!stream)
    return;
  const auto socket = stream->tcp_socket();
  std::array<char, 4096> unread{};
  ::shutdown(socket, SHUT_WR);
  for (int i = 0; i < 16; ++i)
    if (::recv(socket, unread.data(), unread.size(), MSG_DONTWAIT) <= 0)
      return;
}

}  // namespace troupe
