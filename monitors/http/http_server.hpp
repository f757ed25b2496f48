#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "troupe/monitors/http/serving.hpp"

namespace troupe {

struct http_options {
  /// Plain HTTP at `HOST:PORT`, a number or `localhost`; `[::1]:80` for IPv6.
  /// An endpoint of a job: `unix:/path`, for this user alone, or
  /// `tcp:HOST:PORT`, by TLS with the site's tokens. Port 0: one that is free.
  std::string address = "127.0.0.1:0";
  /// A token that clients at `HOST:PORT` show before anything is answered, if
  /// it is not empty: `Authorization: Bearer TOKEN`.
  std::string page_token{};
  /// Lets browsers ask a person for this token, and send it with everything:
  /// it may also come as the password of `Authorization: Basic`, of any user.
  bool for_browsers = false;
  http_limits limits{};
};

/// Serves a site over HTTP/1.1, one request a connection, on a thread of its
/// own. Bytes that are no request get status 400, and a request that is too
/// long 413 or 431. At `HOST:PORT` without a page token it is only for this
/// machine, and for no page of the web that reads it through a browser: see
/// `refused_sender`. docs/endpoint.md has the rules.
class http_server {
 public:
  /// Throws `invalid_argument` for the address, limits of nothing, or what
  /// needs a token and has none; `io` and `transport` if it can't listen.
  http_server(const http_options& options, http_site_pointer site);
  /// Closes.
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// Where it listens, in the form that was given, with the port that was
  /// taken: `127.0.0.1:43211`, `tcp:127.0.0.1:43211`.
  std::string address() const;
  /// Open ones. May be called by any thread.
  std::size_t connections() const;
  /// Takes no more requests, lets clients have what waits for them for at most
  /// a second, and ends.
  void close();

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
