#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "troupe/base/fail.hpp"
#include "troupe/base/owned_descriptor.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"

namespace troupe {

namespace {

class socket_bytes final : public byte_stream {
 public:
  using state = stream_progress::state;

  explicit socket_bytes(int descriptor) : descriptor_(descriptor) {
    prepare_socket(descriptor);
  }

  stream_progress read(void* buffer, std::size_t size) override {
    for (;;) {
      const auto count = ::recv(descriptor_.get(), buffer, size, 0);
      if (count > 0)
        return {state::moved, static_cast<std::size_t>(count)};
      if (count == 0)
        return {state::ended};
      if (!was_interrupted())
        return {state::needs_read};
    }
  }

  stream_progress write(std::span<const iovec> parts) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    for (;;) {
      const auto count = ::sendmsg(descriptor_.get(), &message, MSG_NOSIGNAL);
      if (count >= 0)
        return {state::moved, static_cast<std::size_t>(count)};
      if (!was_interrupted())
        return {state::needs_write};
    }
  }

  stream_progress finish_writing() override {
    ::shutdown(descriptor_.get(), SHUT_WR);
    return {state::moved};
  }
  void close() override { ::shutdown(descriptor_.get(), SHUT_RDWR); }

  wait_handle handle_to(state need) const override {
    return {descriptor_.get(), need == state::needs_read};
  }
  int tcp_socket() const override { return descriptor_.get(); }

 private:
  /// True: retry the call at once; false: wait. Throws for other errors.
  static bool was_interrupted() {
    if (errno == EINTR)
      return true;
    if (errno == EAGAIN || errno == EWOULDBLOCK)
      return false;
    fail(error_code::transport, "the connection failed: {}",
         std::strerror(errno));
  }

  owned_descriptor descriptor_;
};

}  // namespace

void prepare_socket(int descriptor) {
  ::fcntl(descriptor, F_SETFL, ::fcntl(descriptor, F_GETFL) | O_NONBLOCK);
  const int yes = 1;  // fails on a unix socket, which has no such delay
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

stream_pointer socket_stream(int descriptor) {
  return std::make_unique<socket_bytes>(descriptor);
}

}  // namespace troupe
