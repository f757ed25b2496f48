#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

/// Where a server listens.
struct http_address {
  std::string host;  // a number: 127.0.0.1 or ::1
  std::uint16_t port = 0;
  bool is_loopback = false;
};

/// Reads `127.0.0.1:80`, `localhost:80`, `[::1]:80`, or `80`, which is
/// `127.0.0.1:80`. Throws `invalid_argument`.
http_address parse_http_address(const std::string& text);

/// Throws `invalid_argument` for an invalid address, and for one that
/// other machines reach unless there is a token; `remedy` says how to give one.
void require_servable(const std::string& address, const std::string& token,
                      std::string_view remedy = "a token");

/// Whether a request's `Host` is a number or `localhost`, with or without a
/// port.
bool is_plain_host(const std::string& host);

/// What follows a scheme such as `Bearer`, whose name has no case; empty for
/// another scheme.
std::string credentials_of(const std::string& authorization,
                           std::string_view scheme);

/// The password in `Basic` and the base64 of `user:password`; empty where
/// there is none.
std::string password_of(const std::string& authorization);

}  // namespace troupe
