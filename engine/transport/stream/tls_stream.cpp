#include "troupe/engine/transport/stream/tls_stream.hpp"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

namespace {

std::string refused_certificate(const ::SSL* session) {
  const auto result = ::SSL_get_verify_result(session);
  const auto* text = ::X509_verify_cert_error_string(result);
  if (result == X509_V_ERR_CERT_HAS_EXPIRED
      || result == X509_V_ERR_CERT_NOT_YET_VALID)
    return fmt::format(
      "the other side's certificate: {}; set the clocks, or make a new set "
      "with `troupe certificates FOLDER`",
      text);
  return fmt::format(
    "the other side's certificate was not signed by this job's authority ({})",
    text);
}

bool is_no_tls(int reason) {
  return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST
         || reason == SSL_R_HTTPS_PROXY_REQUEST
         || reason == SSL_R_PACKET_LENGTH_TOO_LONG
         || reason == SSL_R_BAD_RECORD_TYPE || reason == SSL_R_RECORD_TOO_SMALL
         || reason == SSL_R_UNEXPECTED_MESSAGE;
}

/// Alerts from the other side have error numbers of their own.
bool is_alert(int reason) {
  return reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256;
}

/// OpenSSL's name of a reason, such as "bad record mac".
std::string name_of(int reason) {
  const auto* text = ::ERR_reason_error_string(
    ERR_PACK(ERR_LIB_SSL, 0, static_cast<unsigned long>(reason)));
  constexpr std::string_view alert = "alert ";
  const std::string_view name = text == nullptr ? "unknown reason" : text;
  const auto start = name.find(alert);
  return std::string(
    start == std::string_view::npos ? name : name.substr(start + alert.size()));
}

/// How the two sides' credentials differ.
std::string difference_text(const ::SSL* session, int reason,
                            bool has_certificates) {
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
    return has_certificates
             ? refused_certificate(session)
             : "the other side has certificates, and this one a token";
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return "the other side presented no certificate";
  // OpenSSL 3.0 sends the first of these alerts, 3.5 the second.
  const bool is_binder_alert = reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER
                               || reason == SSL_R_TLSV1_ALERT_DECRYPT_ERROR;
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY
      || (is_binder_alert && !has_certificates))
    return "the other side has another token";
  if (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM && !has_certificates)
    return "the other side has no token, but perhaps certificates";
  return fmt::format("{} ({})",
                     is_alert(reason)
                       ? "the other side rejected this side's credentials"
                       : "TLS with the other side failed",
                     name_of(reason));
}

/// Why a session broke that had worked, so that its credentials are right.
std::string broken_text(int reason) {
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return "the connection was cut off: it ended without a proper close, and "
           "the last bytes may be missing";
  return fmt::format("{} ({}): the connection was damaged, or tampered with",
                     is_alert(reason)
                       ? "the other side can't decrypt what arrived there"
                       : "what arrived can't be decrypted",
                     name_of(reason));
}

std::string refused_text(const ::SSL* session, int reason,
                         const tls_context& context) {
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return "the other side closed the connection before both sides had "
           "authenticated";
  const auto& advice = context.advice();
  if (is_no_tls(reason))
    return "the other side does not speak TLS 1.3: " + advice.plain_text;
  return fmt::format(
    "{}; {}", difference_text(session, reason, context.has_certificates()),
    advice.credentials);
}

/// Why a session has failed and what to do, from this thread's error queue,
/// which is emptied. `authenticated`: both sides had authenticated each other.
std::string take_problem(const ::SSL* session, const tls_context& context,
                         bool authenticated) {
  const auto system = errno;
  const auto code = ::ERR_peek_error();
  ::ERR_clear_error();
  if (code == 0 || ERR_SYSTEM_ERROR(code))
    return fmt::format("the connection failed: {}",
                       system == 0 ? "closed" : std::strerror(system));
  const auto reason = ERR_GET_REASON(code);
  return authenticated ? broken_text(reason)
                       : refused_text(session, reason, context);
}

int descriptor_of(::BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio)));
}

