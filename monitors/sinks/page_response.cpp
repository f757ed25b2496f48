#include "troupe/monitors/sinks/page_response.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "troupe/base/names.hpp"

namespace troupe {

http_response page_response(std::string_view page) {
  constexpr std::string_view place = "@nonce@";
  const auto nonce = random_digits(4);
  std::string body(page);
  for (auto found = body.find(place); found != std::string::npos;
       found = body.find(place, found))
    body.replace(found, place.size(), nonce);
  return {
    .type = "text/html; charset=utf-8",
    .body = std::move(body),
    .headers = {
      {"Content-Security-Policy",
       fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src "
                   "'nonce-{0}'; img-src data:; connect-src 'self'; base-uri "
                   "'none'; form-action 'none'; frame-ancestors 'none'",
                   nonce)},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"}}};
}

}  // namespace troupe
