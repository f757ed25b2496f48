#include "troupe/cli/signal_policy.hpp"

#include <signal.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe::cli;

namespace {

constexpr pid_t group_leader = 7, launcher = 8, terminal = 0;

/// A policy whose signals come at so many milliseconds.
struct timed_policy {
  signal_action on(int at_ms, int number, pid_t sender,
                   bool from_ancestor = false) {
    return policy.on({number, sender, from_ancestor,
                      std::chrono::steady_clock::time_point{}
                        + std::chrono::milliseconds(at_ms)});
  }
  signal_policy policy{};
};

}  // namespace

TEST_CASE("one stop that arrives several times is one request") {
  using enum signal_action;
  timed_policy all;
  CHECK(all.on(0, SIGTERM, group_leader) == end);
  CHECK(all.on(0, SIGTERM, group_leader) == ignore);
  CHECK(all.on(20, SIGTERM, launcher, true) == ignore);
  CHECK(all.on(1000, SIGHUP, group_leader) == ignore);
}

TEST_CASE("a launcher that forwards a signal late does not repeat it") {
  using enum signal_action;
  timed_policy late;
  CHECK(late.on(0, SIGTERM, group_leader) == end);
  CHECK(late.on(5000, SIGTERM, launcher, true) == ignore);
  CHECK(late.on(5001, SIGTERM, launcher, true) == end_now);
}

TEST_CASE("a person's second signal ends at once") {
  using enum signal_action;
  timed_policy keys;
  CHECK(keys.on(0, SIGINT, terminal) == end);
  CHECK(keys.on(900, SIGINT, terminal) == ignore);
  CHECK(keys.on(1100, SIGINT, terminal) == end_now);
  timed_policy shell;  // an ancestor that signals twice
  CHECK(shell.on(0, SIGTERM, launcher, true) == end);
  CHECK(shell.on(1100, SIGTERM, launcher, true) == end_now);
  timed_policy commands;  // kill(1), a process each time
  CHECK(commands.on(0, SIGTERM, 100) == end);
  CHECK(commands.on(1100, SIGTERM, 101) == end_now);
}

TEST_CASE("SIGUSR1 saves, and SIGUSR2 announces an end that is to come") {
  using enum signal_action;
  timed_policy notices;
  CHECK(notices.on(0, SIGUSR1, group_leader) == save);
  CHECK(notices.on(5000, SIGUSR1, group_leader) == save);
  CHECK(notices.on(6000, SIGUSR2, group_leader) == end);
  CHECK(notices.on(6001, SIGUSR2, group_leader) == ignore);
  CHECK(notices.on(6002, SIGUSR1, group_leader) == ignore);
  CHECK(notices.on(120'000, SIGTERM, group_leader) == end);
  CHECK(notices.on(120'001, SIGUSR2, group_leader) == ignore);
  CHECK(notices.on(120'002, SIGTERM, group_leader) == ignore);
  CHECK(notices.on(125'000, SIGTERM, group_leader) == end_now);
}
