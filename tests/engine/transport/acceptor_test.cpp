#include "troupe/engine/transport/stream/acceptor.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>

#include "../../inherited_sockets.hpp"
#include "../../open_descriptors.hpp"
#include "link_ends.hpp"
#include "stream_kinds.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/transport/stream/listener.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;

namespace {

const credentials shown{.token = "a-token-of-the-tests-7f3a"};

int connect_to(const endpoint& at) {
  const auto address = addresses_of(at).front();
  const auto handle = ::socket(address.family(), SOCK_STREAM, 0);
  return ::connect(handle, address.get(), address.size) == 0 ? handle : -1;
}

}  // namespace

TEST_CASE("a client with the same credentials arrives") {
  const temporary_folder folder;
  make_certificates(folder / "set");
  const credentials by_certificates{.certificates = folder / "set"};
  io_loop loop;
  for (const auto& at : {parse_endpoint("unix:" + folder / "a.sock"),
                         parse_endpoint("tcp:127.0.0.1:0")})
    for (const auto& by : {shown, by_certificates}) {
      recorded_arrivals arrivals;
      const loop_acceptor listening(loop, at, by, arrivals.events());
      const auto outcome = dial_and_wait(loop, listening.where(), by);
      CHECK(outcome.reason == "");
      CHECK(outcome.stream);
      CHECK(arrivals.wait_for_stream());
    }
}

TEST_CASE("programs that a job starts inherit no listening socket") {
  const temporary_folder folder;
  io_loop loop;
  recorded_arrivals arrivals;
  const loop_acceptor listening(loop,
                                parse_endpoint("unix:" + folder / "a.sock"),
                                shown, arrivals.events());
  CHECK(inherited_listeners() == 0);
}

TEST_CASE("a job may start its processes in any order") {
  const temporary_folder folder;
  io_loop loop;
  const auto at = parse_endpoint("unix:" + folder / "later.sock");
  link_outcome dialled;
  dial(loop, at, shown, 30s, dialled.done(), dialled.failed());
  loop.run([] {});  // one attempt has ended
  recorded_arrivals arrivals;
  const loop_acceptor listening(loop, at, shown, arrivals.events());
  CHECK(dialled.wait().stream);
}

// A peer whose last packet was lost.
TEST_CASE("a peer that falls silent is asked again") {
  const temporary_folder folder;
  io_loop loop;
  const auto at = parse_endpoint("unix:" + folder / "silent.sock");
  auto silent = std::make_unique<listener>(at);
  link_outcome dialled;
  dial(loop, at, shown, 6s, dialled.done(), dialled.failed());
  pollfd incoming{silent->handle(), POLLIN, 0};
  REQUIRE(::poll(&incoming, 1, 10'000) == 1);
  const int accepted = ::accept(silent->handle(), nullptr, nullptr);
  silent.reset();
  recorded_arrivals arrivals;
  const loop_acceptor listening(loop, at, shown, arrivals.events());
  CHECK(dialled.wait().stream);
  ::close(accepted);
}

TEST_CASE("a peer that never answers is named, with advice") {
  io_loop loop;
  endpoint at;
  {
    const listener brief(parse_endpoint("tcp:127.0.0.1:0"));
    at = brief.where();
  }
  const auto outcome = dial_and_wait(loop, at, shown, 100ms);
  CHECK_THAT(outcome.reason, ContainsSubstring(to_text(at)));
  CHECK_THAT(outcome.reason, ContainsSubstring("within 0.1 s"));
  CHECK_THAT(outcome.reason, ContainsSubstring("check that the process there"));
}

TEST_CASE("a wrong token is reported at once, not tried again") {
  io_loop loop;
  recorded_arrivals arrivals;
  const loop_acceptor listening(loop, parse_endpoint("tcp:127.0.0.1:0"), shown,
                                arrivals.events());
  const auto outcome = dial_and_wait(
    loop, listening.where(), {.token = "wrong-token-of-some-length"}, 10min);
  CHECK_THAT(outcome.reason, ContainsSubstring("the same token"));
  CHECK(outcome.reason.find("wrong-token") == std::string::npos);
  const auto reasons = arrivals.wait_for_refusals(1);
  CHECK(reasons.size() == 1);
  CHECK(reasons.at(0).find(shown.token) == std::string::npos);
}

TEST_CASE("silent clients delay no others, and are bounded in number") {
  constexpr std::size_t silent = 1000, bound = 16;
  io_loop loop;
  recorded_arrivals arrivals;
  const loop_acceptor listening(loop, parse_endpoint("tcp:127.0.0.1:0"), shown,
                                arrivals.events(), {10min, bound});
  std::vector<int> clients;
  for (std::size_t i = 0; i < silent; ++i)
    clients.push_back(connect_to(listening.where()));
  CHECK(std::ranges::count(clients, -1) == 0);
  CHECK(dial_and_wait(loop, listening.where(), shown).stream);
  CHECK(arrivals.wait_for_stream());
  CHECK(arrivals.wait_for_refusals(silent - bound).size() >= silent - bound);
  // The silent clients' own ends belong to the test; those of the acceptor are
  // bounded.
  CHECK(open_descriptors() < silent + bound + 50);
  for (const auto client : clients)
    ::close(client);
}

TEST_CASE("an exception ends one connection, and others are accepted") {
  io_loop loop;
  recorded_arrivals arrivals, troubles;
  loop.on_trouble(troubles.events().refused);
  auto events = arrivals.events();
  events.refused = [](const std::string& reason) {
    throw std::runtime_error("refused: " + reason);
  };
  const loop_acceptor listening(loop, parse_endpoint("tcp:127.0.0.1:0"), shown,
                                events, {10min, 1});
  const int silent[] = {connect_to(listening.where()),
                        connect_to(listening.where())};
  CHECK_THAT(troubles.wait_for_refusals(1).at(0),
             ContainsSubstring("refused: too many connections"));
  CHECK(dial_and_wait(loop, listening.where(), shown).stream);
  CHECK(arrivals.wait_for_stream());
  for (const auto client : silent)
    ::close(client);
}

TEST_CASE("an acceptor that ends leaves no socket and calls nothing") {
  const temporary_folder folder;
  io_loop loop;
  const auto at = parse_endpoint("unix:" + folder / "a.sock");
  int client = -1;
  {
    recorded_arrivals arrivals;
    const loop_acceptor listening(loop, at, shown, arrivals.events());
    client = connect_to(at);
  }
  CHECK_FALSE(std::filesystem::exists(at.path));
  // The client may have been accepted before; then its connection ends.
  const timeval patience{20, 0};
  ::setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char byte = 0;
  ssize_t bytes = 1;
  while (bytes > 0)
    bytes = ::recv(client, &byte, 1, 0);
  CHECK((bytes == 0 || errno == ECONNRESET));
  ::close(client);
}
