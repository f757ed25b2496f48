#include "troupe/engine/transport/acknowledgements.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

/// Asks once a second for that long without any acknowledgement; returns the
/// last answer.
std::chrono::milliseconds overdue_after(int seconds, unsigned unacknowledged,
                                        unsigned probes) {
  acknowledgements watch;
  acknowledgements::clock::time_point now{1h};
  std::chrono::milliseconds overdue{};
  for (int second = 0; second <= seconds; ++second)
    overdue = watch.overdue({unacknowledged, probes, second * 1000ms},
                            now + second * 1s);
  return overdue;
}

}  // namespace

TEST_CASE("a message that is in flight for long is overdue") {
  CHECK(overdue_after(30, 2, 0) == 30s);
  CHECK(overdue_after(30, 0, 0) == 0s);
}

TEST_CASE("what can't even be sent is overdue when probes stay unanswered") {
  CHECK(overdue_after(30, 0, 7) == 30s);
  CHECK(overdue_after(30, 0, 1) == 0s);  // one is in flight
}

TEST_CASE("a machine that answers is not overdue, however much waits") {
  acknowledgements watch;
  acknowledgements::clock::time_point now{1h};
  for (int second = 0; second < 100; ++second)
    CHECK(watch.overdue({5, 0, 200ms}, now + second * 1s) <= 200ms);
}

TEST_CASE("a process that was stopped itself asks anew") {
  acknowledgements watch;
  acknowledgements::clock::time_point now{1h};
  CHECK(watch.overdue({1, 0, 100ms}, now) == 0s);
  CHECK(watch.overdue({1, 0, 70s}, now + 70s) == 0s);
  CHECK(watch.overdue({1, 0, 71s}, now + 71s) == 1s);
  CHECK(watch.overdue({1, 0, 10ms}, now + 72s) == 10ms);
}
