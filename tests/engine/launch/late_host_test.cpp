#include "troupe/engine/launch/late_host.hpp"

#include <dlfcn.h>
#include <netdb.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <string_view>

#include "joined_processes.hpp"
#include "troupe/engine/launch/rendezvous_stream.hpp"
#include "troupe/engine/transport/stream/acceptor.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// How many lookups of `late.test` fail before it resolves to this machine.
std::atomic<int> unknown_answers = 0;

}  // namespace

// Replaces the system's function.
extern "C" int getaddrinfo(const char* host, const char* service,
                           const addrinfo* hints, addrinfo** results) {
  static const auto system = reinterpret_cast<decltype(&::getaddrinfo)>(
    ::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || std::string_view(host) != "late.test")
    return system(host, service, hints, results);
  if (unknown_answers-- > 0)
    return EAI_NONAME;
  return system("127.0.0.1", service, hints, results);
}

TEST_CASE("a host whose name is not known yet is waited for") {
  const auto port = parse_endpoint(free_port()).port;
  const auto where = "late.test:" + std::to_string(port);
  std::vector<job_options> all;
  for (int p = 0; p < 3; ++p) {
    all.push_back(options_of(p, 3, where));
    all.back().shown.token = "a secret of 32 characters or more";
  }
  unknown_answers = 10;
  auto job = join_all(all);
  REQUIRE(job.errors == std::vector<std::string>(3));
  check_talk(std::move(job.meshes));
}

TEST_CASE("a host that stays unknown is an error that names it") {
  auto options = options_of(1, 2, "late.test:7");
  options.shown.token = "a secret of 32 characters or more";
  options.patience = 150ms;
  options.news_every = 10ms;
  std::string news;
  options.news = [&](const std::string& text) { news = text; };
  unknown_answers = 1 << 30;
  CHECK_THAT(
    join_all({options}).errors[0],
    ContainsSubstring("tcp:late.test:7: its host has no address within 0.15 s")
      && ContainsSubstring("Name or service not known"));
  CHECK_THAT(news, ContainsSubstring("waiting for the address of process 0"));
  options.patience = 1h;
  options.stopped = [] { return true; };
  CHECK_THAT(join_all({options}).errors[0],
             ContainsSubstring("process 1 was stopped"));
}

TEST_CASE("a link is dialled to a host that becomes known meanwhile") {
  const credentials shown{.token = "a secret of 32 characters or more"};
  boost::asio::io_context here;
  stream_pointer arrived, reached;
  const acceptor there(
    here.get_executor(), parse_endpoint("tcp:127.0.0.1:0"), shown,
    {.arrived = [&](stream_pointer stream) { arrived = std::move(stream); }});
  const endpoint address{false, {}, "late.test", there.where().port};
  unknown_answers = 3;
  spawn(here.get_executor(), [&]() -> boost::asio::awaitable<void> {
    reached = co_await reach(0, address, shown, 30s);
    here.stop();
  });
  here.run();
  CHECK(reached);
  CHECK(unknown_answers < 0);
}
