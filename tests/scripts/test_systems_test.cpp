// What scripts/test_systems does before it creates a system.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../run_program.hpp"
#include "troupe_paths.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("only known systems are tested") {
  const std::string script = TROUPE_SOURCE_DIR "/scripts/test_systems ";
  const auto refused = run_program(script + "debian-12 debian-1");
  CHECK(refused.exit_code == 2);
  CHECK_THAT(refused.output, ContainsSubstring("debian-12, debian-13"));
  CHECK(run_program(script + "--help").exit_code == 0);
}
