#include "troupe/engine/transport/stream/socket_bio.hpp"

#include <openssl/bio.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

int descriptor_of(::BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(::BIO_get_data(bio)));
}

bool is_passing() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

int write(::BIO* bio, const char* bytes, int size) {
  ::BIO_clear_retry_flags(bio);
  const auto sent = ::send(descriptor_of(bio), bytes,
                           static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && is_passing())
    ::BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int read(::BIO* bio, char* buffer, int size) {
  ::BIO_clear_retry_flags(bio);
  const auto got =
    ::recv(descriptor_of(bio), buffer, static_cast<std::size_t>(size), 0);
  if (got < 0 && is_passing())
    ::BIO_set_retry_read(bio);
  if (got == 0)
    ::BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

/// Flushing needs no work, and OpenSSL asks whether the socket has ended.
long control(::BIO* bio, int what, long, void*) {
  if (what == BIO_CTRL_EOF)
    return ::BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return what == BIO_CTRL_FLUSH ? 1 : 0;
}

const ::BIO_METHOD* make_method() {
  auto* made = ::BIO_meth_new(
    ::BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR,
    "troupe socket");
  if (made == nullptr)
    fail(error_code::internal, "OpenSSL can't be used");
  ::BIO_meth_set_write(made, &write);
  ::BIO_meth_set_read(made, &read);
  ::BIO_meth_set_ctrl(made, &control);
  return made;
}

}  // namespace

bio_st* make_socket_bio(int descriptor) {
  static const auto* method = make_method();
  auto* made = ::BIO_new(method);
  if (made == nullptr)
    fail(error_code::internal, "OpenSSL can't be used");
  ::BIO_set_data(
    made, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)));
  ::BIO_set_init(made, 1);
  return made;
}

}  // namespace troupe
