// Requests at the edge of HTTP, and streams of lines.
#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <memory>
#include <vector>

#include "mixed_site.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

namespace {

constexpr auto success = "HTTP/1.1 200 OK\r\n";

std::string say_to(const mixed_site& at, const std::string& request) {
  return ask(at.where(), request);
}

std::string status_of(const mixed_site& at, const std::string& method,
                      const std::string& path, const std::string& headers) {
  const auto answer =
    say_to(at, fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                           "application/json\r\n{}\r\n",
                           method, path, headers));
  return answer.substr(std::min<std::size_t>(9, answer.size()), 3);
}

std::string bearer(const std::string& token) {
  return "Authorization: Bearer " + token + "\r\n";
}

}  // namespace

TEST_CASE("a body may come in chunks, within the limit") {
  const mixed_site at({.limits = {.body_bytes = 100}});
  const auto post = [&](const std::string& chunks) {
    return say_to(at,
                  "POST /open HTTP/1.1\r\nContent-Type: application/json\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n"
                    + chunks);
  };
  CHECK_THAT(post("2\r\n{}\r\n3;a=b\r\n[1]\r\n0\r\n\r\n"),
             StartsWith(success) && EndsWith("\r\n\r\nPOST {}[1]"));
  CHECK_THAT(post("65\r\n" + std::string(101, 'x') + "\r\n0\r\n\r\n"),
             StartsWith("HTTP/1.1 413"));
  for (const auto* wrong :
       {"x\r\n\r\n", "2\r\n{}{}\r\n0\r\n\r\n", "ffffffffffffffffff\r\n"})
    CHECK_THAT(post(wrong), StartsWith("HTTP/1.1 400"));
}

TEST_CASE("a client that asks whether to go on is told so") {
  const mixed_site at;
  http_client client(at.where());
  client.send(
    "POST /open HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: "
    "2\r\nExpect: 100-continue\r\n\r\n");
  REQUIRE(client.can_read(10s));
  client.send("{}");
  CHECK_THAT(client.read_to_end(),
             StartsWith("HTTP/1.1 100 Continue\r\n\r\n" + std::string(success))
               && EndsWith("POST {}"));
}

TEST_CASE("what follows a request on its connection is not answered") {
  const mixed_site at;
  const std::string get = "GET /page HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (const auto& more : {get, std::string("\0\xff{}", 4)}) {
    const auto answer = say_to(at, get + more);
    CHECK_THAT(answer, StartsWith(success)
                         && ContainsSubstring("Connection: close")
                         && EndsWith("\r\n\r\nGET "));
    CHECK(answer.find("HTTP/1.1", 1) == std::string::npos);
  }
}

TEST_CASE("HEAD has the headers of GET, and begins no stream") {
  mixed_site at;
  const auto head = [&](const std::string& path) {
    return say_to(at, "HEAD " + path + " HTTP/1.1\r\n\r\n");
  };
  CHECK_THAT(head("/page"), StartsWith(success)
                              && ContainsSubstring("Content-Length: 4\r\n")
                              && EndsWith("\r\n\r\n"));
  CHECK_THAT(head("/stream"),
             StartsWith("HTTP/1.1 405") && ContainsSubstring("Allow: GET\r\n"));
  CHECK_THAT(head("/none"), StartsWith("HTTP/1.1 404"));
  CHECK(at.streams.empty());
}

TEST_CASE("at a plain address tokens give rights to what is no page") {
  const mixed_site at({}, tokens);
  const auto watch = bearer(tokens.watch), control = bearer(tokens.control);
  CHECK(status_of(at, "GET", "/page", "") == "200");
  CHECK(status_of(at, "GET", "/watch", "") == "401");
  CHECK(status_of(at, "GET", "/watch", bearer("another-token-than-these"))
        == "401");
  CHECK(status_of(at, "GET", "/watch", watch) == "200");
  CHECK(status_of(at, "GET", "/watch", control) == "200");
  CHECK(status_of(at, "POST", "/control", "") == "401");
  CHECK(status_of(at, "POST", "/control", watch) == "403");
  CHECK(status_of(at, "POST", "/control", control) == "200");
  const mixed_site without;
  CHECK(status_of(without, "GET", "/watch", watch) == "403");
  CHECK(status_of(without, "GET", "/watch", "Authorization: Bearer \r\n")
        == "403");
}

