#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/transport/trust/keys.hpp"

struct ssl_ctx_st;
struct ssl_st;

namespace troupe {

/// What a user can do about a refused handshake: ends of the errors' sentences.
struct tls_advice {
  std::string credentials;  // if they differ
  std::string plain_text;   // if the other side does not speak TLS
};

/// The advice for the processes of a job.
const tls_advice& advice_for_links();

/// A process's TLS 1.3 settings, for many streams and either side.
class tls_context {
 public:
  /// Uses a folder made by `troupe certificates`: both sides must present a
  /// certificate of its authority; names don't matter. Throws `io` if a file is
  /// missing or invalid, or if another user owns it or has too many rights to
  /// it.
  static std::shared_ptr<tls_context> of_certificates(
    const std::string& folder);
  /// Uses a key derived from the job's token, with a fresh exchange each time:
  /// the token, if revealed later, doesn't decrypt earlier traffic.
  static std::shared_ptr<tls_context> of_token(
    const std::string& token, tls_advice advice = advice_for_links());
  /// The same for a server that accepts each of several tokens, of at least
  /// one.
  static std::shared_ptr<tls_context> of_tokens(
    const std::vector<std::string>& tokens,
    tls_advice advice = advice_for_links());

  tls_context(const tls_context&) = delete;
  tls_context& operator=(const tls_context&) = delete;
  ~tls_context();

  /// A new session, not yet bound to a socket; free it with `SSL_free`.
  ssl_st* make_session(bool is_server) const;
  bool has_certificates() const { return has_certificates_; }
  const tls_advice& advice() const { return advice_; }

  struct token_key {
    std::string name;  // sent in the clear; tells nothing about the token
    secret_key key;
  };
  const std::vector<token_key>& keys() const { return keys_; }
  /// The index of the token that the other side of a server's session has, once
  /// the handshake is complete.
  static std::size_t proven_token(const ssl_st* session);

 private:
  tls_context();

  ssl_ctx_st* context_;
  bool has_certificates_ = false;
  tls_advice advice_ = advice_for_links();
  std::vector<token_key> keys_;  // empty with certificates
};

}  // namespace troupe
