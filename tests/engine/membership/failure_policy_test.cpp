#include "troupe/engine/membership/failure_policy.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::membership;
using namespace std::chrono_literals;

TEST_CASE("a rule holds so many times within a time") {
  failure_history history({.failed_op = {remedy::retry, 2, 10s}});
  CHECK(history.add_failed_op(1s, 1, 1, "out of memory", 4) == remedy::retry);
  CHECK(history.add_failed_op(2s, 1, 2, "out of memory", 4) == remedy::retry);
  CHECK(history.add_failed_op(12s, 1, 3, "out of memory", 4) == remedy::retry);
  CHECK(history.add_failed_op(13s, 1, 4, "out of memory", 4) == remedy::retry);
  CHECK(history.add_failed_op(14s, 1, 5, "out of memory", 4) == remedy::stop);
  CHECK(history.stop_reason()
        == "3 ops failed within 10s (--on-failure allows 2): out of memory");
}

TEST_CASE("a step that fails in three members is itself at fault") {
  failure_history history({.failed_op = {remedy::rehost, 9, 60s}});
  CHECK(history.add_failed_op(1s, 1, 7, "x", 4) == remedy::rehost);
  CHECK(history.add_failed_op(2s, 1, 7, "x", 4) == remedy::rehost);
  CHECK(history.add_failed_op(3s, 2, 7, "x", 4) == remedy::rehost);
  CHECK(history.members_failing(7) == std::vector<member_id>{1, 2});
  CHECK(history.add_failed_op(4s, 3, 7, "x", 4) == remedy::stop);
  CHECK(history.stop_reason() == "a step failed in 3 processes: x");
}

TEST_CASE("a step that fails in both of two members is itself at fault") {
  failure_history history({.failed_op = {remedy::retry, 9, 60s}});
  CHECK(history.add_failed_op(1s, 1, 7, "x", 2) == remedy::retry);
  CHECK(history.add_failed_op(2s, 2, 8, "x", 2) == remedy::retry);
  CHECK(history.add_failed_op(3s, 2, 7, "x", 2) == remedy::stop);
}

TEST_CASE("a step that is retried and fails there again goes elsewhere") {
  failure_history history({.failed_op = {remedy::retry, 3, 60s}});
  CHECK(history.add_failed_op(1s, 1, 7, "x", 1) == remedy::retry);
  CHECK(history.add_failed_op(2s, 1, 7, "x", 1) == remedy::rehost);
  CHECK(history.add_failed_op(3s, 1, 8, "x", 1) == remedy::retry);
  CHECK(history.add_failed_op(4s, 1, 7, "x", 1) == remedy::stop);
}

TEST_CASE("a job may stop at the first failure") {
  failure_history history(
    {.lost_member = {remedy::stop}, .failed_op = {remedy::stop}});
  CHECK(history.add_failed_op(1s, 1, 7, "x", 2) == remedy::stop);
  CHECK(history.stop_reason() == "x");
  CHECK(history.add_loss(1s, 1) == remedy::stop);
  CHECK(history.stop_reason()
        == "a process was lost (--on-failure process=stop)");
}

TEST_CASE("failures are remembered by their age") {
  failure_history before({.lost_member = {remedy::restart, 1, 10s}});
  CHECK(before.allows_loss(100s));
  CHECK(before.add_loss(100s, 1) == remedy::restart);
  CHECK_FALSE(before.allows_loss(109s));
  CHECK(before.allows_loss(110s));
  failure_history after({.lost_member = {remedy::restart, 1, 10s}});
  after.restore(5s, before.failures(104s));
  CHECK(after.add_loss(10s, 2) == remedy::stop);
  CHECK(after.stop_reason()
        == "2 processes were lost within 10s (--on-failure allows 1)");
  after.restore(5s, before.failures(104s));
  CHECK(after.add_loss(12s, 2) == remedy::restart);
}
