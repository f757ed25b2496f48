#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace troupe {

/// How far a read or write came that doesn't wait.
struct stream_progress {
  enum class state : std::uint8_t {
    moved,        // `bytes` of them, at least one; or it is done
    needs_read,   // nothing moved: wait until there is something to read
    needs_write,  // ... until there is room to write
    ended,        // the other side writes no more
  };
  state what = state::moved;
  std::size_t bytes = 0;
};

/// A file descriptor to wait at.
struct wait_handle {
  int descriptor = -1;
  bool for_reading = true;
};

/// Bytes in both directions between two processes, in order. Nothing waits.
/// One thread may read while another writes if `is_full_duplex`. Members throw
/// `transport` when the connection has failed.
class byte_stream {
 public:
  virtual ~byte_stream() = default;

  virtual stream_progress read(void* into, std::size_t size) = 0;
  virtual stream_progress write(std::span<const iovec> parts) = 0;
  /// No more writes; the other side reads what was written, then `ended`. Once
  /// more when it needs something before.
  virtual stream_progress finish_writing() = 0;
  /// Ends both directions at once, for both sides.
  virtual void close() = 0;

  /// Where to wait for what a read or write said that it needs.
  virtual wait_handle handle_to(stream_progress::state need) const = 0;
  /// The socket below, which may be one of TCP; -1: there is none.
  virtual int tcp_socket() const { return -1; }
  virtual bool is_full_duplex() const { return true; }
};
using stream_pointer = std::unique_ptr<byte_stream>;

/// Over a connected stream socket, which it owns from now on: unix or TCP, the
/// latter without delay of small writes.
stream_pointer socket_stream(int descriptor);

}  // namespace troupe
