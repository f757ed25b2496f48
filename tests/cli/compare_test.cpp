#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "troupe/schedules/builtin.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("schedules lists what is built in") {
  const auto text = run_troupe("schedules", "").output;
  const auto rows =
    nlohmann::json::parse(run_troupe("schedules", "--json").output);
  CHECK(rows.size() == troupe::builtin_schedules().size() + 1);  // search
  for (const auto& row : troupe::builtin_schedules())
    CHECK_THAT(text, ContainsSubstring("  " + std::string{row.name} + " "));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    CHECK(line.size() <= 80);
}

TEST_CASE("compare prints the schedules that fit a job") {
  const auto run = run_troupe("compare", "--ranks 4 --microbatches 8");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("in flight")
                           && ContainsSubstring("\nzb_v               2  1 "));
  const auto limited =
    run_troupe("compare", "--ranks 4 --microbatches 7 --sizes kept=1048576",
               "--memory-limit 5e6");
  CHECK_THAT(limited.output,
             ContainsSubstring("\ngpipe: 7.0 MiB exceed the memory limit")
               && ContainsSubstring("\ndualpipe: microbatches must be"));
  const auto rows = nlohmann::json::parse(
    run_troupe("compare", "--ranks 4 --microbatches 7 --json",
               "--sizes kept=1048576 --memory-limit 5e6")
      .output);
  for (const auto& row : rows)
    if (row["schedule"] == "gpipe")
      CHECK(row["fits"] == false);
}

TEST_CASE("compare shows what search finds, which no schedule beats") {
  for (const auto* job :
       {"--ranks 2 --microbatches 2 --costs f=1,b=2,message=2",
        "--ranks 4 --microbatches 4 --costs f=1,b=2,message=1 --sizes "
        "kept=4,activation=1 --memory-limit 16"}) {
    const auto rows = nlohmann::json::parse(
      run_troupe("compare", job, "--search --json").output);
    CHECK(rows[0]["schedule"] == "search");
    for (const auto& row : rows)
      if (row["fits"] == true)
        CHECK(row["period"] >= rows[0]["period"]);
  }
}

TEST_CASE("compare takes costs of stages, as train --costs-out writes them") {
  const auto of = [](const std::string& costs) {
    return run_troupe("compare", "--ranks 2 --microbatches 4 --json --costs",
                      costs)
      .output;
  };
  // A model of 4 stages: 8 of forwards, 4 on each of 2 ranks.
  CHECK(of("f.0=1,b.0=2,f.1=1,b.1=2,f.2=3,i.2=2,w.2=2,f.3=3,b.3=4,update.0=2,"
           "message=0.1,message.0-1=0.2")
        == of("f=4,b=6,update=1,message=0.1,message.0-1=0.2"));
}

TEST_CASE("compare refuses what it can't compare") {
  CHECK_THAT(run_troupe("compare", "--memory-limit 1e9").output,
             ContainsSubstring("--memory-limit needs --sizes"));
  CHECK_THAT(run_troupe("compare", "--sizes kept.1=3").output,
             ContainsSubstring("omit those of single stages"));
  CHECK_THAT(run_troupe("compare", "--costs f.1=3").output,
             ContainsSubstring("stage 0 has no f.0 or no b.0; give those of"));
}
