#include "troupe/monitors/sinks/http_address.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string_view>

#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"

namespace troupe {

namespace {

/// Before the colon of the port, or all; without brackets.
std::string host_of(const std::string& text) {
  if (text.starts_with('['))
    return text.substr(1, text.find(']') - 1);
  return text.substr(0, text.find(':'));
}

std::optional<boost::asio::ip::address> address_of(const std::string& host) {
  boost::system::error_code problem;
  const auto address = boost::asio::ip::make_address(
    host == "localhost" ? "127.0.0.1" : host, problem);
  return problem ? std::nullopt : std::optional(address);
}

/// The host must be followed by ":PORT" and nothing else.
std::optional<std::uint16_t> port_of(const std::string& text) {
  const auto brackets = text.starts_with('[') ? 2 : 0;
  const auto rest = std::string_view(text).substr(
    std::min(text.size(), host_of(text).size() + brackets));
  return rest.starts_with(':') ? parse_number<std::uint16_t>(rest.substr(1))
                               : std::nullopt;
}

/// Empty where the text is no base64.
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
  const auto address = address_of(host_of(text));
  const auto port = port_of(text);
  if (!address || !port)
    fail(error_code::invalid_argument,
         "'{}' is not an address to listen at; write NUMBER:PORT or "
         "localhost:PORT, such as 127.0.0.1:9464; port 0 takes a free one",
         text);
  return {address->to_string(), *port, address->is_loopback()};
}

void require_servable(const std::string& address, const std::string& token) {
  if (!parse_http_address(address).is_loopback && token.empty())
    fail(error_code::invalid_argument,
         "{} can be reached from other machines; give a token, or listen at "
         "127.0.0.1",
         address);
}

bool is_plain_host(const std::string& host) {
  return address_of(host_of(host)).has_value();
}

std::string password_of(const std::string& authorization) {
  constexpr std::string_view scheme = "Basic ";
  if (!authorization.starts_with(scheme))
    return {};
  const auto plain = from_base64(authorization.substr(scheme.size()));
  const auto colon = plain.find(':');
  return colon == std::string::npos ? std::string{} : plain.substr(colon + 1);
}

}  // namespace troupe
