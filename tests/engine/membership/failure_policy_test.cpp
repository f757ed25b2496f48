#include "troupe/engine/membership/failure_policy.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::membership;
using namespace std::chrono_literals;

TEST_CASE("a rule holds so many times within a time") {
  failure_history history({.failed_op = {remedy::retry, 2, 10s}});
  CHECK(history.add_failed_op(1s, 1, 1, "out of memory") == remedy::retry);
  CHECK(history.add_failed_op(2s, 1, 2, "out of memory") == remedy::retry);
  CHECK(history.add_failed_op(12s, 1, 3, "out of memory") == remedy::retry);
  CHECK(history.add_failed_op(13s, 1, 4, "out of memory") == remedy::retry);
  CHECK(history.add_failed_op(14s, 1, 5, "out of memory") == remedy::stop);
  CHECK(history.stop_reason()
        == "3 failures within 10 s, and 2 are the most: out of memory");
}

TEST_CASE("a step that fails in three members is itself at fault") {
  failure_history history({.failed_op = {remedy::rehost, 9, 60s}});
  CHECK(history.add_failed_op(1s, 1, 7, "x") == remedy::rehost);
  CHECK(history.add_failed_op(2s, 1, 7, "x") == remedy::rehost);
  CHECK(history.add_failed_op(3s, 2, 7, "x") == remedy::rehost);
  CHECK(history.add_failed_op(4s, 3, 7, "x") == remedy::stop);
  CHECK(history.stop_reason() == "step 7 failed in 3 processes: x");
}

TEST_CASE("failures are remembered by their age") {
  failure_history before({.lost_member = {remedy::restart, 1, 10s}});
  CHECK(before.add_loss(100s, 1) == remedy::restart);
  failure_history after({.lost_member = {remedy::restart, 1, 10s}});
  after.restore(5s, before.failures(104s));
  CHECK(after.add_loss(10s, 2) == remedy::stop);
  after.restore(5s, before.failures(104s));
  CHECK(after.add_loss(12s, 2) == remedy::restart);
}
