#include "troupe/monitors/http/http_caller.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <future>
#include <thread>

#include "../../says.hpp"
#include "mixed_site.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/transport/stream/listener.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a caller reads several streams at once") {
  unix_site at;
  http_caller caller({parse_endpoint(at.at.where())}, 10);
  for (std::size_t number = 1; number <= 3; ++number) {
    const auto first = caller.call("GET", "/stream");
    CHECK(first.body == "first");
    CHECK(first.stream == number);
  }
  CHECK_FALSE(caller.next_line(0));
  CHECK(caller.has_streams());
  for (const int round : {1, 2})
    for (std::size_t which = 0; which < 3; ++which)
      at.at.stream(which)->put(fmt::format("{} of {}", round, which));
  for (std::size_t which = 0; which < 3; ++which)
    at.at.stream(which)->finish();
  std::vector<int> rounds(3);
  for (int i = 0; i < 6; ++i) {
    const auto line = caller.next_line(10);
    REQUIRE(line);
    CHECK(line->text
          == fmt::format("{} of {}", ++rounds.at(line->stream - 1),
                         line->stream - 1));
  }
  CHECK_FALSE(caller.next_line(10));
  CHECK_FALSE(caller.has_streams());
}

TEST_CASE("a caller is interrupted, and gives up who is silent") {
  const temporary_folder folder;
  const listener silent(parse_endpoint("unix:" + (folder / "s")));
  http_caller patient({silent.where()}, 60), hasty({silent.where()}, 0.05);
  CHECK_THROWS_MATCHES(hasty.call("GET", "/"), error,
                       says("did not answer within 0.05 s"));
  std::jthread other([&] { patient.interrupt(); });
  CHECK_THROWS_MATCHES(patient.call("GET", "/"), error, says("interrupted"));
  CHECK_THROWS_MATCHES(patient.next_line(60), error, says("interrupted"));
}

namespace {

/// Another user's process that listens at a socket; its exit code is 0 if it
/// received nothing.
pid_t other_users_server(const std::string& path) {
  const auto child = ::fork();
  if (child != 0)
    return child;
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.copy(at.sun_path, sizeof at.sun_path - 1);
  const auto socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (::setuid(12345) != 0
      || ::bind(socket, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0
      || ::listen(socket, 1) != 0)
    ::_exit(2);
  const auto client = ::accept(socket, nullptr, nullptr);
  constexpr std::string_view answer = "HTTP/1.1 200 OK\r\n\r\n{}";
  ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
  char byte = 0;
  ::_exit(::recv(client, &byte, 1, 0) > 0 ? 1 : 0);
}

}  // namespace

TEST_CASE("no token is sent to a socket of another user") {
  if (::geteuid() != 0)
    SKIP("needs to be root");
  const temporary_folder folder;
  std::filesystem::permissions(folder / ".", std::filesystem::perms::all);
  const auto path = folder / "s";
  const auto other = other_users_server(path);
  std::string refusal;
  CHECK(soon([&] {  // it may not listen yet
    try {
      http_caller({parse_endpoint("unix:" + path), {}, tokens.control}, 10)
        .call("GET", "/");
      return true;
    } catch (const error& why) {
      refusal = why.what();
      return refusal.find("no answer at") == std::string::npos;
    }
  }));
  CHECK_THAT(refusal, ContainsSubstring("the other side is user 12345's"));
  int status = 0;
  ::waitpid(other, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
}

TEST_CASE("the caller reports a peer that does not speak HTTP") {
  const temporary_folder folder;
  const listener none(parse_endpoint("unix:" + (folder / "s")));
  for (const auto* answer :
       {"TRPL\1", "+", "HTTX", "HTTP/1.1 x\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"}) {
    auto other = std::async(std::launch::async, [&] {
      pollfd incoming{none.handle(), POLLIN, 0};
      ::poll(&incoming, 1, 10'000);
      const int client = ::accept(none.handle(), nullptr, nullptr);
      ::send(client, answer, std::char_traits<char>::length(answer),
             MSG_NOSIGNAL);
      return client;
    });
    http_caller caller({none.where()}, 30);
    CHECK_THROWS_MATCHES(caller.call("GET", "/"), error,
                         says("is not a job of this version"));
    ::close(other.get());
  }
}
