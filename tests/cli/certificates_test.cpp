#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../temporary_folder.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("certificates are made once, and say where to copy them") {
  const temporary_folder folder;
  const auto set = folder / "set";
  const auto run = run_troupe("certificates", set, "--days 30");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("valid for 30 days"));
  CHECK_THAT(run.output, ContainsSubstring("Copy the folder"));
  CHECK(std::filesystem::exists(set + "/member.key"));
  CHECK_FALSE(std::filesystem::exists(set + "/authority.key"));
  const auto again = run_troupe("certificates", set);
  CHECK(again.exit_code == 1);
  CHECK_THAT(again.output, ContainsSubstring("already exists"));
  CHECK(run_troupe("certificates", folder / "x", "--days 0").exit_code == 2);
  const auto other = run_troupe("certificates", folder / "other", "--json");
  CHECK(
    nlohmann::json::parse(other.output)
    == nlohmann::json({{"folder", folder / "other"},
                       {"files", {"authority.pem", "member.pem", "member.key"}},
                       {"days", 365}}));
}
