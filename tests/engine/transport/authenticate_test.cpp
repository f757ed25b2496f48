#include "troupe/engine/transport/stream/authenticate.hpp"

#include <poll.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "link_ends.hpp"
#include "stream_kinds.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;

namespace {

const std::string token = "a-token-of-the-tests-7f3a";

trust by_key(const std::string& text = token) {
  return {tls_context::of_token(text)};
}
trust by_certificates(const std::string& folder) {
  return {context_in(folder)};
}

struct both {
  link_outcome::result client, server;
};

/// Authenticates two ends with their credentials.
both meet(const std::array<int, 2>& sockets, const trust& client,
          const trust& server) {
  io_loop loop;
  link_outcome at_client, at_server;
  authenticate(loop, sockets[0], link_side::client, client, 20s,
               at_client.done(), at_client.failed());
  authenticate(loop, sockets[1], link_side::server, server, 20s,
               at_server.done(), at_server.failed());
  return {at_client.wait(), at_server.wait()};
}

/// Writes and reads as soon as possible.
std::string pass(byte_stream& from, byte_stream& to, std::string text) {
  const iovec part{text.data(), text.size()};
  using state = stream_progress::state;
  while (from.write({&part, 1}).what != state::moved) {
  }
  std::string received(text.size(), 0);
  while (to.read(received.data(), received.size()).what != state::moved) {
  }
  return received;
}

[[gnu::noinline]] void check_linked(const both& ends) {
  INFO(ends.client.reason << " / " << ends.server.reason);
  REQUIRE(ends.client.stream);
  REQUIRE(ends.server.stream);
  CHECK(pass(*ends.client.stream, *ends.server.stream, "there") == "there");
  CHECK(pass(*ends.server.stream, *ends.client.stream, "back") == "back");
}

[[gnu::noinline]] void check_refused(const both& ends,
                                     const std::string& to_client,
                                     const std::string& to_server) {
  CHECK_FALSE(ends.client.stream);
  CHECK_FALSE(ends.server.stream);
  CHECK_THAT(ends.client.reason, ContainsSubstring(to_client));
  CHECK_THAT(ends.server.reason, ContainsSubstring(to_server));
  for (const auto& text : {ends.client.reason, ends.server.reason}) {
    INFO(text);
    CHECK(text.find(token) == std::string::npos);
    CHECK(text.find("wrong-token") == std::string::npos);
  }
}

}  // namespace

TEST_CASE("a peer with the same credentials gets a stream") {
  const temporary_folder folder;
  check_linked(meet(unix_sockets(), {}, {}));
  check_linked(meet(unix_sockets(), by_key(), by_key()));
  check_linked(meet(tcp_sockets(), by_key(), by_key()));
  const auto certificates = by_certificates(folder / "set");
  check_linked(meet(tcp_sockets(), certificates, certificates));
}

TEST_CASE("a member of a kept authority is one of the job") {
  const temporary_folder folder;
  make_certificates(folder / "one", {.keep_authority_key = true});
  make_certificates(folder / "two", {.authority = folder / "one"});
  const auto use = [](const std::string& path) {
    return trust{tls_context::of_certificates(path)};
  };
  check_linked(meet(tcp_sockets(), use(folder / "one"), use(folder / "two")));
}

TEST_CASE("a server with several tokens knows which one the client has") {
  const std::vector<std::string> tokens{"a-token-to-watch-with",
                                        "a-token-to-control-with"};
  const trust server{tls_context::of_tokens(tokens)};
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto ends = meet(tcp_sockets(), by_key(tokens[i]), server);
    check_linked(ends);
    CHECK(ends.server.stream->proven_token() == i);
  }
  check_refused(meet(tcp_sockets(), by_key("wrong-token"), server),
                "has another token; give all processes the same token",
                "another token");
}

TEST_CASE("another key is refused by an alert") {
  check_refused(meet(tcp_sockets(), by_key("wrong-token"), by_key()),
                "same token", "another token");
}

TEST_CASE("a foreign certificate is refused by an alert, on either side") {
  const temporary_folder folder;
  const auto own = by_certificates(folder / "own");
  const auto foreign = by_certificates(folder / "foreign");
  check_refused(meet(tcp_sockets(), foreign, own), "not signed by this job's",
                "one `troupe certificates FOLDER`");
  // The server's certificate is accepted, the client's is not.
  std::filesystem::create_directory(folder / "mixed");
  for (const auto* name : {"member.pem", "member.key"})
    std::filesystem::copy_file(folder / ("foreign/" + std::string(name)),
                               folder / ("mixed/" + std::string(name)));
  std::filesystem::copy_file(folder / "own/authority.pem",
                             folder / "mixed/authority.pem");
  const trust mixed{tls_context::of_certificates(folder / "mixed")};
  check_refused(meet(tcp_sockets(), mixed, own),
                "rejected this side's credentials", "not signed by this job's");
}

TEST_CASE("an absent certificate is refused") {
  const temporary_folder folder;
  const auto own = by_certificates(folder / "own");
  check_refused(meet(tcp_sockets(), by_key(), own),
                "the other side has certificates, and this one a token; give "
                "all processes the same token (--job-token-file), or",
                "rejected this side's credentials");
  check_refused(meet(tcp_sockets(), own, by_key()), "(--job-token-file), or",
                "has no token, but perhaps certificates");
}

TEST_CASE("plain text and TLS don't meet, and say so") {
  check_refused(meet(tcp_sockets(), {}, by_key()),
                "was given --job-token-file or --certificates, and this one "
                "--insecure",
                "does not speak TLS 1.3: it was given --insecure, or");
  check_refused(meet(tcp_sockets(), by_key(), {}),
                "does not speak TLS 1.3: it was given --insecure, or",
                "speaks TLS: it was given --job-token-file or --certificates, "
                "and this one --insecure");
}

TEST_CASE("a client without the token gets only the close") {
  const auto ends = unix_sockets();
  io_loop loop;
  link_outcome server;
  authenticate(loop, ends[1], link_side::server, by_key(), 20s, server.done(),
               server.failed());
  const std::string text(100, 'x');
  ::send(ends[0], text.data(), text.size(), MSG_NOSIGNAL);
  CHECK_THAT(server.wait().reason, ContainsSubstring("does not speak TLS"));
  std::array<char, 64> alert{};  // of TLS, unencrypted
  CHECK(::recv(ends[0], alert.data(), alert.size(), 0) <= 7);
  ::close(ends[0]);
}

TEST_CASE("a silent peer is given up in time") {
  for (const auto& by : {trust{}, by_key()}) {
    const auto ends = tcp_sockets();
    io_loop loop;
    link_outcome server;
    authenticate(loop, ends[1], link_side::server, by, 30ms, server.done(),
                 server.failed());
    CHECK_THAT(server.wait().reason, ContainsSubstring("within 0.03 s"));
    ::close(ends[0]);
  }
}

TEST_CASE("a peer that leaves early does not arrive") {
  for (const auto& by : {trust{}, by_key()}) {
    const auto ends = tcp_sockets();
    io_loop loop;
    link_outcome server;
    authenticate(loop, ends[1], link_side::server, by, 20s, server.done(),
                 server.failed());
    ::send(ends[0], "t", 1, MSG_NOSIGNAL);
    ::close(ends[0]);
    CHECK_THAT(server.wait().reason,
               ContainsSubstring("closed") || ContainsSubstring("reset"));
  }
}
