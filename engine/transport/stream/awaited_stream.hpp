#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include <functional>
#include <string>
#include <string_view>

#include "troupe/engine/transport/stream/byte_stream.hpp"

namespace troupe {

/// Starts a coroutine on an executor. The executor's loop throws its
/// exceptions.
void spawn(const boost::asio::any_io_executor& on,
           std::function<boost::asio::awaitable<void>()> work);

/// A stream between processes that coroutines of one thread read and write:
/// one each. Their parts throw `transport`, also when it was closed meanwhile.
class awaited_stream {
 public:
  awaited_stream(const boost::asio::any_io_executor& on, stream_pointer over);
  ~awaited_stream();
  awaited_stream(const awaited_stream&) = delete;
  awaited_stream& operator=(const awaited_stream&) = delete;

  /// Both at least one byte; 0: the other side has ended.
  boost::asio::awaitable<std::size_t> read_some(char* buffer, std::size_t size);
  boost::asio::awaitable<std::size_t> write_some(std::string_view bytes);
  /// Fills `bytes`, or writes all of them; false: the other side has ended.
  boost::asio::awaitable<bool> read_all(std::string& bytes);
  boost::asio::awaitable<bool> write_all(std::string_view bytes);
  /// No more is written.
  boost::asio::awaitable<void> finish_writing();

  bool is_open() const { return stream_ != nullptr; }
  byte_stream& bytes();
  /// The stream itself; this one is closed then.
  stream_pointer take();
  void close();
  /// Closes, so that the other side can read what was sent: the system would
  /// reset a connection with unread bytes.
  void close_gently();

 private:
  /// Until it moves something, or the other side has ended: 0.
  template <class Attempt>
  boost::asio::awaitable<std::size_t> repeat(Attempt attempt);
  /// Until what a read or write said that it needs is there.
  boost::asio::awaitable<void> wait(stream_progress::state need);

  boost::asio::posix::stream_descriptor waiting_;  // borrows the stream's
  stream_pointer stream_;
};

}  // namespace troupe
