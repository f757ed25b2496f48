#include <catch2/catch_test_macros.hpp>
#include <filesystem>

#include "../../membership/seeds.hpp"
#include "../../run_program.hpp"
#include "troupe_paths.hpp"

using namespace troupe::simulated;

TEST_CASE("a thousand simulated jobs keep the invariants of membership") {
  const auto all = run_seeds(1, 1001, true);
  INFO("seed " << all.first_violation << ": " << all.what);
  CHECK(all.violations == 0);
  // Otherwise nothing was tried.
  CHECK(all.epochs > 2000);
  CHECK(all.repeated > 50);
  CHECK(all.decisions > 10000);
}

TEST_CASE("a seed always gives the same history") {
  for (std::int64_t seed = 1; seed < 20; ++seed)
    CHECK(run_seed(seed).events == run_seed(seed).events);
}

TEST_CASE("each planted bug is found within ten thousand simulated jobs") {
  const auto folder =
    std::filesystem::path(TROUPE_SOURCE_DIR) / "tests/membership/bugs";
  const auto program = std::filesystem::path(TROUPE_PROGRAM).parent_path()
                       / "membership_simulator";
  int bugs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt")
      continue;
    const auto name = entry.path().stem().string();
    const auto result = troupe::testing::run_program(
      program.string() + " --seeds 1:10000 --bug " + name);
    INFO(name << ": " << result.output);
    CHECK(result.exit_code == 1);
    ++bugs;
  }
  CHECK(bugs >= 10);
}

TEST_CASE("a hundred thousand simulated jobs keep them", "[.full]") {
  const auto all = run_seeds(1001, 101001, true);
  INFO("seed " << all.first_violation << ": " << all.what);
  CHECK(all.violations == 0);
}