TEST_CASE("a token of the endpoint is also one for the page") {
  const mixed_site at({.page_token = "sesame"}, tokens);
  CHECK(status_of(at, "GET", "/page", "") == "401");
  CHECK(status_of(at, "GET", "/page", bearer("sesame")) == "200");
  CHECK(status_of(at, "GET", "/watch", bearer("sesame")) == "401");
  CHECK(status_of(at, "GET", "/page", bearer(tokens.watch)) == "200");
  CHECK(status_of(at, "GET", "/watch", bearer(tokens.watch)) == "200");
}

TEST_CASE(
  "where other machines listen in, the endpoint's tokens do not count") {
  const mixed_site at({.address = "0.0.0.0:0", .page_token = "sesame"}, tokens);
  CHECK(status_of(at, "GET", "/page", bearer("sesame")) == "200");
  CHECK(status_of(at, "GET", "/watch", bearer("sesame")) == "403");
  CHECK(status_of(at, "GET", "/page", bearer(tokens.control)) == "401");
  CHECK(status_of(at, "POST", "/control", bearer(tokens.control)) == "401");
}

TEST_CASE("another site's links and images reach no more than the page") {
  const mixed_site at({}, tokens);
  const auto from = [](const char* site) {
    return bearer(tokens.control) + "Sec-Fetch-Site: " + site + "\r\n";
  };
  CHECK(status_of(at, "GET", "/page", from("cross-site")) == "200");
  for (const auto* other : {"cross-site", "same-site"})
    CHECK(status_of(at, "GET", "/watch", from(other)) == "403");
  for (const auto* own : {"same-origin", "none"})
    CHECK(status_of(at, "GET", "/watch", from(own)) == "200");
}

TEST_CASE("at a unix socket the user may do all, unless there are tokens") {
  const unix_site open;
  CHECK(open.status("GET", "/watch") == 200);
  CHECK(open.status("POST", "/control") == 200);
  CHECK(open.call("POST", "/control").body == "POST {}");
  const unix_site at(tokens);
  CHECK(at.status("GET", "/page") == 401);
  CHECK(at.status("GET", "/page", "another-token-than-these") == 401);
  CHECK(at.status("GET", "/watch", tokens.watch) == 200);
  CHECK(at.status("POST", "/control", tokens.watch) == 403);
  CHECK(at.status("POST", "/control", tokens.control) == 200);
}

