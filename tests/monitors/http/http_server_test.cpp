#include "troupe/monitors/http/http_server.hpp"

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <random>
#include <stdexcept>

#include "../../inherited_sockets.hpp"
#include "http_client.hpp"
#include "troupe/base/error.hpp"
#include "troupe/monitors/http/http_site.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

constexpr auto ok = "HTTP/1.1 200 OK\r\n";
constexpr std::size_t much = std::size_t{64} << 20;

http_response say(const http_request& request) {
  const auto& path = request.path;
  if (path == "/broken")
    throw std::runtime_error("broken");
  if (path == "/much")
    return {.body = std::string(much, 'x')};
  return {.body = "at " + path};
}

/// A site that returns the request's path, and its body if it `takes_posts`.
struct served {
  explicit served(const http_options& options = {}, bool takes_posts = false,
                  const access_tokens& tokens = {})
    : site(std::make_shared<http_site>(tokens)),
      added(site->add(resources(takes_posts))),
      server(options, site) {}

  static std::vector<http_resource> resources(bool takes_posts) {
    std::vector<http_resource> all{
      {"GET", "/*", access_right::page, at_once(say)}};
    if (takes_posts)
      all.push_back(
        {"POST", "/*", access_right::page, at_once([](const auto& request) {
           return http_response{.body = request.path + " got " + request.body};
         })});
    return all;
  }
  std::string address() const { return server.address(); }
  std::size_t connections() const { return server.connections(); }

  http_site_pointer site;
  std::shared_ptr<void> added;
  http_server server;
};

}  // namespace

TEST_CASE("a path has a response") {
  const served server;
  const auto at = server.address();
  CHECK_THAT(at, StartsWith("127.0.0.1:") && !EndsWith(":0"));
  const auto response = get(at, "/a/b?c=d");
  CHECK_THAT(response, StartsWith(ok) && EndsWith("\r\n\r\nat /a/b"));
  CHECK_THAT(response,
             ContainsSubstring("Content-Type: text/plain; charset=utf-8\r\n")
               && ContainsSubstring("Content-Length: 7\r\n"));
  CHECK_THAT(ask(at, "HEAD /a HTTP/1.1\r\n\r\n"),
             StartsWith(ok) && ContainsSubstring("Content-Length: 5\r\n")
               && EndsWith("\r\n\r\n"));
  CHECK_THAT(ask(at, "GET /a HTTP/1.0\r\n\r\n"), EndsWith("at /a"));
  CHECK_THAT(
    get(at, "/broken"),
    StartsWith("HTTP/1.1 500") && EndsWith("\r\n\r\n{\"error\":\"broken\"}\n"));
  CHECK_THAT(ask(at, "DELETE / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.1 405"));
}

TEST_CASE("programs that are started inherit no socket of the server") {
  const served site;
  CHECK(inherited_listeners() == 0);
}

TEST_CASE("what is no HTTP, or too large, is refused") {
  const served server(
    {.limits = {
       .header_bytes = 1000, .body_bytes = 0, .request_seconds = 0.5}});
  const std::string tls("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
  const auto check = [&](const std::string& request, const char* status) {
    CAPTURE(request);
    CHECK_THAT(ask(server.address(), request),
               StartsWith("HTTP/1.1 " + std::string(status) + " "));
  };
  for (const auto& request :
       {std::string("GET\r\n\r\n"), std::string("\r\n\r\n\r\n\r\n"),
        std::string(500, '\0'), tls, std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "fffffffffffffffff\r\n")})
    check(request, "400");
  for (const auto& request :
       {"GET /" + std::string(2000, 'x') + " HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nA: " + std::string(100000, 'x') + "\r\n\r\n"})
    check(request, "431");
  check("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", "413");
  CHECK_THAT(get(server.address(), "/"), StartsWith(ok));
}

TEST_CASE("nothing that is sent stops it") {
  const served server(
    {.limits = {.request_seconds = 0.5, .stalled_seconds = 0.5}});
  std::mt19937 random(1);
  const std::string valid = "GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < 300; ++i) {
    auto request = valid;
    for (auto flips = random() % 6; flips > 0; --flips)
      request[random() % request.size()] = static_cast<char>(random());
    http_client client(server.address());
    client.send(request.substr(0, random() % (request.size() + 1)));
  }
  CHECK_THAT(get(server.address(), "/"), StartsWith(ok));
  CHECK(soon([&] { return server.connections() == 0; }));
}

TEST_CASE("a request that doesn't end is given up, and delays nobody") {
  const served server(
    {.limits = {.request_seconds = 0.5, .stalled_seconds = 0.5}});
  http_client silent(server.address()), half(server.address()),
    dripping(server.address());
  half.send("GET / HTTP/1.1\r\nHost: lo");
  dripping.send("GET / HTTP/1.1\r\nA: ");
  CHECK_THAT(get(server.address(), "/"), StartsWith(ok));
  const auto begin = std::chrono::steady_clock::now();
  while (!dripping.can_read(20ms)
         && std::chrono::steady_clock::now() - begin < 10s)
    dripping.send("x");
  CHECK(dripping.read_to_end().empty());
  CHECK(half.read_to_end().empty());
  CHECK(silent.read_to_end().empty());
}

