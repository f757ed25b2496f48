#pragma once

#include <memory>
#include <string>

#include "troupe/engine/transport/keys.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace troupe {

/// How a process takes part in TLS 1.3, for many streams and either side.
class tls_context {
 public:
  /// Of a folder that `troupe certificates` made: both sides have to present a
  /// certificate of its authority; names don't matter. Throws `io` if a file is
  /// missing, none of its kind, or the key readable by others.
  static std::shared_ptr<tls_context> of_certificates(
    const std::string& folder);
  /// By a key made of the job's token, with a fresh exchange each time: who
  /// learns the token later can't read what was sent before.
  static std::shared_ptr<tls_context> of_token(const std::string& token);

  tls_context(const tls_context&) = delete;
  tls_context& operator=(const tls_context&) = delete;
  ~tls_context();

  /// A new session of its own, not yet bound to a socket; `SSL_free` ends it.
  ssl_st* make_session(bool is_server) const;
  bool has_certificates() const { return has_certificates_; }
  const secret_key& key() const { return key_; }

 private:
  tls_context();

  ssl_ctx_st* context_;
  bool has_certificates_ = false;
  secret_key key_{};  // unless certificates
};

}  // namespace troupe
