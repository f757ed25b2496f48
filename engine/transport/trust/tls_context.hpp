#pragma once

#include <memory>
#include <string>

#include "troupe/engine/transport/trust/keys.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace troupe {

/// A process's TLS 1.3 settings, for many streams and either side.
class tls_context {
 public:
  /// Uses a folder made by `troupe certificates`: both sides must present a
  /// certificate of its authority; names don't matter. Throws `io` if a file is
  /// missing or invalid, or if others can read the key.
  static std::shared_ptr<tls_context> of_certificates(
    const std::string& folder);
  /// Uses a key derived from the job's token, with a fresh exchange each time:
  /// the token, if revealed later, doesn't decrypt earlier traffic.
  static std::shared_ptr<tls_context> of_token(const std::string& token);

  tls_context(const tls_context&) = delete;
  tls_context& operator=(const tls_context&) = delete;
  ~tls_context();

  /// A new session, not yet bound to a socket; free it with `SSL_free`.
  ssl_st* make_session(bool is_server) const;
  bool has_certificates() const { return has_certificates_; }
  const secret_key& key() const { return key_; }

 private:
  tls_context();

  ssl_ctx_st* context_;
  bool has_certificates_ = false;
  secret_key key_{};  // unused with certificates
};

}  // namespace troupe
