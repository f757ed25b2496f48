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
void spawn(const boost::asio::any_io_executor& executor,
           std::function<boost::asio::awaitable<void>()> work);
/// Lets the executor's loop throw the exception that is being handled, while
/// its handler goes on.
void throw_from(const boost::asio::any_io_executor& executor);

/// A stream between processes for the coroutines of one thread: one may read
/// while another writes. All throw `transport`, also when the stream was closed
/// meanwhile.
class awaited_stream {
 public:
  awaited_stream(const boost::asio::any_io_executor& executor,
                 stream_pointer stream);
  ~awaited_stream();
  awaited_stream(const awaited_stream&) = delete;
  awaited_stream& operator=(const awaited_stream&) = delete;

  /// Reads or writes at least one byte; 0: the other side has ended.
  boost::asio::awaitable<std::size_t> read_some(char* buffer, std::size_t size);
  boost::asio::awaitable<std::size_t> write_some(std::string_view bytes);
  /// Fills `bytes`, or writes all of them; false: the other side has ended.
  boost::asio::awaitable<bool> read_all(std::string& bytes);
  boost::asio::awaitable<bool> write_all(std::string_view bytes);
  /// Ends writing, as byte_stream::finish_writing.
  boost::asio::awaitable<void> finish_writing();

  bool is_open() const { return stream_ != nullptr; }
  byte_stream& bytes();
  /// Moves the stream out, which closes this object.
  stream_pointer take();
  void close();
  /// Closes, so that the other side can read what was sent: the system would
  /// reset a connection with unread bytes.
  void close_gently();

 private:
  /// Repeats a read or write until it moves something; returns 0 if the other
  /// side has ended.
  template <class Attempt>
  boost::asio::awaitable<std::size_t> repeat(Attempt attempt);
  /// Waits until the stream can do what a read or write needs.
  boost::asio::awaitable<void> wait(stream_progress::state need);

  boost::asio::posix::stream_descriptor waiting_;  // borrows the stream's
  stream_pointer stream_;
};

}  // namespace troupe
