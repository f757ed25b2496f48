#include "troupe/monitors/live/awaited_stream.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "troupe/base/error.hpp"

namespace troupe {

namespace asio = boost::asio;
using state = stream_progress::state;

awaited_stream::awaited_stream(const asio::any_io_executor& on,
                               stream_pointer over)
  : waiting_(on), stream_(std::move(over)) {
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

asio::awaitable<std::size_t> awaited_stream::read_some(char* buffer,
                                                       std::size_t size) {
  for (;;) {
    const auto progress = bytes().read(buffer, size);
    if (progress.what == state::moved)
      co_return progress.bytes;
    if (progress.what == state::ended)
      co_return 0;
    co_await wait(progress.what);
  }
}

asio::awaitable<std::size_t> awaited_stream::write_some(std::string_view what) {
  for (;;) {
    const iovec part{const_cast<char*>(what.data()), what.size()};
    const auto progress = bytes().write({&part, 1});
    if (progress.what == state::moved)
      co_return progress.bytes;
    if (progress.what == state::ended)
      fail(error_code::transport, "the other side has ended");
    co_await wait(progress.what);
  }
}

asio::awaitable<void> awaited_stream::finish_writing() {
  for (;;) {
    const auto progress = bytes().finish_writing();
    if (progress.what == state::moved || progress.what == state::ended)
      co_return;
    co_await wait(progress.what);
  }
}

void awaited_stream::close() {
  if (!stream_)
    return;
  if (waiting_.is_open())
    waiting_.release();
  stream_->close();
  stream_.reset();
}

}  // namespace troupe
