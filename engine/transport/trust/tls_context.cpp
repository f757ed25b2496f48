#include "troupe/engine/transport/trust/tls_context.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <cstring>
#include <memory>

#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"

namespace troupe {

namespace {

constexpr std::string_view identity = "troupe job";
constexpr const char* suite = "TLS_AES_128_GCM_SHA256";

using session_pointer =
  std::unique_ptr<::SSL_SESSION, decltype(&::SSL_SESSION_free)>;

const tls_context& context_of(const ::SSL* session) {
  return *static_cast<const tls_context*>(
    SSL_CTX_get_app_data(::SSL_get_SSL_CTX(session)));
}

/// The key as an earlier session, the form that OpenSSL requires.
session_pointer session_of_key(::SSL* session) {
  constexpr unsigned char suite_bytes[] = {0x13, 0x01};
  session_pointer made(::SSL_SESSION_new(), &::SSL_SESSION_free);
  const auto& key = context_of(session).key();
  const auto* cipher = ::SSL_CIPHER_find(session, suite_bytes);
  if (!made || cipher == nullptr
      || !::SSL_SESSION_set1_master_key(made.get(), key.data(), key.size())
      || !::SSL_SESSION_set_cipher(made.get(), cipher)
      || !::SSL_SESSION_set_protocol_version(made.get(), TLS1_3_VERSION))
    made.reset();
  return made;
}

int use_key(::SSL* session, const ::EVP_MD*, const unsigned char** name,
            std::size_t* size, ::SSL_SESSION** result) {
  *name = reinterpret_cast<const unsigned char*>(identity.data());
  *size = identity.size();
  *result = session_of_key(session).release();
  return *result == nullptr ? 0 : 1;
}

int find_key(::SSL* session, const unsigned char* name, std::size_t size,
             ::SSL_SESSION** result) {
  *result = nullptr;  // continues without the key, so it fails
  if (size == identity.size() && std::memcmp(name, identity.data(), size) == 0)
    *result = session_of_key(session).release();
  return 1;
}

[[noreturn]] void refuse(const std::string& path) {
  const auto code = ::ERR_peek_error();
  const auto* why = ::ERR_reason_error_string(code);
  ::ERR_clear_error();
  fail(error_code::io,
       "{}: can't be used: {}; `troupe certificates FOLDER` makes a new set",
       path, why == nullptr ? "OpenSSL reports no reason" : why);
}

void require_file(const std::string& path, bool is_secret) {
  try {
    const input_file file(path);
    if (is_secret && (file.mode() & 077U) != 0)
      file.refuse(
        "other users can read or write this key; run chmod 600 on it");
  } catch (const error& reason) {
    fail(error_code::io, "{}; `troupe certificates FOLDER` makes a new set",
         reason.what());
  }
}

}  // namespace

tls_context::tls_context() : context_(::SSL_CTX_new(::TLS_method())) {
  if (context_ == nullptr)
    fail(error_code::internal, "OpenSSL can't be used");
  SSL_CTX_set_app_data(context_, this);
  ::SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
  ::SSL_CTX_set_max_proto_version(context_, TLS1_3_VERSION);
  ::SSL_CTX_set_ciphersuites(context_, suite);
  // Refuses a key with a passphrase instead of asking for it.
  ::SSL_CTX_set_default_passwd_cb(context_,
                                  [](char*, int, int, void*) { return -1; });
  // Streams live as long as the job, so no session is ever resumed.
  ::SSL_CTX_set_num_tickets(context_, 0);
  ::SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_mode(context_, SSL_MODE_ENABLE_PARTIAL_WRITE
                                 | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

tls_context::~tls_context() {
  ::SSL_CTX_free(context_);
}

std::shared_ptr<tls_context> tls_context::of_certificates(
  const std::string& folder) {
  std::shared_ptr<tls_context> made(new tls_context);
  auto* context = made->context_;
  made->has_certificates_ = true;
  const auto authority = folder + "/authority.pem";
  const auto certificate = folder + "/member.pem";
  const auto key = folder + "/member.key";
  require_file(authority, false);
  require_file(certificate, false);
  require_file(key, true);
  ::ERR_clear_error();
  if (!::SSL_CTX_load_verify_file(context, authority.c_str()))
    refuse(authority);
  if (!::SSL_CTX_use_certificate_file(context, certificate.c_str(),
                                      SSL_FILETYPE_PEM))
    refuse(certificate);
  if (!::SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM)
      || !::SSL_CTX_check_private_key(context))
    refuse(key);
  return made;
}

std::shared_ptr<tls_context> tls_context::of_token(const std::string& token) {
  std::shared_ptr<tls_context> made(new tls_context);
  made->key_ = derive_key(token, "troupe", "pre-shared key of TLS 1");
  ::SSL_CTX_set_psk_use_session_callback(made->context_, &use_key);
  ::SSL_CTX_set_psk_find_session_callback(made->context_, &find_key);
  return made;
}

ssl_st* tls_context::make_session(bool is_server) const {
  auto* session = ::SSL_new(context_);
  if (session == nullptr)
    fail(error_code::internal, "OpenSSL could not create a session");
  is_server ? ::SSL_set_accept_state(session)
            : ::SSL_set_connect_state(session);
  // A client with only a key trusts no certificate, so only the key passes.
  if (has_certificates_ || !is_server)
    ::SSL_set_verify(session, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                     nullptr);
  return session;
}

}  // namespace troupe