TEST_CASE("at a unix socket a host is a name without a dot") {
  const unix_site at;
  const auto get = [&](const std::string& host) {
    return at.say("GET /watch HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  };
  for (const auto* host : {"job", "localhost:8080", "127.0.0.1", "a-b"})
    CHECK_THAT(get(host), StartsWith(success));
  for (const auto* host : {"evil.example", "evil.example:80", "evil."})
    CHECK_THAT(get(host), StartsWith("HTTP/1.1 403"));
}

TEST_CASE("a stream's lines arrive as they come, and then its end") {
  mixed_site at;
  http_client client(at.where());
  client.send("GET /stream HTTP/1.1\r\n\r\n");
  REQUIRE(client.can_read(10s));
  const auto stream = at.stream();
  CHECK(stream->offer("second"));
  stream->put("third");
  stream->finish();
  const auto answer = client.read_to_end();
  CHECK_THAT(answer, StartsWith(success)
                       && ContainsSubstring("Transfer-Encoding: chunked")
                       && ContainsSubstring("\r\n\r\n6\r\nfirst\n\r\n")
                       && ContainsSubstring("second\n")
                       && EndsWith("third\n\r\n0\r\n\r\n"));
  CHECK(soon([&] { return at.server.connections() == 0; }));
  CHECK(at.departed == 0);
  CHECK_FALSE(stream->offer("no more"));
}

TEST_CASE("a stream for HTTP/1.0 ends with its connection") {
  mixed_site at;
  http_client client(at.where());
  client.send("GET /stream HTTP/1.0\r\n\r\n");
  at.stream()->put("last");
  at.stream()->finish();
  CHECK_THAT(client.read_to_end(), EndsWith("\r\n\r\nfirst\nlast\n"));
}

TEST_CASE("who has left a stream is noticed") {
  mixed_site at;
  {
    http_client client(at.where());
    client.send("GET /stream HTTP/1.1\r\n\r\n");
    REQUIRE(client.can_read(10s));
  }
  CHECK(soon([&] { return at.departed == 1; }));
  CHECK_FALSE(at.stream()->is_open());
  bool called = false;
  at.stream()->when_left([&] { called = true; });
  CHECK(called);
}

TEST_CASE("the queue of a stream is bounded, and a stalled reader sent away") {
  mixed_site at({.limits = {.queue_bytes = 10'000, .stalled_seconds = 0.2}});
  http_client client(at.where(), 4096);
  client.send("GET /stream HTTP/1.1\r\n\r\n");
  const auto stream = at.stream();
  CHECK_FALSE(stream->offer(std::string(10'000, 'x')));
  const std::string line(1000, 'x');
  std::size_t written = 0;
  CHECK(soon([&] {
    for (int i = 0; i < 100; ++i)
      written += stream->offer(line) ? 1 : 0;
    return at.departed == 1;
  }));
  CHECK(written > 5);
  CHECK_FALSE(stream->is_open());
}

TEST_CASE("streams keep no place of those who ask") {
  mixed_site at({.limits = {.connections = 2}});
  std::vector<std::unique_ptr<http_client>> watching;
  for (std::size_t i = 0; i < 10; ++i) {
    watching.push_back(std::make_unique<http_client>(at.where()));
    watching.back()->send("GET /stream HTTP/1.1\r\n\r\n");
    REQUIRE(watching.back()->can_read(10s));
  }
  CHECK(status_of(at, "GET", "/page", "") == "200");
  for (std::size_t i = 0; i < 10; ++i)
    CHECK(at.stream(i)->is_open());
}

TEST_CASE("at the server's end streams get what waits for them") {
  auto at = std::make_unique<mixed_site>();
  http_client client(at->where());
  client.send("GET /stream HTTP/1.1\r\n\r\n");
  at->stream()->put("last");
  at->server.close();
  CHECK_THAT(client.read_to_end(), EndsWith("last\n\r\n0\r\n\r\n"));
}

TEST_CASE("a resource that was removed is gone at all addresses") {
  mixed_site at;
  const http_server other({}, at.site);
  CHECK_THAT(get(other.address(), "/page"), StartsWith(success));
  at.added.reset();
  CHECK_THAT(get(other.address(), "/page"), StartsWith("HTTP/1.1 404"));
}

TEST_CASE("what is no request is refused before its headers end") {
  const unix_site at;
  for (const auto* wrong : {"\x16\x03\x01", "GE7", "get /", "\r\n", "+"})
    CHECK_THAT(at.say(wrong), StartsWith("HTTP/1.1 400"));
}

TEST_CASE("a client of version 1 learns of version 2") {
  const unix_site at;
  const std::string hello("TRPL\1\0\1\0\2\0\0\0{}", 14);
  CHECK_THAT(at.say(hello), StartsWith(std::string("TRPL\2\0", 6)));
}

TEST_CASE("a query is decoded, and refused where it is none") {
  const auto read = parse_query("a=1&b=%2A+c&d=");
  REQUIRE(read.size() == 3);
  CHECK(read[1] == std::pair<std::string, std::string>("b", "* c"));
  CHECK(parse_query("").empty());
  for (const auto* wrong : {"a", "a=1&a=2", "=1", "a=%2", "a=%zz", "a=1&&b=2"})
    CHECK_THROWS_AS(parse_query(wrong), refused_request);
}
