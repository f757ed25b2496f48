#include "troupe/engine/transport/trust/tls_context.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/private_file.hpp"
#include "troupe/engine/transport/trust/openssl_pointers.hpp"

namespace troupe {

namespace {

constexpr std::string_view key_names = "troupe ";
constexpr const char* suite = "TLS_AES_128_GCM_SHA256";

const tls_context& context_of(const ::SSL* session) {
  return *static_cast<const tls_context*>(
    SSL_CTX_get_app_data(::SSL_get_SSL_CTX(session)));
}

/// The key as an earlier session, the form that OpenSSL requires.
session_pointer session_of_key(::SSL* session, const secret_key& key) {
  constexpr unsigned char suite_bytes[] = {0x13, 0x01};
  session_pointer key_session(::SSL_SESSION_new());
  const auto* cipher = ::SSL_CIPHER_find(session, suite_bytes);
  if (!key_session || cipher == nullptr
      || !::SSL_SESSION_set1_master_key(key_session.get(), key.data(),
                                        key.size())
      || !::SSL_SESSION_set_cipher(key_session.get(), cipher)
      || !::SSL_SESSION_set_protocol_version(key_session.get(), TLS1_3_VERSION))
    key_session.reset();
  return key_session;
}

/// Gives OpenSSL the client's only key.
int use_key(::SSL* session, const ::EVP_MD*, const unsigned char** name,
            std::size_t* size, ::SSL_SESSION** result) {
  const auto& own = context_of(session).keys().front();
  *name = reinterpret_cast<const unsigned char*>(own.name.data());
  *size = own.name.size();
  *result = session_of_key(session, own.key).release();
  return *result == nullptr ? 0 : 1;
}

/// Gives OpenSSL the server's key of that name. For the name of an unknown
/// token it gives the first key, which the client's proof does not fit:
/// OpenSSL's error then says so, while it would miss a certificate otherwise.
int find_key(::SSL* session, const unsigned char* name, std::size_t size,
             ::SSL_SESSION** result) {
  *result = nullptr;  // continues without the key, so it fails
  const std::string_view wanted(reinterpret_cast<const char*>(name), size);
  if (!wanted.starts_with(key_names))
    return 1;
  const auto& keys = context_of(session).keys();
  auto key = std::ranges::find(keys, wanted, &tls_context::token_key::name);
  if (key == keys.end())
    key = keys.begin();
  SSL_set_app_data(session, const_cast<tls_context::token_key*>(&*key));
  *result = session_of_key(session, key->key).release();
  return 1;
}

tls_context::token_key key_of(const std::string& token) {
  const auto name = derive_key(token, "troupe", "name of the key of TLS 1");
  std::string text(key_names);
  for (std::size_t i = 0; i < 8; ++i)
    text += fmt::format("{:02x}", name.at(i));
  return {text, derive_key(token, "troupe", "pre-shared key of TLS 1")};
}

[[noreturn]] void refuse(const std::string& path) {
  const auto code = ::ERR_peek_error();
  const auto* reason = ::ERR_reason_error_string(code);
  ::ERR_clear_error();
  fail(error_code::io,
       "{}: can't be used: {}; `troupe certificates FOLDER` makes a new set",
       path, reason == nullptr ? "OpenSSL reports no reason" : reason);
}

/// Checks the file that it reads: the path is not looked up again.
std::string certificate_bytes(const std::string& path, bool is_secret) {
  try {
    input_file file(path);
    is_secret ? require_private(file) : require_trustworthy(file);
    return file.read(std::size_t{1} << 20);
  } catch (const error& reason) {
    fail(error_code::io, "{}; `troupe certificates FOLDER` makes a new set",
         reason.what());
  }
}

bio_pointer reader_of(const std::string& bytes) {
  return bio_pointer(
    ::BIO_new_mem_buf(bytes.data(), static_cast<int>(bytes.size())));
}

certificate_pointer certificate_of(const std::string& path) {
  const auto bytes = certificate_bytes(path, false);
  certificate_pointer certificate(
    ::PEM_read_bio_X509(reader_of(bytes).get(), nullptr, nullptr, nullptr));
  if (!certificate)
    refuse(path);
  return certificate;
}

/// Refuses a key with a passphrase instead of asking for it.
int no_passphrase(char*, int, int, void*) {
  return -1;
}

key_pointer key_of_file(const std::string& path) {
  const auto bytes = certificate_bytes(path, true);
  return key_pointer(::PEM_read_bio_PrivateKey(reader_of(bytes).get(), nullptr,
                                               &no_passphrase, nullptr));
}

}  // namespace

const tls_advice& advice_for_links() {
  static const std::string same =
    "give all processes the same token (--job-token-file), or all the files of "
    "one `troupe certificates FOLDER` (--certificates)";
  static const tls_advice advice{
    same, "it was given --insecure, or is no process of this job; " + same};
  return advice;
}

tls_context::tls_context() : context_(::SSL_CTX_new(::TLS_method())) {
  if (context_ == nullptr)
    fail(error_code::internal, "OpenSSL can't be used");
  SSL_CTX_set_app_data(context_, this);
  ::SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
  ::SSL_CTX_set_max_proto_version(context_, TLS1_3_VERSION);
  ::SSL_CTX_set_ciphersuites(context_, suite);
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
  std::shared_ptr<tls_context> result(new tls_context);
  auto* context = result->context_;
  result->has_certificates_ = true;
  const auto authority = folder + "/authority.pem";
  const auto certificate = folder + "/member.pem";
  const auto key = folder + "/member.key";
  ::ERR_clear_error();
  const auto trusted = certificate_of(authority);
  if (!::X509_STORE_add_cert(::SSL_CTX_get_cert_store(context), trusted.get()))
    refuse(authority);
  const auto own = certificate_of(certificate);
  if (!::SSL_CTX_use_certificate(context, own.get()))
    refuse(certificate);
  const auto secret = key_of_file(key);
  if (!secret || !::SSL_CTX_use_PrivateKey(context, secret.get())
      || !::SSL_CTX_check_private_key(context))
    refuse(key);
  return result;
}

std::shared_ptr<tls_context> tls_context::of_token(const std::string& token,
                                                   tls_advice advice) {
  return of_tokens({token}, std::move(advice));
}

std::shared_ptr<tls_context> tls_context::of_tokens(
  const std::vector<std::string>& tokens, tls_advice advice) {
  std::shared_ptr<tls_context> result(new tls_context);
  result->advice_ = std::move(advice);
  for (const auto& each : tokens)
    result->keys_.push_back(key_of(each));
  ::SSL_CTX_set_psk_use_session_callback(result->context_, &use_key);
  ::SSL_CTX_set_psk_find_session_callback(result->context_, &find_key);
  return result;
}

std::size_t tls_context::proven_token(const ::SSL* session) {
  const auto* key = static_cast<const token_key*>(SSL_get_app_data(session));
  return key == nullptr
           ? 0
           : static_cast<std::size_t>(key - context_of(session).keys().data());
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