TEST_CASE("a reader that doesn't read is given up, and delays nobody") {
  const served server(
    {.limits = {.request_seconds = 0.5, .stalled_seconds = 0.5}});
  http_client slow(server.address(), 4096);
  slow.send("GET /much HTTP/1.1\r\n\r\n");
  REQUIRE(slow.can_read(10s));
  CHECK_THAT(get(server.address(), "/"), StartsWith(ok));
  REQUIRE(soon([&] { return server.connections() == 0; }));
  CHECK(slow.read_to_end().size() < much);
}

TEST_CASE("a large response arrives whole") {
  const served server({.limits = {.request_seconds = 60}});
  CHECK(body_of(get(server.address(), "/much")).size() == much);
}

TEST_CASE("who only connects makes room for who asks") {
  const served server({.limits = {.connections = 4, .request_seconds = 60}});
  std::vector<std::unique_ptr<http_client>> silent;
  for (int i = 0; i < 200; ++i)
    silent.push_back(std::make_unique<http_client>(server.address()));
  CHECK_THAT(get(server.address(), "/"), StartsWith(ok));
  CHECK(silent.front()->read_to_end().empty());  // the oldest was dropped
  CHECK(server.connections() <= 4);
}

TEST_CASE("connections beyond the limit wait for their turn") {
  const served server({.limits = {.connections = 2, .request_seconds = 60}});
  auto first = std::make_unique<http_client>(server.address(), 4096);
  http_client second(server.address(), 4096);
  for (auto* busy : {first.get(), &second}) {
    busy->send("GET /much HTTP/1.1\r\n\r\n");
    REQUIRE(busy->can_read(10s));
  }
  http_client third(server.address());
  third.send("GET / HTTP/1.1\r\n\r\n");
  CHECK_FALSE(third.can_read(50ms));
  CHECK(server.connections() == 2);
  first.reset();
  CHECK_THAT(third.read_to_end(), StartsWith(ok));
}

TEST_CASE("with a token, only who knows it is answered") {
  const served server({.address = "0.0.0.0:0", .page_token = "sesame"});
  const auto at = server.address();
  CHECK_THAT(get(at, "/", "Authorization: Bearer sesame\r\n"), StartsWith(ok));
  for (const auto* wrong :
       {"", "Authorization: Bearer sesamE\r\n",
        "Authorization: Bearer sesame2\r\n", "Authorization: Basic sesame\r\n"})
    CHECK_THAT(get(at, "/", wrong),
               StartsWith("HTTP/1.1 401")
                 && ContainsSubstring("WWW-Authenticate: Bearer\r\n"));
}

TEST_CASE("a browser may send the token as a password") {
  const served server({.page_token = "sesame", .for_browsers = true});
  const auto at = server.address();
  for (const auto* right : {"Authorization: Bearer sesame\r\n",
                            "Authorization: Basic dTpzZXNhbWU=\r\n"})
    CHECK_THAT(get(at, "/", right), StartsWith(ok));
  for (const auto* wrong : {"", "Authorization: Basic sesame\r\n",
                            "Authorization: Basic dTpzZXNhbQ==\r\n"})
    CHECK_THAT(
      get(at, "/", wrong),
      StartsWith("HTTP/1.1 401")
        && ContainsSubstring("WWW-Authenticate: Basic realm=\"troupe\"\r\n"));
}

