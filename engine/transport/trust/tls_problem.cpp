#include "troupe/engine/transport/trust/tls_problem.hpp"

#include <fmt/format.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/sslerr.h>
#include <openssl/x509_vfy.h>

#include <cerrno>
#include <cstring>

namespace troupe {

namespace {

constexpr const char* same_set =
  "copy the files of one `troupe certificates FOLDER` to all machines of the "
  "job";
constexpr const char* same_token =
  "give all processes of the job the same token, and certificates to all or "
  "none";

std::string refused_certificate(const ssl_st* session) {
  const auto why = ::SSL_get_verify_result(session);
  if (why == X509_V_ERR_CERT_HAS_EXPIRED
      || why == X509_V_ERR_CERT_NOT_YET_VALID)
    return fmt::format(
      "the other side's certificate: {}; set the clocks, or make a new set "
      "with "
      "`troupe certificates FOLDER`",
      ::X509_verify_cert_error_string(why));
  return fmt::format(
    "the other side's certificate was not signed by this job's authority ({}); "
    "{}",
    ::X509_verify_cert_error_string(why), same_set);
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

std::string explain(const ssl_st* session, int reason, bool has_certificates,
                    bool was_shaken) {
  const auto* advice = has_certificates ? same_set : same_token;
  if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING)
    return was_shaken ? "the connection was cut off: it ended without a proper "
                        "close, and the last bytes may be missing"
                      : "the other side closed the connection before both "
                        "sides had authenticated";
  if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
    return refused_certificate(session);
  if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    return fmt::format("the other side presented no certificate; {}", advice);
  if (reason == SSL_R_BINDER_DOES_NOT_VERIFY)
    return fmt::format("the other side has another token; {}", advice);
  if (is_no_tls(reason))
    return fmt::format("the other side does not speak TLS 1.3; {}", advice);
  const auto* name = ::ERR_reason_error_string(
    ERR_PACK(ERR_LIB_SSL, 0, static_cast<unsigned long>(reason)));
  return fmt::format("{} ({}); {}",
                     is_alert(reason)
                       ? "the other side rejected this side's credentials"
                       : "TLS with the other side failed",
                     name == nullptr ? "unknown reason" : name, advice);
}

}  // namespace

std::string tls_problem(const ssl_st* session, bool has_certificates,
                        bool was_shaken) {
  const auto system = errno;
  const auto code = ::ERR_peek_error();
  ::ERR_clear_error();
  if (code == 0 || ERR_SYSTEM_ERROR(code))
    return fmt::format("the connection failed: {}",
                       system == 0 ? "closed" : std::strerror(system));
  return explain(session, ERR_GET_REASON(code), has_certificates, was_shaken);
}

}  // namespace troupe
