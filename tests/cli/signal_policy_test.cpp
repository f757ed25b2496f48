#include "troupe/cli/signal_policy.hpp"

#include <signal.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe::cli;

namespace {

constexpr pid_t group_leader = 7, launcher = 8, terminal = 0;

/// A policy that receives signals at times in milliseconds.
struct timed_policy {
  signal_action action_at(int at_ms, int number, pid_t sender,
                          bool from_ancestor = false) {
    return policy.action_for({number, sender, from_ancestor,
                              std::chrono::steady_clock::time_point{}
                                + std::chrono::milliseconds(at_ms)});
  }
  signal_policy policy{};
};

}  // namespace

TEST_CASE("one stop that arrives several times is one request") {
  using enum signal_action;
  timed_policy all;
  CHECK(all.action_at(0, SIGTERM, group_leader) == end);
  CHECK(all.action_at(0, SIGTERM, group_leader) == ignore);
  CHECK(all.action_at(20, SIGTERM, launcher, true) == ignore);
  CHECK(all.action_at(1000, SIGHUP, group_leader) == ignore);
}

TEST_CASE("a launcher that forwards a signal late does not repeat it") {
  using enum signal_action;
  timed_policy late;
  CHECK(late.action_at(0, SIGTERM, group_leader) == end);
  CHECK(late.action_at(5000, SIGTERM, launcher, true) == ignore);
  CHECK(late.action_at(5001, SIGTERM, launcher, true) == end_now);
}

TEST_CASE("a person's second signal ends at once") {
  using enum signal_action;
  timed_policy keys;
  CHECK(keys.action_at(0, SIGINT, terminal) == end);
  CHECK(keys.action_at(900, SIGINT, terminal) == ignore);
  CHECK(keys.action_at(1100, SIGINT, terminal) == end_now);
  timed_policy shell;  // an ancestor that signals twice
  CHECK(shell.action_at(0, SIGTERM, launcher, true) == end);
  CHECK(shell.action_at(1100, SIGTERM, launcher, true) == end_now);
  timed_policy commands;  // kill(1), a process each time
  CHECK(commands.action_at(0, SIGTERM, 100) == end);
  CHECK(commands.action_at(1100, SIGTERM, 101) == end_now);
}

TEST_CASE("SIGUSR1 saves, and SIGUSR2 announces an end that is to come") {
  using enum signal_action;
  timed_policy notices;
  CHECK(notices.action_at(0, SIGUSR1, group_leader) == save);
  CHECK(notices.action_at(5000, SIGUSR1, group_leader) == save);
  CHECK(notices.action_at(6000, SIGUSR2, group_leader) == end);
  CHECK(notices.action_at(6001, SIGUSR2, group_leader) == ignore);
  CHECK(notices.action_at(6002, SIGUSR1, group_leader) == ignore);
  CHECK(notices.action_at(120'000, SIGTERM, group_leader) == end);
  CHECK(notices.action_at(120'001, SIGUSR2, group_leader) == ignore);
  CHECK(notices.action_at(120'002, SIGTERM, group_leader) == ignore);
  CHECK(notices.action_at(125'000, SIGTERM, group_leader) == end_now);
}
