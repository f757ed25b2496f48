#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe {

struct http_response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};  // further ones
};

/// Answers a path such as `/metrics` (without a query).
/// Called by the server's thread; anything thrown is answered with status 500.
using http_handler = std::function<http_response(const std::string& path)>;

/// Answers a POST of JSON; otherwise as an `http_handler`.
using http_post_handler = std::function<http_response(const std::string& path,
                                                      const std::string& body)>;

struct http_options {
  /// A number or `localhost`; port 0: one that is free. `[::1]:80` for IPv6.
  std::string address = "127.0.0.1:0";
  /// If not empty, asked for: `Authorization: Bearer TOKEN`.
  std::string token{};
  /// Lets browsers ask a person for the token, and send it with everything:
  /// it may also come as the password of `Authorization: Basic`, of any user.
  bool for_browsers = false;
  /// Beyond, one is dropped: the oldest whose answer is out, else that has not
  /// sent its request yet, else that has been taking its answer for more than
  /// a second; otherwise further ones wait for their turn.
  std::size_t connections = 64;
  std::size_t request_bytes = 8192;  // without body; larger ones are refused
  /// If given, takes a POST of application/json, of at most so many bytes
  /// (one that announces more is refused before they come), unless it comes
  /// from a page of another host (by its `Origin`).
  http_post_handler post{};
  std::size_t body_bytes = 0;
  /// For a whole request to arrive, and for a whole response to be taken.
  std::chrono::milliseconds timeout{5000};
};

/// Answers GET and HEAD, and POST if wanted, over HTTP/1.1, one request a
/// connection, on a thread of its own, until it is destroyed. Bytes
/// that are no request get status 400, and a request that is too long 413 or
/// 431. Only for this machine unless there is a token; and without one, the
/// `Host` asked for has to be a number or `localhost`, and an `Origin` the
/// server's own page, so that no page of the web can read it through a browser.
/// Throws `invalid_argument` (address) and `io` (can't listen).
class http_server {
 public:
  http_server(const http_options& options, http_handler handler);
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// Where it listens, with the port that was chosen: `127.0.0.1:43211`.
  std::string address() const;
  /// Open ones. May be called by any thread.
  std::size_t connections() const;

 private:
  class loop;
  std::unique_ptr<loop> loop_;
};

/// A page whose style and script are inside, with a nonce in place of each
/// `@nonce@`: a browser runs nothing else, and asks this server alone.
http_response page_response(std::string_view page);

}  // namespace troupe
