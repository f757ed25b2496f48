#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "troupe/monitors/http/access.hpp"
#include "troupe/monitors/http/http_exchange.hpp"
#include "troupe/monitors/http/http_site.hpp"

namespace troupe {

/// The kind of address by which a client has come: the job's own user at a unix
/// socket; TLS; plain HTTP on this machine, or from other ones.
enum class http_place : std::uint8_t { unix_socket, tls, loopback, network };

/// A client's place, and what its server asks for there.
struct http_entrance {
  http_place place = http_place::loopback;
  std::size_t proven_token = 0;  // within TLS
  std::string page_token{};      // of plain HTTP; empty: none is asked for
  bool for_browsers = false;     // takes it as a password, too
};

using http_headers = boost::beast::http::request_header<>;

/// The right that a request shows.
access_right client_right(const http_headers& request,
                          const http_entrance& entrance,
                          const access_tokens& tokens);

/// Why a request is refused, whatever it asks for: headers that come twice, and
/// pages of other hosts in a browser. Where no page token keeps these out, the
/// `Host` has to be a number or `localhost`, at a unix socket any name without
/// a dot.
std::optional<http_response> refused_sender(const http_headers& request,
                                            const http_entrance& entrance);

using http_message =
  boost::beast::http::request<boost::beast::http::string_body>;
/// The request that a site may answer, or the refusal: of its sender, its path
/// and method, the client's right, or what it says to be its body's type.
std::variant<http_request, http_response> checked_request(
  http_message& message, const http_entrance& entrance, const http_site& site);

}  // namespace troupe
