#include "troupe/monitors/http/http_address.hpp"

#include <catch2/catch_test_macros.hpp>

#include "troupe/base/error.hpp"

using namespace troupe;

TEST_CASE("addresses are numbers or localhost, with a port") {
  const auto local = parse_http_address("localhost:9464");
  CHECK(local.host == "127.0.0.1");
  CHECK(local.port == 9464);
  CHECK(local.is_loopback);
  const auto port = parse_http_address("8080");
  CHECK(port.host == "127.0.0.1");
  CHECK(port.port == 8080);
  CHECK(port.is_loopback);
  CHECK(parse_http_address("[::1]:0").host == "::1");
  CHECK(parse_http_address("[::1]:0").is_loopback);
  CHECK_FALSE(parse_http_address("0.0.0.0:80").is_loopback);
  CHECK_FALSE(parse_http_address("10.1.2.3:80").is_loopback);
  for (const auto* wrong :
       {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536",
        "127.0.0.1:-1", "-1", "65536", "80 ", "example:80", "[::1]", ":80",
        "127.0.0.1:80 ", "127.0.0.1:0:0", "[::1]x:80", "::1:80"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_http_address(wrong), error);
  }
}

TEST_CASE("a plain host is a number or localhost") {
  for (const auto* plain : {"localhost", "LocalHost:80", "localhost:80",
                            "127.0.0.1", "127.0.0.1:1", "[::1]:80", "[::1]"})
    CHECK(is_plain_host(plain));
  for (const auto* other :
       {"", "evil.example", "localhost.evil.example:80",
        "127.0.0.1.evil.example", "[", "[]", "[::1",
        "127.0.0.1:80@evil.example", "[::1]evil.example",
        "[::1]:80@evil.example", "127.0.0.1:", "127.0.0.1:x", "localhost:80:80",
        "[127.0.0.1]", "[localhost]", "::1", "127.0.0.1 ", " 127.0.0.1"})
    CHECK_FALSE(is_plain_host(other));
}

TEST_CASE("a password is what follows the user's name") {
  CHECK(password_of("Basic dTpzZXNhbWU=") == "sesame");  // u:sesame
  CHECK(password_of("basic dTpzZXNhbWU=") == "sesame");
  CHECK(password_of("Basic OnNlc2FtZQ==") == "sesame");    // :sesame
  CHECK(password_of("Basic dTphOmIv/w==") == "a:b/\xff");  // u:a:b/
  for (const auto* other : {"", "Basic", "Basic ", "Basic ====", "Basic dQ==",
                            "Bearer dTpzZXNhbWU=", "Basic \xff\xfe:"})
    CHECK(password_of(other).empty());
}

TEST_CASE("the names of schemes have no case, and their values do") {
  CHECK(credentials_of("bEARER Sesame", "Bearer") == "Sesame");
  for (const auto* other : {"", "Bearer", "Bearers x", "Basic x", " Bearer x"})
    CHECK(credentials_of(other, "Bearer").empty());
}

TEST_CASE("who may be asked, and who needs a token") {
  CHECK_NOTHROW(require_servable("127.0.0.1:0", ""));
  CHECK_NOTHROW(require_servable("0.0.0.0:0", "sesame"));
  CHECK_THROWS_AS(require_servable("0.0.0.0:0", ""), error);
  CHECK_THROWS_AS(require_servable("nonsense", "sesame"), error);
}
