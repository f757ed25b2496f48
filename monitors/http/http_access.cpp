#include "troupe/monitors/http/http_access.hpp"

#include <fmt/format.h>
#include <boost/beast/core/string.hpp>

#include <algorithm>
#include <array>

#include "troupe/engine/transport/trust/secret_file.hpp"
#include "troupe/monitors/http/http_address.hpp"

namespace troupe {

namespace {

namespace http = boost::beast::http;
using boost::beast::iequals;

bool is_foreign_page(const http_headers& request) {
  const std::string origin = request[http::field::origin];
  constexpr std::string_view scheme = "http://";
  return !origin.empty()
         && (!origin.starts_with(scheme)
             || !iequals(origin.substr(scheme.size()),
                         request[http::field::host]));
}

/// Browsers say so themselves where a link or an image asks.
bool is_asked_by_other_site(const http_headers& request) {
  const std::string from = request["Sec-Fetch-Site"];
  return !from.empty() && from != "same-origin" && from != "none";
}

bool is_open_host(const std::string& host, http_place place) {
  const auto name = host.substr(0, host.find(':'));
  return is_plain_host(host)
         || (place == http_place::unix_socket
             && std::ranges::all_of(name, [](unsigned char c) {
                  return std::isalnum(c) != 0 || c == '-' || c == '_';
                }));
}

bool is_plain_http(http_place place) {
  return place == http_place::loopback || place == http_place::network;
}

http_response token_wanted(const std::string& why, bool as_password) {
  auto refused = refusal_response(401, why);
  refused.headers = {
    {"WWW-Authenticate", as_password ? "Basic realm=\"troupe\"" : "Bearer"}};
  return refused;
}

constexpr auto how_to_show =
  "send `Authorization: Bearer TOKEN`, or name a file with the content of the "
  "job's --endpoint-token-file or --endpoint-control-token-file by "
  "--token-file";

}  // namespace

access_right client_right(const http_headers& request,
                          const http_entrance& entrance,
                          const access_tokens& tokens) {
  const std::string credentials = request[http::field::authorization];
  const auto token = credentials_of(credentials, "Bearer");
  const auto by_token = right_of(tokens, token).value_or(access_right::none);
  switch (entrance.place) {
    case http_place::unix_socket:
      return tokens.empty() ? access_right::control : by_token;
    case http_place::tls:
      return tokens_in_use(tokens).at(entrance.proven_token).first;
    case http_place::loopback:
      if (by_token != access_right::none)
        return by_token;
      [[fallthrough]];
    case http_place::network:
      break;
  }
  const auto& wanted = entrance.page_token;
  const bool is_let_in =
    wanted.empty() || same_secret(token, wanted)
    || (entrance.for_browsers && same_secret(password_of(credentials), wanted));
  return is_let_in ? access_right::page : access_right::none;
}

std::optional<http_response> refused_sender(const http_headers& request,
                                            const http_entrance& entrance) {
  for (const auto field :
       {http::field::host, http::field::origin, http::field::content_type,
        http::field::authorization})
    if (request.count(field) > 1)
      return refusal_response(
        400,
        fmt::format("send exactly one {}", std::string_view(to_string(field))));
  const std::string host = request[http::field::host];
  if (entrance.place != http_place::tls && entrance.page_token.empty()
      && request.count(http::field::host) > 0
      && !is_open_host(host, entrance.place))
    return refusal_response(403,
                            "host not allowed; use 127.0.0.1 or localhost");
  if (is_foreign_page(request))
    return refusal_response(403, "request from a page of another host");
  return std::nullopt;
}

namespace {

/// The refusal of a client that may read no more than the page.
http_response refused_beyond_page(const http_entrance& entrance,
                                  const access_tokens& tokens) {
  constexpr auto only =
    "only the page and metrics are served here; ask at the job's endpoint";
  if (entrance.place == http_place::network)
    return refusal_response(
      403, fmt::format("connections to this address are not encrypted, and "
                       "other machines can reach it, so {}",
                       only));
  if (tokens.empty())
    return refusal_response(
      403, fmt::format("any user of this machine can connect here, so {}, or "
                       "start the job with --endpoint-token-file or "
                       "--endpoint-control-token-file",
                       only));
  return token_wanted(
    fmt::format("this needs a token of the endpoint: {}", how_to_show), false);
}

/// Why a client of this right is refused what needs `needs`.
std::optional<http_response> refused_right(const http_headers& request,
                                           const http_entrance& entrance,
                                           const access_tokens& tokens,
                                           access_right own,
                                           access_right needs) {
  if (own == access_right::none)
    return token_wanted(
      is_plain_http(entrance.place)
        ? std::string("token required")
        : fmt::format("this endpoint needs a token: {}", how_to_show),
      entrance.for_browsers);
  if (needs > access_right::page && is_asked_by_other_site(request))
    return refusal_response(403, "request from a page of another host");
  if (own == access_right::page && needs > own)
    return refused_beyond_page(entrance, tokens);
  try {
    require_right(own, needs, "for this");
    return std::nullopt;
  } catch (const missing_right&) {
    return response_to_error();
  }
}

/// Whether a type is that of JSON, which is in UTF-8.
bool is_json(std::string_view type) {
  return iequals(type, "application/json")
         || iequals(type, "application/json; charset=utf-8")
         || iequals(type, "application/json;charset=utf-8");
}

}  // namespace

std::variant<http_request, http_response> checked_request(
  http_message& message, const http_entrance& entrance, const http_site& site) {
  if (auto refused = refused_sender(message, entrance))
    return std::move(*refused);
  const auto own = client_right(message, entrance, site.tokens());
  const auto refused_for = [&](access_right needs) {
    return refused_right(message, entrance, site.tokens(), own, needs);
  };
  if (auto refused = refused_for(access_right::page))
    return std::move(*refused);
  const std::string method(message.method_string());
  const std::string target(message.target());
  const auto path = target.substr(0, target.find('?'));
  auto needs = access_right::page;
  if (auto refused = site.find(method, path, needs))
    return std::move(*refused);
  if (auto refused = refused_for(needs))
    return std::move(*refused);
  if (method == "POST" && !is_json(message[http::field::content_type]))
    return refusal_response(415,
                            "send JSON, with `Content-Type: application/json`");
  return http_request{method == "HEAD" ? "GET" : method, path,
                      target.substr(std::min(target.size(), path.size() + 1)),
                      std::move(message.body()), own};
}

}  // namespace troupe
