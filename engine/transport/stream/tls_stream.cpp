#include "troupe/engine/transport/stream/tls_stream.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/stream/socket_bio.hpp"
#include "troupe/engine/transport/trust/tls_problem.hpp"

namespace troupe {

namespace {

using state = stream_progress::state;

/// Size of one record.
constexpr std::size_t record_bytes = 16 * 1024;
/// Most bytes that a write takes before it returns, so that others get a turn.
constexpr std::size_t most_written = 1024 * 1024;

/// Consecutive parts to write; small ones are joined into one record.
class record_source {
 public:
  explicit record_source(std::span<const iovec> parts) : parts_(parts) {}

  /// The next bytes, copied to `scratch` if necessary.
  iovec next(std::string& scratch) {
    while (next_ < parts_.size() && parts_[next_].iov_len == offset_)
      forward();
    if (next_ == parts_.size())
      return {nullptr, 0};
    const auto whole = rest();
    if (whole.iov_len >= record_bytes || next_ + 1 == parts_.size())
      return {whole.iov_base, std::min(whole.iov_len, record_bytes)};
    return gather(scratch);
  }
  void advance(std::size_t bytes) {
    while (bytes > 0) {
      const auto taken = std::min(bytes, rest().iov_len);
      offset_ += taken;
      bytes -= taken;
      if (rest().iov_len == 0)
        forward();
    }
  }

 private:
  iovec rest() const {
    const auto& part = parts_[next_];
    return {static_cast<char*>(part.iov_base) + offset_,
            part.iov_len - offset_};
  }
  void forward() {
    ++next_;
    offset_ = 0;
  }
  iovec gather(std::string& scratch) const {
    const auto first = rest();
    scratch.assign(static_cast<const char*>(first.iov_base), first.iov_len);
    for (auto i = next_ + 1; i < parts_.size() && scratch.size() < record_bytes;
         ++i)
      scratch.append(
        static_cast<const char*>(parts_[i].iov_base),
        std::min(parts_[i].iov_len, record_bytes - scratch.size()));
    return {scratch.data(), scratch.size()};
  }

  std::span<const iovec> parts_;
  std::size_t next_ = 0, offset_ = 0;
};

class tls_bytes final : public byte_stream {
 public:
  tls_bytes(int descriptor, std::shared_ptr<tls_context> context, link_side own)
    : descriptor_(descriptor),
      context_(std::move(context)),
      session_(context_->make_session(own == link_side::server)) {
    ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
    const int yes = 1;  // fails on a unix socket, which has no such delay
    ::setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    auto* bio = make_socket_bio(descriptor_);
    ::SSL_set_bio(session_, bio, bio);
    ::SSL_set_read_ahead(session_, 1);
    ::SSL_set_default_read_buffer_len(session_, 128 * 1024);
  }
  tls_bytes(const tls_bytes&) = delete;
  tls_bytes& operator=(const tls_bytes&) = delete;
  ~tls_bytes() override {
    ::SSL_free(session_);
    ::close(descriptor_);
  }

  stream_progress read(void* buffer, std::size_t size) override {
    prepare();
    std::size_t got = 0;
    const auto code = ::SSL_read_ex(session_, buffer, size, &got);
    if (code != 1)
      return explain(code);
    shaken_ = true;
    return {state::moved, got};
  }

  stream_progress write(std::span<const iovec> parts) override {
    record_source source(parts);
    std::size_t total = 0;
    while (total < most_written) {
      const auto next = source.next(scratch_);
      if (next.iov_len == 0)
        break;
      // OpenSSL requires a failed write to be repeated with the same bytes.
      const auto size =
        tried_ == 0 ? next.iov_len : std::min(next.iov_len, tried_);
      prepare();
      std::size_t sent = 0;
      const auto code = ::SSL_write_ex(session_, next.iov_base, size, &sent);
      tried_ = code == 1 ? 0 : size;
      if (code != 1 && total > 0)
        break;
      if (code != 1)
        return explain_write(code);
      shaken_ = true;
      total += sent;
      source.advance(sent);
    }
    return {state::moved, total};
  }

  stream_progress finish_writing() override {
    if (ended_ || failed_)
      return {state::moved};
    prepare();
    // The handshake must be complete before the stream can be finished.
    if (const auto code = ::SSL_do_handshake(session_); code != 1)
      return explain(code);
    if (const auto code = ::SSL_shutdown(session_); code < 0)
      return explain(code);
    ::shutdown(descriptor_, SHUT_WR);
    return {state::moved};
  }

  void close() override {
    if (!failed_ && !ended_ && ::SSL_is_init_finished(session_)) {
      prepare();
      ::SSL_shutdown(session_);
      ::ERR_clear_error();
    }
    ended_ = true;
    ::shutdown(descriptor_, SHUT_RDWR);
  }

  wait_handle handle_to(state need) const override {
    return {descriptor_, need == state::needs_read};
  }
  int tcp_socket() const override { return descriptor_; }
  bool is_full_duplex() const override { return false; }

 private:
  void prepare() {
    if (failed_)
      fail(error_code::transport, "the connection has already failed");
    ::ERR_clear_error();
    errno = 0;
  }

  bool heard_nothing() const {
    return ::BIO_number_read(::SSL_get_rbio(session_)) == 0;
  }

  /// Translates a failed call's result.
  stream_progress explain(int code) {
    const auto reason = ::SSL_get_error(session_, code);
    if (reason == SSL_ERROR_WANT_READ)
      return {state::needs_read};
    if (reason == SSL_ERROR_WANT_WRITE)
      return {state::needs_write};
    if (reason == SSL_ERROR_ZERO_RETURN)
      return {state::ended};
    const bool cut = reason == SSL_ERROR_SYSCALL || reason == SSL_ERROR_SSL;
    if (ended_ || (cut && heard_nothing())) {
      ended_ = true;
      ::ERR_clear_error();
      return {state::ended};
    }
    failed_ = true;
    fail(error_code::transport, "{}",
         tls_problem(session_, context_->has_certificates(), shaken_));
  }

  /// A peer that never sent anything was no process of the job, but perhaps a
  /// relay whose target has yet to start: that is no failure.
  stream_progress explain_write(int code) {
    const auto progress = explain(code);
    if (progress.what == state::ended && !heard_nothing())
      fail(error_code::transport, "the other side closed the connection");
    return progress;
  }

  int descriptor_;
  std::shared_ptr<tls_context> context_;
  ::SSL* session_;
  std::string scratch_;
  std::size_t tried_ = 0;  // bytes of an unfinished write; 0: none
  bool ended_ = false;     // both directions, or the handshake
  bool shaken_ = false;    // bytes moved at least one way
  bool failed_ = false;
};

}  // namespace

stream_pointer tls_stream(int descriptor, std::shared_ptr<tls_context> context,
                          link_side own) {
  return std::make_unique<tls_bytes>(descriptor, std::move(context), own);
}

}  // namespace troupe
