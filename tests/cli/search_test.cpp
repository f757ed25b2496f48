#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <string_view>

#include "../temporary_folder.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

auto search(std::string_view flags, std::string_view more = {}) {
  return run_troupe("search", flags, more);
}

constexpr std::string_view small_job =
  "--ranks 2 --stages-per-rank 2 --microbatches 6 --effort 200";

}  // namespace

TEST_CASE("search writes a schedule that simulate takes") {
  const temporary_folder folder;
  const auto path = folder / "found.csv";
  const auto run = search(
    small_job, fmt::format("--costs message=0.5,f.3=2 --json -o {}", path));
  CHECK(run.exit_code == 0);
  const auto json = nlohmann::json::parse(run.output);
  CHECK(json.size() == 7);
  CHECK(json["period"].get<double>() * (1 + 1e-12)
        >= json["lower_bound"].get<double>());
  CHECK(json["period"] <= json["known_period"]);
  const auto simulated = nlohmann::json::parse(
    run_troupe("simulate", path, "--costs message=0.5,f.3=2 --json").output);
  CHECK(simulated["period"] == json["period"]);
  CHECK(simulated["makespan"] == json["makespan"]);
  CHECK_THAT(run_troupe("verify", path, "--transport rendezvous").output,
             ContainsSubstring("progress"));
}

TEST_CASE("search of slices writes a plan") {
  const temporary_folder folder;
  const std::string_view job = "--slices 2 --microbatches 4 --effort 50";
  const auto path = folder / "found.plan";
  const auto json = nlohmann::json::parse(
    search(job, fmt::format("--json -o {}", path)).output);
  CHECK(nlohmann::json::parse(
          run_troupe("simulate", path, "--json").output)["period"]
        == json["period"]);
  CHECK(search(job, "-o x.csv").exit_code == 2);
}

TEST_CASE("search keeps a memory limit, and draws") {
  const auto run = search(
    small_job, "--sizes kept=1048576 --memory-limit 4194304 --draw --width 60");
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("\npeak ")
                           && ContainsSubstring("\nrank 1  ")
                           && ContainsSubstring("lower bound "));
  CHECK(search(small_job, "--seed 3").output
        == search(small_job, "--seed 3").output);
}

TEST_CASE("search refuses what it can't take") {
  CHECK(search(small_job, "--memory-limit 4").exit_code == 2);
  CHECK(search("--placement waves").exit_code == 2);
  CHECK_THAT(search(small_job, "--sizes kept=3 --memory-limit 2").output,
             ContainsSubstring("the least found holds "));
}

TEST_CASE("a schedule is searched for by its name") {
  constexpr std::string_view flags =
    "--ranks 2 --stages-per-rank 2 --microbatches 6 --costs message=0.5,f.3=2";
  const auto result = nlohmann::json::parse(
    run_troupe("search", flags, "--json").output)["period"];
  const auto simulated =
    run_troupe("simulate", flags, "--schedule search --json");
  CHECK(nlohmann::json::parse(simulated.output)["period"] == result);
  const temporary_folder folder;
  const auto path = folder / "found.schedule";
  CHECK(
    run_troupe("plan", flags,
               fmt::format("--schedule search --format schedule -o {}", path))
      .exit_code
    == 0);
  CHECK(
    nlohmann::json::parse(
      run_troupe("simulate --json --costs message=0.5,f.3=2 --schedule", path)
        .output)["period"]
    == result);
  CHECK_THAT(run_troupe("plan", "--schedule 1f1b --costs f=2").output,
             ContainsSubstring("no effect without --schedule search"));
}

TEST_CASE("search finds the catalogue's best on every placement") {
  constexpr std::string_view job =
    "--ranks 8 --microbatches 32 --effort 100 --costs "
    "f=1,b=2,message=0.1,f.7=2.5,i.7=2.5,w.7=2.5,b.7=5";
  const temporary_folder folder;
  const auto path = folder / "found.schedule";
  const auto result = nlohmann::json::parse(
    search(job, fmt::format("--json -o {}", path)).output);
  const auto dualpipe = nlohmann::json::parse(
    run_troupe("simulate --json --schedule dualpipe", job.substr(0, 27),
               job.substr(job.find("--costs")))
      .output);
  CHECK(result["placement"] == "bidirectional");
  CHECK(result["known"] == "dualpipe");
  CHECK(result["known_placement"] == "bidirectional");
  CHECK(result["known_period"] == dualpipe["period"]);
  CHECK(nlohmann::json::parse(run_troupe("simulate --json --schedule", path,
                                         job.substr(job.find("--costs")))
                                .output)["period"]
        == result["period"]);
  CHECK_THAT(search(job, "-o x.csv").output,
             ContainsSubstring("name ends in .schedule"));
  CHECK_THAT(search("--ranks 3", "--placement bidirectional").output,
             ContainsSubstring("dualpipe: ranks must be even"));
}

TEST_CASE("search ends at a time limit") {
  CHECK(run_troupe("search",
                   "--ranks 8 --microbatches 16 --effort 100000000 "
                   "--time-limit 0.2")
          .exit_code
        == 0);
}

TEST_CASE("search warns of costs of stages that the job lacks") {
  CHECK_THAT(search(small_job, "--costs f.9=2").output,
             ContainsSubstring("f.9=2 has no effect, as there are 4 stages"));
}
