// What the presets of CMakePresets.json make of the compiler's flags.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "../files.hpp"
#include "../run_program.hpp"
#include "../temporary_folder.hpp"
#include "troupe_paths.hpp"

using namespace troupe::testing;

TEST_CASE("a warning is an error in the preset ci alone") {
  const auto preset =
    GENERATE(as<std::string>(), "release", "debug", "asan", "ci");
  const temporary_folder folder;
  const auto run = run_program(fmt::format(
    "cmake -S {} --preset {} -B {} -DTROUPE_PLAN_ONLY=ON -DTROUPE_TESTS=OFF",
    TROUPE_SOURCE_DIR, preset, folder / "build"));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const auto commands = content(folder / "build/compile_commands.json");
  CHECK(commands.find("-Wextra") != commands.npos);
  CHECK((commands.find("-Werror") != commands.npos) == (preset == "ci"));
}
