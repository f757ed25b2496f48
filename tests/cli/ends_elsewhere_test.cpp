#include "troupe/cli/ends_elsewhere.hpp"

#include <signal.h>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace std::chrono_literals;

namespace {

constexpr ended_process killed{.status = SIGKILL, .killed = true};
constexpr ended_process refused{.status = 1};
constexpr ended_process other_is_done{.process = 1};

}  // namespace

TEST_CASE("a process is started again three times a minute") {
  cli::ends_elsewhere ends(0);
  const std::chrono::steady_clock::time_point begin;
  for (int i = 0; i < 3; ++i)
    CHECK(ends.meaning_of(killed, begin) == ending::restarts);
  CHECK(ends.meaning_of(killed, begin + 59s) == ending::counts);
  CHECK(ends.meaning_of(killed, begin + 61s) == ending::restarts);
  CHECK(ends.meaning_of({.status = SIGTERM, .killed = true}, begin + 200s)
        == ending::counts);
  CHECK(ends.meaning_of(refused, begin) == ending::counts);
}

TEST_CASE("a process that is started again as the job ends is no failure") {
  cli::ends_elsewhere ends(0);
  CHECK(ends.meaning_of(killed) == ending::restarts);
  CHECK(ends.meaning_of(other_is_done) == ending::leaves);
  CHECK(ends.meaning_of(refused) == ending::leaves);
  CHECK(ends.meaning_of({.process = 2, .status = 1}) == ending::counts);
}