TEST_CASE("without a token, no page of the web gets in through a browser") {
  const served server;
  CHECK_THAT(
    ask(server.address(), "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
    StartsWith("HTTP/1.1 403"));
  CHECK_THAT(
    ask(server.address(), "GET / HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n"),
    StartsWith(ok));
}

TEST_CASE("addresses that it can't or may not listen at are errors") {
  CHECK_THROWS_AS(served({.address = "0.0.0.0:0"}), error);
  CHECK_THROWS_AS(served({.address = "somewhere"}), error);
  CHECK_THROWS_AS(served({.limits = {.connections = 0}}), error);
  CHECK_THROWS_AS(served({.limits = {.header_bytes = 0}}), error);
  CHECK_THROWS_AS(served({.limits = {.queue_bytes = 0}}), error);
  CHECK_THROWS_AS(served({.limits = {.request_seconds = -1}}), error);
  CHECK_THROWS_AS(served({.limits = {.stalled_seconds = 0}}), error);
  const served first;
  try {
    const served second({.address = first.address()});
    FAIL("no error");
  } catch (const error& problem) {
    CHECK(problem.code() == error_code::io);
    CHECK_THAT(problem.what(),
               StartsWith("can't listen at " + first.address()));
  }
}

TEST_CASE("it ends at once, whoever is connected") {
  auto server =
    std::make_unique<served>(http_options{.limits = {.request_seconds = 60}});
  const auto at = server->address();
  http_client idle(at), slow(at, 4096);
  slow.send("GET /much HTTP/1.1\r\n\r\n");
  REQUIRE(slow.can_read(10s));
  const auto begin = std::chrono::steady_clock::now();
  server.reset();
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
  CHECK(idle.read_to_end().empty());
  CHECK(slow.read_to_end().size() < much);
  CHECK_THROWS(http_client(at));
}

namespace {

std::string post(const served& server, const std::string& body,
                 const std::string& headers) {
  return ask(server.address(),
             fmt::format("POST /a?b HTTP/1.1\r\nHost: {}\r\nContent-Length: "
                         "{}\r\n{}\r\n{}",
                         server.address(), body.size(), headers, body));
}

constexpr auto of_json = "Content-Type: application/json\r\n";

}  // namespace

TEST_CASE("a POST of JSON has a response, if one is wanted") {
  const served server({.limits = {.body_bytes = 100000}}, true);
  CHECK_THAT(post(server, "{1}", of_json),
             StartsWith(ok) && EndsWith("\r\n\r\n/a got {1}"));
  for (const auto* type :
       {"application/json; charset=utf-8", "Application/JSON;charset=UTF-8"})
    CHECK_THAT(post(server, "{1}", fmt::format("Content-Type: {}\r\n", type)),
               StartsWith(ok));
  const std::string much_text(
    99999, 'x');  // more than a request without a body may have
  CHECK_THAT(post(server, much_text, of_json), EndsWith(" got " + much_text));
  CHECK_THAT(get(server.address(), "/a"), EndsWith("at /a"));
  CHECK_THAT(ask(server.address(), "PUT /a HTTP/1.1\r\n\r\n"),
             StartsWith("HTTP/1.1 405")
               && ContainsSubstring("Allow: GET, HEAD, POST\r\n")
               && ContainsSubstring("{\"error\":\"/a answers GET, "));
  const served none;
  CHECK_THAT(ask(none.address(), "POST /a HTTP/1.1\r\n\r\n"),
             StartsWith("HTTP/1.1 405"));
}

TEST_CASE("a POST that a foreign page could send is refused") {
  const served server({.limits = {.body_bytes = 100000}}, true);
  for (const auto* type : {"", "Content-Type: text/plain\r\n",
                           "Content-Type: application/json; a=b\r\n"})
    CHECK_THAT(post(server, "{}", type), StartsWith("HTTP/1.1 415"));
  const auto from = [&](const std::string& origin) {
    return post(server, "{}",
                std::string{of_json} + "Origin: " + origin + "\r\n");
  };
  for (const auto* origin :
       {"http://evil.test", "null", "http://127.0.0.1:1", "https://127.0.0.1"})
    CHECK_THAT(from(origin), StartsWith("HTTP/1.1 403"));
  CHECK_THAT(from("http://" + server.address()), StartsWith(ok));
}

TEST_CASE("a body that is too large is refused") {
  const served server({.limits = {.body_bytes = 100000}}, true);
  CHECK_THAT(post(server, std::string(100001, 'x'), of_json),
             StartsWith("HTTP/1.1 413")
               && ContainsSubstring("send at most 100000 bytes"));
}

TEST_CASE("announced bodies are refused at once, and keep no place") {
  const served server(
    {.limits = {.connections = 4, .body_bytes = 100000, .request_seconds = 60}},
    true);
  const auto announced = fmt::format(
    "POST /a HTTP/1.1\r\nHost: {}\r\n{}Content-Length: "
    "100000000\r\n\r\n",
    server.address(), of_json);
  std::vector<std::unique_ptr<http_client>> rude;
  for (int i = 0; i < 40; ++i) {
    rude.push_back(std::make_unique<http_client>(server.address()));
    rude.back()->send(announced);
  }
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THAT(get(server.address(), "/"), StartsWith(ok));
  CHECK(std::chrono::steady_clock::now() - begin < 1s);
  CHECK_THAT(ask(server.address(), announced), StartsWith("HTTP/1.1 413"));
}

TEST_CASE("clients that don't take their answers make room for others") {
  const served server({.limits = {.connections = 4, .request_seconds = 60}});
  std::vector<std::unique_ptr<http_client>> slow;
  for (int i = 0; i < 4; ++i) {
    slow.push_back(std::make_unique<http_client>(server.address(), 4096));
    slow.back()->send("GET /much HTTP/1.1\r\n\r\n");
    REQUIRE(slow.back()->can_read(10s));
  }
  CHECK_THAT(get(server.address(), "/"), StartsWith(ok));
}

TEST_CASE("headers that decide who is answered may not come twice") {
  const served open, closed({.page_token = "sesame"});
  for (const auto* twice :
       {"Host: 127.0.0.1\r\nHost: evil.example\r\n",
        "Origin: http://127.0.0.1\r\nOrigin: http://127.0.0.1\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
        "Authorization: Bearer sesame\r\nAuthorization: Bearer x\r\n"})
    for (const auto* server : {&open, &closed})
      CHECK_THAT(
        ask(server->address(), fmt::format("GET / HTTP/1.1\r\n{}\r\n", twice)),
        StartsWith("HTTP/1.1 400") && ContainsSubstring("send exactly one "));
}
