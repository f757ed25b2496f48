// The compiler flags of the presets in CMakePresets.json.
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

TEST_CASE("a project that contains troupe keeps its own build settings") {
  const temporary_folder folder;
  folder.write("CMakeLists.txt",
               fmt::format("cmake_minimum_required(VERSION 3.25)\n"
                           "project(container LANGUAGES CXX)\n"
                           "set(TROUPE_PLAN_ONLY ON)\n"
                           "add_subdirectory({} troupe)\n",
                           TROUPE_SOURCE_DIR));
  const auto run = run_program(
    fmt::format("cmake -S {} -B {} -G Ninja -DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
                folder / ".", folder / "build"));
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  const auto commands = content(folder / "build/compile_commands.json");
  CHECK(commands.find("schedules/validate.cpp") != commands.npos);
  for (const auto* flag : {"ccache", "-O2", "-Werror", "mold"})
    CHECK(commands.find(flag) == commands.npos);
  const auto cache = content(folder / "build/CMakeCache.txt");
  CHECK(cache.find("CMAKE_BUILD_TYPE:STRING=\n") != cache.npos);
}
