#include "troupe/monitors/sinks/http_address.hpp"

#include <utility>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string_view>

#include "troupe/schedules/error.hpp"
#include "troupe/schedules/parse_number.hpp"

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

/// Up to the first character that doesn't belong to it.
std::string from_base64(std::string_view text) {
  constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  for (int waiting = 0; const auto c : text) {
    const auto value = alphabet.find(c);
    if (value == std::string_view::npos)
      break;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    waiting += 6;
    if (waiting >= 8)
      bytes += static_cast<char>(bits >> (waiting -= 8));
  }
  return bytes;
}

}  // namespace

http_address parse_http_address(const std::string& text) {
  const auto address = address_of(host_of(text));
  const auto port = port_of(text);
  if (!address || !port)
    fail(error_code::invalid_argument,
         "'{}' is no address to listen at; write NUMBER:PORT or "
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
  const auto plain =
    from_base64(std::string_view(authorization).substr(scheme.size()));
  const auto colon = plain.find(':');
  return colon == std::string::npos ? std::string{} : plain.substr(colon + 1);
}

bool equals_secret(const std::string& given, const std::string& secret) {
  if (given.size() != secret.size())
    return false;
  volatile unsigned char difference = 0;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference = difference | static_cast<unsigned char>(given[i] ^ secret[i]);
  return difference == 0;
}

}  // namespace troupe