bool would_succeed_later() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int write_bytes(::BIO* bio, const char* bytes, int size) {
  ::BIO_clear_retry_flags(bio);
  const auto count = ::send(descriptor_of(bio), bytes,
                            static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (count < 0 && would_succeed_later())
    ::BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

int read_bytes(::BIO* bio, char* buffer, int size) {
  ::BIO_clear_retry_flags(bio);
  const auto count =
    ::recv(descriptor_of(bio), buffer, static_cast<std::size_t>(size), 0);
  if (count < 0 && would_succeed_later())
    ::BIO_set_retry_read(bio);
  if (count == 0)
    ::BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(count);
}

/// Flushing needs no work, and OpenSSL asks whether the socket has ended.
long control(::BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF)
    return ::BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const ::BIO_METHOD* make_method() {
  auto* method = ::BIO_meth_new(
    ::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR,
    "troupe socket");
  if (method == nullptr)
    fail(error_code::internal, "OpenSSL can't be used");
  ::BIO_meth_set_write(method, &write_bytes);
  ::BIO_meth_set_read(method, &read_bytes);
  ::BIO_meth_set_ctrl(method, &control);
  return method;
}

/// OpenSSL's interface to a socket, without the signal that a write to a closed
/// one raises. The caller keeps the socket.
::BIO* make_socket_bio(int descriptor) {
  static const auto* method = make_method();
  auto* bio = ::BIO_new(method);
  if (bio == nullptr)
    fail(error_code::internal, "OpenSSL can't be used");
  ::BIO_set_data(
    bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  ::BIO_set_init(bio, 1);
  return bio;
}

using state = stream_progress::state;

/// The size of one record.
constexpr std::size_t record_bytes = 16 * 1024;
/// A write takes at most so many bytes, so that others get a turn.
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
      const auto count = std::min(bytes, rest().iov_len);
      offset_ += count;
      bytes -= count;
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
  tls_bytes(int descriptor, std::shared_ptr<tls_context> context,
            link_side side)
    : descriptor_(descriptor),
      context_(std::move(context)),
      session_(context_->make_session(side == link_side::server)) {
    prepare_socket(descriptor);
    auto* bio = make_socket_bio(descriptor);
    ::SSL_set_bio(session_, bio, bio);
    ::SSL_set_read_ahead(session_, 1);
    ::SSL_set_default_read_buffer_len(session_, 128 * 1024);
  }
  tls_bytes(const tls_bytes&) = delete;
  tls_bytes& operator=(const tls_bytes&) = delete;
  ~tls_bytes() override { ::SSL_free(session_); }

  stream_progress read(void* buffer, std::size_t size) override {
    prepare();
    std::size_t count = 0;
    const auto code = ::SSL_read_ex(session_, buffer, size, &count);
    if (code != 1)
      return explain(code);
    has_read_ = true;
    note_handshake();
    return {state::moved, count};
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
      std::size_t count = 0;
      const auto code = ::SSL_write_ex(session_, next.iov_base, size, &count);
      tried_ = code == 1 ? 0 : size;
      if (code != 1 && total > 0)
        break;
      if (code != 1)
        return explain_write(code);
      note_handshake();
      total += count;
      source.advance(count);
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
    ::shutdown(descriptor_.get(), SHUT_WR);
    return {state::moved};
  }

  void close() override {
    if (!failed_ && !ended_ && ::SSL_is_init_finished(session_)) {
      prepare();
      ::SSL_shutdown(session_);
      ::ERR_clear_error();
    }
    ended_ = true;
    ::shutdown(descriptor_.get(), SHUT_RDWR);
  }

  wait_handle handle_to(state need) const override {
    return {descriptor_.get(), need == state::needs_read};
  }
  int tcp_socket() const override { return descriptor_.get(); }
  bool is_full_duplex() const override { return false; }

 private:
  void prepare() {
    if (failed_)
      fail(error_code::transport, "the connection has already failed");
    ::ERR_clear_error();
    errno = 0;
  }

  /// Called when bytes have moved, so that the handshake is complete.
  void note_handshake() {
    if (!std::exchange(has_shaken_hands_, true))
      proven_token_ = tls_context::proven_token(session_);
  }

  /// A client's handshake is complete before the server has checked it.
  bool is_authenticated() const {
    return has_read_ || (has_shaken_hands_ && ::SSL_is_server(session_) == 1);
  }

  bool received_nothing() const {
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
    if (ended_ || (cut && received_nothing())) {
      ended_ = true;
      ::ERR_clear_error();
      return {state::ended};
    }
    failed_ = true;
    fail(error_code::transport, "{}",
         take_problem(session_, *context_, is_authenticated()));
  }

  /// A peer that never sent anything was no process of the job, but perhaps a
  /// relay whose target has yet to start: that is no failure.
  stream_progress explain_write(int code) {
    const auto progress = explain(code);
    if (progress.what == state::ended && !received_nothing())
      fail(error_code::transport, "the other side closed the connection");
    return progress;
  }

  owned_descriptor descriptor_;
  std::shared_ptr<tls_context> context_;
  ::SSL* session_;
  std::string scratch_;
  std::size_t tried_ = 0;  // bytes of an unfinished write; 0: none
  bool ended_ = false;     // in both directions, or during the handshake
  bool has_shaken_hands_ = false;
  bool has_read_ = false;
  bool failed_ = false;
};

}  // namespace

stream_pointer tls_stream(int descriptor, std::shared_ptr<tls_context> context,
                          link_side side) {
  return std::make_unique<tls_bytes>(descriptor, std::move(context), side);
}

}  // namespace troupe
