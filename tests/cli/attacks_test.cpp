// The attacks in tests/attacks; each is a program of its own.
#include <catch2/catch_test_macros.hpp>

#include <string>

#include "../run_program.hpp"
#include "troupe_paths.hpp"

using namespace troupe::testing;

namespace {

void check_fails(const std::string& attack) {
  if (run_program("python3 --version").exit_code != 0)
    SKIP("needs python3");
  const auto run = run_program(
    "PYTHONDONTWRITEBYTECODE=1 python3 " TROUPE_SOURCE_DIR "/tests/attacks/"
    + attack + " --program " TROUPE_PROGRAM);
  INFO(run.output);
  CHECK(run.exit_code == 0);
}

}  // namespace

TEST_CASE("a relay between two processes reads and changes nothing") {
  check_fails("relay.py");
}

TEST_CASE("peers that stall at a rendezvous hold up no job") {
  check_fails("stalled_peers.py");
}

TEST_CASE("announced bodies hold up no client of the lab") {
  check_fails("announced_bodies.py");
}

TEST_CASE("noise at all that listens ends, fills and delays nothing",
          "[.full]") {
  check_fails("noise.py --seconds 60");
}
