#include "troupe/monitors/http/http_address.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/beast/core/string.hpp>
#include <optional>
#include <string_view>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"

namespace troupe {

namespace {

using boost::asio::ip::address;

struct host_and_port {
  address host;
  std::optional<std::uint16_t> port;
};

std::optional<address> address_of(std::string_view host, bool in_brackets) {
  boost::system::error_code problem;
  const auto parsed = boost::asio::ip::make_address(
    boost::beast::iequals(host, "localhost") && !in_brackets
      ? std::string_view("127.0.0.1")
      : host,
    problem);
  return problem || parsed.is_v6() != in_brackets ? std::nullopt
                                                  : std::optional(parsed);
}

/// A number or `localhost`, IPv6 in brackets, and then nothing or `:PORT`; none
/// for any other text.
std::optional<host_and_port> parse(std::string_view text) {
  const bool in_brackets = text.starts_with('[');
  const auto end = std::min(text.find(in_brackets ? ']' : ':'), text.size());
  const auto host = in_brackets ? address_of(text.substr(1, end - 1), true)
                                : address_of(text.substr(0, end), false);
  const auto rest =
    text.substr(std::min(text.size(), end + (in_brackets ? 1 : 0)));
  if (!host || (in_brackets && end == text.size()))
    return std::nullopt;
  if (rest.empty())
    return host_and_port{*host, {}};
  const auto port = rest.starts_with(':')
                      ? parse_number<std::uint16_t>(rest.substr(1))
                      : std::nullopt;
  return port ? std::optional(host_and_port{*host, port}) : std::nullopt;
}

/// The bytes; empty where the text is no base64.
std::string from_base64(const std::string& text) {
  std::string bytes(text.size(), 0);
  const auto count =
    EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                    reinterpret_cast<const unsigned char*>(text.data()),
                    static_cast<int>(text.size()));
  const auto padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(std::max(0, count - padding)));
  return bytes;
}

}  // namespace

http_address parse_http_address(const std::string& text) {
  const bool is_port = parse_number<std::uint16_t>(text).has_value();
  const auto at = parse(is_port ? "127.0.0.1:" + text : text);
  if (!at || !at->port)
    fail(error_code::invalid_argument,
         "'{}' is not an address to listen at; write NUMBER:PORT, "
         "localhost:PORT or PORT, such as 127.0.0.1:9464, with a PORT up to "
         "65535; 0 takes a free one",
         text);
  return {at->host.to_string(), *at->port, at->host.is_loopback()};
}

void require_servable(const std::string& address, const std::string& token,
                      std::string_view remedy) {
  if (!parse_http_address(address).is_loopback && token.empty())
    fail(error_code::invalid_argument,
         "{} can be reached from other machines; give {}, or listen at "
         "127.0.0.1",
         address, remedy);
}

bool is_plain_host(const std::string& host) {
  return parse(host).has_value();
}

std::string credentials_of(const std::string& authorization,
                           std::string_view scheme) {
  const auto end = authorization.find(' ');
  if (end == std::string::npos
      || !boost::beast::iequals(authorization.substr(0, end), scheme))
    return {};
  return authorization.substr(end + 1);
}

std::string password_of(const std::string& authorization) {
  const auto plain = from_base64(credentials_of(authorization, "Basic"));
  const auto colon = plain.find(':');
  return colon == std::string::npos ? std::string{} : plain.substr(colon + 1);
}

}  // namespace troupe
