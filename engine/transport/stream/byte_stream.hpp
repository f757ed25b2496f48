#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace troupe {

/// Progress of a nonblocking read or write.
struct stream_progress {
  enum class state : std::uint8_t {
    moved,        // `bytes` were moved, at least one; or the call is done
    needs_read,   // nothing was moved: wait until there is something to read
    needs_write,  // nothing was moved: wait until there is room to write
    ended,        // the other side writes no more
  };
  state what = state::moved;
  std::size_t bytes = 0;
};

/// A file descriptor to wait on.
struct wait_handle {
  int descriptor = -1;
  bool for_reading = true;
};

/// Bytes in both directions between two processes, in order. Never blocks. One
/// thread may read while another writes if `is_full_duplex`. Members throw
/// `transport` once the connection has failed.
class byte_stream {
 public:
  virtual ~byte_stream() = default;

  virtual stream_progress read(void* buffer, std::size_t size) = 0;
  virtual stream_progress write(std::span<const iovec> parts) = 0;
  /// Ends writing; the other side reads what was written, then gets `ended`.
  /// Call it again when it needs a read or write first.
  virtual stream_progress finish_writing() = 0;
  /// Ends both directions at once, for both sides.
  virtual void close() = 0;

  /// The handle to wait on for what a read or write needs.
  virtual wait_handle handle_to(stream_progress::state need) const = 0;
  /// The underlying socket, which may be TCP; -1 if there is none.
  virtual int tcp_socket() const { return -1; }
  virtual bool is_full_duplex() const { return true; }

  /// The index of the server's token that the other side has proven, once bytes
  /// have moved; 0 where there is no choice.
  std::size_t proven_token() const { return proven_token_; }

 protected:
  std::size_t proven_token_ = 0;
};
using stream_pointer = std::unique_ptr<byte_stream>;

/// Makes a connected unix or TCP socket nonblocking; small writes over TCP are
/// not delayed from then on.
void prepare_socket(int descriptor);

/// A stream over such a socket, which it owns and prepares.
stream_pointer socket_stream(int descriptor);

}  // namespace troupe
