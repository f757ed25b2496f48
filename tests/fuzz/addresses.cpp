// Addresses of HTTP servers, hosts and authorizations of requests, endpoints.
#include "parse.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/trust/secret_file.hpp"
#include "troupe/monitors/http/http_address.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const auto kind = testing::take_choice(bytes) % 4;
    const std::string text(bytes);
    if (kind == 0) {
      const auto parsed = parse_endpoint(text);
      testing::require(parse_endpoint(to_text(parsed)) == parsed);
    } else if (kind == 1) {
      parse_http_address(text);
      require_servable(text, "");
    } else if (kind == 2) {
      is_plain_host(text);
    } else {
      testing::require(!same_secret(password_of(text), "nobody guesses it"));
    }
  });
}
